"""What to keep ready while nobody waits (paper 002, section 3.5): hot objects, in the order of the clock cache.

In the paper's world maintenance loads what is pending, hot objects first. Live, no slot idles while something may
start, so what is left for idle slots is what policies put off: a view that some stale object stands above would have to
run again, and is passed over however long that lasts. Where it is hot, and what it reads has become newer since, it is
brought up to the newest instant that its parents have in common, and readers get that; unless a job above it is
expected to end before its own would, and so may clear its way.
"""

import math
from collections.abc import Mapping, Sequence

from scheduler_plugin.brain.clock import first_hot
from scheduler_plugin.brain.warehouse import Warehouse


def put_off(warehouse: Warehouse, hot: Sequence[str], now: float, tried: Mapping[str, float]) -> list[int]:
    """The views to keep ready. A hot virtual view is ready when what it is made of is.

    `tried` tells how far the parents of a view had come when that was tried last. What they have in common may be older
    than any of them, and no newer until one of them has moved.
    """
    graph = warehouse.graph
    ahead = [graph.index[name] for name in reversed(hot) if name in graph.index]
    stored: dict[int, None] = {}
    while ahead:
        here = ahead.pop()
        if graph.virtual[here]:
            ahead += reversed(graph.parents[here])
        else:
            stored.setdefault(here)

    def lacks(each: int) -> bool:
        return _is_put_off(warehouse, each, now) and tried.get(graph.names[each]) != reach(warehouse, each)

    return list(first_hot(stored, lacks))


def reach(warehouse: Warehouse, view: int) -> float:
    """How far all parents of a view have come: no run can make it newer than that."""
    return min((warehouse.current_to[each] for each in warehouse.graph.parents[view]), default=-math.inf)


def newer_by(warehouse: Warehouse, view: int) -> float:
    """Seconds by which the view could be newer after a run."""
    return reach(warehouse, view) - warehouse.current_to[view]


def _is_put_off(warehouse: Warehouse, position: int, now: float) -> bool:
    if warehouse.graph.tables[position] or position in warehouse.running or position in warehouse.held:
        return False
    if not warehouse.stale_parents[position] or newer_by(warehouse, position) <= 0:
        return False
    running = [each for each in warehouse.graph.ancestors(position) if each in warehouse.running]
    soonest = min((warehouse.running[each].started + warehouse.cost(each) for each in running), default=math.inf)
    return soonest >= now + warehouse.cost(position)
