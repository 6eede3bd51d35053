"""QoDA: the most reads per slot-second first (paper 004, section 4.4).

Refreshing an object helps its own readers and makes way for its descendants, so what counts is its popularity,
descendants included, divided by what it costs.
"""

import math

from scheduler_plugin.brain.policy import Ranked, figure
from scheduler_plugin.brain.warehouse import Warehouse


class Qoda(Ranked):
    """The largest popularity / cost among what may start."""

    def key(self, warehouse: Warehouse, position: int) -> float:
        cost = warehouse.cost(position)
        return warehouse.popularity(position) / cost if cost > 0 else math.inf

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        return self.key(warehouse, position)

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        return {"popularity": warehouse.popularity(position), "cost": warehouse.cost(position)}

    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        return f"popularity {figure(warehouse.popularity(position))}, {figure(warehouse.cost(position))} s to run"
