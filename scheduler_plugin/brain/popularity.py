"""Popularity: the reads of an object and of everything derived from it, each once (paper 004, definition 2).

It is reckoned when it is asked for, by walking down; where that has taken longer than all objects at once would take,
as in a chain of thousands of views, it is reckoned for all at once.

>>> from scheduler_plugin.brain.graph import Graph
>>> from scheduler_plugin.brain.objects import Table, View
>>> objects = [Table(name="r"), View(name="a", parents=("r",)), View(name="b", parents=("r", "a"))]
>>> Popularity(Graph(objects), [0.0, 0.25, 0.5]).of(0)
0.75
"""

import math
from collections.abc import Sequence

from scheduler_plugin.brain.graph import Graph
from scheduler_plugin.brain.reach import sums_below


class Popularity:
    """Of every object by number; `access` may change, if what is above is forgotten then."""

    __slots__ = ("_access", "_graph", "_known", "_walked")

    def __init__(self, graph: Graph, access: Sequence[float]) -> None:
        self._graph = graph
        self._access = access
        self._known: dict[int, float] = {}
        #: How many objects were met on the way down from one after another.
        self._walked = 0

    def of(self, position: int) -> float:
        found = self._known.get(position)
        return self._reckoned(position) if found is None else found

    def forget(self, position: int) -> None:
        self._known.pop(position, None)

    def _reckoned(self, position: int) -> float:
        graph, access = self._graph, self._access
        if graph.is_far(self._walked):
            self._known = dict(enumerate(sums_below(graph.order, graph.children, access)))
            self._walked = 0
        else:
            below = graph.descendants(position)
            self._walked += len(below)
            # fsum is exact, so the order of declaration cannot leak into a comparison.
            self._known[position] = math.fsum([access[position], *map(access.__getitem__, below)])
        return self._known[position]
