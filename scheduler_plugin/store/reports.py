"""What people ask: how fresh is everything, what runs, what was decided, what became of each file."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import case, func, select, true

from scheduler_plugin.store import incidents
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.incidents import IncidentReport
from scheduler_plugin.store.models import (
    OPEN_STATES,
    Access,
    Cost,
    Decision,
    Freshness,
    Lease,
    Object,
    QuarantinedRow,
    Update,
    UpdateState,
    Version,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReport:
    """One object as it stands."""

    name: str
    kind: str
    materialized: bool
    parents: Sequence[str]
    fresh: bool
    #: Seconds since the time it is current up to; None before anything arrived.
    staleness: float | None
    staleness_limit: float | None
    #: Updates that wait, and that a job is loading.
    pending: int
    #: The open decision's state, or None.
    running: str | None
    #: Reads, and how many of them met it fresh.
    reads: int
    reads_met_fresh: int
    rows: int | None
    runs: int
    mean_slot_seconds: float | None
    last_committed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReport:
    id: int
    object: str
    state: str
    impact: float
    why: str
    decided_at: datetime
    #: When a job took it up.
    claimed_at: datetime | None
    finished_at: datetime | None
    error: str | None
    policy: str
    slot: int
    attempt: int
    #: What it cost; None until it is done.
    slot_seconds: float | None
    #: What the impact was made of, and the candidates that were passed over.
    figures: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Every file of a table, by what became of it: the six states add up to `announced` and `let_out`."""

    table: str
    #: Files that somebody delivered, each content once; files that were made of rows let out of quarantine.
    announced: int
    let_out: int
    pending: int
    loading: int
    loaded: int
    quarantined: int
    replaced: int
    dropped: int
    #: Further deliveries of content that was there already, under other names.
    repeated: int
    #: Where the loaded ones are: in the archive; nowhere any more. The rest lies where it landed.
    archived: int
    forgotten: int
    rows_loaded: int
    rows_quarantined: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """The whole, at one instant."""

    at: datetime
    objects: Sequence[ObjectReport]
    decisions: Sequence[DecisionReport]
    #: Share of accesses that met a fresh object; None before the first.
    qod: float | None
    last_tick: dict[str, Any]
    #: What is wrong, or soon will be, the newest first.
    incidents: Sequence[IncidentReport] = ()


def board(database: Database, *, decisions: int = 8) -> Board:
    with database.transaction() as connection:
        waiting = (
            select(Update.table_name, func.count().label("pending"))
            .where(Update.state.in_((UpdateState.PENDING, UpdateState.LOADING)))
            .group_by(Update.table_name)
            .subquery()
        )
        costs = (
            select(Cost.object, func.count().label("runs"), func.avg(Cost.slot_seconds).label("mean_slot_seconds"))
            .group_by(Cost.object)
            .subquery()
        )
        accesses = (
            select(Access.object, func.sum(Access.count).label("reads"), func.sum(Access.met_fresh).label("met_fresh"))
            .group_by(Access.object)
            .subquery()
        )
        newest = (
            select(Version.rows, Version.committed_at)
            .where(Version.object == Object.name)
            .order_by(Version.committed_at.desc())
            .limit(1)
            .lateral()
        )
        open_decision = select(Decision.object, Decision.state).where(Decision.state.in_(OPEN_STATES)).subquery()
        now = connection.execute(select(func.clock_timestamp())).scalar_one()
        rows = connection.execute(
            select(
                Object.name,
                Object.kind,
                Object.materialized,
                Object.parents,
                Object.spec["staleness_limit"].as_float().label("staleness_limit"),
                func.coalesce(Freshness.fresh, True).label("fresh"),
                Freshness.current_to,
                func.coalesce(waiting.c.pending, 0).label("pending"),
                open_decision.c.state.label("running"),
                func.coalesce(accesses.c.reads, 0).label("reads"),
                func.coalesce(accesses.c.met_fresh, 0).label("met_fresh"),
                newest.c.rows,
                newest.c.committed_at,
                func.coalesce(costs.c.runs, 0).label("runs"),
                costs.c.mean_slot_seconds,
            )
            .outerjoin(Freshness, (Freshness.object == Object.name) & Freshness.until.is_(None))
            .outerjoin(waiting, waiting.c.table_name == Object.name)
            .outerjoin(open_decision, open_decision.c.object == Object.name)
            .outerjoin(accesses, accesses.c.object == Object.name)
            .outerjoin(costs, costs.c.object == Object.name)
            .outerjoin(newest, true())
            .where(Object.removed_at.is_(None), Object.kind != "backfill")
            .order_by(Object.position)
        ).all()
        objects = [
            ObjectReport(
                name=row.name,
                kind=row.kind,
                materialized=row.materialized,
                parents=row.parents,
                fresh=row.fresh,
                staleness=(now - row.current_to).total_seconds() if row.current_to else None,
                staleness_limit=row.staleness_limit,
                pending=row.pending,
                running=row.running,
                reads=int(row.reads),
                reads_met_fresh=int(row.met_fresh),
                rows=row.rows,
                runs=row.runs,
                mean_slot_seconds=row.mean_slot_seconds,
                last_committed_at=row.committed_at,
            )
            for row in rows
        ]
        last_tick = connection.execute(select(Lease.last_tick)).scalar_one_or_none()
    reads = sum(item.reads for item in objects)
    return Board(
        at=now,
        objects=objects,
        decisions=latest_decisions(database, decisions),
        qod=sum(item.reads_met_fresh for item in objects) / reads if reads else None,
        last_tick=last_tick or {},
        incidents=incidents.reports(database),
    )


def latest_decisions(
    database: Database, limit: int, *, object: str | None = None, since: datetime | None = None
) -> list[DecisionReport]:
    """The newest first; of one object, or made since a time."""
    columns = [getattr(Decision, name) for name in DecisionReport.__slots__ if name != "slot_seconds"]
    wanted = (
        select(*columns, Cost.slot_seconds)
        .outerjoin(Cost, Cost.decision_id == Decision.id)
        .order_by(Decision.id.desc())
        .limit(limit)
    )
    if object is not None:
        wanted = wanted.where(Decision.object == object)
    if since is not None:
        wanted = wanted.where(Decision.decided_at >= since)
    with database.transaction() as connection:
        return [DecisionReport(**row._mapping) for row in connection.execute(wanted)]


def files(database: Database) -> list[FileCounts]:
    """Accounts for every file ever taken in."""
    states = {state: func.count(case((Update.state == state, 1))).label(state.value) for state in UpdateState}
    with database.transaction() as connection:
        kept_out = dict(
            connection.execute(
                select(QuarantinedRow.table_name, func.count())
                .where(QuarantinedRow.resolution.is_(None))
                .group_by(QuarantinedRow.table_name)
            ).all()
        )
        rows = connection.execute(
            select(
                Update.table_name,
                func.coalesce(func.sum(Update.rows).filter(Update.state == UpdateState.LOADED), 0).label("rows"),
                func.count().filter(Update.origin_id.is_(None)).label("announced"),
                func.count(Update.origin_id).label("let_out"),
                func.sum(func.cardinality(Update.also_as)).label("repeated"),
                func.count().filter(Update.archived != "").label("archived"),
                func.count().filter(Update.archived == "").label("forgotten"),
                *states.values(),
            )
            .group_by(Update.table_name)
            .order_by(Update.table_name)
        ).all()
    return [
        FileCounts(
            table=row.table_name,
            announced=row.announced,
            let_out=row.let_out,
            pending=row.pending,
            loading=row.loading,
            loaded=row.loaded,
            quarantined=row.quarantined,
            replaced=row.replaced,
            dropped=row.dropped,
            repeated=int(row.repeated),
            archived=row.archived,
            forgotten=row.forgotten,
            rows_loaded=int(row.rows),
            rows_quarantined=kept_out.get(row.table_name, 0),
        )
        for row in rows
    ]


def quarantined_files(database: Database) -> list[tuple[str, str, str]]:
    """(table, path, reason) of each file that was kept out whole."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(Update.table_name, Update.path, Update.reason)
            .where(Update.state == UpdateState.QUARANTINED)
            .order_by(Update.id)
        )
        return [(table, path, reason or "") for table, path, reason in rows]


def quarantined_rows(database: Database) -> list[tuple[str, str, int]]:
    """(table, reason, rows) of single rows that were kept out, each reason once."""
    with database.transaction() as connection:
        return [
            (table, reason, int(rows))
            for table, reason, rows in connection.execute(
                select(QuarantinedRow.table_name, QuarantinedRow.reason, func.count())
                .where(QuarantinedRow.resolution.is_(None))
                .group_by(QuarantinedRow.table_name, QuarantinedRow.reason)
                .order_by(QuarantinedRow.table_name, QuarantinedRow.reason)
            )
        ]


def fresh_shares(database: Database, since: datetime) -> dict[str, float]:
    """Each object's share of the time since then in which it was fresh."""
    now = func.clock_timestamp()
    begin = func.greatest(Freshness.since, since)
    length = func.extract("epoch", func.coalesce(Freshness.until, now) - begin)
    with database.transaction() as connection:
        rows = connection.execute(
            select(
                Freshness.object,
                func.sum(case((Freshness.fresh, length), else_=0.0)) / func.nullif(func.sum(length), 0.0),
            )
            .where(func.coalesce(Freshness.until, now) > since)
            .group_by(Freshness.object)
        )
        return {name: float(share) for name, share in rows if share is not None}
