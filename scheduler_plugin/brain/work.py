"""The work there is, in expected slot-seconds: what a job on each object takes, and what all that is stale takes.

A load costs a fixed part, a part for each update and a part for the time that those cover; a refresh its fixed part.
"""

from array import array
from collections.abc import Sequence

from scheduler_plugin.brain.exact import ExactSum
from scheduler_plugin.brain.graph import Graph
from scheduler_plugin.brain.objects import Declared, Table


class Work:
    """The costs of every object by number, and their sums, kept up as things happen."""

    __slots__ = (
        "_backlog",
        "_graph",
        "_one_pass",
        "_pending",
        "_view_costs",
        "_views",
        "fixed",
        "per_length",
        "per_update",
    )

    def __init__(self, declared: Sequence[Declared], graph: Graph) -> None:
        #: Of a refresh; the fixed part of a load.
        self.fixed = array("d", map(_fixed, declared))
        self.per_update = array("d", (each.per_update if isinstance(each, Table) else 0.0 for each in declared))
        self.per_length = array("d", (each.per_length if isinstance(each, Table) else 0.0 for each in declared))
        self._graph = graph
        self._backlog = ExactSum()
        #: Table -> what its pending updates count in the backlog.
        self._pending: dict[int, float] = {}
        self._one_pass = ExactSum(self.fixed)
        views = [position for position, is_table in enumerate(graph.tables) if not is_table]
        self._view_costs = ExactSum(self.fixed[each] for each in views)
        #: How many views are materialized.
        self._views = sum(not graph.virtual[each] for each in views)

    def cost(self, position: int, updates: int = 0, length: float = 0.0) -> float:
        """Of one job; of a table's, with so many updates that cover so much time together."""
        return self.fixed[position] + self.per_update[position] * updates + self.per_length[position] * length

    @property
    def backlog(self) -> float:
        """To make everything fresh; what a load under way has taken no longer counts."""
        return self._backlog.value

    @property
    def one_pass(self) -> float:
        """Of one run of everything, apart from what depends on the updates."""
        return self._one_pass.value

    @property
    def mean_refresh(self) -> float:
        """Over all materialized views; 0 without any."""
        return self._view_costs.value / self._views if self._views else 0.0

    # What the warehouse tells.

    def turned_stale(self, position: int) -> None:
        self._backlog.add(self.fixed[position])

    def turned_fresh(self, position: int) -> None:
        self._backlog.take(self.fixed[position])

    def waits(self, table: int, updates: int, length: float) -> None:
        """So many updates wait for the table by now, which cover so much time together."""
        self._backlog.take(self._pending.pop(table, 0.0))
        if updates:
            cost = self.per_update[table] * updates + self.per_length[table] * length
            self._pending[table] = cost
            self._backlog.add(cost)

    def learnt(self, position: int, cost: float, *, is_stale: bool) -> None:
        """A run of the object without updates costs this."""
        sums = [self._one_pass]
        if not self._graph.tables[position]:
            sums.append(self._view_costs)
        if is_stale:
            sums.append(self._backlog)
        for each in sums:
            each.take(self.fixed[position])
            each.add(cost)
        self.fixed[position] = cost


def _fixed(declared: Declared) -> float:
    if isinstance(declared, Table):
        return declared.fixed
    return declared.cost if declared.materialized else 0.0
