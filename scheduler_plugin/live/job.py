"""What one run does: claim the decision, run it on Spark, settle the ledger.

The same whatever started it; the Airflow operator is a thin shell around `run`.
"""

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import backfills, decisions, settling
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)
# It tells ten times a job which reader of files it takes; a job's log is for what became of the job.
logging.getLogger("pyiceberg.io").setLevel(logging.WARNING)

#: Seconds between two signs of life of a running job.
BEAT_SECONDS = 2.0
#: Every so many decisions a view is refreshed the way that seems dearer, where both are possible.
EXPLORE_EVERY = 200


def run(settings: Settings, decision: int, attempt: int) -> bool:
    """Runs the decision. False when there was nothing to do: it is done, or another job has it."""
    database = Database(settings.database_url)
    try:
        worker = f"{socket.gethostname()}:{os.getpid()}"
        claim = decisions.claim(database, decision, attempt, worker)
        if claim is None:
            log.info(
                "Decision %d needs no work from attempt %d: done already, or another job has it.", decision, attempt
            )
            return False
        log.info("Decision %d: %s %s. %s", decision, _verb(claim), claim.object, claim.why)
        try:
            if claim.kind == backfills.KIND and claim.piece is None:
                raise BackfillStoppedError(f"{claim.object} was stopped before this piece of it began")
            with _beating(database, claim):
                outcome = _work(settings, claim)
        except Exception as error:
            settling.fail(database, claim, f"{type(error).__name__}: {error}", away=_nobody_runs_it(error))
            raise
        settling.finish(database, claim, outcome)
        _tell(claim, outcome)
        return True
    finally:
        database.close()


def _nobody_runs_it(error: Exception) -> bool:
    from spark_jobs.session import SparkGone

    return isinstance(error, SparkGone)


class BackfillStoppedError(Exception):
    """Nobody wants the piece any more."""


def _verb(claim: decisions.Claim) -> str:
    if claim.piece is not None:
        return f"{claim.piece.what} {claim.piece.object} for"
    return f"load {len(claim.updates)} file(s) into" if claim.kind == "table" else "refresh"


def _work(settings: Settings, claim: decisions.Claim) -> settling.Outcome:
    # Spark and Iceberg are heavy to import; a warm executor has them loaded before it forks.
    from spark_jobs.load import SourceFile, load_batch
    from spark_jobs.refresh import Measured, refresh_view
    from spark_jobs.session import spark_session
    from spark_jobs.tables import Tables

    tables = Tables(settings.database_url, settings.warehouse)
    spec = claim.spec
    # Rows that this process hands to Spark, as SQL expectations need them, stay there as long as the session does.
    hands_rows = claim.piece is not None or any(each["expect"] == "sql" for each in spec.get("expectations", ()))
    with spark_session(settings.spark_remote, kept=None if hands_rows else settings.home.spark / "sessions") as spark:
        if claim.piece is not None:
            from scheduler_plugin.live.backfill_job import run_piece

            return run_piece(spark, tables, claim, claim.piece)
        if claim.kind == "view":
            refreshed = refresh_view(
                spark=spark,
                tables=tables,
                view=claim.object,
                sql=spec["sql"],
                reads=claim.reads,
                virtual=claim.virtual,
                marker=claim.marker,
                measured={way: Measured(seconds=s, bytes_in=b) for way, (s, b) in claim.measured.items()},
                explore=claim.decision % EXPLORE_EVERY == 0,
            )
            return settling.Outcome(
                snapshot_id=refreshed.snapshot_id,
                rows=refreshed.rows,
                bytes_in=refreshed.bytes_in,
                bytes_out=refreshed.bytes_out,
                stages=refreshed.stages,
                way=refreshed.way,
            )
        interval = spec.get("interval") or {}
        loaded = load_batch(
            spark=spark,
            tables=tables,
            table=claim.object,
            columns=[tuple(column) for column in spec["columns"]],
            format=spec["format"],
            files=[
                SourceFile(update_id=u.id, path=u.path, size=u.size_bytes, gated=not u.ungated) for u in claim.updates
            ],
            marker=claim.marker,
            key=spec["key"],
            interval=interval.get("column"),
            expectations=spec["expectations"],
            progress=log.info,
        )
        return settling.Outcome(
            snapshot_id=loaded.snapshot_id,
            rows=loaded.rows,
            object_rows=loaded.table_rows,
            bytes_in=loaded.bytes_in,
            bytes_out=loaded.bytes_out,
            stages=loaded.stages,
            rows_by_update=loaded.rows_by_update,
            # The column names when a value begins; it stands for a while.
            covered={
                update: (first, last + timedelta(seconds=interval["length"]))
                for update, (first, last) in loaded.covered.items()
            },
            quarantined_files=loaded.quarantined_files,
            quarantined_rows=loaded.quarantined_rows,
            quality=loaded.quality,
        )


def _tell(claim: decisions.Claim, outcome: settling.Outcome) -> None:
    stages = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in outcome.stages.items())
    log.info("%s: %d rows in snapshot %s (%s)", claim.object, outcome.rows, outcome.snapshot_id, stages)
    for _, on_fail, passed, detail in outcome.quality:
        log.log(logging.INFO if passed else logging.WARNING, "Expectation %s", _said(on_fail, passed, detail["words"]))
    for update, reason in outcome.quarantined_files:
        log.warning("%s: update %d is in quarantine: %s", claim.object, update, reason)
    if outcome.quarantined_rows:
        log.warning("%s: %d row(s) are in quarantine", claim.object, len(outcome.quarantined_rows))


def _said(on_fail: str, passed: bool, words: str) -> str:
    """An expectation's result for the log: what it asks, what was found, and what follows from it."""
    if passed:
        return words
    so = {"block": "the files are kept out", "drop": "the rows are kept out", "warn": "written down, and loaded"}
    return f"not met: {words}; {so[on_fail]}"


@contextmanager
def _beating(database: Database, claim: decisions.Claim) -> Iterator[None]:
    """Signs of life while the job runs, from a thread of its own."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(BEAT_SECONDS):
            try:
                if not decisions.beat(database, claim):
                    log.warning("Decision %d has been given to another attempt.", claim.decision)
                    return
            except Exception as error:  # the database may be away for a moment; the next beat tells
                log.warning("Decision %d: no sign of life could be written: %s", claim.decision, error)

    thread = threading.Thread(target=beat, name=f"decision-{claim.decision}-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
