"""GroupAndRun: tables of similar rhythm share slots of their own, Myopic inside each group (paper 000, figure 2).

Tables sorted by period; a new group opens when a period is more than twice the smallest of the present group. A group
of n out of t tables gets ceil((p - g) * n / t) of the p slots, numbered consecutively; g is the number of groups.
What is left over stays idle, and with no more slots than groups nothing runs at all: the paper asks for p >= 2g. A
view belongs to the group of its ancestor table with the shortest period.
"""

import math
from array import array
from collections.abc import Iterable, Sequence

from scheduler_plugin.brain.policies.myopic import Myopic
from scheduler_plugin.brain.policy import Choice
from scheduler_plugin.brain.warehouse import Warehouse


class GroupAndRun(Myopic):
    """Myopic within groups of tables that have slots of their own."""

    idles = True

    #: Of each object.
    _groups: Sequence[int]
    #: Group of each slot that has one.
    _slot_groups: list[int]
    #: What the groups were made from; they are made again when it changes.
    _grouped: tuple[Warehouse, int, int] | None = None
    _guesses = True

    def choose(self, warehouse: Warehouse, now: float, free_slots: Sequence[int]) -> list[Choice]:
        self._group(warehouse)
        return super().choose(warehouse, now, free_slots)

    def lane(self, warehouse: Warehouse, position: int) -> int:
        self._group(warehouse)
        return self._groups[position]

    def slot_lane(self, warehouse: Warehouse, slot: int) -> int | None:
        return self._slot_groups[slot] if slot < len(self._slot_groups) else None

    def rivals(self, warehouse: Warehouse, position: int) -> Iterable[int]:
        lane = self.lane(warehouse, position)
        return (each for each in self.startable(warehouse) if self.lane(warehouse, each) == lane)

    def _group(self, warehouse: Warehouse) -> None:
        # Where no period is declared the largest gap seen counts; it is looked at again as history doubles.
        history = warehouse.measures.batches.bit_length() if self._guesses else 0
        if (
            self._grouped is not None
            and self._grouped[0] is warehouse
            and self._grouped[1:] == (self.room(warehouse), history)
        ):
            return
        tables = [position for position in range(len(warehouse.graph)) if warehouse.graph.tables[position]]
        self._guesses = len(warehouse.periods) < len(tables)
        self._grouped = (warehouse, self.room(warehouse), history if self._guesses else 0)
        self._watch = None  # the lanes are made again
        groups = {}
        sizes: list[int] = []
        smallest = math.nan
        for period, table in sorted((self._period(warehouse, each), each) for each in tables):
            if not period <= 2 * smallest:
                sizes.append(0)
                smallest = period
            sizes[-1] += 1
            groups[table] = len(sizes) - 1
        nearest = array("i", [len(sizes)]) * len(warehouse.graph)  # a view of nothing is in no group
        for position in warehouse.graph.order:
            parents = warehouse.graph.parents[position]
            nearest[position] = groups.get(position, min((nearest[each] for each in parents), default=len(sizes)))
        self._groups = nearest
        spare = self.room(warehouse) - len(sizes)
        self._slot_groups = []
        for group, size in enumerate(sizes):
            self._slot_groups += [group] * -(-spare * size // len(tables))

    @staticmethod
    def _period(warehouse: Warehouse, table: int) -> float:
        declared = warehouse.periods.get(table)
        return max(warehouse.updates.gaps.get(table, ()), default=0.0) if declared is None else declared
