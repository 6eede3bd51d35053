"""A client's own session on the warm Spark Connect server.

A job gets a session to itself (`create()`, never `getOrCreate()`), so temp views and settings of two jobs cannot meet,
and always stops it: the server keeps a forgotten session's state for an hour.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
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


class SparkGone(Exception):
    """Nobody answers where Spark should be."""


@contextmanager
def spark_session(remote: str) -> Iterator[SparkSession]:
    """A fresh session on `remote` (sc://host:port), stopped on the way out."""
    _await(remote)
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
    try:
        yield session
    finally:
        session.stop()


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
