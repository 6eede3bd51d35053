"""The brain in a process that does not decide: it follows the log as the loop does, and can be asked.

What the loop knows is a function of the catalog in force and the log, so a follower that has read as far knows the
same: ranks, impacts and reasons on the page are the policy's own, never a second opinion.
"""

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduler_plugin.brain import Warehouse
from scheduler_plugin.live import memory
from scheduler_plugin.live.explain import ObjectExplanation, explained
from scheduler_plugin.live.holds import Override
from scheduler_plugin.live.outlook import expected_turns
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.store import checkpoints, freshness
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import EventKind

#: Playing the queue forward costs more than a look; for so long a prediction stands.
PREDICT_SECONDS = 3.0
#: And for so many times as long as it took to make.
PREDICT_TIMES = 20.0
#: For so long an explanation looks ahead: others wait for it.
EXPLAIN_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the brain makes of one object now."""

    #: None for what cannot start now; `explain` says what it would be.
    impact: float | None
    #: 1 is next of its group; None when it cannot start now.
    rank: int | None
    dirty: int
    popularity: float
    #: Expected slot-seconds of its next job.
    cost: float
    level: int
    #: The most it should be behind, with what somebody has set for a while; in seconds.
    limit: float | None
    #: Why it may not start although it is stale.
    held: Sequence[str]
    #: When its next job will probably start, and when it will be fresh, if nothing new arrives; None when that is not
    #: foreseeable.
    starts_at: float | None
    fresh_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What the brain makes of the whole."""

    objects: Mapping[str, Figures]
    #: Expected slot-seconds to make everything fresh; None while nobody has reckoned it.
    backlog: float | None
    slots: int
    policy: str


class Explained(NamedTuple):
    """Everything the brain has to say of one object."""

    turn: ObjectExplanation
    #: "weight" or "limit" -> what holds for a while.
    overrides: Mapping[str, Override]


class Follower:
    """One for each process; calls from several threads take turns."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._scheduler: Scheduler | None = None
        self._seen = 0
        self._predict_again = -math.inf
        self._starts_at: Mapping[str, float] = {}
        self._fresh_at: Mapping[str, float] = {}

    @property
    def ready(self) -> bool:
        """Whether it has read the log; before that, the first question waits for it."""
        return self._scheduler is not None

    @contextmanager
    def caught_up(self, now: float, *, patience: float = -1) -> Iterator[Scheduler | None]:
        """The scheduler with everything logged so far taken in.

        None before any catalog is in force, and when others have been at it for longer than `patience` seconds.
        """
        if not self._lock.acquire(timeout=patience):
            yield None
            return
        with ExitStack() as at_end:
            at_end.callback(self._lock.release)
            try:
                self._follow()
                if self._scheduler is not None:
                    self._scheduler.pass_time(now)
                yield self._scheduler
            except LookupError:
                raise  # a question that has no answer; what is known is sound
            except BaseException:
                self._scheduler = None
                raise

    def look(self, now: float) -> Outlook:
        """What the brain makes of every object."""
        with self.caught_up(now) as scheduler:
            if scheduler is None:
                return Outlook(objects={}, backlog=0.0, slots=0, policy="")
            began = time.monotonic()
            if began > self._predict_again:
                self._starts_at, self._fresh_at = expected_turns(scheduler, now)
                took = time.monotonic() - began
                self._predict_again = time.monotonic() + max(PREDICT_SECONDS, PREDICT_TIMES * took)
            return self._outlook(scheduler, now)

    def explain(self, name: str, now: float, *, patience: float = -1) -> Explained | None:
        """Why the object is, or is not, next, and what somebody has set for it for a while."""
        with self.caught_up(now, patience=patience) as scheduler:
            if scheduler is None or name not in scheduler.rows:
                return None
            turn = explained(scheduler, name, now, most_seconds=EXPLAIN_SECONDS)
            return Explained(turn, dict(scheduler.overrides.get(name, {})))

    def _outlook(self, scheduler: Scheduler, now: float) -> Outlook:
        warehouse = scheduler.warehouse
        ranks: dict[str, int] = {}
        impacts: dict[str, float] = {}
        for share in scheduler.policy.shares:
            found = share.policy.candidates(warehouse, now)
            ranks |= {each.object: rank for rank, each in enumerate(found, start=1)}
            impacts |= {each.object: each.impact for each in found if math.isfinite(each.impact)}
        dirty, popular = dirty_counters(warehouse), popularities(warehouse)
        figures = {}
        for position, name in enumerate(warehouse.graph.names):
            fresh = warehouse.is_fresh(name)
            reasons = scheduler.holds.reasons.get(name, {})
            figures[name] = Figures(
                impact=impacts.get(name),
                rank=ranks.get(name),
                dirty=dirty[position],
                popularity=popular[position],
                cost=warehouse.cost(position),
                level=warehouse.graph.level[position],
                limit=scheduler.limit(name),
                held=[f"{reason} {told}".strip() for reason, told in sorted(reasons.items())],
                starts_at=None if fresh or name in scheduler.running else self._starts_at.get(name),
                fresh_at=None if fresh else self._fresh_at.get(name),
            )
        return Outlook(
            objects=figures, backlog=warehouse.work.backlog, slots=warehouse.slots, policy=scheduler.policy_name
        )

    def _follow(self) -> None:
        if self._scheduler is None:
            last = checkpoints.last_event_at(self._database, None)
            if last is None:
                return
            try:
                # From the newest checkpoint on: reading the whole log would take as long as the log is.
                self._scheduler = memory.at_event(self._database, last[0])
            except memory.NoLogError:
                return
            self._seen = last[0]
        while events := freshness.events_after(self._database, self._seen):
            if any(each.kind == EventKind.CATALOG_CHANGED for each in events):
                self._scheduler = memory.at_event(self._database, events[-1].id)
            else:
                for event in events:
                    self._scheduler.apply(event)
            self._seen = events[-1].id


def dirty_counters(warehouse: Warehouse) -> list[int]:
    """The dirty counter of every object at once: a set of stale ancestors is a number with a bit for each."""
    graph = warehouse.graph
    above = [0] * len(graph)
    for position in graph.order:
        for parent in graph.parents[position]:
            above[position] |= above[parent]
            if warehouse.missing[parent] != math.inf:
                above[position] |= 1 << parent
    return [each.bit_count() for each in above]


def popularities(warehouse: Warehouse) -> list[float]:
    """The popularity of every object at once, descendants as bits like the ancestors above."""
    graph = warehouse.graph
    access = np.array(warehouse.access)
    below = [1 << position for position in range(len(graph))]
    for position in reversed(graph.order):
        for child in graph.children[position]:
            below[position] |= below[child]
    size = (len(graph) + 7) // 8
    found = []
    for each in below:
        bits = np.unpackbits(np.frombuffer(each.to_bytes(size, "little"), np.uint8), bitorder="little")
        found.append(float(access @ bits[: len(graph)]))
    return found
