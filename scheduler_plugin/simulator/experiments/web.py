"""Paper 004's web server: many relations with a few materialized views each, all operations of one cost.

Its rates and speeds count operations: an update of a relation with twenty views is twenty-one of them.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_plugin.brain.objects import Declared, Table, View
from scheduler_plugin.simulator.refresh import POLICIES, Run, World, qod_by_step

#: (time in seconds, number of the relation), in order of time.
Updates = Sequence[tuple[float, int]]


def zipf(count: int, exponent: float = 1.0) -> list[float]:
    """Shares of a whole that fall as rank to the power of -exponent, the largest first."""
    weights = [rank**-exponent for rank in range(1, count + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


def shuffled_zipf(count: int, seed: int) -> list[float]:
    shares = zipf(count)
    random.Random(seed).shuffle(shares)
    return shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The warehouse behind the server and how long it is watched."""

    relations: int
    views_each: int
    #: Share of the reads that each view gets, those of a relation next to each other.
    access: Sequence[float]
    horizon_seconds: float

    @property
    def operations(self) -> int:
        """What one update of a relation sets in motion."""
        return 1 + self.views_each

    def qod(self, policy: str, updates: Updates, *, speed: float, in_order: bool = True) -> float:
        """The QoD over the whole time, at `speed` operations a second."""
        run = self._run(policy, updates, speed, in_order)
        run.advance(self.horizon_seconds)
        return run.world.qod(self.horizon_seconds)

    def qod_by_second(self, policy: str, updates: Updates, *, speed: float, in_order: bool = True) -> list[float]:
        found = qod_by_step(self._run(policy, updates, speed, in_order), 1.0)["qod"]
        assert isinstance(found, list)
        return [min(1.0, max(0.0, share)) for share in found]  # differences of sums, off by a rounding

    def _run(self, policy: str, updates: Updates, speed: float, in_order: bool) -> Run:
        world = World(self._objects(1 / speed), slots=1, horizon=self.horizon_seconds, in_order=in_order)
        positions = [(at, relation * self.operations) for at, relation in updates]
        return Run(world, POLICIES[policy](world, positions), positions, keep=False)

    def _objects(self, cost: float) -> list[Declared]:
        objects: list[Declared] = []
        for relation in range(self.relations):
            name = f"r{relation}"
            objects.append(Table(name=name, fixed=cost))
            for view in range(self.views_each):
                access = self.access[relation * self.views_each + view]
                objects.append(View(name=f"{name}v{view}", parents=(name,), cost=cost, access=access))
        return objects
