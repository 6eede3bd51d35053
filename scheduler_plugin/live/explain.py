"""Why an object is, or is not, next: now or at any time that the log still covers.

Nothing is stored for it: the Scheduler of that time is made again from the log, asked, and played forward without new
arrivals to see when the object would have its turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from scheduler_plugin.live import memory
from scheduler_plugin.live.outlook import expected_run
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.live.watch import conditions
from scheduler_plugin.store.database import Database

#: How many ancestors a sentence names.
NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """One that goes first."""

    object: str
    impact: float
    #: How much larger its impact is; below zero where a rule, not its impact, puts it first.
    by: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectExplanation:
    """Everything there is to say of one object's turn."""

    object: str
    at: datetime
    kind: str
    #: fresh, running, held, virtual, waits, ready.
    state: str
    #: In one or two sentences.
    summary: str
    policy: str
    group: str | None
    impact: float
    ingredients: Mapping[str, float]
    why: str
    staleness: float
    limit: float | None
    pending: int
    dirty_ancestors: Sequence[str]
    #: 1 is next; None when it cannot start.
    rank: int | None
    candidates: int
    ahead: Sequence[Ahead]
    #: Slot-seconds, and how far jobs have strayed from that.
    expected_cost: float
    cost_spread: float
    #: None: not foreseeable, as for a held, fresh or virtual object.
    expected_at: datetime | None
    holds: Sequence[str]
    failures: int
    #: What is wrong with its promise, or soon will be; and whether it is given up because not all can be kept.
    concerns: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in found.items()}


def explain(database: Database, name: str, when: datetime | None = None) -> ObjectExplanation:
    """LookupError when there is no such object, or no log for that time."""
    scheduler = memory.at_time(database, when)
    now = scheduler.warehouse.now if when is None else when.timestamp()
    if when is None:
        now = max(now, datetime.now(UTC).timestamp())
    found = explained(scheduler, name, now)
    wrong = conditions(scheduler, now)
    told = [each.summary for each in wrong if each.object == name or name in each.body.get("given_up", ())]
    return replace(found, concerns=told)


def explained(scheduler: Scheduler, name: str, now: float, *, most_seconds: float = 10.0) -> ObjectExplanation:
    """Looking ahead for the object's turn takes at most so many seconds, and then it is not foreseeable."""
    if name not in scheduler.rows:
        raise LookupError(f"no object of the catalog is called {name}")
    scheduler.pass_time(now)
    warehouse, row = scheduler.warehouse, scheduler.rows[name]
    position = warehouse.number(name)
    told = scheduler.policy.explain(warehouse, now, name)
    learnt = scheduler.costs.get(name)
    holds = [f"{reason} {more}".strip() for reason, more in scheduler.holds.reasons.get(name, {}).items()]
    if scheduler.stopped is not None:
        holds.append(f"everything is paused {scheduler.stopped}".strip())
    trouble = scheduler.troubles.get(name)
    state = _state(scheduler, name, holds)
    expected = expected_run(scheduler, name, now, most_seconds=most_seconds) if state in ("ready", "waits") else None
    return ObjectExplanation(
        object=name,
        at=datetime.fromtimestamp(now, UTC),
        kind=row.kind,
        state=state,
        summary=_summary(scheduler, name, state, told.rank, expected, holds, now),
        policy=scheduler.policy_name,
        group=scheduler.policy.group_of.get(name),
        impact=told.impact,
        ingredients=told.ingredients,
        why=told.why,
        staleness=warehouse.staleness(name, now),
        limit=scheduler.limit(name),
        pending=len(warehouse.updates.pending.get(position, ())),
        dirty_ancestors=told.dirty_ancestors,
        rank=told.rank,
        candidates=len(scheduler.policy.candidates(warehouse, now)),
        ahead=[
            Ahead(object=each.object, impact=each.impact, by=each.impact - told.impact, why=each.why)
            for each in told.ahead
        ]
        if told.rank is not None or state == "waits"
        else [],
        expected_cost=warehouse.cost(position),
        cost_spread=learnt.spread if learnt else 0.0,
        expected_at=None if expected is None else datetime.fromtimestamp(expected, UTC),
        holds=holds,
        failures=trouble.failures if trouble else 0,
    )


def _state(scheduler: Scheduler, name: str, holds: Sequence[str]) -> str:
    warehouse = scheduler.warehouse
    if name in scheduler.running:
        return "running"
    if not scheduler.rows[name].materialized:
        return "virtual"
    if warehouse.is_fresh(name):
        return "fresh"
    if holds:
        return "held"
    return "ready" if warehouse.number(name) in warehouse.ready else "waits"


def _summary(
    scheduler: Scheduler,
    name: str,
    state: str,
    rank: int | None,
    expected: float | None,
    holds: Sequence[str],
    now: float,
) -> str:
    warehouse = scheduler.warehouse
    age = f"{warehouse.staleness(name, now):.0f} s old"
    match state:
        case "running":
            job = scheduler.running[name]
            started = warehouse.running.get(warehouse.number(name))
            since = f" since {now - started.started:.1f} s" if started else ""
            return f"A job on it runs{since} in slot {job.slot} (decision {job.decision})."
        case "virtual":
            dirty = warehouse.dirty_ancestors(name)
            stale = f"not now: {_named(dirty)} are stale" if dirty else "as they are now"
            return f"It is virtual and never runs; it is fresh when its parents are, {stale}."
        case "fresh":
            return f"It holds every update that has arrived ({age}); there is nothing to run."
        case "held":
            return f"It is stale ({age}) and may not start: {'; '.join(holds)}."
    when = f"expected to start in {expected - now:.1f} s" if expected is not None else "when is not foreseeable"
    free = warehouse.slots - len(scheduler.running)
    if state == "waits":
        above = _named(warehouse.dirty_ancestors(name))
        return f"It is stale ({age}) and waits for its stale ancestors {above}; {when}."
    slots = f"{free} of {warehouse.slots} slots free"
    return f"It is stale ({age}) and number {rank} of those that may start, {slots}; {when}."


def _named(names: Sequence[str]) -> str:
    """All of a few, the first of many: an object may have hundreds of ancestors."""
    more = len(names) - NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:NAMED])} and {more} more"
