"""The append model's plainer policies, which Myopic and GroupAndRun are measured against (paper 000, section 3).

Each says which table's pending updates to load next by a key: the largest goes first, the first declared among equals.
A policy that never idles by choice keeps staleness within a constant of the least possible; stretch tells them apart.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from scheduler_plugin.brain.lane import Entry, Lane
from scheduler_plugin.brain.policy import Choice, Ranked
from scheduler_plugin.brain.warehouse import Warehouse


class Batching(Ranked):
    """A policy that is all key; `word` says what the key is."""

    word: ClassVar[str]

    @abstractmethod
    def key(self, warehouse: Warehouse, position: int) -> float: ...

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        return self.key(warehouse, position)

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        return {self.word: self.impact(warehouse, position, now)}

    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        return f"{self.word} {self.impact(warehouse, position, now):g}"


class Lifo(Batching):
    """The latest pending release."""

    word = "latest pending release"

    def key(self, warehouse: Warehouse, position: int) -> float:
        return warehouse.updates.pending[position][-1].release


class LongestBatch(Batching):
    """The most time covered by pending updates."""

    word = "time covered"

    def key(self, warehouse: Warehouse, position: int) -> float:
        return warehouse.updates.length[position]


class ShortestBatch(Batching):
    """The batch that is loaded soonest."""

    word = "minus the duration"

    def key(self, warehouse: Warehouse, position: int) -> float:
        return -warehouse.cost(position)


class Weighted(Batching):
    """The most weight for the least work per unit of time covered."""

    word = "weight / alpha"

    def key(self, warehouse: Warehouse, position: int) -> float:
        alpha = warehouse.work.per_length[position]
        return warehouse.weight[position] / alpha if alpha else float("inf")


class WeightedStaleness(Batching):
    """The largest weight times staleness, which changes as time passes.

    Among tables of one weight the order stays, so each weight is a lane and only the lanes' first are compared.
    """

    word = "weighted staleness"

    def __init__(self) -> None:
        super().__init__()
        #: Weight -> its lane, numbered as they come.
        self._weights: dict[float, int] = {}

    def key(self, warehouse: Warehouse, position: int) -> float:
        # Without a weight all are equal, however long they have waited.
        return -warehouse.updates.pending[position][0].start if warehouse.weight[position] else 0.0

    def lane(self, warehouse: Warehouse, position: int) -> int:
        return self._weights.setdefault(warehouse.weight[position], len(self._weights))

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        return warehouse.weight[position] * (now - warehouse.updates.pending[position][0].start)

    def choose(self, warehouse: Warehouse, now: float, free_slots: Sequence[int]) -> list[Choice]:
        self._catch_up(warehouse)
        choices: list[Choice] = []
        taken: list[tuple[Lane, Entry]] = []
        for slot in free_slots:
            firsts = [(lane, entry) for lane in self._lanes.values() if (entry := lane.peek(warehouse.ready))]
            if not firsts:
                break
            lane, entry = min(firsts, key=lambda first: (-self.impact(warehouse, first[1][1], now), first[1][1]))
            lane.take(warehouse.ready)
            taken.append((lane, entry))
            choices.append(self._choice(warehouse, entry[1], now, slot))
        for lane, entry in taken:  # until it is told that they started
            lane.put_back(entry)
        return choices
