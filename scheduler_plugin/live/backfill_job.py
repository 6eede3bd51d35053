"""What the job of one piece of a backfill does on Spark, and starting a backfill by the form in Airflow."""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import backfill_plan, backfills, decisions, settling
from scheduler_plugin.store.backfill_plan import BackfillError, Preview
from scheduler_plugin.store.backfills import Work
from scheduler_plugin.store.database import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.tables import Tables

log = logging.getLogger(__name__)


def run_piece(spark: "SparkSession", tables: "Tables", claim: decisions.Claim, piece: Work) -> settling.Outcome:
    return {"stage": _stage, "commit": _commit, "refresh": _refresh}[piece.what](spark, tables, claim, piece)


def _stage(spark: "SparkSession", tables: "Tables", claim: decisions.Claim, piece: Work) -> settling.Outcome:
    from spark_jobs.intake import SourceFile
    from spark_jobs.reload import stage

    spec = piece.spec
    folder, loaded = stage(
        spark=spark,
        tables=tables,
        table=piece.object,
        columns=[tuple(column) for column in spec["columns"]],
        format=spec["format"],
        files=[
            SourceFile(update_id=update, path=path, size=size, gated=not released)
            for update, path, size, released in piece.files
        ],
        backfill=piece.backfill,
        piece=piece.position,
        key=spec["key"],
        interval=(spec.get("interval") or {}).get("column"),
        expectations=spec["expectations"],
        progress=log.info,
    )
    for _, reason in loaded.quarantined_files:
        log.warning("What the table holds of this file stays as it is: %s", reason)
    return settling.Outcome(
        snapshot_id=None,
        rows=loaded.rows,
        bytes_in=loaded.bytes_in,
        bytes_out=loaded.bytes_out,
        stages=loaded.stages,
        quality=loaded.quality,
        folder=folder,
    )


def _commit(spark: "SparkSession", tables: "Tables", claim: decisions.Claim, piece: Work) -> settling.Outcome:
    from spark_jobs.load import read_outcome
    from spark_jobs.reload import exchange
    from spark_jobs.snapshots import rows_of

    loaded = [read_outcome(folder) for folder in piece.staged]
    refused = {update for each in loaded for update, _ in each.quarantined_files}
    wanted = [each for each in piece.updates if each not in refused and piece.let_out.get(each) not in refused]
    snapshot = exchange(
        spark=spark,
        tables=tables,
        table=piece.object,
        updates=wanted,
        staged=piece.staged,
        backfill=piece.backfill,
        progress=log.info,
    )
    return settling.Outcome(
        snapshot_id=snapshot,
        rows=sum(each.rows for each in loaded),
        object_rows=rows_of(tables.summary(piece.object, snapshot)),
        bytes_in=sum(each.bytes_in for each in loaded),
        bytes_out=sum(each.bytes_out for each in loaded),
        stages={},
        rows_by_update={update: rows for each in loaded for update, rows in each.rows_by_update.items()},
        quarantined_rows=[row for each in loaded for row in each.quarantined_rows],
        reloaded=wanted,
    )


def _refresh(spark: "SparkSession", tables: "Tables", claim: decisions.Claim, piece: Work) -> settling.Outcome:
    from spark_jobs.refresh import refresh_view

    refreshed = refresh_view(
        spark=spark,
        tables=tables,
        view=piece.object,
        sql=piece.spec["sql"],
        reads=claim.reads,
        virtual=claim.virtual,
        marker=claim.marker,
        full=True,
    )
    return settling.Outcome(
        snapshot_id=refreshed.snapshot_id,
        rows=refreshed.rows,
        bytes_in=refreshed.bytes_in,
        bytes_out=refreshed.bytes_out,
        stages=refreshed.stages,
    )


def start_by_form(settings: Settings, params: Mapping[str, Any], *, who: str, log: Callable[[str], None]) -> None:
    """Previews, and starts unless only the preview was asked for."""
    database = Database(settings.database_url)
    try:
        asked: dict[str, Any] = {
            "mode": None if params["mode"] == "as it fits" else params["mode"],
            "covers_from": moment(params["from"]),
            "covers_to": moment(params["to"]),
        }
        log(told(backfill_plan.preview(database, params["object"], **asked)))
        if params["preview_only"]:
            return
        why = params["why"] or "by the form in Airflow"
        identity = backfills.start(
            database, params["object"], who=who, why=why, weight=float(params["weight"]), **asked
        )
        log(f"Backfill {identity} is under way. Each of its pieces is a run of this DAG.")
    finally:
        database.close()


def moment(text: str | None) -> datetime | None:
    """A date or a time in ISO's words; without a zone it is UTC."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BackfillError(f"`{text}` is not a time. Write it like 2024-02-08 or 2024-02-08T15:00Z.") from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def told(preview: Preview) -> str:
    """A preview in words."""
    parts = [f"{preview.mode} {preview.object}:"]
    if preview.mode == "reload":
        parts.append(f"{preview.files} files, {preview.bytes / 1e6:.1f} MB;")
    parts.append(f"{len(preview.views)} views" + (f" ({', '.join(preview.views)});" if preview.views else ";"))
    parts.append(f"{len(preview.pieces)} pieces, about {preview.slot_seconds:.0f} slot-seconds.")
    return " ".join(parts)
