"""The brain fed from the ledger: log in, freshness changes and decisions out.

Its state is a function of the catalog in force and the log, so a loop that starts anew replays the log and knows what
its predecessor knew. Nothing here touches the database or a clock.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from scheduler_plugin.brain import (
    POLICIES,
    AccessChanged,
    CostLearnt,
    Event,
    Held,
    JobFailed,
    JobFinished,
    JobStarted,
    Policy,
    Released,
    UpdateArrived,
    Warehouse,
)
from scheduler_plugin.brain.demands import Demand, Demands, Ended
from scheduler_plugin.catalog.rows import declared
from scheduler_plugin.store.decisions import NewDecision, dag_id
from scheduler_plugin.store.freshness import Change, LoggedEvent
from scheduler_plugin.store.models import EventKind
from scheduler_plugin.store.objects import CatalogRow, ObjectRow

#: How far the newest observation moves a learnt cost.
LEARNING = 0.3
#: The longest pause after failures, in seconds.
LONGEST_PAUSE = 300.0
#: How many of the candidates that were passed over go into a decision's row.
PASSED_OVER = 8


@dataclass(slots=True)
class Running:
    """An open decision. `counts` is false when the object was defined anew while it ran: its result proves nothing."""

    decision: int
    slot: int
    updates: int
    counts: bool


@dataclass(slots=True)
class Trouble:
    """An object whose jobs keep failing: it waits, longer each time."""

    failures: int
    #: When the last one failed.
    at: float
    until: float


@dataclass(slots=True)
class Holds:
    """Why an object may not start; it may when no reason is left."""

    reasons: dict[str, set[str]] = field(default_factory=dict)

    def add(self, name: str, reason: str) -> bool:
        """True when it is the first reason."""
        kept = self.reasons.setdefault(name, set())
        kept.add(reason)
        return len(kept) == 1

    def drop(self, name: str, reason: str) -> bool:
        """True when it was the last reason."""
        kept = self.reasons.get(name, set())
        if reason not in kept:
            return False
        kept.discard(reason)
        if not kept:
            del self.reasons[name]
        return not kept


class Scheduler:
    """Follows the log and says what to start."""

    def __init__(self, catalog: CatalogRow, since: float) -> None:
        self.since = since
        self.rows: dict[str, ObjectRow] = {row.name: row for row in catalog.objects}
        self.warehouse = Warehouse(declared(catalog), slots=int(catalog.settings["slots"]), since=since)
        self.policy_name: str = catalog.settings["policy"]["name"]
        params = {name: str(value) for name, value in catalog.settings["policy"]["params"].items()}
        self.policy: Policy = POLICIES[self.policy_name](params)
        self.running: dict[str, Running] = {}
        self.troubles: dict[str, Trouble] = {}
        self.holds = Holds()
        self.demands = Demands()
        #: Demands that ended, with how and when; whoever writes them down empties it.
        self.ended: list[tuple[int, str, datetime]] = []
        self._told: dict[str, tuple[bool, float]] = {}

    # Following the log ------------------------------------------------------------------------------------------

    def apply(self, logged: LoggedEvent) -> list[Change]:
        """Takes one event in. Returns what changed in the freshness of objects, as of that event."""
        name = logged.object
        if name is None or name not in self.rows:
            return []
        match logged.kind:
            case EventKind.UPDATE_ARRIVED:
                body = logged.body
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
                self._hold(name, logged.body["by"], logged.at.timestamp())
            case EventKind.RELEASED:
                self._release(name, logged.body["by"], logged.at.timestamp())
            case EventKind.ACCESS_LEARNT:
                self._apply(AccessChanged(object=name, at=logged.at.timestamp(), access=logged.body["access"]))
            case EventKind.DEMANDED:
                self._demanded(name, logged)
            case EventKind.DEMAND_ENDED:
                self.demands.drop(logged.body["demand"])
        if self.demands.open:
            self._note(self.demands.met(self.warehouse), logged.at)
        return list(self._changes(name, logged.at))

    def standing(self, at: datetime) -> list[Change]:
        """Every object as it stands."""
        self._told.clear()
        return [change for name in self.rows for change in self._change(name, at)]

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
            )
        )

    def _note(self, ended: list[Ended], at: datetime) -> None:
        self.ended += [(each.demand, each.how, at) for each in ended]

    def _started(self, name: str, logged: LoggedEvent) -> None:
        at, updates = logged.at.timestamp(), len(logged.body.get("updates", ()))
        counts = self.rows[name].kind == "table" or logged.id >= self.rows[name].defined_at_event
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
        else:
            self._hold(name, "an older definition of it is running", at)

    def _finished(self, name: str, logged: LoggedEvent) -> None:
        at, job = logged.at.timestamp(), self.running.pop(name)
        if not job.counts:
            self._release(name, "an older definition of it is running", at)
            return
        self._apply(JobFinished(object=name, at=at))
        self.demands.job_ended(name)
        self.troubles.pop(name, None)
        self._release(name, "its jobs fail", at)
        self._learn_cost(name, at, float(logged.body["slot_seconds"]), job.updates)

    def _failed(self, name: str, logged: LoggedEvent) -> None:
        at, job = logged.at.timestamp(), self.running.pop(name)
        if not job.counts:
            self._release(name, "an older definition of it is running", at)
            return
        self._apply(JobFailed(object=name, at=at))
        self._note(self.demands.job_ended(name, failed=True), logged.at)
        failures = self.troubles[name].failures + 1 if name in self.troubles else 1
        self.troubles[name] = Trouble(failures=failures, at=at, until=at + min(2.0**failures, LONGEST_PAUSE))
        self._hold(name, "its jobs fail", at)

    def _learn_cost(self, name: str, at: float, slot_seconds: float, updates: int) -> None:
        position = self.warehouse.number(name)
        is_table = self.rows[name].kind == "table"
        observed = max(slot_seconds - (self.warehouse.per_update[position] * updates if is_table else 0.0), 0.01)
        believed = self.warehouse.fixed[position]
        self._apply(CostLearnt(object=name, at=at, cost=believed + LEARNING * (observed - believed)))

    def _hold(self, name: str, reason: str, at: float) -> None:
        if self.holds.add(name, reason):
            self._apply(Held(object=name, at=at))

    def _release(self, name: str, reason: str, at: float) -> None:
        if self.holds.drop(name, reason):
            self._apply(Released(object=name, at=at))

    def _apply(self, event: Event) -> None:
        self.warehouse.apply(event)

    # What became of freshness -----------------------------------------------------------------------------------

    def _changes(self, name: str, at: datetime) -> Iterator[Change]:
        """What an event on `name` changed: itself, and below it as far as anything did."""
        graph = self.warehouse.graph
        below = [graph.index[name]]
        seen = set(below)
        for position in below:  # grows while it is read
            changed = list(self._change(graph.names[position], at))
            yield from changed
            if changed:
                fresh_children = [each for each in graph.children[position] if each not in seen]
                seen.update(fresh_children)
                below.extend(fresh_children)

    def _change(self, name: str, at: datetime) -> Iterator[Change]:
        current_to = self.warehouse.current_to[self.warehouse.number(name)]
        state = (self.warehouse.is_fresh(name), current_to)
        if self._told.get(name) != state:
            self._told[name] = state
            until = datetime.fromtimestamp(current_to, UTC) if math.isfinite(current_to) else None
            yield Change(object=name, at=at, fresh=state[0], current_to=until)

    # Deciding ---------------------------------------------------------------------------------------------------

    def choose(self, now: float) -> list[NewDecision]:
        """What to start now. Changes nothing but for the pauses that are over: the log tells when it has happened."""
        for name, trouble in self.troubles.items():
            if trouble.until <= now:
                self._release(name, "its jobs fail", now)
        taken = {job.slot for job in self.running.values()}
        free = [slot for slot in range(self.warehouse.slots) if slot not in taken]
        demanded = self._demanded_now(free)
        taken.update(each.slot for each in demanded)
        free = [slot for slot in free if slot not in taken]
        if not free or not self.warehouse.ready:
            return demanded
        first = {each.object for each in demanded}
        chosen = [each for each in self.policy.choose(self.warehouse, now, free) if each.object not in first]
        names = {choice.object for choice in chosen}
        # The best of those that stay behind: for "what went first, and by how much".
        others = [
            asdict(each)
            for each in self.policy.candidates(self.warehouse, now, len(names) + len(first) + PASSED_OVER)
            if each.object not in names and each.object not in first
        ]
        return demanded + [
            NewDecision(
                object=choice.object,
                policy=self.policy_name,
                slot=choice.slot,
                impact=choice.impact if math.isfinite(choice.impact) else 0.0,
                why=choice.why,
                figures={
                    "ingredients": self.policy.ingredients(self.warehouse, self.warehouse.number(choice.object), now),
                    "candidates": len(self.warehouse.ready),
                    "passed_over": others[:PASSED_OVER],
                },
                parents=self.rows[choice.object].spec.get("reads", ()),
            )
            for choice in chosen
        ]

    def _demanded_now(self, free: list[int]) -> list[NewDecision]:
        """What is demanded goes before all that the policy would choose."""
        turns = self.demands.turns(self.warehouse, self._may_start)
        return [
            NewDecision(
                object=turn.object,
                policy="demand",
                slot=slot,
                impact=0.0,
                why=turn.why,
                figures={"demand": turn.demand.number},
                parents=self.rows[turn.object].spec.get("reads", ()),
                upto=datetime.fromtimestamp(turn.demand.at, UTC),
            )
            for slot, turn in zip(free, turns, strict=False)
        ]

    def _may_start(self, name: str, demand: Demand) -> bool:
        """What is held waits, demanded or not; but a demand made since the last failure is worth a try at once."""
        reasons = self.holds.reasons.get(name, set())
        trouble = self.troubles.get(name)
        return not reasons or (reasons == {"its jobs fail"} and trouble is not None and trouble.at < demand.at)

    def accesses(self, per_minute: Mapping[str, float], prior_share: float) -> dict[str, float]:
        """How popular each object is taken to be, where that has changed by a tenth or more.

        What the catalog said counts for `prior_share`, which fades as reads are counted.
        """
        changed = {}
        for name, row in self.rows.items():
            if row.kind == "backfill":  # nobody reads it; what it is worth is what somebody said
                continue
            rate = float(row.spec["access"]) * prior_share + per_minute.get(name, 0.0)
            access = rate * float(row.spec["weight"])
            before = self.warehouse.access[self.warehouse.number(name)]
            if abs(access - before) > 0.1 * max(before, 1e-3):
                changed[name] = access
        return changed

    def to_hold(self, paused: Collection[str]) -> tuple[list[str], list[str]]:
        """Objects whose DAGs were paused, and resumed, since the log last said so."""
        held = {name for name, reasons in self.holds.reasons.items() if PAUSED in reasons}
        wanted = {name for name, row in self.rows.items() if dag_id(name, row.kind) in paused}
        return sorted(wanted - held), sorted(held - wanted)


#: The reason of a hold that a person asked for in Airflow.
PAUSED = "its DAG is paused"
