"""The rhythm of updates, as the latest gaps between them tell it: how long the result of a run will stay fresh.

What is known of a table begins with a few gaps; with fewer, nothing is guessed.

>>> from scheduler_plugin.brain import Table, UpdateArrived, View, Warehouse
>>> warehouse = Warehouse([Table(name="r"), View(name="v", parents=("r",))])
>>> for at in (1.0, 2.0, 4.0, 5.0, 8.0):
...     warehouse.apply(UpdateArrived(table="r", at=at))
>>> Rhythm(warehouse).outlook(1, now=8.0, cost=1.5)  # of gaps of 1, 2, 1 and 3 two are longer; they are 1.75 on average
(0.5, 0.25)
"""

import math
from bisect import bisect_right
from itertools import accumulate

from scheduler_plugin.brain.exact import ExactSum
from scheduler_plugin.brain.warehouse import Warehouse

#: With fewer gaps than this, nothing is guessed about a table's next update.
ENOUGH_GAPS = 4
#: How many of the tables behind a view are asked about their next update.
TABLES_BEHIND = 16


class Rhythm:
    """Follows the gaps of one warehouse's tables."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._tables: dict[int, list[int]] = {}
        #: Table -> its gaps in order, and the sums of the largest one, two, ...
        self._sorted: dict[int, tuple[list[float], list[float]]] = {}
        #: Table -> its mean gap; and the sum of those.
        self._means: dict[int, float] = {}
        self._sum = ExactSum()
        for table in warehouse.updates.gaps:
            self.learn(table)

    def learn(self, table: int) -> None:
        """The table has a new gap."""
        self._sorted.pop(table, None)
        gaps = self._warehouse.updates.gaps.get(table)
        if gaps:
            self._sum.take(self._means.get(table, 0.0))
            self._means[table] = math.fsum(gaps) / len(gaps)
            self._sum.add(self._means[table])

    @property
    def mean_gap(self) -> float:
        """Over all tables; 0 where none is known."""
        return self._sum.value / len(self._means) if self._means else 0.0

    def shortest_gap(self, position: int) -> float:
        """The mean gap of the table behind the object that updates most often; 0 where none is known."""
        return min((self._means[each] for each in self._behind(position) if each in self._means), default=0.0)

    def outlook(self, position: int, now: float, cost: float) -> tuple[float, float]:
        """The chance that no table behind the object updates before a run of it ends, and how long after that one does.

        The second is infinite where nothing is known.
        """
        survival, rest = 1.0, math.inf
        for table in self._behind(position):
            gaps, sums = self._sorted_gaps(table)
            waited = now - self._warehouse.updates.newest.get(table, now)
            open_gaps = len(gaps) - bisect_right(gaps, waited)
            if open_gaps and len(gaps) >= ENOUGH_GAPS:
                survival *= (len(gaps) - bisect_right(gaps, waited + cost)) / open_gaps
                rest = min(rest, sums[open_gaps - 1] / open_gaps - waited)
        return survival, max(0.0, rest - cost)

    def _behind(self, position: int) -> list[int]:
        found = self._tables.get(position)
        if found is None:
            found = self._tables[position] = self._warehouse.graph.nearest_tables(position, TABLES_BEHIND)
        return found

    def _sorted_gaps(self, table: int) -> tuple[list[float], list[float]]:
        found = self._sorted.get(table)
        if found is None:
            gaps = sorted(self._warehouse.updates.gaps.get(table, ()))
            found = self._sorted[table] = (gaps, list(accumulate(reversed(gaps))))
        return found
