"""The brain fed from the ledger: log in, freshness changes and decisions out.

Its state is a function of the catalog in force and the log, so a loop that starts anew replays the log and knows what
its predecessor knew. Nothing here touches the database or a clock.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduler_plugin.brain import (
    AccessChanged,
    CostLearnt,
    Event,
    Held,
    JobFailed,
    JobFinished,
    JobStarted,
    LimitChanged,
    Released,
    UpdateArrived,
    Warehouse,
)
from scheduler_plugin.brain.burst import Burst
from scheduler_plugin.brain.costs import CostHistory
from scheduler_plugin.brain.demands import Demand, Demands, Ended
from scheduler_plugin.brain.weighing import Weighed, weigh
from scheduler_plugin.catalog.rows import FIRST_COST, FIRST_COST_PER_UPDATE, declared
from scheduler_plugin.live.changes import Changes
from scheduler_plugin.live.deciding import decide, may_start
from scheduler_plugin.live.holds import FAILING, OLDER, PARENT_BLOCKED, PAUSED, Holds, Override, Trouble, told
from scheduler_plugin.live.slots import Slots
from scheduler_plugin.store.decisions import NewDecision, dag_id
from scheduler_plugin.store.freshness import Change, LoggedEvent
from scheduler_plugin.store.models import EventKind
from scheduler_plugin.store.objects import CatalogRow, ObjectRow

#: The longest pause after failures, in seconds.
LONGEST_PAUSE = 300.0
#: After a job that found no Spark: that it will be back is worth a look every few seconds.
AWAY_PAUSE = 5.0


@dataclass(slots=True)
class Running:
    """An open decision. `counts` is false when the object was defined anew while it ran: its result proves nothing."""

    decision: int
    slot: int
    updates: int
    counts: bool


class Scheduler:
    """Follows the log and says what to start."""

    def __init__(self, catalog: CatalogRow, since: float) -> None:
        self.since = since
        self.settings = catalog.settings
        self.rows: dict[str, ObjectRow] = {row.name: row for row in catalog.objects}
        self.warehouse = Warehouse(declared(catalog), slots=int(catalog.settings["slots"]), since=since)
        self._freshness = Changes(self.warehouse)
        self.policy_name: str = catalog.settings["policy"]["name"]
        self.policy = Slots(catalog.settings, self.rows)
        self.running: dict[str, Running] = {}
        self.troubles: dict[str, Trouble] = {}
        #: Whether the last job that ended found no Spark to run it.
        self.spark_away = False
        self.holds = Holds()
        #: Why nothing at all may start: who paused everything, in words; None when nobody has.
        self.stopped: str | None = None
        self.costs: dict[str, CostHistory] = {}
        #: Object -> "weight" or "limit" -> what holds for a while.
        self.overrides: dict[str, dict[str, Override]] = {}
        #: When the first update ever arrived, by table.
        self.first_arrivals: dict[str, float] = {}
        #: Table -> files of its last batch that went to quarantine, where there are any.
        self.blocked: dict[str, int] = {}
        self._inherited = inherited_limits(catalog)
        self.policy.follow(self.warehouse, since)
        #: Counts bytes that wait, where the catalog has a mark for them.
        self.burst: Burst | None = None
        if catalog.settings.get("burst_bytes"):
            run = {row.name: row.spec.get("reads", ()) for row in catalog.objects if row.materialized}
            self.burst = Burst(run, int(catalog.settings["burst_bytes"]))
        self.demands = Demands()
        #: Demands that ended, with how and when; whoever writes them down empties it.
        self.ended: list[tuple[int, str, datetime]] = []
        #: The queries that were weighed last.
        self._weighed: frozenset[int] = frozenset()
        #: What was read lately, in the order of the clock cache; not from the log, so only for a choice of now.
        self.hot: Sequence[str] = ()
        #: View -> how far its parents had come when it was last run in idle time; not from the log either.
        self.kept_ready: dict[str, float] = {}
        #: The policy of the catalog that the log last told of.
        self.policy_told: Mapping[str, Any] | None = None

    # Following the log ------------------------------------------------------------------------------------------

    def apply(self, logged: LoggedEvent) -> list[Change]:
        """Takes one event in. Returns what changed in the freshness of objects, as of that event."""
        name = logged.object
        self.pass_time(logged.at.timestamp())
        if logged.kind == EventKind.CATALOG_CHANGED:
            self._change_policy(logged)
        if name is None and logged.kind in (EventKind.HELD, EventKind.RELEASED):
            self.stopped = told(logged.body) if logged.kind == EventKind.HELD else None
        if name is None or name not in self.rows:
            return []
        match logged.kind:
            case EventKind.UPDATE_ARRIVED if self.rows[name].kind != "view":
                body = logged.body
                if self.burst is not None:
                    self.burst.arrived(name, body.get("bytes", 0))
                self.first_arrivals.setdefault(name, logged.at.timestamp())
                # All files that arrived together cover the same time, which must count once in the table's staleness.
                self._apply(
                    UpdateArrived(
                        table=name,
                        at=logged.at.timestamp(),
                        start=body["start"],
                        release=body["release"],
                        update=str(body["update"]),
                    )
                )
            case EventKind.JOB_STARTED:
                self._started(name, logged)
            case EventKind.JOB_FINISHED:
                self._finished(name, logged)
            case EventKind.JOB_FAILED:
                self._failed(name, logged)
            case EventKind.HELD:
                self.hold(name, logged.body["by"], logged.at.timestamp(), told(logged.body))
            case EventKind.RELEASED:
                self._release(name, logged.body["by"], logged.at.timestamp())
            case EventKind.ACCESS_LEARNT:
                self._apply(AccessChanged(object=name, at=logged.at.timestamp(), access=logged.body["access"]))
            case EventKind.OVERRIDDEN:
                self._override(name, logged)
            case EventKind.DEMANDED:
                self._demanded(name, logged)
            case EventKind.DEMAND_ENDED:
                end = self.demands.decline if logged.body.get("declined") else self.demands.drop
                end(logged.body["demand"])
        if self.demands.open:
            self._note(self.demands.met(self.warehouse), logged.at)
        return list(self._freshness.below(name, logged.at))

    def _change_policy(self, logged: LoggedEvent) -> None:
        """A policy begins with what waits when it is chosen: FIFO has no queue of what another one has done before."""
        told = logged.body.get("policy", self.policy_told)
        if self.policy_told is not None and told != self.policy_told:
            self.policy = Slots(self.settings, self.rows)
            self.policy.follow(self.warehouse, logged.at.timestamp())
        self.policy_told = told

    def standing(self, at: datetime) -> list[Change]:
        """Every object as it stands."""
        return self._freshness.standing(at)

    def _demanded(self, name: str, logged: LoggedEvent) -> None:
        body = logged.body
        self.demands.add(
            Demand(
                number=body["demand"],
                object=name,
                at=logged.at.timestamp(),
                deadline=math.inf if body["deadline"] is None else body["deadline"],
                by=body["by"],
                why=body["why"],
                run=body["run"],
                query=body.get("query"),
                prefer=body.get("prefer"),
            )
        )

    def weigh(self, now: float) -> Weighed | None:
        """Which of the waiting queries wait for what, once each time one of them has come or gone."""
        if self.demands.waiting == self._weighed:
            return None
        self._weighed = self.demands.waiting
        return weigh(self.demands, self.warehouse, now, may_start(self)) if self._weighed else None

    def _note(self, ended: list[Ended], at: datetime) -> None:
        self.ended += [(each.demand, each.how, at) for each in ended]

    def _started(self, name: str, logged: LoggedEvent) -> None:
        at, updates = logged.at.timestamp(), len(logged.body.get("updates", ()))
        row = self.rows[name]
        counts = bool(updates) if row.kind != "view" else row.materialized and logged.id >= row.defined_at_event
        self.running[name] = Running(
            decision=logged.body["decision"], slot=logged.body["slot"], updates=max(updates, 1), counts=counts
        )
        if counts:
            body = logged.body
            self._apply(
                JobStarted(
                    object=name,
                    at=at,
                    updates=updates or None,
                    current_to=body.get("current_to"),
                    lacks=body.get("lacks"),
                )
            )
            self.demands.job_started(name)
            if self.burst is not None:
                self.burst.started(name, body.get("bytes"))
        else:
            self.hold(name, OLDER, at)

    def _finished(self, name: str, logged: LoggedEvent) -> None:
        at = logged.at.timestamp()
        job = self._ended(name, at)
        if job is None:
            return
        self._apply(JobFinished(object=name, at=at))
        self.demands.job_ended(name)
        if self.burst is not None:
            seconds, written = float(logged.body["slot_seconds"]), int(logged.body.get("bytes_out", 0))
            self.burst.finished(name, seconds=seconds, bytes_out=written)
        self.troubles.pop(name, None)
        self.spark_away = False
        if logged.body.get("quarantined_files"):
            self.blocked[name] = logged.body["quarantined_files"]
        else:
            self.blocked.pop(name, None)
        self._release(name, FAILING, at)
        self._learn_cost(name, at, float(logged.body["slot_seconds"]), job.updates)

    def _ended(self, name: str, at: float) -> Running | None:
        """The job that ended; None when its result proves nothing."""
        job = self.running.pop(name, None)
        if job is None or job.counts:
            return job
        self._release(name, OLDER, at)
        return None

    def _failed(self, name: str, logged: LoggedEvent) -> None:
        at = logged.at.timestamp()
        job = self._ended(name, at)
        if job is None:
            return
        self._apply(JobFailed(object=name, at=at))
        self._note(self.demands.job_ended(name, failed=True), logged.at)
        if self.burst is not None:
            self.burst.failed(name)
        self.spark_away = bool(logged.body.get("away"))
        failures = self.troubles[name].failures if name in self.troubles else 0
        if self.spark_away:
            pause = AWAY_PAUSE
        else:
            failures += 1
            pause = min(2.0**failures, LONGEST_PAUSE)
        self.troubles[name] = Trouble(failures=failures, at=at, until=at + pause)
        self.hold(name, FAILING, at)

    def _learn_cost(self, name: str, at: float, slot_seconds: float, updates: int) -> None:
        learnt = self.costs.setdefault(name, unknown_cost())
        is_table = self.rows[name].kind == "table"
        learnt.observe(slot_seconds, updates if is_table else 0)
        self._apply(
            CostLearnt(object=name, at=at, cost=learnt.fixed, per_update=learnt.per_update if is_table else None)
        )

    def _override(self, name: str, logged: LoggedEvent) -> None:
        body, at = logged.body, logged.at.timestamp()
        kept = self.overrides.setdefault(name, {})
        before = self.weight(name)
        if body["value"] is None:
            kept.pop(body["what"], None)
        else:
            kept[body["what"]] = Override(body["value"], body["until"], body["by"], body["why"])
        if not kept:
            del self.overrides[name]
        self._reweigh(name, before, at)
        self.tell_limit(name, at)

    def tell_limit(self, name: str, at: float) -> None:
        """Tells the brain the limit that somebody set for a while, or the catalog's."""
        override = self.overrides.get(name, {}).get("limit")
        limit = override.value if override else self.rows[name].spec["staleness_limit"]
        if self.warehouse.limits.get(self.warehouse.number(name)) != limit:
            self._apply(LimitChanged(object=name, at=at, limit=limit))

    def _reweigh(self, name: str, before: float, at: float) -> None:
        """Popularity is reads times weight."""
        after = self.weight(name)
        if after != before:
            access = self.warehouse.access[self.warehouse.number(name)] * after / before
            self._apply(AccessChanged(object=name, at=at, access=access))

    def pass_time(self, now: float) -> None:
        """Ends the pauses after failures and the overrides whose time is over."""
        for name, trouble in self.troubles.items():
            if trouble.until <= now:
                self._release(name, FAILING, now)
        for name, kept in list(self.overrides.items()):
            before = self.weight(name)
            for what in [what for what, each in kept.items() if each.until is not None and each.until <= now]:
                del kept[what]
            if not kept:
                del self.overrides[name]
            self._reweigh(name, before, now)
            self.tell_limit(name, now)

    def weight(self, name: str) -> float:
        """How much an object's readers matter, as it stands."""
        override = self.overrides.get(name, {}).get("weight")
        return override.value if override else float(self.rows[name].spec["weight"])

    def limit(self, name: str) -> float | None:
        """How stale it may become: as somebody set for a while, by the catalog, or as what depends on it needs."""
        override = self.overrides.get(name, {}).get("limit")
        return override.value if override else self._inherited.get(name)

    def hold(self, name: str, reason: str, at: float, told: str = "") -> None:
        """For one more reason no job may start on the object."""
        if self.holds.add(name, reason, told):
            self._apply(Held(object=name, at=at))

    def _release(self, name: str, reason: str, at: float) -> None:
        if self.holds.drop(name, reason):
            self._apply(Released(object=name, at=at))

    def _apply(self, event: Event) -> None:
        self.warehouse.apply(event)

    # Deciding ---------------------------------------------------------------------------------------------------

    def choose(self, now: float) -> list[NewDecision]:
        """What to start now. Changes nothing but for the pauses that are over: the log tells when it has happened."""
        # A clock that jumped back does not undo what the log says has happened.
        now = max(now, self.warehouse.now)
        self.pass_time(now)
        return [] if self.stopped is not None else decide(self, now)

    def time_limit(self, name: str) -> float:
        """Seconds after which a job on the object is taken to hang."""
        waiting = self.warehouse.updates.pending.get(self.warehouse.number(name), ())
        return self.costs.get(name, unknown_cost()).time_limit(len(waiting))

    def accesses(self, per_minute: Mapping[str, float], prior_share: float) -> dict[str, float]:
        """How popular each object is taken to be, where that has changed by a tenth or more.

        What the catalog said counts for `prior_share`, which fades as reads are counted.
        """
        changed = {}
        for name, row in self.rows.items():
            if row.kind == "backfill":  # nobody reads it; what it is worth is what somebody said
                continue
            rate = float(row.spec["access"]) * prior_share + per_minute.get(name, 0.0)
            access = rate * self.weight(name)
            before = self.warehouse.access[self.warehouse.number(name)]
            if abs(access - before) > 0.1 * max(before, 1e-3):
                changed[name] = access
        return changed

    def to_hold(self, paused: Collection[str]) -> tuple[list[str], list[str]]:
        """Objects whose DAGs were paused, and resumed, since the log last said so."""
        return self._held_and_not(PAUSED, {name for name, row in self.rows.items() if dag_id(name, row.kind) in paused})

    def to_hold_above(self, blocked: Collection[str]) -> tuple[list[str], list[str]]:
        """Views that do not want to be refreshed while a table below has files in quarantine, and those that may."""
        return self._held_and_not(
            PARENT_BLOCKED, {name for name in self.waits_for_tables if self._below(name, blocked)}
        )

    @property
    def waits_for_tables(self) -> list[str]:
        return [name for name, row in self.rows.items() if row.spec.get("when_parent_blocked") == "hold"]

    def _below(self, name: str, tables: Collection[str]) -> bool:
        return name in tables or any(self._below(each, tables) for each in self.rows[name].parents if each in self.rows)

    def _held_and_not(self, reason: str, wanted: set[str]) -> tuple[list[str], list[str]]:
        held = {name for name, reasons in self.holds.reasons.items() if reason in reasons}
        return sorted(wanted - held), sorted(held - wanted)


def unknown_cost() -> CostHistory:
    """What is assumed of a job until the first one has been measured."""
    return CostHistory(fixed=FIRST_COST, per_update=FIRST_COST_PER_UPDATE)


def inherited_limits(catalog: CatalogRow) -> dict[str, float]:
    """Each object's staleness limit; a view without one of its own has the tightest of what depends on it."""
    limits = {row.name: row.spec["staleness_limit"] for row in catalog.objects}
    tightest = {name: math.inf if limit is None else float(limit) for name, limit in limits.items()}
    rows = {row.name: row for row in catalog.objects}
    ahead = [name for name in rows if tightest[name] != math.inf]
    while ahead:
        child = ahead.pop()
        for parent in rows[child].parents:
            inherits = parent in rows and rows[parent].kind == "view" and limits[parent] is None
            if inherits and tightest[child] < tightest[parent]:
                tightest[parent] = tightest[child]
                ahead.append(parent)
    return {name: limit for name, limit in tightest.items() if limit != math.inf}
