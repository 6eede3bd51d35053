"""How much freshness is worth waiting for: which updates run before which query (paper 001, pareto).

The order of the queries is fixed. An update put before the k last of them delays these k by its cost and helps those
among them that read what it writes. How much waiting may be added in all is what the queries' preferences say, and
within it the exact knapsack finds the most help.

>>> work = Work(cost=3, profit=2, dependents=(1, 2))
>>> before([work], capacity=6), before([work], capacity=5)
([2], [1])
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler_plugin.brain import knapsack


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """An update that may be run before queries."""

    cost: int
    #: What it is worth to each query that reads it and runs after it.
    profit: int
    #: Positions, counted from the last query as 1, of the queries that depend on it, ascending.
    dependents: Sequence[int] | knapsack.Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One choice on the trade-off curve."""

    #: Added waiting, summed over the queries.
    waiting: int
    #: Summed over updates and the queries they help.
    help: int
    positions: tuple[int, ...]


def longest_wait(work: Sequence[Work], queries: int) -> int:
    """The waiting that is added when every update runs before every query."""
    return queries * sum(each.cost for each in work)


def bound(work: Sequence[Work], prefer: Sequence[float]) -> int:
    """How much waiting the queries accept in all; `prefer` is each one's wish for freshness, 0 to 1 (equation 7)."""
    return math.floor(longest_wait(work, len(prefer)) * (math.fsum(prefer) / len(prefer))) if prefer else 0


def before(work: Sequence[Work], capacity: int) -> list[int]:
    """For each update the position it is put before; 0 is after all queries."""
    count = np.arange(1, max((len(each.dependents) for each in work), default=0) + 1, dtype=np.int64)
    classes = []
    for each in work:
        dependents = np.asarray(each.dependents, dtype=np.int64)
        classes.append((each.cost * dependents, each.profit * count[: len(dependents)]))
    chosen = knapsack.choose(classes, capacity)
    return [0 if item is None else int(each.dependents[item]) for each, item in zip(work, chosen, strict=True)]


def point(work: Sequence[Work], capacity: int) -> Point:
    """The best choice within a capacity, and what it costs and gives."""
    positions = before(work, capacity)
    return Point(
        waiting=sum(each.cost * position for each, position in zip(work, positions, strict=True)),
        help=sum(
            each.profit * sum(int(dependent) <= position for dependent in each.dependents)
            for each, position in zip(work, positions, strict=True)
        ),
        positions=tuple(positions),
    )


def curve(work: Sequence[Work], queries: int, steps: int = 16) -> list[Point]:
    """The trade-off, from no added waiting to all of it; each point once."""
    longest = longest_wait(work, queries)
    points: dict[tuple[int, int], Point] = {}
    for step in range(steps + 1):
        found = point(work, longest * step // steps)
        points.setdefault((found.waiting, found.help), found)
    return list(points.values())


def seconds_to_run(
    needed: Sequence[str], parents: dict[str, tuple[str, ...]], cost: dict[str, float], slots: int
) -> float:
    """How long it takes at best to run these, each after its parents: the longest chain, or work over slots."""
    ends: dict[str, float] = {}

    def end(name: str) -> float:
        if name not in ends:
            ends[name] = 0.0  # a circle would be a mistake in the catalog, which has been checked
            above = max((end(parent) for parent in parents.get(name, ())), default=0.0)
            ends[name] = above + (cost.get(name, 0.0) if name in wanted else 0.0)
        return ends[name]

    wanted = set(needed)
    longest = max((end(name) for name in needed), default=0.0)
    return max(longest, math.fsum(cost.get(name, 0.0) for name in wanted) / slots)
