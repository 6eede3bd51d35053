"""A decision's life: recorded, dispatched, claimed by one job, done or failed.

    decided ──► dispatched ──► claimed ──► done
       ▲            │             │  └───► failed   (the job said so)
       └────────────┴─────────────┘                 (a new attempt: unclaimed too long, or its job died)

The loop records a decision, the batch it loads and the event that tells the brain in one transaction. A job's claim is
the truth about who runs it; whoever comes second leaves quietly.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, cast, func, insert, or_, select, true, update
from sqlalchemy.orm import InstrumentedAttribute

from scheduler_plugin.store import arrivals, backfills, versions
from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.emptiness import filled_in
from scheduler_plugin.store.lease import require_epoch
from scheduler_plugin.store.models import (
    OPEN_STATES,
    Batch,
    Cost,
    Decision,
    DecisionState,
    EventKind,
    Job,
    Object,
    Update,
    UpdateState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDecision:
    """What the loop wants run now."""

    object: str
    policy: str
    slot: int
    impact: float
    why: str
    figures: Mapping[str, Any]
    #: Parents whose snapshots the refresh must read; empty for a load.
    parents: Sequence[str] = ()
    #: How many of the table's pending updates to load, oldest first; None means all of them.
    updates: int | None = None
    #: Seconds after which its job is taken to hang.
    time_limit: float = 900.0
    #: A load takes only what had been released by then; None takes everything.
    upto: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A decision that is to be sent to Airflow."""

    id: int
    object: str
    kind: str
    attempt: int
    why: str

    @property
    def dag_id(self) -> str:
        return dag_id(self.object, self.kind)

    @property
    def run_id(self) -> str:
        return run_id(self.id, self.attempt)


def dag_id(name: str, kind: str) -> str:
    """The DAG whose runs are this object's jobs."""
    return {"table": f"load__{name}", "view": f"refresh__{name}", backfills.KIND: "freshet_backfill"}[kind]


def run_id(decision: int, attempt: int) -> str:
    """The Airflow run of a decision: sending it twice makes one run; a new attempt is a new run."""
    return f"decision-{decision}" if attempt == 1 else f"decision-{decision}-try-{attempt}"


def parse_run_id(run: str) -> tuple[int, int] | None:
    """The decision and attempt of a run id; None for a run that somebody else started.

    >>> parse_run_id("decision-81"), parse_run_id("decision-81-try-2"), parse_run_id("manual__2026-01-01")
    ((81, 1), (81, 2), None)
    """
    match = re.fullmatch(r"decision-(\d+)(?:-try-(\d+))?", run)
    return (int(match[1]), int(match[2] or 1)) if match else None


def record(database: Database, epoch: int, decisions: Sequence[NewDecision]) -> list[int]:
    """Writes decisions down, forms their batches, and logs that their jobs have started. Returns their ids."""
    if not decisions:
        return []
    ids = []
    with database.logging_transaction() as (connection, now):
        require_epoch(connection, epoch)
        for decision in decisions:
            kind, spec = connection.execute(
                select(Object.kind, Object.spec).where(Object.name == decision.object)
            ).one()
            is_table = kind == "table"
            piece, parents = (
                backfills.next_piece(connection, decision.object)
                if kind == backfills.KIND
                else (None, decision.parents)
            )
            batch = _open_batch(connection, decision, spec.get("max_batch")) if is_table else None
            reads = None if is_table else versions.choose(connection, parents)
            statement = (
                insert(Decision)
                .values(
                    object=decision.object,
                    policy=decision.policy,
                    slot=decision.slot,
                    impact=decision.impact,
                    why=decision.why,
                    figures=dict(decision.figures),
                    reads={} if reads is None else reads.snapshots,
                    batch_id=batch,
                    epoch=epoch,
                    time_limit=decision.time_limit,
                    decided_at=now,
                )
                .returning(Decision.id)
            )
            identity = connection.execute(statement).scalar_one()
            body: dict[str, Any] = {"decision": identity, "slot": decision.slot}
            if batch is not None:
                taken = connection.execute(
                    select(Update.id, Update.size_bytes).where(Update.batch_id == batch).order_by(Update.id)
                ).all()
                body |= {"updates": [row.id for row in taken], "bytes": sum(row.size_bytes for row in taken)}
            if piece is not None:
                backfills.take(connection, piece, identity)
                body["updates"] = [piece]
            elif reads is not None and not reads.newest:
                # The brain believes that it reads what its parents hold now.
                body |= {"current_to": _seconds(reads.interval.since), "lacks": _seconds(reads.interval.until)}
            log_events(connection, now, [(EventKind.JOB_STARTED, decision.object, body)])
            ids.append(identity)
    return ids


def _open_batch(connection: Connection, decision: NewDecision, max_bytes: int | None) -> int:
    """The table's unsettled batch, or a new one of what is pending: oldest first, as decided, up to `max_bytes`.

    With `upto`, of what had been released by then: what a demand asks for, so that it is true at one instant with the
    rest of it, however much has arrived since.
    """
    table, upto = decision.object, decision.upto
    unsettled = connection.execute(
        select(Batch.id).where(Batch.table_name == table, Batch.settled_at.is_(None))
    ).scalar_one_or_none()
    if unsettled is not None:
        return unsettled
    in_time = true() if upto is None else Update.release <= upto
    pending = connection.execute(
        select(Update.id, Update.size_bytes)
        .where(Update.table_name == table, Update.state == UpdateState.PENDING, in_time)
        .order_by(Update.release, Update.id)
        .limit(arrivals.MOST_FILES if decision.updates is None else min(decision.updates, arrivals.MOST_FILES))
    ).all()
    chosen: list[int] = []
    size = 0
    for identity, size_bytes in pending:
        if chosen and max_bytes is not None and size + size_bytes > max_bytes:
            break
        chosen.append(identity)
        size += size_bytes
    batch = connection.execute(
        insert(Batch).values(table_name=table, updates=len(chosen), bytes_in=size).returning(Batch.id)
    ).scalar_one()
    connection.execute(update(Update).where(Update.id.in_(chosen)).values(state=UpdateState.LOADING, batch_id=batch))
    return batch


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


# Sending ---------------------------------------------------------------------------------------------------------


#: A decision whose runs were not taken up, or whose jobs died or hung, this often is given up as failed.
MOST_ATTEMPTS = 4


def unsent(database: Database, *, unclaimed_after: timedelta, dead_after: timedelta) -> list[Outgoing]:
    """Decisions to send now: new ones, ones nobody claimed in time, and ones whose job hangs or gave no sign of life.

    All but the new ones get a new attempt, and so a new run: Airflow may still know the old one as failed or removed.
    A time that lies ahead was written before the clock was put back, and says nothing any more.
    """
    now = func.clock_timestamp()
    # Twice as patient with each attempt: where Airflow is slow, a run must get the time it needs.
    seconds = unclaimed_after.total_seconds() * func.power(2.0, func.least(Decision.attempt - 1, 6))
    patience = func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    unclaimed = (Decision.state == DecisionState.DISPATCHED) & _long_ago(Decision.dispatched_at, patience)
    silent = _long_ago(Decision.heartbeat_at, dead_after)
    hangs = Decision.claimed_at < now - func.make_interval(0, 0, 0, 0, 0, 0, Decision.time_limit)
    dead = (Decision.state == DecisionState.CLAIMED) & (silent | hangs)
    with database.transaction() as connection:
        tried = Decision.attempt >= MOST_ATTEMPTS
        hopeless = connection.execute(select(Decision.id).where(unclaimed | dead, tried)).scalars().all()
        connection.execute(
            update(Decision)
            .where(unclaimed | dead, Decision.id.not_in(hopeless))
            .values(state=DecisionState.DECIDED, attempt=Decision.attempt + 1, claimed_at=None, heartbeat_at=None)
        )
        rows = connection.execute(
            select(Decision.id, Decision.object, Object.kind, Decision.attempt, Decision.why)
            .join(Object, Object.name == Decision.object)
            .where(Decision.state == DecisionState.DECIDED)
            .order_by(Decision.id)
        ).all()
    if hopeless:
        tries = f"{MOST_ATTEMPTS} runs in a row were not taken up, or their jobs died without a word or hung"
        give_up(database, hopeless, f"{tries}; the newest one's Airflow log may say why")
    return [Outgoing(id=i, object=o, kind=k, attempt=a, why=w) for i, o, k, a, w in rows]


def _long_ago(at: InstrumentedAttribute[datetime | None], after: Any) -> ColumnElement[bool]:
    now = func.clock_timestamp()
    return or_(at < now - after, at > now + after)


def give_up(database: Database, hopeless: Sequence[int], error: str, *, after: timedelta = timedelta()) -> None:
    """Ends decisions as failed, those that were made at least so long ago: their slots are free again."""
    old_enough = Decision.decided_at <= func.clock_timestamp() - after
    with database.logging_transaction() as (connection, now):
        given_up = connection.execute(
            update(Decision)
            .where(Decision.id.in_(hopeless), Decision.state.in_(OPEN_STATES), old_enough)
            .values(state=DecisionState.FAILED, finished_at=now, error=error)
            .returning(Decision.id, Decision.object)
        ).all()
        log_events(connection, now, [(EventKind.JOB_FAILED, name, {"decision": each}) for each, name in given_up])


def mark_dispatched(database: Database, sent: Outgoing) -> None:
    with database.transaction() as connection:
        connection.execute(
            update(Decision)
            .where(Decision.id == sent.id, Decision.attempt == sent.attempt, Decision.state == DecisionState.DECIDED)
            .values(state=DecisionState.DISPATCHED, dispatched_at=func.clock_timestamp())
        )


# Running ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceUpdate:
    """One update of a claimed batch."""

    id: int
    path: str
    size_bytes: int
    #: Somebody has released it: expectations are not asked.
    ungated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a job has to do, and the right to do it."""

    decision: int
    attempt: int
    object: str
    kind: str
    why: str
    spec: Mapping[str, Any]
    #: The mark its snapshot carries; the same for every attempt at the same work.
    marker: str
    reads: Mapping[str, int | None]
    #: Name -> SQL of the virtual views between, and of what has never held anything.
    virtual: Mapping[str, str]
    updates: Sequence[SourceUpdate]
    #: Of a view: way -> (mean seconds, mean bytes read) of its latest refreshes.
    measured: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: For a piece of a backfill.
    piece: backfills.Work | None = None


def claim(database: Database, decision: int, attempt: int, worker: str) -> Claim | None:
    """Takes a decision for this job; None when it is done, given to a later attempt, or taken by another job."""
    with database.transaction() as connection:
        row = connection.execute(
            update(Decision)
            .where(
                Decision.id == decision,
                Decision.attempt == attempt,
                Decision.state.in_((DecisionState.DECIDED, DecisionState.DISPATCHED)),
            )
            .values(state=DecisionState.CLAIMED, claimed_at=func.clock_timestamp(), heartbeat_at=func.clock_timestamp())
            .returning(Decision.object, Decision.why, Decision.reads, Decision.batch_id)
        ).one_or_none()
        if row is None:
            return None
        connection.execute(
            insert(Job).values(decision_id=decision, attempt=attempt, worker=worker, started_at=func.clock_timestamp())
        )
        kind, spec = connection.execute(select(Object.kind, Object.spec).where(Object.name == row.object)).one()
        updates = connection.execute(
            select(Update.id, func.coalesce(Update.archived, Update.path), Update.size_bytes, Update.ungated)
            .where(Update.batch_id == row.batch_id, Update.state == UpdateState.LOADING)
            .order_by(Update.id)
        ).all()
        measured = _measured(connection, row.object) if kind == "view" else {}
        piece = backfills.work(connection, decision) if kind == backfills.KIND else None
        reads, virtual = filled_in(connection, row.reads, (spec if piece is None else piece.spec).get("virtual", {}))
    return Claim(
        decision=decision,
        attempt=attempt,
        object=row.object,
        kind=kind,
        why=row.why,
        spec=spec,
        marker=f"batch-{row.batch_id}" if row.batch_id is not None else f"refresh-{decision}",
        reads=reads,
        virtual=virtual,
        updates=[SourceUpdate(id=i, path=p, size_bytes=b, ungated=u) for i, p, b, u in updates],
        measured=measured,
        piece=piece,
    )


def _measured(connection: Connection, view: str) -> dict[str, tuple[float, float]]:
    """What the view's latest refreshes took in Spark, by way; one alone says too little."""
    place = func.row_number().over(partition_by=Cost.way, order_by=Cost.at.desc()).label("place")
    each = func.jsonb_each_text(Job.stages).table_valued("key", "value")
    spent = select(func.sum(cast(each.c.value, Double))).select_from(each).scalar_subquery()
    latest = (
        select(Cost.way, func.coalesce(spent, Cost.slot_seconds).label("seconds"), Cost.bytes_in, place)
        .join(Job, (Job.decision_id == Cost.decision_id) & Job.finished_at.is_not(None) & Job.error.is_(None))
        .where(Cost.object == view, Cost.way.is_not(None))
        .subquery()
    )
    rows = connection.execute(
        select(latest.c.way, func.avg(latest.c.seconds), func.avg(latest.c.bytes_in))
        .where(latest.c.place <= 5)
        .group_by(latest.c.way)
        .having(func.count() > 1)
    )
    return {way: (float(seconds), float(bytes_in)) for way, seconds, bytes_in in rows}


def beat(database: Database, claim: Claim) -> bool:
    """A sign of life. False when the claim has been given to another attempt: stop working."""
    with database.transaction() as connection:
        beaten = connection.execute(
            update(Decision)
            .where(
                Decision.id == claim.decision,
                Decision.attempt == claim.attempt,
                Decision.state == DecisionState.CLAIMED,
            )
            .values(heartbeat_at=func.clock_timestamp())
        )
        return beaten.rowcount == 1


def workers(database: Database) -> list[tuple[int, str]]:
    """(decision, worker) of every job at work; a worker is `host:pid`."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(Job.decision_id, Job.worker)
            .join(Decision, (Decision.id == Job.decision_id) & (Decision.attempt == Job.attempt))
            .where(Decision.state == DecisionState.CLAIMED, Job.finished_at.is_(None))
            .order_by(Job.decision_id)
        )
        return [(decision, worker) for decision, worker in rows]
