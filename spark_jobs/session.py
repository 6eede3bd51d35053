"""A client's own session on the warm Spark Connect server.

A job has a session to itself (`create()`, never `getOrCreate()`), so temp views and settings of two jobs cannot meet.
But what Spark has compiled for one session it compiles again for the next, which takes a third of a small job. So a job
that ends well leaves its session for a later one, under a lock that the system holds for as long as its process lives:
one that is frozen keeps the session, and of one that died nobody takes it. Other sessions are stopped: the server keeps
a forgotten session's state for an hour.
"""

from __future__ import annotations

import fcntl
import itertools
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # A timestamp without a zone in a file means UTC, whatever zone the server's host lives in.
    "spark.sql.session.timeZone": "UTC",
    # Iceberg keeps microseconds; Spark's default (INT96) is refused at the commit.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Iceberg finds a column by its id, not its name: a dropped column must not come back when its name is used again.
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Above 32 paths Spark starts a job just to list them; ours are files we have already looked at.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # A time that only Spark 2 could read is a bad value like any other, not an exception that fails the whole job.
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # A file that vanishes or breaks under a read is an error to report, never rows to leave out.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}


#: Seconds for which a job that begins waits for Spark to listen.
PATIENCE_SECONDS = 20.0
#: Seconds for which a session is left to later jobs; the server forgets what has rested for an hour.
KEPT_SECONDS = 1800.0


class SparkGone(Exception):
    """Nobody answers where Spark should be."""


@contextmanager
def spark_session(remote: str, kept: Path | None = None) -> Iterator[SparkSession]:
    """A session on `remote` (sc://host:port): a fresh one, stopped on the way out; or one of those in folder `kept`.

    What works in a kept one must make every temp view that it reads: those of earlier jobs are still there.
    """
    _await(remote)
    if kept is None:
        session = _opened(remote)
        try:
            yield session
        finally:
            _end(session)
        return
    with _own_place(kept) as place:
        place.seek(0)
        name, _, since = place.read().partition(" ")
        # Whoever dies from here on leaves nothing to be taken.
        place.truncate(0)
        now = time.time()
        if not name or not 0 <= now - float(since) < KEPT_SECONDS:
            name, since = str(uuid.uuid4()), str(now)
        session = _opened(f"{remote.rstrip('/')}{'' if '/;' in remote else '/'};session_id={name}")
        try:
            yield session
        except BaseException:
            _end(session)
            raise
        session.release_session_on_close = False
        _end(session)
        place.write(f"{name} {since}")


@contextmanager
def _own_place(folder: Path) -> Iterator[TextIO]:
    """The first file of the folder that no living process has."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        with (folder / str(number)).open("a+") as place:
            try:
                fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield place
            return


def _opened(remote: str) -> SparkSession:
    # Not the class in pyspark.sql.connect: only this one switches pyspark.sql.functions, which great-expectations uses,
    # to the Connect kind.
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    builder = SparkSession.builder.remote(remote)
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.create()
    # By default a client waits up to a minute between two tries, and gives up after ten. This makes some 3 s in all: a
    # server that was started anew does not know the session any more, and may have another port.
    session.client.set_retry_policies([DefaultPolicy(max_retries=5, max_backoff=1000)])
    return session


def _end(session: SparkSession) -> None:
    session.stop()
    # One that is garbage closes its client once more, in whatever thread that happens, and waits for calls that may
    # themselves wait for this thread: no session of the process would ever get an answer again.
    session.client.close = lambda: None


def _await(remote: str) -> None:
    """Returns when somebody listens there."""
    server = urlsplit(remote)
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection((server.hostname or "localhost", server.port or 15002), timeout=5).close()
        except OSError as error:
            if time.monotonic() > until:
                raise SparkGone(f"Spark does not answer at {server.hostname}:{server.port}: {error}") from error
            time.sleep(0.2)
        else:
            return
