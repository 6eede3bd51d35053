"""Model `queries`: the order of the queries is fixed, and every update is put before some of them (paper 001).

Position k of an update is before the k-th query counted from the end; 0 is after all of them. An update delays the k
queries behind it by its cost, and helps those among them that read what it writes. Only positions before a query that
depends on the update are worth their cost, so these are the items of its knapsack class.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from scheduler_plugin.brain import knapsack, preference
from scheduler_plugin.simulator.progress import Tell, silent
from scheduler_plugin.simulator.result import Schedule, result
from scheduler_plugin.simulator.workload import Fields, Params, WorkloadError, finite, kind, unique

Positions = npt.NDArray[np.int64]

#: Pairs of an update and a query that depends on it; beyond, the knapsack would not fit in memory.
MOST_ITEMS = 30_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A read; in a list, the place is its turn."""

    name: str
    duration: int
    #: From 0, fresh data whatever the wait, to 1, the fastest answer. None when no bound is taken from it.
    qos: float | None
    parts: frozenset[str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A write that may be put before any query."""

    name: str
    cost: int
    profit: int
    #: Positions (from the end, starting at 1) of the queries that depend on it, ascending.
    dependents: Positions


def simulate(
    workload: dict[str, object], policy: str, params: dict[str, str], tell: Tell = silent
) -> dict[str, object]:
    given = Params(params)
    fields = Fields(workload)
    bound = given.whole("B", 0, minimum=0) if given.has("B") else None
    given.finish()
    queries = read_queries(fields)
    updates = read_updates(fields, queries)
    positions = POLICIES[policy](queries, updates, bound)
    cost = sum(update.cost * position for update, position in zip(updates, positions, strict=True))
    metrics = {
        "qos": fastest(queries) + cost,
        "qod": sum(
            update.profit * int(np.searchsorted(update.dependents, position, side="right"))
            for update, position in zip(updates, positions, strict=True)
        ),
        "cost": cost,
        "positions": {update.name: position for update, position in zip(updates, positions, strict=True)},
    }
    schedule = lay_out(queries, updates, positions) if given.schedule else None
    return result(policy=policy, model="queries", metrics=metrics, schedule=schedule)


def read_queries(fields: Fields) -> list[Query]:
    queries = [
        Query(
            name=query.text("id"),
            duration=query.whole("e", minimum=1),
            qos=share(query, "qos") if query.has("qos") else None,
            parts=parts(query),
        )
        for query in fields.objects("queries")
    ]
    unique([query.name for query in queries], "queries")
    return queries


def share(fields: Fields, name: str) -> float:
    value = finite(fields.get(name), fields.path(name), minimum=0)
    if value > 1:
        raise WorkloadError(f"{fields.path(name)} must be a number from 0 to 1, not {kind(fields.get(name))}")
    return value


def parts(fields: Fields) -> frozenset[str | int]:
    """The partitions touched, named by texts or whole numbers."""
    found: set[str | int] = set()
    for place, part in enumerate(fields.items("parts")):
        if not (isinstance(part, str) or type(part) is int):
            raise WorkloadError(f"{fields.path('parts')}[{place}] must be a text or a whole number, not {kind(part)}")
        found.add(part)
    return frozenset(found)


def read_updates(fields: Fields, queries: list[Query]) -> list[Update]:
    """The updates, each with its dependents; updates of the same parts share one array."""
    readers: dict[str | int, list[int]] = {}
    for position, query in enumerate(reversed(queries), start=1):
        for part in query.parts:
            readers.setdefault(part, []).append(position)
    by_part = {part: np.array(positions, dtype=np.int64) for part, positions in readers.items()}
    nobody = np.zeros(0, dtype=np.int64)
    known: dict[frozenset[str | int], Positions] = {}
    updates = []
    for update in fields.objects("updates"):
        touched = parts(update)
        if touched not in known:
            known[touched] = np.unique(np.concatenate([nobody, *(by_part.get(part, nobody) for part in touched)]))
        updates.append(
            Update(
                name=update.text("id"),
                cost=update.whole("c", minimum=1),
                profit=update.whole("p", minimum=1),
                dependents=known[touched],
            )
        )
    unique([update.name for update in updates], "updates")
    return updates


def fastest(queries: list[Query]) -> int:
    """The sum of the queries' completion times with no update before any of them."""
    return sum(query.duration * behind for behind, query in enumerate(reversed(queries), start=1))


def preferred(queries: list[Query], updates: list[Update]) -> int:
    """The bound that the queries' preferences set on the added waiting: paper 001, equation 7."""
    if not queries:
        return 0
    total = 0.0
    for place, query in enumerate(queries):
        if query.qos is None:
            raise WorkloadError(f"queries[{place}].qos is missing; give it, or the bound as --param B=N")
        total += 1 - query.qos
    longest = len(queries) * sum(update.cost for update in updates)
    return math.floor(longest * (total / len(queries)))


def pareto(queries: list[Query], updates: list[Update], bound: int | None) -> list[int]:
    """The most QoD for an added waiting of at most the bound, and of equals the least added waiting."""
    capacity = preferred(queries, updates) if bound is None else bound
    if sum(len(update.dependents) for update in updates) > MOST_ITEMS:
        raise WorkloadError(f"updates: more than {MOST_ITEMS:,} pairs of an update and a dependent query")
    for place, update in enumerate(updates):
        if max(update.cost, update.profit) * (len(queries) + 1) > knapsack.LARGEST_TOTAL:
            raise WorkloadError(f"updates[{place}]: c or p times the number of queries is above 2**53")
    try:
        return preference.before(
            [preference.Work(cost=each.cost, profit=each.profit, dependents=each.dependents) for each in updates],
            capacity,
        )
    except ValueError as error:
        raise WorkloadError(f"updates: {error}") from None


def queries_first(queries: list[Query], updates: list[Update], _bound: int | None) -> list[int]:
    return [0] * len(updates)


def updates_first(queries: list[Query], updates: list[Update], _bound: int | None) -> list[int]:
    return [len(queries)] * len(updates)


def lay_out(queries: list[Query], updates: list[Update], positions: list[int]) -> Schedule:
    """The schedule: updates of one position in declaration order, then the query they wait before."""
    waiting: list[list[Update]] = [[] for _ in range(len(queries) + 1)]
    for update, position in zip(updates, positions, strict=True):
        waiting[position].append(update)
    schedule = Schedule(whole=True)
    now = 0
    for position in range(len(queries), -1, -1):
        for update in waiting[position]:
            schedule.note(now, now + update.cost, update.name, 0)
            now += update.cost
        if position:
            query = queries[-position]
            schedule.note(now, now + query.duration, query.name, 0)
            now += query.duration
    return schedule


Policy = Callable[[list[Query], list[Update], int | None], list[int]]

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "pareto": pareto,
        "qf": queries_first,
        "uf": updates_first,
    }
)
