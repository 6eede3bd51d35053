"""Demands: what somebody, or a query, wants run before the policy's own choices.

A demand made at time t is about what had arrived by then: an object is behind it while it lacks an update from before
t. So a demand can be met however fast new updates pour in. What has to run is the object and its ancestors that are
behind, parents first; demands are served earliest deadline first. A demand to run is about one job more: it ends with
the first job on the view that started after it, fresh or not (a table with nothing to load has nothing to run).

What a query would like, rather than needs, is a demand that may be declined (`brain.weighing`).

>>> from scheduler_plugin.brain import JobFinished, JobStarted, Table, UpdateArrived, View
>>> warehouse = Warehouse([Table(name="r"), View(name="v", parents=("r",))])
>>> warehouse.apply(UpdateArrived(table="r", at=1.0))
>>> demands = Demands()
>>> demands.add(Demand(number=7, object="v", at=2.0))
>>> [(turn.object, turn.demand.number) for turn in demands.turns(warehouse)]
[('r', 7)]
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler_plugin.brain.warehouse import Warehouse


@dataclass(slots=True, kw_only=True)
class Demand:
    """One wish, open until it has ended."""

    number: int
    object: str
    #: When it was made.
    at: float
    #: When whoever made it no longer needs it; infinite for no hurry.
    deadline: float = math.inf
    by: str = ""
    why: str = ""
    #: True: the object is to run, fresh or not.
    run: bool = False
    #: The query that would like it, and how much: 0 not at all, 1 whatever the wait. None: it must be met.
    query: int | None = None
    prefer: float | None = None
    #: It is not worth the wait to all queries together; kept while its query waits for something else.
    declined: bool = False
    #: A job on the object has started since, and has ended.
    started: bool = False
    ran: bool = False

    @property
    def reason(self) -> str:
        """For a person: "demanded by ana (run now: new tariffs)"."""
        kind = "run now" if self.run else "fresh for a query" if self.prefer is None else "worth waiting for"
        return f"demanded by {self.by} ({kind}: {self.why})" if self.why else f"demanded by {self.by} ({kind})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An object that may start now because of a demand."""

    object: str
    demand: Demand

    @property
    def why(self) -> str:
        if self.object == self.demand.object:
            return self.demand.reason
        return f"{self.demand.object} is {self.demand.reason} and needs this first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A demand that is over. `how`: met, failed."""

    demand: int
    how: str


class Demands:
    """The open demands. Told what happens, after the warehouse was."""

    def __init__(self) -> None:
        self.open: dict[int, Demand] = {}

    def add(self, demand: Demand) -> None:
        self.open[demand.number] = demand

    def drop(self, number: int) -> None:
        """It was withdrawn, or nobody waits any more."""
        self.open.pop(number, None)
        self._forget_declined()

    def decline(self, number: int) -> None:
        """The query goes on without it."""
        if number in self.open:
            self.open[number].declined = True
            self._forget_declined()

    @property
    def waiting(self) -> frozenset[int]:
        """Queries that wait for what they would like."""
        return frozenset(
            each.query for each in self.open.values() if each.query is not None and each.prefer is not None
        )

    def _forget_declined(self) -> None:
        """A query with nothing left to wait for has gone."""
        waits = {each.query for each in self.open.values() if not each.declined}
        for number in [number for number, each in self.open.items() if each.declined and each.query not in waits]:
            del self.open[number]

    def job_started(self, name: str) -> None:
        for demand in self.open.values():
            demand.started |= demand.object == name

    def job_ended(self, name: str, *, failed: bool = False) -> list[Ended]:
        """A demand to run has had its job, whatever became of it; others wait for the next attempt."""
        over = []
        for demand in [each for each in self.open.values() if each.object == name and each.started]:
            if failed and demand.run:
                over.append(Ended(demand=demand.number, how="failed"))
                del self.open[demand.number]
            demand.started = False
            demand.ran = not failed
        return over

    def met(self, warehouse: Warehouse) -> list[Ended]:
        """Ends the demands that have been met by now."""
        over = [number for number, demand in self.open.items() if self._is_met(warehouse, demand)]
        for number in over:
            del self.open[number]
        self._forget_declined()
        return [Ended(demand=number, how="met") for number in over]

    def overdue(self, now: float) -> list[int]:
        """Demands whose deadline has passed."""
        return [number for number, demand in self.open.items() if demand.deadline < now and not demand.declined]

    def turns(self, warehouse: Warehouse, may_start: Callable[[str, Demand], bool] = lambda *_: True) -> Iterator[Turn]:
        """What may start now, each object once, those of the earliest deadline first."""
        seen: set[int] = set()
        wanted = [each for each in self.open.values() if not each.declined]
        for demand in sorted(wanted, key=lambda each: (each.deadline, each.number)):
            for position in self._needed(warehouse, demand):
                name = warehouse.graph.names[position]
                if position not in seen and position not in warehouse.running and may_start(name, demand):
                    seen.add(position)
                    yield Turn(object=name, demand=demand)

    def _is_met(self, warehouse: Warehouse, demand: Demand) -> bool:
        position = warehouse.number(demand.object)
        runs = demand.run and not warehouse.graph.tables[position] and not warehouse.graph.virtual[position]
        return warehouse.missing[position] > demand.at and (demand.ran or not runs)

    def _needed(self, warehouse: Warehouse, demand: Demand) -> list[int]:
        """The demanded object and its ancestors that are behind and have nothing behind above them."""
        found = [
            position
            for position in behind(warehouse, demand)
            if not warehouse.graph.virtual[position]
            and not any(warehouse.missing[each] <= demand.at for each in warehouse.graph.parents[position])
        ]
        # A table that is fresh has nothing to load.
        return sorted(each for each in found if not warehouse.graph.tables[each] or each in warehouse.updates.pending)


def behind(warehouse: Warehouse, demand: Demand) -> list[int]:
    """The demanded object, and its ancestors that lack what had arrived by then; the nearest first."""
    found = [warehouse.number(demand.object)]
    seen = set(found)
    for position in found:  # grows while it is read
        above = [each for each in warehouse.graph.parents[position] if warehouse.missing[each] <= demand.at]
        found += [each for each in above if each not in seen]
        seen.update(above)
    return found
