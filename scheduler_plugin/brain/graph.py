"""The dependency graph: who is derived from whom (the view dependency graph of paper 004, section 4).

Objects are numbers inside, in declaration order, and names at the edge; a million of them fit.

>>> from scheduler_plugin.brain.objects import Table, View
>>> graph = Graph([Table(name="r"), View(name="a", parents=("r",)), View(name="b", parents=("r", "a"))])
>>> [graph.names[i] for i in graph.descendants(graph.index["r"])]
['a', 'b']
>>> graph.level[graph.index["b"]]
2
"""

import difflib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from scheduler_plugin.brain.objects import Declared, Table
from scheduler_plugin.brain.reach import MOST_OBJECTS, counts_below

#: Levels of views above an object from which what it shares with its parents is kept.
DEEP = 64
#: How many tables that is at most.
NEAREST = 16


class GraphError(ValueError):
    """The declared objects do not make a graph; the message names the object and what is wrong with it."""


class Graph:
    """Parents and children of every object, and an order in which parents come first."""

    __slots__ = (
        "_counts",
        "_nearest",
        "_walked",
        "children",
        "height",
        "index",
        "level",
        "names",
        "order",
        "parents",
        "tables",
        "virtual",
    )

    def __init__(self, objects: Iterable[Declared]) -> None:
        declared = list(objects)
        self.names: list[str] = [each.name for each in declared]
        self.index: dict[str, int] = {}
        for position, name in enumerate(self.names):
            if self.index.setdefault(name, position) != position:
                raise GraphError(f"{name} is declared twice")
        #: 1 for a table, 0 for a view.
        self.tables = bytearray(isinstance(each, Table) for each in declared)
        #: 1 for a view that is never run.
        self.virtual = bytearray(not isinstance(each, Table) and not each.materialized for each in declared)
        self.parents: list[tuple[int, ...]] = [
            () if isinstance(each, Table) else self._numbers(each.name, each.parents) for each in declared
        ]
        self.children: list[tuple[int, ...]] = self._children()
        #: Every object after its parents.
        self.order: Sequence[int]
        #: Longest path from any object without parents.
        self.level: Sequence[int]
        self.order, self.level = self._sorted()
        #: Longest path to any object that nothing is derived from.
        self.height = array("i", bytes(4 * len(self.names)))
        for child in reversed(self.order):
            for parent in self.parents[child]:
                self.height[parent] = max(self.height[parent], self.height[child] + 1)
        #: How many descendants an object has, where that is known; -1 elsewhere.
        self._counts = array("i", [-1]) * len(self.names)
        #: The nearest tables of deep objects, as far as they were asked for: distance * objects + table.
        self._nearest: dict[int, tuple[int, ...]] = {}
        self._walked = 0

    def __len__(self) -> int:
        return len(self.names)

    def _numbers(self, view: str, parents: tuple[str, ...]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for parent in parents:
            if parent not in self.index:
                close = difflib.get_close_matches(parent, self.index, n=1)
                hint = f" Did you mean {close[0]}?" if close else ""
                raise GraphError(f"view {view} reads {parent}, which is not declared.{hint}")
            found[self.index[parent]] = None
        return tuple(found)

    def _children(self) -> list[tuple[int, ...]]:
        growing: dict[int, list[int]] = {}
        for child, parents in enumerate(self.parents):
            for parent in parents:
                growing.setdefault(parent, []).append(child)
        return [tuple(growing.pop(position, ())) for position in range(len(self.names))]

    def _sorted(self) -> tuple[Sequence[int], Sequence[int]]:
        waiting = array("i", map(len, self.parents))
        level = array("i", bytes(4 * len(self.names)))
        order = array("i", (position for position, count in enumerate(waiting) if not count))
        for parent in order:  # grows while it is read
            for child in self.children[parent]:
                level[child] = max(level[child], level[parent] + 1)
                waiting[child] -= 1
                if not waiting[child]:
                    order.append(child)
        if len(order) < len(self.names):
            raise GraphError(f"views read each other in a circle: {self._circle(waiting)}")
        return order, level

    def _circle(self, waiting: Sequence[int]) -> str:
        """One circle among the objects that never got all their parents."""
        here = next(position for position, count in enumerate(waiting) if count)
        path: dict[int, None] = {}
        while here not in path:
            path[here] = None
            here = next(parent for parent in self.parents[here] if waiting[parent])
        walked = list(path)
        circle = walked[walked.index(here) :]
        return " reads ".join(self.names[position] for position in [*circle, here])

    def ancestors(self, position: int) -> list[int]:
        """Everything the object is derived from, each once, near ones first."""
        return list(_reached(position, self.parents))

    def descendants(self, position: int) -> list[int]:
        """Everything derived from the object, each once, near ones first."""
        return list(_reached(position, self.children))

    def ancestor_tables(self, position: int) -> list[int]:
        """The tables behind an object, in declaration order; a table is its own."""
        if self.tables[position]:
            return [position]
        return sorted(each for each in _reached(position, self.parents) if self.tables[each])

    def nearest_tables(self, position: int, count: int) -> list[int]:
        """The first few tables behind an object, near ones first; a table is its own. Up to NEAREST of them."""
        if self.tables[position]:
            return [position]
        if self.level[position] < DEEP:
            return list(islice((each for each in _reached(position, self.parents) if self.tables[each]), count))
        # From its parents' nearest: the way up is walked once for all, not once for each.
        waiting = [position]
        while waiting:
            here = waiting[-1]
            unknown = [each for each in self.parents[here] if each not in self._nearest and not self.tables[each]]
            if unknown:
                waiting += unknown
                continue
            waiting.pop()
            distances: dict[int, int] = {}
            for parent in self.parents[here]:
                for found in (parent,) if self.tables[parent] else self._nearest[parent]:
                    distance, table = divmod(found, len(self))
                    distances[table] = min(distances.get(table, distance), distance)
            near = sorted((distance + 1) * len(self) + table for table, distance in distances.items())
            self._nearest[here] = tuple(near[:NEAREST])
        return [each % len(self) for each in self._nearest[position][:count]]

    def count_below(self, position: int) -> int:
        """How many objects are derived from the object."""
        if self._counts[position] < 0:
            if self.is_far(self._walked):
                self._counts = counts_below(self.order, self.children)
                self._walked = 0
            else:
                self._counts[position] = sum(1 for _ in _reached(position, self.children))
                self._walked += self._counts[position]
        return self._counts[position]

    def is_far(self, walked: int) -> bool:
        """Whether so many steps down from one object after another have taken longer than all objects at once would."""
        return walked > max(10_000, len(self) ** 2 // 500) and len(self) <= MOST_OBJECTS

    def levels_below(self, position: int) -> dict[int, int]:
        """Descendant -> length of the longest path to it from the object."""
        below = set(_reached(position, self.children))
        found: dict[int, int] = {}
        # Any order with parents first will do; the level is one.
        for each in sorted(below, key=lambda other: (self.level[other], other)):
            found[each] = 1 + max((found[parent] for parent in self.parents[each] if parent in below), default=0)
        return found


def _reached(start: int, edges: Sequence[tuple[int, ...]]) -> Iterator[int]:
    """What can be reached from `start` along `edges`, breadth first, without `start`."""
    seen = {start}
    frontier = [start]
    for here in frontier:  # grows while it is read
        for there in edges[here]:
            if there not in seen:
                seen.add(there)
                frontier.append(there)
                yield there
