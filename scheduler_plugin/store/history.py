"""What became of one object over time: its staleness, what arrived, what ran, what it cost, how good it was."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select, true

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import (
    Batch,
    Cost,
    Decision,
    DecisionState,
    Freshness,
    Job,
    QualityResult,
    Query,
    Update,
    UpdateState,
    Version,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """A stretch of time in which the object was current up to one instant; staleness rises by a second a second."""

    since: datetime
    #: None while it lasts.
    until: datetime | None
    fresh: bool
    current_to: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One decision about the object that was started in the window."""

    decision: int
    state: str
    decided_at: datetime
    finished_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sawtooth:
    """The staleness of one object over a window, and what happened to it (paper 000's Figure 1)."""

    spells: Sequence[Spell]
    #: When updates arrived for the object itself, oldest first.
    arrivals: Sequence[datetime]
    runs: Sequence[Run]
    #: Whether the oldest part was left out because there was too much.
    truncated: bool


def sawtooth(database: Database, name: str, since: datetime, until: datetime, *, limit: int = 1500) -> Sawtooth:
    """The newest `limit` spells, arrivals and runs of the window."""
    ended = func.coalesce(Freshness.until, func.clock_timestamp())
    with database.transaction() as connection:
        spells = connection.execute(
            select(Freshness.since, Freshness.until, Freshness.fresh, Freshness.current_to)
            .where(Freshness.object == name, Freshness.since < until, ended > since)
            .order_by(Freshness.since.desc())
            .limit(limit)
        ).all()
        arrivals = (
            connection.execute(
                select(Update.release)
                .where(Update.table_name == name, Update.release >= since, Update.release < until)
                .distinct()
                .order_by(Update.release.desc())
                .limit(limit)
            )
            .scalars()
            .all()
        )
        runs = connection.execute(
            select(Decision.id, Decision.state, Decision.decided_at, Decision.finished_at, Decision.error)
            .where(Decision.object == name, Decision.decided_at >= since, Decision.decided_at < until)
            .order_by(Decision.decided_at.desc())
            .limit(limit)
        ).all()
    return Sawtooth(
        spells=[Spell(**row._mapping) for row in reversed(spells)],
        arrivals=list(reversed(arrivals)),
        runs=[
            Run(
                decision=row.id,
                state=row.state,
                decided_at=row.decided_at,
                finished_at=row.finished_at,
                error=row.error,
            )
            for row in reversed(runs)
        ],
        truncated=limit in (len(spells), len(arrivals), len(runs)),
    )


def breaches(spells: Sequence[Spell], limit: float | None, now: float) -> list[tuple[float, float | None]]:
    """From when to when the object was further behind than its limit, in epoch seconds; None: it still is.

    A stretch over several spells is one breach.
    """
    found: list[tuple[float, float | None]] = []
    for spell in spells if limit is not None else ():
        if spell.current_to is None or limit is None:
            continue
        end = spell.until.timestamp() if spell.until is not None else None
        begin = max(spell.since.timestamp(), spell.current_to.timestamp() + limit)
        if begin >= (end if end is not None else now):
            continue
        if found and (last := found[-1][1]) is not None and begin <= last + 1e-3:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReport:
    """One committed snapshot."""

    snapshot_id: int
    decision_id: int
    committed_at: datetime
    rows: int
    reads: Mapping[str, Any]


def versions(database: Database, name: str, limit: int) -> list[VersionReport]:
    """The newest versions of an object, newest first."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(Version.snapshot_id, Version.decision_id, Version.committed_at, Version.rows, Version.reads)
            .where(Version.object == name)
            .order_by(Version.committed_at.desc())
            .limit(limit)
        )
        return [VersionReport(**row._mapping) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """What one finished job took, and where its time went."""

    decision_id: int
    at: datetime
    slot_seconds: float
    units: int
    bytes_in: int
    bytes_out: int
    #: Seconds by stage, of the attempt that ended it.
    stages: Mapping[str, Any] | None


def costs(database: Database, name: str, limit: int) -> list[CostReport]:
    """The newest jobs of an object, newest first."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(
                Cost.decision_id,
                Cost.at,
                Cost.slot_seconds,
                Cost.units,
                Cost.bytes_in,
                Cost.bytes_out,
                select(Job.stages)
                .where(Job.decision_id == Cost.decision_id)
                .order_by(Job.attempt.desc())
                .limit(1)
                .scalar_subquery()
                .label("stages"),
            )
            .where(Cost.object == name)
            .order_by(Cost.at.desc())
            .limit(limit)
        )
        return [CostReport(**row._mapping) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityReport:
    """One expectation on one batch."""

    batch_id: int
    at: datetime
    expectation: str
    on_fail: str
    passed: bool
    detail: Mapping[str, Any]


def quality(database: Database, table: str, limit: int) -> list[QualityReport]:
    """The newest results, newest first."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(
                QualityResult.batch_id,
                QualityResult.at,
                QualityResult.expectation,
                QualityResult.on_fail,
                QualityResult.passed,
                QualityResult.detail,
            )
            .where(QualityResult.table_name == table)
            .order_by(QualityResult.at.desc(), QualityResult.id.desc())
            .limit(limit)
        )
        return [QualityReport(**row._mapping) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionDetail:
    """A decision with the figures it was taken on."""

    id: int
    object: str
    state: str
    policy: str
    slot: int
    impact: float
    why: str
    figures: Mapping[str, Any]
    attempt: int
    #: How many updates it loads; None for a refresh.
    updates: int | None
    decided_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    error: str | None


def decisions(
    database: Database,
    *,
    objects: Collection[str] | None = None,
    before: int | None = None,
    failed: bool = False,
    limit: int = 50,
) -> list[DecisionDetail]:
    """Decisions, newest first: of these objects, older than one of them, or only those that failed."""
    wanted = select(
        Decision.id,
        Decision.object,
        Decision.state,
        Decision.policy,
        Decision.slot,
        Decision.impact,
        Decision.why,
        Decision.figures,
        Decision.attempt,
        Batch.updates,
        Decision.decided_at,
        Decision.claimed_at,
        Decision.finished_at,
        Decision.error,
    ).outerjoin(Batch, Batch.id == Decision.batch_id)
    if objects is not None:
        wanted = wanted.where(Decision.object.in_(objects))
    if before is not None:
        wanted = wanted.where(Decision.id < before)
    if failed:
        wanted = wanted.where(Decision.state == DecisionState.FAILED)
    with database.transaction() as connection:
        rows = connection.execute(wanted.order_by(Decision.id.desc()).limit(limit))
        return [DecisionDetail(**row._mapping) for row in rows]


def pending_updates(database: Database, table: str, limit: int) -> list[tuple[str, int, datetime, str]]:
    """(path, bytes, release, state) of the updates that wait, oldest first."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(Update.path, Update.size_bytes, Update.release, Update.state)
            .where(Update.table_name == table, Update.state.in_((UpdateState.PENDING, UpdateState.LOADING)))
            .order_by(Update.id)
            .limit(limit)
        )
        return [(path, size, release, state.value) for path, size, release, state in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """A read that somebody asked for, and how it traded waiting against freshness."""

    id: int
    by: str
    asked_at: datetime
    deadline: datetime | None
    prefer: float | None
    objects: Sequence[str]
    state: str
    finished_at: datetime | None
    trade_off: Mapping[str, Any] | None


def queries(database: Database, limit: int, *, weighed: bool = False) -> list[QueryReport]:
    """The newest queries, newest first; or only those that were weighed against updates."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(
                Query.id,
                Query.by,
                Query.asked_at,
                Query.deadline,
                Query.prefer,
                Query.objects,
                Query.state,
                Query.finished_at,
                Query.trade_off,
            )
            .where(Query.trade_off.is_not(None) if weighed else true())
            .order_by(Query.id.desc())
            .limit(limit)
        )
        return [QueryReport(**row._mapping) for row in rows]
