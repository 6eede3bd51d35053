"""What is to be expected: the warehouse as it stands, played forward with the same policy and the learnt costs.

Feeds are taken to go on at their usual pace; one that is late already is taken to stay silent. So a breach is foreseen
when the queue is too long for an object to have its turn in time, and also when nothing arrives at all.
"""

import heapq
import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from scheduler_plugin.brain import JobFinished, JobStarted, UpdateArrived, Warehouse, checkpoint
from scheduler_plugin.brain.policy import figure
from scheduler_plugin.catalog.rows import declared
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.live.slots import Slots
from scheduler_plugin.store.objects import CatalogRow

#: How far ahead is looked, in seconds and in jobs.
HORIZON_SECONDS = 900.0
MOST_JOBS = 2000
#: And how long the looking may take: in a large warehouse only the near future is seen.
MOST_SECONDS = 0.5
#: A feed is late when it has been silent for this many of its periods (and this many seconds).
LATE_PERIODS = 3.0
LATE_SECONDS = 5.0
#: How many of those to blame are named.
NAMED = 3


@dataclass(slots=True)
class Future:
    """A copy of the warehouse that time can pass in."""

    scheduler: Scheduler
    now: float
    with_arrivals: bool
    most_seconds: float = MOST_SECONDS
    #: Whether `play` came to the end of what it was asked for.
    seen_all: bool = False
    warehouse: Warehouse = field(init=False)
    policy: Slots = field(init=False)
    #: What will happen: (time, sequence, object, is_arrival).
    _ahead: list[tuple[float, int, str, bool]] = field(default_factory=list)
    _slots: dict[str, int] = field(default_factory=dict)
    _sequence: int = 0
    _periods: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scheduler = self.scheduler
        catalog = CatalogRow(settings=scheduler.settings, objects=list(scheduler.rows.values()))
        state = checkpoint.dump(scheduler.warehouse)
        self.warehouse = Warehouse(declared(catalog), slots=scheduler.warehouse.slots, since=state["since"])
        checkpoint.load(self.warehouse, state, anew=(), first_arrivals=scheduler.first_arrivals)
        self.warehouse.limits = dict(scheduler.warehouse.limits)
        self.warehouse.held = set(scheduler.warehouse.held)
        self.warehouse.ready -= self.warehouse.held
        self.policy = Slots(scheduler.settings, scheduler.rows)
        for name, job in scheduler.running.items():
            self._slots[name] = job.slot
            position = self.warehouse.number(name)
            under_way = self.warehouse.running.get(position)
            if under_way is not None:
                cost = self.warehouse.work.fixed[position] + self.warehouse.work.per_update[position] * len(
                    under_way.batch
                )
                # One that takes longer than expected will take a little longer still.
                self._push(max(under_way.started + cost, self.now + 0.1 * cost), name, False)
        if self.with_arrivals:
            late = silent_feeds(scheduler, self.now)
            for name, row in scheduler.rows.items():
                newest = self.warehouse.updates.newest.get(self.warehouse.number(name))
                if row.kind == "table" and newest is not None and name not in late:
                    self._periods[name] = usual_period(scheduler, name)
                    self._push(max(newest + self._periods[name], self.now), name, True)

    def _push(self, at: float, name: str, is_arrival: bool) -> None:
        self._sequence += 1
        heapq.heappush(self._ahead, (at, self._sequence, name, is_arrival))

    def play(self, until: float) -> Iterator[tuple[float, str, str]]:
        """What happens, in order: (time, "started" or "finished", object)."""
        now = self.now
        enough = time.monotonic() + self.most_seconds
        for _ in range(MOST_JOBS):
            if time.monotonic() > enough:
                return
            taken = set(self._slots.values())
            free = [slot for slot in range(self.warehouse.slots) if slot not in taken]
            for choice in self.policy.choose(self.warehouse, now, free) if free else ():
                position = self.warehouse.number(choice.object)
                end = now + max(self.warehouse.cost(position, choice.updates), 0.001)
                self.warehouse.apply(JobStarted(object=choice.object, at=now, updates=choice.updates))
                self._slots[choice.object] = choice.slot
                self._push(end, choice.object, False)
                yield now, "started", choice.object
            if not self._ahead or self._ahead[0][0] > until:
                self.seen_all = True
                return
            now, _, name, is_arrival = heapq.heappop(self._ahead)
            if is_arrival:
                self.warehouse.apply(UpdateArrived(table=name, at=now))
                self._push(now + self._periods[name], name, True)
            else:
                self.warehouse.apply(JobFinished(object=name, at=now))
                del self._slots[name]
                yield now, "finished", name


def usual_period(scheduler: Scheduler, name: str) -> float:
    """Seconds between updates of a table: what was seen lately, or what the catalog says."""
    gaps = scheduler.warehouse.updates.gaps.get(scheduler.warehouse.number(name))
    declared_period = float(scheduler.rows[name].spec["period"])
    return max(sum(gaps) / len(gaps), 0.05) if gaps and len(gaps) >= 4 else declared_period


def silent_feeds(scheduler: Scheduler, now: float) -> dict[str, float]:
    """Tables whose feed is late against the period the catalog promises -> seconds since anything came."""
    late = {}
    for name, row in scheduler.rows.items():
        if row.kind == "table":
            newest = scheduler.warehouse.updates.newest.get(scheduler.warehouse.number(name), scheduler.since)
            waited = now - newest
            if waited > max(LATE_PERIODS * float(row.spec["period"]), LATE_SECONDS):
                late[name] = waited
    return late


def expected_run(scheduler: Scheduler, name: str, now: float, *, most_seconds: float = 10.0) -> float | None:
    """When a job on the object will start, with no new arrivals; None when that is not foreseeable."""
    if scheduler.stopped is not None:
        return None
    future = Future(scheduler, now, with_arrivals=False, most_seconds=most_seconds)
    for at, what, which in future.play(now + 24 * 3600):
        if what == "started" and which == name:
            return at
    return None


def expected_turns(scheduler: Scheduler, now: float) -> tuple[dict[str, float], dict[str, float]]:
    """When each object's next job will start, and when each stale object will be fresh, with no new arrivals.

    Left out is what is not foreseeable.
    """
    starts: dict[str, float] = {}
    fresh: dict[str, float] = {}
    if scheduler.stopped is not None:
        return starts, fresh
    future = Future(scheduler, now, with_arrivals=False)
    for at, what, which in future.play(now + HORIZON_SECONDS):
        if what == "started":
            starts.setdefault(which, at)
            continue
        for position in _touched(future.warehouse, future.warehouse.number(which)):
            name = future.warehouse.graph.names[position]
            if future.warehouse.is_fresh(name):
                fresh.setdefault(name, at)
    return starts, fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A limit that is, or will be, exceeded."""

    object: str
    limit: float
    #: When; in the past for one that is exceeded already.
    at: float
    #: silent (of a table behind it), held, failing, seldom (files come less often than the limit asks), load.
    cause: str
    why: str


def breaches(scheduler: Scheduler, now: float) -> list[Breach]:
    """Limits that are exceeded, and those that will be, the soonest first."""
    warehouse = scheduler.warehouse
    limits = {name: limit for name in scheduler.rows if (limit := scheduler.limit(name)) is not None}
    # Before anything has ever arrived there is nothing that could be stale.
    graph = warehouse.graph
    tables = (each for each in range(len(graph)) if graph.tables[each])
    empty = _behind(warehouse, {each for each in tables if graph.names[each] not in scheduler.first_arrivals})
    limits = {name: limit for name, limit in limits.items() if not empty[graph.index[name]]}
    if not limits:
        return []
    horizon = now + min(HORIZON_SECONDS, 2 * max(limits.values()))
    due = {name: warehouse.current_to[warehouse.number(name)] + limit for name, limit in limits.items()}
    found: dict[str, float] = {name: at for name, at in due.items() if at <= now}
    seen_to = horizon
    if scheduler.stopped is None:
        future = Future(scheduler, now, with_arrivals=True)
        names = future.warehouse.graph.names
        for at, what, which in future.play(horizon):
            seen_to = at
            if what != "finished":
                continue
            # Only what ran, and the virtual views above it, can have become newer.
            for position in _touched(future.warehouse, future.warehouse.number(which)):
                name = names[position]
                if name in limits and name not in found:
                    if due[name] < at:
                        found[name] = due[name]
                    due[name] = future.warehouse.current_to[position] + limits[name]
        seen_to = horizon if future.seen_all else seen_to
    for name, at in due.items():
        if at <= seen_to:
            found.setdefault(name, at)
    causes = _Causes(scheduler, now)
    told = [causes.told(name, limits[name], at) for name, at in found.items() if at < math.inf]
    return sorted(told, key=lambda breach: (breach.at, breach.object))


def _behind(warehouse: Warehouse, marked: Collection[int]) -> list[tuple[int, ...]]:
    """For each object those of `marked` among itself and its ancestors; a few of them where there are many."""
    graph = warehouse.graph
    found: list[tuple[int, ...]] = [()] * len(graph)
    if marked:
        for position in graph.order:
            here = {position} if position in marked else set()
            found[position] = tuple(sorted(here.union(*(found[each] for each in graph.parents[position]))))[:NAMED]
    return found


class _Causes:
    """Why limits are not kept, looked up once for all objects."""

    def __init__(self, scheduler: Scheduler, now: float) -> None:
        number = scheduler.warehouse.number
        self._scheduler = scheduler
        held = set(scheduler.holds.reasons)
        self._failing = _behind(scheduler.warehouse, {number(each) for each in scheduler.troubles})
        self._held = _behind(scheduler.warehouse, {number(each) for each in held})
        self._silent = _behind(scheduler.warehouse, {number(each) for each in silent_feeds(scheduler, now)})

    def told(self, name: str, limit: float, at: float) -> Breach:
        position = self._scheduler.warehouse.number(name)
        stopped = self._scheduler.stopped
        if stopped is not None:
            cause, why = "held", f"everything is paused {stopped}".strip()
        elif self._failing[position]:
            cause, why = "failing", f"jobs on {self._named(self._failing[position])} fail"
        elif self._held[position]:
            cause, why = "held", f"{self._named(self._held[position])} may not start"
        elif self._silent[position]:
            cause, why = "silent", f"nothing arrives for {self._named(self._silent[position])}"
        elif (slowest := self._slowest[position])[0] > limit:
            every, table = figure(slowest[0]), slowest[1]
            cause, why = "seldom", f"files of {self._named([table])} come about every {every} s, and no run helps"
        else:
            cause, why = "load", "its turn comes too late: there is more to run than the slots can carry"
        return Breach(object=name, limit=limit, at=at, cause=cause, why=why)

    @cached_property
    def _slowest(self) -> list[tuple[float, int]]:
        """For each object the table behind it whose files come most seldom: (seconds between them, table)."""
        graph = self._scheduler.warehouse.graph
        found = [(0.0, -1)] * len(graph)
        for position in graph.order:
            name = graph.names[position]
            if self._scheduler.rows[name].kind == "table":
                found[position] = (usual_period(self._scheduler, name), position)
            else:
                found[position] = max((found[each] for each in graph.parents[position]), default=(0.0, -1))
        return found

    def _named(self, positions: Collection[int]) -> str:
        return ", ".join(self._scheduler.warehouse.graph.names[each] for each in positions)


def _touched(warehouse: Warehouse, position: int) -> Iterator[int]:
    ahead = [position]
    for each in ahead:  # grows while it is read
        yield each
        ahead += [child for child in warehouse.graph.children[each] if warehouse.graph.virtual[child]]
