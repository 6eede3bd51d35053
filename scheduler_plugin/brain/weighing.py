"""All queries that wait and all updates they wait for, weighed together: who waits for what (paper 001, pareto).

A query that prefers fresh answers to some degree demands what is stale among its objects (`brain.demands`), and each
time such a query comes or goes the knapsack of `brain.preference` is solved over all of them: an object's work, with
what has to run above it, goes before some of the queries or after all of them. What goes before a query that wants it
is run in the queries' order, earliest deadline first; what does not is declined, and the query goes on without it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scheduler_plugin.brain import preference
from scheduler_plugin.brain.demands import Demand, Demands, behind
from scheduler_plugin.brain.warehouse import Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What came of it, in seconds and for all queries together."""

    #: In the order in which they are served.
    queries: tuple[int, ...]
    objects: tuple[str, ...]
    #: How much waiting the queries accept in all.
    bound: float
    curve: tuple[preference.Point, ...]
    taken: preference.Point
    #: Demands that are not worth the wait.
    declined: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """For the page: the curve and the point taken on it."""
        return {
            "objects": list(self.objects),
            "queries": list(self.queries),
            "bound_seconds": self.bound,
            "curve": [{"wait_seconds": each.waiting / 1000, "help": each.help} for each in self.curve],
            "taken": {"wait_seconds": self.taken.waiting / 1000, "help": self.taken.help},
        }


def weigh(
    demands: Demands,
    warehouse: Warehouse,
    now: float,
    may_start: Callable[[str, Demand], bool] = lambda *_: True,
) -> Weighed:
    """Weighs what the waiting queries would like; changes nothing.

    What has been declined stays declined, and still counts in how much waiting there could be. A job that runs already
    is waited for: it is no longer a matter of choice. Nobody waits for what may not start.
    """
    wishes = [each for each in demands.open.values() if each.prefer is not None and not each.started]
    waiting = {each.query or 0: each for each in wishes}
    order = sorted(waiting, key=lambda query: (waiting[query].deadline, query))
    place = {query: len(order) - number for number, query in enumerate(order)}
    by_object: dict[str, list[Demand]] = {}
    for each in sorted(wishes, key=lambda each: each.object):
        by_object.setdefault(each.object, []).append(each)
    stuck = {name for name, wanted in by_object.items() if _is_stuck(warehouse, wanted[0], may_start)}
    objects = [name for name in by_object if name not in stuck]
    work = [
        preference.Work(
            cost=max(1, round(1000 * _seconds(warehouse, by_object[name][0]))),
            profit=max(1, round(min(now - warehouse.missing[warehouse.number(name)], 1e9))),
            dependents=sorted({place[each.query or 0] for each in by_object[name] if not each.declined}),
        )
        for name in objects
    ]
    bound = preference.bound(work, [waiting[query].prefer or 0.0 for query in order])
    taken = preference.point(work, bound)
    before = dict(zip(objects, taken.positions, strict=True)) | dict.fromkeys(stuck, 0)
    return Weighed(
        queries=tuple(order),
        objects=tuple(objects),
        bound=bound / 1000,
        curve=tuple(preference.curve(work, len(order))),
        taken=taken,
        declined=tuple(
            each.number for each in wishes if not each.declined and before[each.object] < place[each.query or 0]
        ),
    )


def _seconds(warehouse: Warehouse, demand: Demand) -> float:
    """How long it takes until the demand is met, if nothing else runs."""
    graph, needed = warehouse.graph, behind(warehouse, demand)
    return preference.seconds_to_run(
        [graph.names[each] for each in needed],
        {graph.names[each]: tuple(graph.names[parent] for parent in graph.parents[each]) for each in needed},
        {graph.names[each]: 0.0 if graph.virtual[each] else warehouse.cost(each) for each in needed},
        warehouse.slots,
    )


def _is_stuck(warehouse: Warehouse, demand: Demand, may_start: Callable[[str, Demand], bool]) -> bool:
    names = warehouse.graph.names
    return not all(each in warehouse.running or may_start(names[each], demand) for each in behind(warehouse, demand))
