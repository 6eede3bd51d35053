"""What if another policy, or another number of slots, had run: recorded arrivals, costs and accesses, decided anew.

The log between two times is played twice from the same state: as it was, and with other decisions by the same brain. A
job decided anew takes what the object's jobs took in that time, one after another. Both are measured by the same
accumulator. What the replay leaves out: failed jobs, catalog changes on the way, and the fraction of a second between
the end of a job and the next decision; so the replay of what really ran is a little better than what really ran, by no
more than MARGIN of QoD.
"""

import heapq
import math
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from scheduler_plugin.brain import POLICIES, JobFinished, JobStarted
from scheduler_plugin.brain.exact import ExactSum
from scheduler_plugin.brain.measures import Measures
from scheduler_plugin.live import memory
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.live.slots import Slots
from scheduler_plugin.store import checkpoints, freshness, objects
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.freshness import LoggedEvent
from scheduler_plugin.store.models import EventKind
from scheduler_plugin.store.objects import CatalogRow

#: How far QoD, replayed with the policy and slots that ran, may be from what was recorded.
MARGIN = 0.1
#: How many points the curves have.
POINTS = 120


class WhatIfError(ValueError):
    """A question that the log cannot answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one way to decide."""

    policy: str
    slots: int
    #: Share of accesses that met a fresh object.
    qod: float
    #: Mean staleness in seconds, each object counting by its popularity.
    weighted_staleness: float
    worst_stretch: float
    #: Objects that went over their staleness limit, and for how long together.
    limits_breached: int
    seconds_over_limit: float
    slot_hours: float
    jobs: int
    #: [seconds since the beginning, fresh share of accesses, weighted staleness], along the way.
    curve: Sequence[tuple[float, float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What really happened beside what would have."""

    start: datetime
    end: datetime
    arrivals: int
    real: Outcome
    replayed: Outcome

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {**found, "start": self.start.isoformat(), "end": self.end.isoformat(), "margin": MARGIN}


class WindowMeasures(Measures):
    """The measures of one window, and time over limits in it."""

    __slots__ = ("breached", "limits", "over")

    def __init__(self, scheduler: Scheduler, start: float, end: float) -> None:
        warehouse, before = scheduler.warehouse, scheduler.warehouse.measures
        super().__init__(current_to=warehouse.current_to, tables=warehouse.graph.tables, since=start, until=end)
        # What policies have learnt from the time before.
        self.finished_spells, self.batches = before.finished_spells, before.batches
        self._spell_time = ExactSum.of(before._spell_time.units)
        for position, missing in enumerate(warehouse.missing):
            if missing != math.inf:
                self.turned_stale(position, start)
        self.limits = {
            warehouse.number(name): limit for name in scheduler.rows if (limit := scheduler.limit(name)) is not None
        }
        self.breached: set[int] = set()
        self.over = 0.0

    def moves_on(self, position: int, at: float) -> None:
        limit = self.limits.get(position)
        if limit is not None:
            began = max(self._aged_to[position], self._current_to[position] + limit)
            late = min(at, self.until) - began
            if late > 0:
                self.breached.add(position)
                self.over += late
        super().moves_on(position, at)


@dataclass(slots=True)
class Course:
    """One way through the window: the state, its measures and its curve."""

    scheduler: Scheduler
    start: float
    end: float
    #: How many parts its curve has.
    points: int = POINTS
    slot_seconds: float = 0.0
    jobs: int = 0
    curve: list[tuple[float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler.warehouse.measures = WindowMeasures(self.scheduler, self.start, self.end)

    def pass_to(self, at: float) -> None:
        """Draws the curve as far as time has come."""
        step = (self.end - self.start) / self.points
        while len(self.curve) <= self.points and (point := self.start + len(self.curve) * step) <= at:
            warehouse = self.scheduler.warehouse
            total = fresh = aged = 0.0
            for access, missing, held in zip(warehouse.access, warehouse.missing, warehouse.current_to, strict=True):
                total += access
                fresh += access if missing == math.inf else 0.0
                aged += access * max(0.0, point - held) if held != math.inf else 0.0
            share = fresh / total if total else 1.0
            self.curve.append((point - self.start, share, aged / total if total else 0.0))

    def outcome(self, policy: str, slots: int) -> Outcome:
        self.pass_to(self.end)
        warehouse = self.scheduler.warehouse
        measures = warehouse.measures
        assert isinstance(measures, WindowMeasures)
        for position in range(len(warehouse.graph)):
            measures.moves_on(position, self.end)
        total = math.fsum(warehouse.access)
        weighted = [(position, access / total) for position, access in enumerate(warehouse.access)] if total else []
        length = self.end - self.start
        return Outcome(
            policy=policy,
            slots=slots,
            qod=measures.qod(weighted, self.end),
            weighted_staleness=math.fsum(share * measures.staleness(each) for each, share in weighted) / length,
            worst_stretch=measures.max_stretch,
            limits_breached=len(measures.breached),
            seconds_over_limit=measures.over,
            slot_hours=self.slot_seconds / 3600,
            jobs=self.jobs,
            curve=self.curve,
        )


def what_if(
    database: Database,
    *,
    policy: str | None = None,
    slots: int | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
) -> WhatIf:
    """Plays the log between two times with another policy or number of slots; what is not given stays as it was."""
    if policy is not None and policy not in POLICIES:
        raise WhatIfError(f"there is no policy {policy}; there is {', '.join(POLICIES)}")
    window = _window(database, start, end)
    real, replayed = (memory.at_event(database, window.begin, catalog=window.catalog) for _ in range(2))
    return played(real, replayed, window.events, window.start, window.end, policy=policy, slots=slots)


def recorded(database: Database, start: datetime, end: datetime, *, points: int = POINTS) -> Outcome:
    """What really happened between two times."""
    window = _window(database, start, end)
    scheduler = memory.at_event(database, window.begin, catalog=window.catalog)
    return _as_it_was(scheduler, window.events, window.start, window.end, points=points)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """What was recorded between two times, and the last event before."""

    begin: int
    start: float
    end: float
    catalog: CatalogRow
    events: Sequence[LoggedEvent]


def _window(database: Database, start: datetime | None, end: datetime | None) -> _Window:
    last = checkpoints.last_event_at(database, end)
    first = freshness.events_after(database, 0, limit=1)
    if last is None or not first:
        raise WhatIfError("nothing has been recorded by then")
    end = min(end, datetime.now(UTC)) if end is not None else last[1]
    before = checkpoints.last_event_at(database, start) if start is not None else None
    begin, start = (first[0].id, first[0].at) if before is None or start is None else (before[0], start)
    if end <= start:
        raise WhatIfError(f"nothing was recorded between {start.isoformat()} and {end.isoformat()}")
    catalog = objects.in_force(database, at_event=last[0])
    assert catalog is not None
    events = []
    seen = begin
    while more := freshness.events_after(database, seen, upto=last[0]):
        events += more
        seen = more[-1].id
    return _Window(begin=begin, start=start.timestamp(), end=end.timestamp(), catalog=catalog, events=events)


def played(
    real: Scheduler,
    replayed: Scheduler,
    events: Sequence[LoggedEvent],
    start: float,
    end: float,
    *,
    policy: str | None = None,
    slots: int | None = None,
) -> WhatIf:
    """`real` and `replayed` are the same Scheduler twice, as it was at the start."""
    settings = _settings(real.settings, policy, slots)
    arrivals = sum(event.kind == EventKind.UPDATE_ARRIVED for event in events)
    return WhatIf(
        start=datetime.fromtimestamp(start, UTC),
        end=datetime.fromtimestamp(end, UTC),
        arrivals=arrivals,
        real=_as_it_was(real, events, start, end),
        replayed=_Replay(replayed, events, start, end, settings).outcome(),
    )


def _settings(settings: Mapping[str, Any], policy: str | None, slots: int | None) -> dict[str, Any]:
    found = dict(settings)
    if policy is not None and policy != settings["policy"]["name"]:
        found["policy"] = {"name": policy, "params": {}}
    if slots is not None:
        found["slots"] = slots
        if sum(group["slots"] for group in settings["groups"]) > slots:
            found["groups"] = []
    return found


def _as_it_was(
    scheduler: Scheduler, events: Sequence[LoggedEvent], start: float, end: float, *, points: int = POINTS
) -> Outcome:
    course = Course(scheduler, start, end, points=points)
    begun = dict.fromkeys(scheduler.running, start)
    for event in events:
        at = event.at.timestamp()
        course.pass_to(at)
        name = event.object or ""
        if event.kind == EventKind.JOB_STARTED:
            begun[name] = at
            course.jobs += 1
        elif event.kind in (EventKind.JOB_FINISHED, EventKind.JOB_FAILED) and name in begun:
            course.slot_seconds += at - begun.pop(name)
        scheduler.apply(event)
    course.slot_seconds += sum(end - each for each in begun.values())
    return course.outcome(scheduler.policy_name, int(scheduler.settings["slots"]))


class _Replay:
    """The window once more, with decisions of its own."""

    def __init__(
        self,
        scheduler: Scheduler,
        events: Sequence[LoggedEvent],
        start: float,
        end: float,
        settings: Mapping[str, Any],
    ) -> None:
        self.scheduler, self.warehouse = scheduler, scheduler.warehouse
        self.events, self.start, self.end, self.settings = events, start, end, settings
        self.warehouse.slots = int(settings["slots"])
        self.policy = Slots(settings, scheduler.rows)
        self._costs, ends = self._recorded()
        #: What runs: (end, slot, object).
        self._running: list[tuple[float, int, str]] = []
        for name, job in scheduler.running.items():
            if job.counts:
                cost = self.warehouse.cost(self.warehouse.number(name))
                heapq.heappush(self._running, (ends.get(name, start + cost), job.slot, name))
        taken = {slot for _, slot, _ in self._running}
        self._free = [slot for slot in range(self.warehouse.slots) if slot not in taken]

    def _recorded(self) -> tuple[dict[str, deque[tuple[float, int]]], dict[str, float]]:
        """What each object's jobs took, with how many updates; and when those ended that ran at the start."""
        costs: dict[str, deque[tuple[float, int]]] = defaultdict(deque)
        open_jobs: dict[str, tuple[float, int]] = {}
        ends: dict[str, float] = {}
        for event in self.events:
            name, at = event.object or "", event.at.timestamp()
            if event.kind == EventKind.JOB_STARTED:
                open_jobs[name] = (at, max(len(event.body.get("updates", ())), 1))
            elif event.kind == EventKind.JOB_FINISHED and name in open_jobs:
                began, updates = open_jobs.pop(name)
                costs[name].append((at - began, updates))
            elif event.kind in (EventKind.JOB_FINISHED, EventKind.JOB_FAILED):
                open_jobs.pop(name, None)
                ends.setdefault(name, at)
        return costs, ends

    def outcome(self) -> Outcome:
        course = Course(self.scheduler, self.start, self.end)
        for at, event in self._happenings():
            course.pass_to(at)
            if event is not None:
                self.scheduler.apply(event)
            self._decide(course, at)
        course.slot_seconds -= sum(max(end - self.end, 0.0) for end, _, _ in self._running)
        return course.outcome(str(self.settings["policy"]["name"]), self.warehouse.slots)

    def _happenings(self) -> Iterator[tuple[float, LoggedEvent | None]]:
        """Recorded events that are not decisions, and the ends of jobs decided anew, in order of time."""
        yield self.start, None
        ours = (EventKind.JOB_STARTED, EventKind.JOB_FINISHED, EventKind.JOB_FAILED, EventKind.CATALOG_CHANGED)
        for event in self.events:
            if event.kind in ours:
                continue
            at = event.at.timestamp()
            while self._running and self._running[0][0] <= at:
                yield self._end(), None
            yield at, event
        while self._running and self._running[0][0] <= self.end:
            yield self._end(), None

    def _end(self) -> float:
        at, slot, name = heapq.heappop(self._running)
        if slot < self.warehouse.slots:
            insort(self._free, slot)
        self.warehouse.apply(JobFinished(object=name, at=at))
        return at

    def _decide(self, course: Course, now: float) -> None:
        if self.scheduler.stopped is not None or now > self.end:
            return
        while self._free:
            chosen = self.policy.choose(self.warehouse, now, self._free)
            for choice in chosen:
                position = self.warehouse.number(choice.object)
                expected = self.warehouse.cost(position, choice.updates)
                self.warehouse.apply(JobStarted(object=choice.object, at=now, updates=choice.updates))
                took = self._took(choice.object, len(self.warehouse.running[position].batch) or 1, expected)
                self._free.remove(choice.slot)
                heapq.heappush(self._running, (now + took, choice.slot, choice.object))
                course.jobs += 1
                course.slot_seconds += took
            if not chosen:
                return

    def _took(self, name: str, updates: int, expected: float) -> float:
        recorded = self._costs.get(name)
        if not recorded:
            return max(expected, 0.001)
        seconds, loaded = recorded[0]
        recorded.rotate(-1)
        per_update = self.warehouse.work.per_update[self.warehouse.number(name)]
        return max(seconds + per_update * (updates - loaded), 0.001)
