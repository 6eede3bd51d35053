"""Paper 001's warehouse: queries and updates that compete for one machine, and a schedule made anew as they come.

The order of the queries is shortest first, and older ones move up; where the updates go among them is the simulator's
`queries` model, asked again before every query.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler_plugin.simulator.queries import Query, Update, pareto

#: Everything touches one of so many partitions, so a query depends on every tenth update, as in the paper.
PARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How execution times, costs and profits are drawn; all whole and at least 1."""

    duration_ms: Callable[[random.Random], int]
    cost_ms: Callable[[random.Random], int]
    profit_rows: Callable[[random.Random], int]


def gauss(mean: float) -> Callable[[random.Random], int]:
    return lambda dice: max(1, round(dice.gauss(mean, 1.0)))


def zipf(least: int, most: int) -> Callable[[random.Random], int]:
    """Between the two, a value's chance falling as one over it."""
    return lambda dice: min(most, int(least * (most / least) ** dice.random()))


#: The paper's two workloads.
KINDS = {
    "gauss": Kind(duration_ms=gauss(5000), cost_ms=gauss(500), profit_rows=gauss(50)),
    "zipf": Kind(duration_ms=zipf(10, 20_000), cost_ms=zipf(5, 500), profit_rows=zipf(1, 500)),
}


@dataclass(slots=True, eq=False, kw_only=True)
class Pending:
    """A query or an update that waits."""

    number: int
    arrived_ms: int
    #: Execution time of a query, cost of an update.
    duration_ms: int
    #: The partition it touches.
    part: int
    profit_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """One query that was run, and the schedule it was run from."""

    number: int
    response_ms: int
    #: Rows of updates it depends on that were not applied.
    unapplied_rows: int
    #: Update -> position in the schedule made before it ran.
    positions: dict[int, int]


def transactions(
    kind: Kind, count: int, together: int, seed: int, load: float = 0.8
) -> tuple[list[Pending], list[Pending]]:
    """Queries and updates that come `together` at a time; they keep the machine busy for `load` of the time."""
    dice = random.Random(seed)
    durations = [kind.duration_ms(dice) for _ in range(count)]
    costs = [kind.cost_ms(dice) for _ in range(count)]
    gap = round((sum(durations) + sum(costs)) * together / count / load)
    queries = [
        Pending(number=number, arrived_ms=number // together * gap, duration_ms=duration, part=dice.randrange(PARTS))
        for number, duration in enumerate(durations)
    ]
    updates = [
        Pending(
            number=number,
            arrived_ms=number // together * gap,
            duration_ms=cost,
            part=dice.randrange(PARTS),
            profit_rows=kind.profit_rows(dice),
        )
        for number, cost in enumerate(costs)
    ]
    return queries, updates


def placed(queries: Sequence[Query], updates: Sequence[Update]) -> list[int]:
    """The positions that the queries' preferences ask for."""
    return pareto(list(queries), list(updates), None)


Placing = Callable[[Sequence[Query], Sequence[Update]], list[int]]


@dataclass(slots=True, kw_only=True)
class Machine:
    """Runs queries and updates one at a time, by a schedule that is made anew before every query."""

    queries: list[Pending]
    updates: list[Pending]
    #: The users' preference when that query is next: from 0, fresh, to 1, fast.
    qos: Callable[[int], float]
    place: Placing = placed
    now_ms: int = 0
    _waiting_queries: list[Pending] = field(default_factory=list)
    _waiting_updates: list[Pending] = field(default_factory=list)

    def run(self) -> Iterator[Executed]:
        coming_queries, coming_updates = self.queries[::-1], self.updates[::-1]
        done = 0
        while coming_queries or self._waiting_queries:
            for coming, waiting in (
                (coming_queries, self._waiting_queries),
                (coming_updates, self._waiting_updates),
            ):
                while coming and coming[-1].arrived_ms <= self.now_ms:
                    waiting.append(coming.pop())
            if self._waiting_queries:
                yield self._next_query(self.qos(done))
                done += 1
            elif self._waiting_updates:  # nobody asks: catch up
                self.now_ms += self._waiting_updates.pop(0).duration_ms
            else:
                self.now_ms = coming_queries[-1].arrived_ms

    def _next_query(self, qos: float) -> Executed:
        """Runs the first query of a new schedule, after the updates that stand before it."""
        order = sorted(self._waiting_queries, key=lambda each: (each.duration_ms + each.arrived_ms, each.number))
        positions = self._schedule(order, qos)
        first = order[0]
        for update in [each for each in self._waiting_updates if positions[each.number] == len(order)]:
            self.now_ms += update.duration_ms
            self._waiting_updates.remove(update)
        self.now_ms += first.duration_ms
        self._waiting_queries.remove(first)
        return Executed(
            number=first.number,
            response_ms=self.now_ms - first.arrived_ms,
            unapplied_rows=sum(each.profit_rows for each in self._waiting_updates if each.part == first.part),
            positions=positions,
        )

    def _schedule(self, order: list[Pending], qos: float) -> dict[int, int]:
        queries = [as_query(each, qos) for each in order]
        updates = [as_update(each, order) for each in self._waiting_updates]
        positions = self.place(queries, updates)
        return {each.number: place for each, place in zip(self._waiting_updates, positions, strict=True)}


def as_query(pending: Pending, qos: float) -> Query:
    return Query(name=str(pending.number), duration=pending.duration_ms, qos=qos, parts=frozenset({pending.part}))


def as_update(pending: Pending, order: Sequence[Pending]) -> Update:
    dependents = [len(order) - place for place, query in enumerate(order) if query.part == pending.part]
    return Update(
        name=str(pending.number),
        cost=pending.duration_ms,
        profit=pending.profit_rows,
        dependents=np.array(dependents[::-1], dtype=np.int64),
    )
