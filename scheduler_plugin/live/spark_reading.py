"""SQL from people run in Spark, over the snapshots they were given and within the time they have."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from scheduler_plugin.catalog.confined import ConfinedError
from scheduler_plugin.services.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


#: The classes of SQL states that tell of the SQL or of what it met in the data, not of Spark's own troubles.
OF_THE_SQL = ("0A", "21", "22", "42", "54")


class StoppedError(Exception):
    """Spark was stopped because the time was over."""


def read(
    settings: Settings,
    sql: str,
    snapshots: Mapping[str, int | None],
    virtual: Mapping[str, str],
    *,
    most_rows: int,
    seconds: float,
) -> "tuple[pa.Table, float]":
    """The answer, with one row more where there are more than `most_rows`, and the seconds Spark took for it.

    ConfinedError says what Spark has against the SQL.
    """
    # Heavy to import, and not needed to be told that a query cannot be answered.
    from spark_jobs.query import confine, prepared
    from spark_jobs.session import spark_session
    from spark_jobs.tables import Tables

    began = time.monotonic()
    with (
        Tables(settings.database_url, settings.warehouse) as tables,
        spark_session(settings.spark_remote) as spark,
        _complaints(),
    ):
        confine(spark)
        frame, _ = prepared(spark, tables, sql, snapshots, virtual)
        ready = time.monotonic()
        left = seconds - (ready - began)
        if left <= 0:
            raise StoppedError("its deadline passed before Spark could begin")
        with _stopped_in_time(spark, left):
            found = frame.limit(most_rows + 1).toArrow()
        return found, time.monotonic() - ready


@contextmanager
def _complaints() -> Iterator[None]:
    """What Spark has against the SQL, in a sentence or two."""
    from pyspark.errors import PySparkException

    # By itself it writes each complaint to stderr, with the server's stack.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    try:
        yield
    except PySparkException as error:
        if not (error.getSqlState() or "").startswith(OF_THE_SQL):
            raise
        raise ConfinedError(f"Spark cannot run it: {str(error).splitlines()[0]}") from error


@contextmanager
def _stopped_in_time(spark: Any, seconds: float) -> Iterator[None]:
    """What Spark does after the deadline is for nobody, and nothing may keep it busy for good."""
    over, done = threading.Event(), threading.Event()

    def stop() -> None:
        over.set()
        # What has not begun yet, or could not be stopped, is stopped the next time.
        while not done.is_set():
            spark.interruptAll()
            done.wait(0.5)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if not over.is_set():
            raise
        raise StoppedError(f"Spark was stopped after {seconds:.1f} s of work on it") from error
    finally:
        done.set()
        timer.cancel()
