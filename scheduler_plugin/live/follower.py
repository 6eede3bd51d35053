"""The brain in a process that does not decide: it follows the log as the loop does, and can be asked.

What the loop knows is a function of the catalog in force and the log, so a follower that has read as far knows the
same: ranks, impacts and reasons on the page are the policy's own, never a second opinion.
"""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from scheduler_plugin.brain import Explanation
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.store import freshness, objects
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import EventKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the brain makes of one object now."""

    #: None while it is fresh, or virtual: there is nothing to lose by waiting.
    impact: float | None
    #: 1 is next; None when it cannot start now.
    rank: int | None
    dirty: int
    popularity: float
    #: Expected slot-seconds of its next job.
    cost: float
    level: int
    #: Why it may not start although it is stale.
    held: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the brain makes of the whole."""

    objects: Mapping[str, Figures]
    #: Expected slot-seconds to make everything fresh.
    backlog: float
    slots: int
    policy: str


class Follower:
    """One for each process; calls from several threads take turns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        self._seen = 0

    @contextmanager
    def caught_up(self, now: float) -> Iterator[Scheduler | None]:
        """The scheduler with everything logged so far taken in; None before any catalog is in force."""
        with self._lock:
            try:
                self._follow()
                if self._scheduler is not None:
                    # Also ends the pauses after failures that are over; what it would start is the loop's business.
                    self._scheduler.choose(now)
                yield self._scheduler
            except BaseException:
                self._scheduler = None
                raise

    def look(self, now: float) -> Outlook:
        """What the brain makes of every object."""
        with self.caught_up(now) as scheduler:
            if scheduler is None:
                return Outlook(objects={}, backlog=0.0, slots=0, policy="")
            warehouse, policy = scheduler.warehouse, scheduler.policy
            ranks = {each.object: rank for rank, each in enumerate(policy.candidates(warehouse, now), start=1)}
            found = {}
            for position, name in enumerate(warehouse.graph.names):
                wants = not warehouse.is_fresh(name) and not warehouse.graph.virtual[position]
                impact = policy.impact(warehouse, position, now) if wants else None
                found[name] = Figures(
                    impact=impact if impact is not None and math.isfinite(impact) else None,
                    rank=ranks.get(name),
                    dirty=warehouse.dirty(position),
                    popularity=warehouse.popularity(position),
                    cost=warehouse.cost(position),
                    level=warehouse.graph.level[position],
                    held=sorted(scheduler.holds.reasons.get(name, ())),
                )
            return Outlook(
                objects=found, backlog=warehouse.backlog, slots=warehouse.slots, policy=scheduler.policy_name
            )

    def explain(self, name: str, now: float) -> Explanation | None:
        """Why the object is, or is not, next."""
        with self.caught_up(now) as scheduler:
            if scheduler is None or name not in scheduler.rows:
                return None
            return scheduler.policy.explain(scheduler.warehouse, now, name)

    def _follow(self) -> None:
        while events := freshness.events_after(self._database, self._seen):
            if self._scheduler is None or any(each.kind == EventKind.CATALOG_CHANGED for each in events):
                self._begin_anew()
                if self._scheduler is None:
                    return
                continue
            for event in events:
                self._scheduler.apply(event)
            self._seen = events[-1].id

    def _begin_anew(self) -> None:
        """The catalog in force with the log from its beginning: what was defined anew begins with its definition."""
        catalog = objects.in_force(self._database)
        first = freshness.events_after(self._database, 0, limit=1)
        if catalog is None or not first:
            return
        scheduler = Scheduler(catalog, since=first[0].at.timestamp())
        seen = 0
        while events := freshness.events_after(self._database, seen):
            for event in events:
                scheduler.apply(event)
            seen = events[-1].id
        self._scheduler, self._seen = scheduler, seen
