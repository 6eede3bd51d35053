"""The warehouse's state: what each object holds, what it lacks, and what runs. Changed only by `apply`.

Freshness is kept with one number per object: when the earliest update arrived that the object does not hold
(`missing`, infinite while fresh). A refresh copies the smallest `missing` of its parents when it starts and publishes
it when it ends; an arrival lowers it, also in the copy of a refresh under way, so that what arrives during a refresh
leaves the view stale. A stale object has only stale descendants, which is why marking can stop at an object that is
stale already, and why the stale ancestors of an object (its dirty counter, paper 004, section 4.3) are found by
walking up through stale parents alone.

>>> from scheduler_plugin.brain import JobFinished, JobStarted, Table, UpdateArrived, View
>>> warehouse = Warehouse([Table(name="r"), View(name="v", parents=("r",), cost=3)])
>>> warehouse.apply(UpdateArrived(table="r", at=1.0))
>>> warehouse.apply(JobStarted(object="r", at=1.0)); warehouse.apply(JobFinished(object="r", at=2.0))
>>> warehouse.apply(JobStarted(object="v", at=2.0))
>>> warehouse.apply(UpdateArrived(table="r", at=4.0))
>>> warehouse.apply(JobFinished(object="v", at=5.0))
>>> warehouse.is_fresh("v"), warehouse.staleness("v", now=5.0)
(False, 4.0)
"""

import math
import weakref
from array import array
from collections.abc import Callable, Iterable
from typing import Any

from scheduler_plugin.brain import events
from scheduler_plugin.brain.graph import Graph
from scheduler_plugin.brain.measures import Measures
from scheduler_plugin.brain.objects import Declared, Table
from scheduler_plugin.brain.popularity import Popularity
from scheduler_plugin.brain.updates import Update, Updates
from scheduler_plugin.brain.work import Work


class IllegalMove(ValueError):
    """An event that cannot follow what happened before; the message tells the object's story."""


class Job:
    """A running job and what it read when it started."""

    __slots__ = ("batch", "current_to", "missing", "started", "stretch")

    def __init__(
        self,
        *,
        started: float,
        missing: float,
        current_to: float,
        batch: tuple[Update, ...] = (),
        stretch: float = 0.0,
    ) -> None:
        self.started = started
        #: The earliest arrival that its result will lack; lowered by arrivals while it runs.
        self.missing = missing
        self.current_to = current_to
        self.batch = batch
        #: The worst stretch that a load's updates will have when it ends as expected.
        self.stretch = stretch


class Watch:
    """What a policy should look at again: objects that may start and whose rank may have changed."""

    __slots__ = ("__weakref__", "events", "touched")

    def __init__(self, touched: Iterable[int], with_events: bool) -> None:
        self.touched: list[int] = list(touched)
        #: What was applied since, for a policy that follows each update; None when it does not ask.
        self.events: list[events.Event] | None = [] if with_events else None


class Warehouse:
    """Objects by number (`graph.index[name]`), their state, and the one door through which it changes."""

    def __init__(
        self,
        objects: Iterable[Declared],
        *,
        slots: int = 1,
        since: float = 0.0,
        until: float = math.inf,
    ) -> None:
        declared = list(objects)
        self.graph = Graph(declared)
        self.slots = slots
        self.now = since
        count = len(declared)
        self.access = array("d", (each.access for each in declared))
        self.weight = array("d", (each.weight if isinstance(each, Table) else 0.0 for each in declared))
        self.periods: dict[int, float] = {
            position: each.period
            for position, each in enumerate(declared)
            if isinstance(each, Table) and each.period is not None
        }
        #: How stale an object may become, of those of which somebody has said so.
        self.limits: dict[int, float] = {
            position: each.limit for position, each in enumerate(declared) if each.limit is not None
        }
        #: When the earliest update arrived that the object does not hold; infinite while it is fresh.
        self.missing = array("d", [math.inf]) * count
        #: Since when the object, or anything derived from it, has been stale without a break; infinite while fresh.
        #: All that derives from a stale object stays stale as long as it does, so this is settled when it turns stale.
        self.behind = array("d", [math.inf]) * count
        #: The time the object is current up to; infinite for a view of nothing.
        self.current_to = array("d", [since]) * count
        for position in self.graph.order:
            if not self.graph.tables[position]:
                parents = self.graph.parents[position]
                self.current_to[position] = min((self.current_to[each] for each in parents), default=math.inf)
        #: Stale direct parents; an object with none may start.
        self.stale_parents = array("i", [0]) * count
        self.updates = Updates()
        self.work = Work(declared, self.graph)
        self.running: dict[int, Job] = {}
        self.held: set[int] = set()
        #: Stale, idle, not held, nothing stale above: what may start now.
        self.ready: set[int] = set()
        self.measures = Measures(current_to=self.current_to, tables=self.graph.tables, since=since, until=until)
        self._popularity = Popularity(self.graph, self.access)
        self._watches: list[weakref.ref[Watch]] = []
        self._moves: dict[type, Callable[[Any], None]] = {
            events.UpdateArrived: self._update_arrived,
            events.JobStarted: self._job_started,
            events.JobFinished: self._job_finished,
            events.JobFailed: self._job_failed,
            events.CostLearnt: self._cost_learnt,
            events.AccessChanged: self._access_changed,
            events.LimitChanged: self._limit_changed,
            events.Held: self._was_held,
            events.Released: self._was_released,
        }

    def apply(self, event: events.Event) -> None:
        """Takes in what happened. An event told late counts from the latest time already known."""
        if event.at > self.now:
            self.now = event.at
        self._moves[type(event)](event)
        for each in self._watches:
            watch = each()
            if watch is not None and watch.events is not None:
                watch.events.append(event)

    # What can be asked. By name for people, by number for policies.

    def number(self, name: str) -> int:
        if name not in self.graph.index:
            raise IllegalMove(f"there is no object {name} in this warehouse")
        return self.graph.index[name]

    def is_fresh(self, name: str) -> bool:
        """Whether the object holds every update that arrived for any of its ancestors."""
        return self.missing[self.number(name)] == math.inf

    def staleness(self, name: str, now: float) -> float:
        """Seconds between the time the object is current up to and now; 0 for a view of nothing."""
        return max(0.0, now - self.current_to[self.number(name)])

    def dirty_ancestors(self, name: str) -> list[str]:
        """The stale ancestors of an object, in declaration order."""
        return [self.graph.names[each] for each in sorted(self._stale_above(self.number(name)))]

    def dirty(self, position: int) -> int:
        """The dirty counter: how many ancestors are stale."""
        return len(self._stale_above(position))

    def _stale_above(self, position: int) -> list[int]:
        seen = {position}
        above = [position]
        for here in above:  # grows while it is read
            if self.stale_parents[here]:
                for parent in self.graph.parents[here]:
                    if self.missing[parent] != math.inf and parent not in seen:
                        seen.add(parent)
                        above.append(parent)
        return above[1:]

    def popularity(self, position: int) -> float:
        """The object's access and its descendants', each counted once."""
        return self._popularity.of(position)

    def cost(self, position: int, updates: int | None = None) -> float:
        """Slot-seconds of the object's next job; for a table, with all its pending updates or the first few."""
        waiting = self.updates.pending.get(position)
        if not waiting:
            return self.work.fixed[position]
        if updates is None or updates >= len(waiting):
            return self.work.cost(position, len(waiting), self.updates.length[position])
        return self.work.cost(position, updates, sum(waiting[each].length for each in range(updates)))

    def cost_of(self, position: int, job: Job) -> float:
        """Slot-seconds that a job under way takes in all, by what is known now."""
        return self.work.cost(position, len(job.batch), sum(update.length for update in job.batch))

    def watch(self, *, with_events: bool = False) -> Watch:
        """Follows what a ranking must look at again; begins with everything that may start. Ends with the object."""
        watch = Watch(sorted(self.ready), with_events)
        self._watches = [each for each in self._watches if each() is not None]
        self._watches.append(weakref.ref(watch))
        return watch

    # What each event does.

    def _update_arrived(self, event: events.UpdateArrived) -> None:
        table = self._table(event.table)
        at = self.now
        release = event.at if event.release is None else event.release
        known_to = self.updates.newest.get(table, self.current_to[table])
        start = known_to if event.start is None else event.start
        update = Update(start, release, at, event.update)
        self.updates.arrived(table, update)
        self._weigh(table)
        self.measures.arrived(update)
        if self.missing[table] == math.inf:
            self._turn_stale(table, at)
        self._settle(table)

    def _job_started(self, event: events.JobStarted) -> None:
        position = self.number(event.object)
        if position in self.running:
            raise IllegalMove(f"{event.object} cannot start at {event.at:g}: it is running. {self.story(position)}")
        if self.graph.virtual[position]:
            raise IllegalMove(f"{event.object} cannot start at {event.at:g}: it is virtual and never runs")
        if self.graph.tables[position]:
            job = self._take_batch(position, event)
        else:
            parents = self.graph.parents[position]
            job = Job(
                started=self.now,
                missing=min((self.missing[each] for each in parents), default=math.inf),
                current_to=min((self.current_to[each] for each in parents), default=math.inf),
            )
            if event.lacks is not None:
                job.missing = min(job.missing, event.lacks)
            if event.current_to is not None:
                job.current_to = min(job.current_to, event.current_to)
        self.running[position] = job
        self.ready.discard(position)

    def _take_batch(self, table: int, event: events.JobStarted) -> Job:
        waiting = self.updates.pending.get(table)
        if not waiting:
            raise IllegalMove(f"{event.object} cannot start at {event.at:g}: nothing is pending. {self.story(table)}")
        taken = len(waiting) if event.updates is None else min(event.updates, len(waiting))
        if taken < 1:
            raise IllegalMove(f"{event.object} cannot start with {taken} updates; a batch has at least one")
        ends = self.now + self.cost(table, taken)
        batch = self.updates.take(table, taken)
        self._weigh(table)
        return Job(
            started=self.now,
            missing=math.inf,
            current_to=max(self.current_to[table], *(update.release for update in batch)),
            batch=batch,
            stretch=max(update.stretch(ends) for update in batch),
        )

    def _job_finished(self, event: events.JobFinished) -> None:
        position, job = self._ended(event)
        at = self.now
        if job.current_to != self.current_to[position]:
            self.measures.moves_on(position, at)
            self.current_to[position] = job.current_to
        if self.graph.tables[position]:
            waiting = self.updates.pending.get(position)
            missing = waiting[0].at if waiting else math.inf
            self.measures.loaded(job.batch, at)
        else:
            missing = job.missing
        if missing != math.inf:
            self.missing[position] = missing
        elif self.missing[position] != math.inf:
            self._turn_fresh(position, at)
        self._tell_virtual_children(position, at)
        self._settle(position)

    def _job_failed(self, event: events.JobFailed) -> None:
        position, job = self._ended(event)
        if job.batch:
            self.updates.give_back(position, job.batch)
            self._weigh(position)
        self._settle(position)

    def _ended(self, event: events.JobFinished | events.JobFailed) -> tuple[int, Job]:
        position = self.number(event.object)
        job = self.running.pop(position, None)
        if job is None:
            raise IllegalMove(f"no job of {event.object} can end at {event.at:g}: none runs. {self.story(position)}")
        return position, job

    def _cost_learnt(self, event: events.CostLearnt) -> None:
        position = self.number(event.object)
        if event.cost is not None and not self.graph.virtual[position]:
            self.work.learnt(position, event.cost, is_stale=self.missing[position] != math.inf)
        if event.per_update is not None:
            self.work.per_update[position] = event.per_update
        if event.per_length is not None:
            self.work.per_length[position] = event.per_length
        self._weigh(position)
        self._settle(position)

    def _weigh(self, table: int) -> None:
        """Counts in the backlog what the table's pending updates cost now."""
        self.work.waits(table, len(self.updates.pending.get(table, ())), self.updates.length.get(table, 0.0))

    def _access_changed(self, event: events.AccessChanged) -> None:
        position = self.number(event.object)
        self.access[position] = event.access
        for each in (position, *self.graph.ancestors(position)):
            self._popularity.forget(each)
            self._settle(each)

    def _limit_changed(self, event: events.LimitChanged) -> None:
        position = self.number(event.object)
        if event.limit is None:
            self.limits.pop(position, None)
        else:
            self.limits[position] = event.limit

    def _was_held(self, event: events.Held) -> None:
        position = self.number(event.object)
        self.held.add(position)
        self._settle(position)

    def _was_released(self, event: events.Released) -> None:
        position = self.number(event.object)
        self.held.discard(position)
        self._settle(position)

    # How freshness spreads.

    def _turn_stale(self, first: int, at: float) -> None:
        """Marks a fresh object and its fresh descendants stale; what is stale already has only stale descendants."""
        missing, behind, stale_parents, running = self.missing, self.behind, self.stale_parents, self.running
        missing[first] = behind[first] = at
        turned = [first]
        met: list[tuple[int, float]] = []
        while turned:
            parent = turned.pop()
            self.work.turned_stale(parent)
            self.measures.turned_stale(parent, at)
            for child in self.graph.children[parent]:
                stale_parents[child] += 1
                self.ready.discard(child)
                job = running.get(child)
                if job is not None and job.missing == math.inf:
                    job.missing = at
                if missing[child] == math.inf:
                    missing[child] = behind[child] = at
                    turned.append(child)
                elif behind[child] < at:
                    met.append((parent, behind[child]))
        for parent, since in met:
            self._has_waited(parent, since)

    def _has_waited(self, first: int, since: float) -> None:
        """Something derived from the object has been stale since then; what stands above it is told too."""
        told = [first]
        while told:
            here = told.pop()
            if since < self.behind[here]:
                self.behind[here] = since
                told.extend(parent for parent in self.graph.parents[here] if self.missing[parent] != math.inf)

    def _turn_fresh(self, first: int, at: float) -> None:
        """Marks an object fresh, and with it the virtual views whose parents are now all fresh."""
        turned = [first]
        while turned:
            parent = turned.pop()
            self.missing[parent] = self.behind[parent] = math.inf
            self.work.turned_fresh(parent)
            self.measures.turned_fresh(parent, at)
            for child in self.graph.children[parent]:
                self.stale_parents[child] -= 1
                if not self.stale_parents[child]:
                    if self.graph.virtual[child]:
                        turned.append(child)
                    else:
                        self._settle(child)

    def _tell_virtual_children(self, first: int, at: float) -> None:
        """A virtual view holds what its parents hold, at once."""
        told = [first]
        while told:
            for child in self.graph.children[told.pop()]:
                if self.graph.virtual[child]:
                    parents = self.graph.parents[child]
                    current_to = min(self.current_to[each] for each in parents)
                    if current_to != self.current_to[child]:
                        self.measures.moves_on(child, at)
                        self.current_to[child] = current_to
                    self.missing[child] = min(self.missing[each] for each in parents)
                    told.append(child)

    def _settle(self, position: int) -> None:
        """Decides again whether an object may start, and tells the rankings."""
        if (
            self.missing[position] != math.inf
            and not self.stale_parents[position]
            and position not in self.running
            and position not in self.held
            and not self.graph.virtual[position]
        ):
            self.ready.add(position)
            for each in self._watches:
                watch = each()
                if watch is not None:
                    watch.touched.append(position)
        else:
            self.ready.discard(position)

    # Words.

    def _table(self, name: str) -> int:
        position = self.number(name)
        if not self.graph.tables[position]:
            raise IllegalMove(f"an update cannot arrive for {name}: it is a view; updates arrive for tables")
        return position

    def story(self, position: int) -> str:
        """Where an object stands, in one line, for messages."""
        name = self.graph.names[position]
        words = [f"current to {self.current_to[position]:g}"]
        if self.missing[position] != math.inf:
            words.append(f"lacks what arrived at {self.missing[position]:g}")
        else:
            words.append("fresh")
        if position in self.updates.pending:
            words.append(f"{len(self.updates.pending[position])} updates pending")
        if position in self.running:
            words.append(f"running since {self.running[position].started:g}")
        if position in self.held:
            words.append("held")
        return f"{name}: {', '.join(words)}"
