"""Load a batch: read its files, gate the rows, write Parquet, commit one snapshot.

No row is lost without a word: each is in the table, or in quarantine with a reason, or its whole file is. The snapshot
names the attempt's folder, where `outcome.json` tells what was loaded, so whoever comes second for the same batch (a
retry, or a worker thought dead) reads the outcome and repeats nothing.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from spark_jobs.batch import Batch, SmallBatch
from spark_jobs.files import OUTCOME, read_text, remove_folder, size, write_text
from spark_jobs.gate import Quality
from spark_jobs.intake import Readable, SourceFile, inspect
from spark_jobs.intake import key as key_of
from spark_jobs.large import LargeBatch
from spark_jobs.reading import frame_of
from spark_jobs.schema import Columns, columns_of
from spark_jobs.sift import RowOut, sift
from spark_jobs.snapshots import FOLDER, rows_of
from spark_jobs.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

#: Bytes of source up to which a batch is fetched rather than written by Spark.
SMALL_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What became of a batch."""

    #: There is one even when no row passed: its marker keeps an earlier attempt from loading the batch after all.
    snapshot_id: int
    rows: int
    #: Rows of the whole table with this snapshot.
    table_rows: int
    #: Rows in the table, for every update of the batch.
    rows_by_update: dict[int, int]
    #: First and last time in the interval column, for updates that gave rows; empty when none is declared.
    covered: dict[int, tuple[datetime, datetime]]
    bytes_in: int
    bytes_out: int
    #: (update id, reason)
    quarantined_files: list[tuple[int, str]]
    quarantined_rows: list[RowOut]
    quality: list[Quality]
    #: Seconds spent in read, gate, write, commit; empty for a batch that was already there. A large batch is written
    #: while it is read.
    stages: dict[str, float]


def load_batch(
    *,
    spark: SparkSession,
    tables: Tables,
    table: str,
    columns: Columns,
    format: str,
    files: Sequence[SourceFile],
    marker: str,
    key: Sequence[str] = (),
    interval: str | None = None,
    expectations: Sequence[Mapping[str, Any]] = (),
    progress: Callable[[str], None] = log.info,
) -> LoadResult:
    """Load these files into the table as one snapshot marked `marker`, once however often it is called."""
    schema = tables.ensure(table, columns)
    found = tables.find(table, marker)
    if found is not None:
        progress(f"{table}: already loaded as snapshot {found}")
        return _recall(tables, table, found)

    with tables.attempt(table, marker) as folder:
        outcome, written = prepare(
            spark=spark,
            table=table,
            schema=schema,
            format=format,
            files=files,
            folder=folder,
            key=key,
            interval=interval,
            expectations=expectations,
            progress=progress,
        )
        progress(f"{table}: committing {outcome.rows} rows")
        with _timed(outcome.stages, "commit"):
            snapshot = tables.append(table, written, marker, folder)
            summary = tables.summary(table, snapshot)
    if summary[FOLDER] != folder:
        return _recall(tables, table, snapshot)
    return replace(outcome, snapshot_id=snapshot, table_rows=rows_of(summary))


def prepare(
    *,
    spark: SparkSession,
    table: str,
    schema: Schema,
    format: str,
    files: Sequence[SourceFile],
    folder: str,
    key: Sequence[str],
    interval: str | None,
    expectations: Sequence[Mapping[str, Any]],
    progress: Callable[[str], None],
) -> tuple[LoadResult, list[str]]:
    """Read, gate and write the files into a folder; what became of each, and the Parquet. Nothing is committed."""
    columns = columns_of(schema)
    stages: dict[str, float] = {}
    progress(f"{table}: reading {len(files)} files")
    with _timed(stages, "read"):
        batch, readable, refused = _read(spark, files, format, schema, folder)
    try:
        progress(f"{table}: gating")
        with _timed(stages, "gate"):
            sifted = sift(batch, readable, columns, expectations, key)
        progress(f"{table}: writing")
        with _timed(stages, "write"):
            tallies = sifted.batch.tally(interval)
            updates = {file: each.source.update_id for file, each in readable.items()}
            written = sifted.batch.write(folder, schema, updates)
    finally:
        batch.release()
    outcome = LoadResult(
        snapshot_id=0,
        rows=sum(tally.rows for tally in tallies.values()),
        table_rows=0,
        rows_by_update={file.update_id: 0 for file in files}
        | {updates[file]: tally.rows for file, tally in tallies.items()},
        covered={
            updates[file]: (tally.low, tally.high)
            for file, tally in tallies.items()
            if tally.low is not None and tally.high is not None
        },
        bytes_in=sum(file.size for file in readable.values()),
        bytes_out=size(written),
        quarantined_files=refused + sifted.files,
        quarantined_rows=sifted.rows,
        quality=sifted.quality,
        stages={},
    )
    write_text(_dump(outcome), f"{folder}/{OUTCOME}")
    return replace(outcome, stages=stages), written


def _read(
    spark: SparkSession, files: Sequence[SourceFile], format: str, schema: Schema, folder: str
) -> tuple[Batch, dict[str, Readable], list[tuple[int, str]]]:
    """The rows of all readable files. What breaks only under Spark is looked at again, and then searched for."""
    from pyspark.errors import PySparkException

    columns = columns_of(schema)
    readable, refused = inspect(files, format=format, columns=columns)
    try:
        batch = _rows(spark, readable, format, schema, folder)
    except PySparkException as error:
        _require_alive(spark)
        log.warning("reading %d files together failed (%s); looking for the culprit", len(readable), _first_line(error))
        remove_folder(folder)
        readable, gone = inspect([file.source for file in readable], format=format, columns=columns)
        broken = _broken(spark, readable, format, columns)
        refused += gone + [
            (file.source.update_id, f"{file.source.path}: Spark cannot read it: {why}") for file, why in broken
        ]
        spoilt = {file.source.path for file, _ in broken}
        readable = [file for file in readable if file.source.path not in spoilt]
        batch = _rows(spark, readable, format, schema, folder)
    return batch, {key_of(file.source.path): file for file in readable}, refused


def _rows(spark: SparkSession, files: Sequence[Readable], format: str, schema: Schema, folder: str) -> Batch:
    columns = columns_of(schema)
    if not files:
        return SmallBatch.empty(spark, columns)

    def frame(strict: bool) -> DataFrame:
        return frame_of(spark, files, format=format, columns=columns, strict=strict)

    if sum(file.size for file in files) <= SMALL_BYTES:
        return SmallBatch.fetch(frame(False))
    updates = {key_of(file.source.path): file.source.update_id for file in files}
    return LargeBatch.write_aside(frame, folder, schema, updates)


def _broken(
    spark: SparkSession, files: Sequence[Readable], format: str, columns: Columns
) -> list[tuple[Readable, str]]:
    """The files that Spark cannot read, and why: both halves of what fails together are tried."""
    from pyspark.errors import PySparkException

    if not files:
        return []
    try:
        frame_of(spark, files, format=format, columns=columns).write.format("noop").mode("overwrite").save()
        return []
    except PySparkException as error:
        _require_alive(spark)
        if len(files) == 1:
            return [(files[0], _first_line(error))]
    middle = len(files) // 2
    return [found for half in (files[:middle], files[middle:]) for found in _broken(spark, half, format, columns)]


def _dump(outcome: LoadResult) -> str:
    """JSON that keeps update ids as they are: pairs, since a JSON key is always text."""
    plain = asdict(outcome) | {
        "rows_by_update": list(outcome.rows_by_update.items()),
        "covered": [(update, low.isoformat(), high.isoformat()) for update, (low, high) in outcome.covered.items()],
    }
    return json.dumps(plain)


def _recall(tables: Tables, table: str, snapshot_id: int) -> LoadResult:
    """The outcome of a batch that is already in the table."""
    summary = tables.summary(table, snapshot_id)
    return replace(read_outcome(summary[FOLDER]), snapshot_id=snapshot_id, table_rows=rows_of(summary))


def read_outcome(folder: str) -> LoadResult:
    """What was written into a folder."""
    plain = json.loads(read_text(f"{folder}/{OUTCOME}"))
    plain |= {
        "rows_by_update": dict(map(tuple, plain["rows_by_update"])),
        "covered": {
            update: (datetime.fromisoformat(low), datetime.fromisoformat(high))
            for update, low, high in plain["covered"]
        },
        "quarantined_files": [tuple(each) for each in plain["quarantined_files"]],
        "quarantined_rows": [tuple(each) for each in plain["quarantined_rows"]],
        "quality": [tuple(each) for each in plain["quality"]],
    }
    return LoadResult(**plain)


def _require_alive(spark: SparkSession) -> None:
    """A server that is gone is no fault of the files: this raises then, and the job fails instead."""
    spark.range(1).count()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


@contextmanager
def _timed(stages: dict[str, float], name: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    stages[name] = time.monotonic() - start
