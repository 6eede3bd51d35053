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
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from spark_jobs.batch import Batch, LargeBatch, Row, SmallBatch
from spark_jobs.files import OUTCOME, read_text, remove_folder, size, write_text
from spark_jobs.gate import Quality
from spark_jobs.intake import Readable, SourceFile, inspect, key
from spark_jobs.reading import explain, frame_of
from spark_jobs.schema import Columns
from spark_jobs.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: Bytes of source up to which a batch is fetched rather than kept on Spark.
SMALL_BYTES = 16 << 20
#: Bytes up to which Spark reads a file in one piece, so that rows can be numbered.
ONE_PIECE = 4 << 20
#: A file with more malformed rows than this goes to quarantine whole: it is not a file with some bad rows.
MOST_BAD_ROWS = 1000
FOLDER = "freshet.folder"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What became of a batch."""

    #: None when nothing was left to commit.
    snapshot_id: int | None
    rows: int
    #: Rows in the table, for every update of the batch.
    rows_by_update: dict[Any, int]
    #: First and last time in the interval column, for updates that gave rows; empty when none is declared.
    covered: dict[Any, tuple[datetime, datetime]]
    bytes_in: int
    bytes_out: int
    #: (update id, reason)
    quarantined_files: list[tuple[Any, str]]
    #: (update id, row number in the file or None, reason, the row's text)
    quarantined_rows: list[tuple[Any, int | None, str, str | None]]
    quality: list[Quality]
    #: Seconds spent in read, gate, write, commit.
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
    options: Mapping[str, str] | None = None,
    expectations: Sequence[Mapping[str, Any]] = (),
    progress: Callable[[str], None] = log.info,
) -> LoadResult:
    """Load these files into the table as one snapshot marked `marker`, once however often it is called."""
    schema = tables.ensure(table, columns)
    found = tables.find(table, marker)
    if found is not None:
        progress(f"{table}: already loaded as snapshot {found}")
        return _recall(tables, table, found)

    clock = _Clock()
    folder = tables.folder(table, marker)
    progress(f"{table}: reading {len(files)} files")
    with clock.stage("read"):
        batch, readable, refused = _read(spark, files, format, columns, options or {})
    progress(f"{table}: gating")
    with clock.stage("gate"):
        sifted = _sift(batch, readable, columns, options or {}, expectations, key)
    try:
        progress(f"{table}: writing")
        with clock.stage("write"):
            tallies = sifted.batch.tally(interval)
            written = sifted.batch.write(folder, schema) if tallies else []
        updates = {file: each.source.update_id for file, each in readable.items()}
        outcome = LoadResult(
            snapshot_id=None,
            rows=sum(tally.rows for tally in tallies.values()),
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
        snapshot = None
        if written:
            progress(f"{table}: committing {outcome.rows} rows")
            with clock.stage("commit"):
                write_text(_dump(outcome), f"{folder}/{OUTCOME}")
                snapshot = tables.append(table, written, marker, {FOLDER: folder})
    except Exception:
        _tidy(tables, table, marker, folder)
        raise
    if snapshot is not None and tables.summary(table, snapshot)[FOLDER] != folder:
        remove_folder(folder)
        progress(f"{table}: another attempt was first, as snapshot {snapshot}")
        return _recall(tables, table, snapshot)
    progress(f"{table}: {outcome.rows} rows in snapshot {snapshot}" if snapshot else f"{table}: no rows to commit")
    return _finished(outcome, snapshot, clock.seconds)


def _read(
    spark: SparkSession, files: Sequence[SourceFile], format: str, columns: Columns, options: Mapping[str, str]
) -> tuple[Batch, dict[str, Readable], list[tuple[Any, str]]]:
    """The rows of all readable files; a file that only breaks under Spark is found by reading each alone."""
    readable, refused = inspect(files, format=format, columns=columns, options=options)

    def rows(some: Sequence[Readable]) -> Batch:
        if not some:
            return SmallBatch.fetch(spark.createDataFrame([], _empty(columns)))
        frame = frame_of(spark, some, format=format, columns=columns, options=options)
        if sum(file.size for file in some) <= SMALL_BYTES:
            return SmallBatch.fetch(frame)
        large = LargeBatch.cached(frame)
        large.counts()
        return large

    from pyspark.errors import PySparkException

    try:
        batch = rows(readable)
    except PySparkException as error:
        spark.range(1).count()  # a server that is gone is no fault of the files
        log.warning("reading %d files together failed (%s); reading each alone", len(readable), _first_line(error))
        sound = []
        for file in readable:
            try:
                rows([file])
            except PySparkException as broken:
                refused.append(
                    (file.source.update_id, f"{file.source.path}: Spark cannot read it: {_first_line(broken)}")
                )
            else:
                sound.append(file)
        readable = sound
        batch = rows(readable)
    return batch, {key(file.source.path): file for file in readable}, refused


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sifted:
    """What may go into the table, and what may not."""

    batch: Batch
    files: list[tuple[Any, str]]
    rows: list[tuple[Any, int | None, str, str | None]]
    quality: list[Quality]


def _sift(
    batch: Batch,
    readable: Mapping[str, Readable],
    columns: Columns,
    options: Mapping[str, str],
    expectations: Sequence[Mapping[str, Any]],
    key: Sequence[str],
) -> _Sifted:
    files: dict[str, str] = {}
    rows: list[tuple[Any, int | None, str, str | None]] = []

    def kept_out(row: Row, reason: str) -> tuple[Any, int | None, str, str | None]:
        file = readable[row.file]
        return file.source.update_id, row.number if file.size <= ONE_PIECE else None, reason, row.raw

    def why(row: Row) -> str:
        layout = readable[row.file].layout
        return row.reason or explain(row.raw or "", row.values, layout=layout, columns=columns, options=options)

    counts = batch.counts()
    spoilt = {file: (all_, bad) for file, (all_, bad) in counts.items() if bad > MOST_BAD_ROWS or (bad and bad == all_)}
    some_bad = [file for file, (_, bad) in counts.items() if bad and file not in spoilt]
    rows += [kept_out(row, why(row)) for row in batch.malformed(some_bad)]
    for file, (all_, bad) in spoilt.items():
        files[file] = f"{bad} of {all_} rows are malformed"
        if bad <= MOST_BAD_ROWS:
            files[file] += f"; first: {why(batch.malformed([file])[0])}"
    batch = batch.without(files=spoilt)

    verdict = batch.judge(expectations)
    quality = list(verdict.quality)
    if key and (repeated := batch.repeated(key)):
        words = f"{repeated} rows repeat a key ({', '.join(key)}) within the batch"
        quality.append(Quality(expect="unique key", on_fail="warn", success=False, unexpected=repeated, words=words))
    if verdict.blocked:
        files |= {file: "; ".join(verdict.blocked) for file in readable if file not in files}
        rows = []
    else:
        blamed = {row.file: verdict.block_rows[row.id] for row in batch.rows(verdict.block_rows)}
        files |= blamed
        rows += [
            kept_out(row, verdict.drop_rows[row.id]) for row in batch.rows(verdict.drop_rows) if row.file not in blamed
        ]
        rows = [row for row in rows if row[0] not in {readable[file].source.update_id for file in blamed}]
    return _Sifted(
        batch=batch.without(files=files, ids=verdict.drop_rows),
        files=[
            (readable[file].source.update_id, f"{readable[file].source.path}: {reason}")
            for file, reason in files.items()
        ],
        rows=rows,
        quality=quality,
    )


def _tidy(tables: Tables, table: str, marker: str, folder: str) -> None:
    """Remove a failed attempt's folder when it is sure that no snapshot refers to it; otherwise upkeep will."""
    try:
        found = tables.find(table, marker)
        if found is None or tables.summary(table, found).get(FOLDER) != folder:
            remove_folder(folder)
    except Exception:
        log.warning("%s: left %s for upkeep", table, folder, exc_info=True)


def _dump(outcome: LoadResult) -> str:
    """JSON that keeps update ids as they are: pairs, since a JSON key is always text."""
    plain = asdict(outcome) | {
        "rows_by_update": list(outcome.rows_by_update.items()),
        "covered": [(update, low.isoformat(), high.isoformat()) for update, (low, high) in outcome.covered.items()],
    }
    return json.dumps(plain)


def _recall(tables: Tables, table: str, snapshot_id: int) -> LoadResult:
    """The outcome of a batch that is already in the table."""
    plain = json.loads(read_text(f"{tables.summary(table, snapshot_id)[FOLDER]}/{OUTCOME}"))
    plain |= {
        "snapshot_id": snapshot_id,
        "rows_by_update": dict(map(tuple, plain["rows_by_update"])),
        "covered": {
            update: (datetime.fromisoformat(low), datetime.fromisoformat(high))
            for update, low, high in plain["covered"]
        },
        "quarantined_files": [tuple(each) for each in plain["quarantined_files"]],
        "quarantined_rows": [tuple(each) for each in plain["quarantined_rows"]],
        "quality": [Quality(**each) for each in plain["quality"]],
    }
    return LoadResult(**plain)


def _finished(outcome: LoadResult, snapshot_id: int | None, stages: dict[str, float]) -> LoadResult:
    from dataclasses import replace

    return replace(outcome, snapshot_id=snapshot_id, stages=stages)


def _empty(columns: Columns) -> str:
    fields = [f"`{name}` {kind}" for name, kind in columns]
    return ", ".join([*fields, "_file string", "_raw string", "_reason string"])


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


class _Clock:
    """Seconds per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - start
