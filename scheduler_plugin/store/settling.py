"""Settling a decision: what its job did becomes version, cost, updates, quarantine, quality and an event, at once.

An earlier attempt that comes back with the work done settles it just as well; only the first one writes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from scheduler_plugin.store import arrivals, backfills, validity
from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.decisions import Claim
from scheduler_plugin.store.models import (
    OPEN_STATES,
    Batch,
    Cost,
    Decision,
    DecisionState,
    EventKind,
    Job,
    QualityResult,
    QuarantinedRow,
    Update,
    UpdateState,
    Version,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a job did, for the ledger."""

    snapshot_id: int | None
    #: What the job put into the object; what it holds then, where that is more.
    rows: int
    bytes_in: int
    bytes_out: int
    stages: Mapping[str, float]
    object_rows: int | None = None
    #: Of a refresh: "full" or "difference".
    way: str | None = None
    rows_by_update: Mapping[int, int] = field(default_factory=dict)
    covered: Mapping[int, tuple[datetime, datetime]] = field(default_factory=dict)
    #: (update, reason)
    quarantined_files: Sequence[tuple[int, str]] = ()
    #: (update, row number, reason, raw)
    quarantined_rows: Sequence[tuple[int, int | None, str, str | None]] = ()
    #: expectation, on_fail, passed, detail
    quality: Sequence[tuple[str, str, bool, Mapping[str, Any]]] = ()
    #: For a piece of a backfill that only staged its rows: where.
    folder: str | None = None
    #: For the commit of a backfill: the updates whose rows were put anew into the table.
    reloaded: Sequence[int] = ()


def finish(database: Database, claim: Claim, outcome: Outcome) -> bool:
    """The work is done. False when an earlier attempt has settled it, or nobody wants it any more."""
    with database.logging_transaction() as (connection, now):
        decision = connection.execute(
            select(Decision).where(Decision.id == claim.decision).with_for_update()
        ).one_or_none()
        if decision is None or decision.state not in OPEN_STATES:
            return False
        connection.execute(
            update(Decision)
            .where(Decision.id == claim.decision)
            .values(state=DecisionState.DONE, finished_at=now, error=None)
        )
        _end_job(connection, claim, now, stages=dict(outcome.stages))
        changed = claim.object if claim.piece is None else claim.piece.object
        # What an earlier attempt wasted is not what such a job costs.
        began = decision.decided_at if decision.attempt == 1 else decision.claimed_at or decision.decided_at
        slot_seconds = max((now - began).total_seconds(), 0.0)
        if outcome.snapshot_id is not None:
            if decision.batch_id is not None:
                valid = validity.of_batch(connection, changed, decision.batch_id)
            elif claim.piece is not None and claim.piece.what == "commit":
                valid = validity.of_newest(connection, changed)
            else:
                valid = validity.of_reads(connection, decision.reads)
            connection.execute(
                upsert(Version)
                .values(
                    object=changed,
                    snapshot_id=outcome.snapshot_id,
                    decision_id=claim.decision,
                    committed_at=now,
                    valid_from=valid.since,
                    valid_to=valid.until,
                    rows=outcome.rows if outcome.object_rows is None else outcome.object_rows,
                    reads=dict(claim.reads),
                )
                .on_conflict_do_nothing()
            )
        connection.execute(
            insert(Cost).values(
                decision_id=claim.decision,
                object=claim.object,
                at=now,
                slot_seconds=slot_seconds,
                units=max(len(claim.updates), 1),
                bytes_in=outcome.bytes_in,
                bytes_out=outcome.bytes_out,
                way=outcome.way,
            )
        )
        if decision.batch_id is not None:
            _settle_batch(connection, decision.batch_id, claim, outcome, now)
        if claim.piece is not None and claim.piece.what == "commit":
            _settle_reload(connection, claim.piece, outcome, now)
        body = {
            "decision": claim.decision,
            "slot_seconds": slot_seconds,
            "bytes_out": outcome.bytes_out,
            "quarantined_files": len(outcome.quarantined_files),
            "quarantined_rows": len(outcome.quarantined_rows),
        }
        log_events(connection, now, [(EventKind.JOB_FINISHED, claim.object, body)])
        if claim.piece is not None:
            told = {"folder": outcome.folder, "rows": outcome.rows, "snapshot": outcome.snapshot_id}
            backfills.settle(connection, now, claim.piece, told)
    return True


def _settle_batch(connection: Connection, batch: int, claim: Claim, outcome: Outcome, now: datetime) -> None:
    refused = dict(outcome.quarantined_files)
    connection.execute(
        update(Batch)
        .where(Batch.id == batch)
        .values(
            rows_loaded=outcome.rows,
            rows_quarantined=len(outcome.quarantined_rows),
            snapshot_id=outcome.snapshot_id,
            settled_at=now,
        )
    )
    connection.execute(
        text(
            "UPDATE freshet.update AS old SET state = new.state, reason = new.reason, rows = new.rows, "
            "settled_at = :now, covers_from = coalesce(new.covers_from, old.covers_from), "
            "covers_to = coalesce(new.covers_to, old.covers_to) "
            "FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS new(id bigint, state text, reason text, rows bigint, "
            "covers_from timestamptz, covers_to timestamptz) WHERE old.id = new.id"
        ),
        {"now": now, "rows": json.dumps([_settled(source.id, refused, outcome) for source in claim.updates])},
    )
    if refused:
        arrivals.mark_replaced(connection, claim.object, batch)
    _keep_rows(connection, claim.object, outcome, now)
    _keep_quality(connection, claim.object, batch, outcome, now)


def _settle_reload(connection: Connection, piece: backfills.Work, outcome: Outcome, now: datetime) -> None:
    """The updates whose rows were put anew into the table; those that could not be loaded again are as they were."""
    for each in outcome.reloaded:
        rows = outcome.rows_by_update.get(each, 0)
        connection.execute(update(Update).where(Update.id == each).values(rows=rows, settled_at=now))
    connection.execute(
        update(QuarantinedRow)
        .where(QuarantinedRow.update_id.in_(outcome.reloaded), QuarantinedRow.resolution.is_(None))
        .values(resolution="replaced")
    )
    # A file of rows that were let out is done with: its rows have been judged anew with the file they came with.
    connection.execute(
        update(Update)
        .where(Update.id.in_(outcome.reloaded), Update.origin_id.is_not(None))
        .values(state=UpdateState.REPLACED)
    )
    _keep_rows(connection, piece.object, outcome, now)


def _keep_rows(connection: Connection, table: str, outcome: Outcome, now: datetime) -> None:
    if outcome.quarantined_rows:
        connection.execute(
            insert(QuarantinedRow),
            [
                {
                    "table_name": table,
                    "update_id": update_id,
                    "row_number": row_number,
                    "reason": reason,
                    "raw": raw,
                    "at": now,
                }
                for update_id, row_number, reason, raw in outcome.quarantined_rows
            ],
        )


def _keep_quality(connection: Connection, table: str, batch: int, outcome: Outcome, now: datetime) -> None:
    if outcome.quality:
        connection.execute(
            insert(QualityResult),
            [
                {
                    "batch_id": batch,
                    "table_name": table,
                    "at": now,
                    "expectation": expectation,
                    "on_fail": on_fail,
                    "passed": passed,
                    "detail": dict(detail),
                }
                for expectation, on_fail, passed, detail in outcome.quality
            ],
        )


def fail(database: Database, claim: Claim, error: str, *, away: bool = False) -> bool:
    """Gives a decision up: the job said it could not. A batch keeps its updates for the next decision.

    `away`: nobody was there to run it, which says nothing about the object.
    """
    with database.logging_transaction() as (connection, now):
        failed = connection.execute(
            update(Decision)
            .where(
                Decision.id == claim.decision,
                Decision.attempt == claim.attempt,
                Decision.state == DecisionState.CLAIMED,
            )
            .values(state=DecisionState.FAILED, finished_at=now, error=error)
        )
        _end_job(connection, claim, now, stages={}, error=error)
        if failed.rowcount:
            body = {"decision": claim.decision, "away": away}
            log_events(connection, now, [(EventKind.JOB_FAILED, claim.object, body)])
            if claim.kind == backfills.KIND:
                backfills.tidy(connection, now, claim.object)
        return failed.rowcount == 1


def _end_job(
    connection: Connection, claim: Claim, now: datetime, *, stages: dict[str, float], error: str | None = None
) -> None:
    connection.execute(
        update(Job)
        .where(Job.decision_id == claim.decision, Job.attempt == claim.attempt)
        .values(finished_at=now, stages=stages, error=error)
    )


def _settled(update_id: int, refused: Mapping[int, str], outcome: Outcome) -> dict[str, Any]:
    covers_from, covers_to = outcome.covered.get(update_id, (None, None))
    return {
        "id": update_id,
        "state": UpdateState.QUARANTINED if update_id in refused else UpdateState.LOADED,
        "reason": refused.get(update_id),
        "rows": outcome.rows_by_update.get(update_id, 0),
        "covers_from": covers_from.isoformat() if covers_from else None,
        "covers_to": covers_to.isoformat() if covers_to else None,
    }
