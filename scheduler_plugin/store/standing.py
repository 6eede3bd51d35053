"""Every object as it stands, for the page's board: one row each, five thousand of them in a fraction of a second.

Only what the ledger knows; rank, impact and popularity are the brain's to say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import case, func, select, true

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import (
    OPEN_STATES,
    Access,
    Decision,
    DecisionState,
    Event,
    Freshness,
    Lease,
    Object,
    QualityResult,
    QuarantinedRow,
    Update,
    UpdateState,
    Version,
)

#: Reads of this long ago still count in the share that met a fresh object.
READS_OVER = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One object as the ledger knows it."""

    name: str
    kind: str
    materialized: bool
    parents: Sequence[str]
    spec: Mapping[str, Any]
    fresh: bool
    #: Since when it is fresh, or is not.
    since: datetime | None
    #: What it is current up to; None before anything arrived.
    current_to: datetime | None
    pending: int
    #: The open decision, its state, and when it was decided.
    decision: int | None
    state: str | None
    decided_at: datetime | None
    #: The newest version.
    rows: int | None
    committed_at: datetime | None
    #: How the newest decision that ended did so.
    last_error: str | None
    reads: int
    reads_met_fresh: int
    #: Expectations of the newest batch: those that did not hold, by what they do then, and how many there are.
    failed_expectations: int
    warning_expectations: int
    expectations: int
    #: Files and rows in quarantine.
    quarantined: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The installation at one instant."""

    at: datetime
    #: The last event of the log; a picture with the same one shows the same jobs and arrivals.
    event: int
    last_tick: Mapping[str, Any]
    objects: Sequence[Standing]


def whole(database: Database) -> Whole:
    """Everything the board shows of the ledger, in one transaction."""
    waiting = _counted(Update.table_name, Update.state.in_((UpdateState.PENDING, UpdateState.LOADING)))
    kept_out = _counted(Update.table_name, Update.state == UpdateState.QUARANTINED)
    rows_out = _counted(QuarantinedRow.table_name, QuarantinedRow.resolution.is_(None))
    reads = (
        select(Access.object, func.sum(Access.count).label("reads"), func.sum(Access.met_fresh).label("met"))
        .where(Access.minute > func.clock_timestamp() - READS_OVER)
        .group_by(Access.object)
        .subquery()
    )
    version = (
        select(Version.rows, Version.committed_at)
        .where(Version.object == Object.name)
        .order_by(Version.committed_at.desc())
        .limit(1)
        .lateral()
    )
    ended = (
        select(Decision.error)
        .where(Decision.object == Object.name, Decision.state.in_((DecisionState.DONE, DecisionState.FAILED)))
        .order_by(Decision.decided_at.desc())
        .limit(1)
        .lateral()
    )
    open_decision = (
        select(Decision.id, Decision.object, Decision.state, Decision.decided_at)
        .where(Decision.state.in_(OPEN_STATES))
        .subquery()
    )
    newest_batch = (
        select(func.max(QualityResult.batch_id).label("batch")).group_by(QualityResult.table_name).scalar_subquery()
    )
    warns = QualityResult.on_fail == "warn"
    quality = (
        select(
            QualityResult.table_name,
            func.count().label("n"),
            func.count(case((~QualityResult.passed & ~warns, 1))).label("failed"),
            func.count(case((~QualityResult.passed & warns, 1))).label("warning"),
        )
        .where(QualityResult.batch_id.in_(newest_batch))
        .group_by(QualityResult.table_name)
        .subquery()
    )
    wanted = (
        select(
            Object.name,
            Object.kind,
            Object.materialized,
            Object.parents,
            Object.spec,
            func.coalesce(Freshness.fresh, True).label("fresh"),
            Freshness.since,
            Freshness.current_to,
            func.coalesce(waiting.c.n, 0).label("pending"),
            open_decision.c.id.label("decision"),
            open_decision.c.state,
            open_decision.c.decided_at,
            version.c.rows,
            version.c.committed_at,
            ended.c.error.label("last_error"),
            func.coalesce(reads.c.reads, 0).label("reads"),
            func.coalesce(reads.c.met, 0).label("reads_met_fresh"),
            func.coalesce(quality.c.failed, 0).label("failed_expectations"),
            func.coalesce(quality.c.warning, 0).label("warning_expectations"),
            func.coalesce(quality.c.n, 0).label("expectations"),
            (func.coalesce(kept_out.c.n, 0) + func.coalesce(rows_out.c.n, 0)).label("quarantined"),
        )
        .outerjoin(Freshness, (Freshness.object == Object.name) & Freshness.until.is_(None))
        .outerjoin(waiting, waiting.c.table_name == Object.name)
        .outerjoin(kept_out, kept_out.c.table_name == Object.name)
        .outerjoin(rows_out, rows_out.c.table_name == Object.name)
        .outerjoin(reads, reads.c.object == Object.name)
        .outerjoin(open_decision, open_decision.c.object == Object.name)
        .outerjoin(quality, quality.c.table_name == Object.name)
        .outerjoin(version, true())
        .outerjoin(ended, true())
        .where(Object.removed_at.is_(None), Object.kind != "backfill")
        .order_by(Object.position)
    )
    with database.transaction() as connection:
        now = connection.execute(select(func.clock_timestamp())).scalar_one()
        event = connection.execute(select(func.max(Event.id))).scalar_one() or 0
        last_tick = connection.execute(select(Lease.last_tick)).scalar_one_or_none() or {}
        told = connection.execute(wanted)
        names = tuple(told.keys())
        # Five thousand mappings of SQLAlchemy's would take as long as the query.
        found = [Standing(**dict(zip(names, row, strict=True))) for row in told]
    return Whole(at=now, event=event, last_tick=last_tick, objects=found)


def _counted(column: Any, condition: Any) -> Any:
    return select(column, func.count().label("n")).where(condition).group_by(column).subquery()
