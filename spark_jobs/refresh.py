"""Refresh a view: run its SQL over pinned parent snapshots, replace its content in one snapshot.

The parents' snapshots are pinned by the decision, so a refresh that is repeated, or late, computes the same rows. The
view's columns are the query's: when they change, schema and content change in the same commit, with new field ids,
since none of the old content stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs import files, schema
from spark_jobs.query import prepared
from spark_jobs.schema import SchemaError
from spark_jobs.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

#: Bytes of input up to which the result is written as one file.
SMALL_BYTES = 64 << 20
BYTES_IN = "freshet.bytes-in"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshResult:
    """What a refresh made."""

    snapshot_id: int
    rows: int
    bytes_in: int
    bytes_out: int
    #: Seconds spent in plan, write, commit; empty for a refresh that was already there.
    stages: dict[str, float]


def refresh_view(
    *,
    spark: SparkSession,
    tables: Tables,
    view: str,
    sql: str,
    reads: Mapping[str, int | None],
    virtual: Mapping[str, str],
    marker: str,
    progress: Callable[[str], None] = log.info,
) -> RefreshResult:
    """Make the view's content what its SQL gives over the pinned snapshots, once however often it is called."""
    found = tables.find(view, marker)
    if found is not None:
        progress(f"{view}: already refreshed as snapshot {found}")
        return _recall(tables, view, found)

    stages: dict[str, float] = {}
    start = time.monotonic()
    progress(f"{view}: planning over {len(reads)} parents")
    result, bytes_in = prepared(spark, tables, sql, reads, virtual)
    planned = tables.plan_schema(view, _columns(view, result))
    stages["plan"] = time.monotonic() - start
    with tables.attempt(view, marker) as folder:
        start = time.monotonic()
        progress(f"{view}: writing")
        result = schema.cast(result, planned)
        written = files.write_frame(result.coalesce(1) if bytes_in <= SMALL_BYTES else result, folder)
        stages["write"] = time.monotonic() - start
        start = time.monotonic()
        progress(f"{view}: committing")
        snapshot = tables.replace(view, written, marker, folder, schema=planned, extra={BYTES_IN: str(bytes_in)})
        stages["commit"] = time.monotonic() - start
    done = _recall(tables, view, snapshot)
    progress(f"{view}: {done.rows} rows in snapshot {snapshot}")
    return RefreshResult(
        snapshot_id=snapshot, rows=done.rows, bytes_in=bytes_in, bytes_out=done.bytes_out, stages=stages
    )


def _recall(tables: Tables, view: str, snapshot_id: int) -> RefreshResult:
    summary = tables.summary(view, snapshot_id)
    return RefreshResult(
        snapshot_id=snapshot_id,
        rows=int(summary.get("total-records", 0)),
        bytes_in=int(summary[BYTES_IN]),
        bytes_out=int(summary.get("total-files-size", 0)),
        stages={},
    )


def _columns(view: str, result: DataFrame) -> list[tuple[str, str]]:
    columns = [(field.name, field.dataType.simpleString()) for field in result.schema.fields]
    try:
        schema.build(columns)
    except SchemaError as error:
        raise SchemaError(f"view {view}: {error}") from error
    return columns
