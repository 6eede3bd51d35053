"""Myopic: the table whose oldest pending update was released first (paper 000, section 4).

It looks at the earliest pending release, not at how long the table has been stale. A view counts by the earliest
update that it does not hold.
"""

from scheduler_plugin.brain.policy import Ranked, figure
from scheduler_plugin.brain.warehouse import Warehouse


class Myopic(Ranked):
    """The earliest update that is not held, among what may start."""

    def key(self, warehouse: Warehouse, position: int) -> float:
        waiting = warehouse.updates.pending.get(position)
        return -(waiting[0].release if waiting else warehouse.missing[position])

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        return now + self.key(warehouse, position)

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        return {"oldest_release": -self.key(warehouse, position), "cost": warehouse.cost(position)}

    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        return f"its oldest update has waited {figure(self.impact(warehouse, position, now))} s"
