"""Load an interval of a table again: its files are loaded aside, piece by piece, and then take the old rows' place.

Every row of a table's files knows the update it came with, so the old rows are found whatever files compaction has put
them into. The exchange is one overwrite snapshot: a reader sees all old rows or all new ones, and rows of other
updates, also of ones that are loaded meanwhile, stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import LongType

from spark_jobs import schema as schemas
from spark_jobs.files import write_frame, written_in
from spark_jobs.intake import SourceFile, key_of_spark
from spark_jobs.load import LoadResult, prepare
from spark_jobs.schema import LINEAGE, LINEAGE_FIELD, Columns
from spark_jobs.snapshots import BACKFILL, data_files, said
from spark_jobs.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def stage(
    *,
    spark: SparkSession,
    tables: Tables,
    table: str,
    columns: Columns,
    format: str,
    files: Sequence[SourceFile],
    backfill: int,
    piece: int,
    key: Sequence[str] = (),
    interval: str | None = None,
    expectations: Sequence[Mapping[str, Any]] = (),
    progress: Callable[[str], None] = log.info,
) -> tuple[str, LoadResult]:
    """Load files aside: the folder that holds their rows, and what became of each. Nobody can read them yet."""
    schema = tables.ensure(table, columns)
    with tables.attempt(table, f"backfill-{backfill}.{piece}") as folder:
        outcome, _ = prepare(
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
    return folder, outcome


def exchange(
    *,
    spark: SparkSession,
    tables: Tables,
    table: str,
    updates: Collection[int],
    staged: Sequence[str],
    backfill: int,
    progress: Callable[[str], None] = log.info,
) -> int:
    """Put what was staged in the place of the rows of these updates; returns the snapshot."""
    with tables.alone(table):
        opened = tables.open(table)
        done = [each for each in opened.snapshots() if said(each).get(BACKFILL) == str(backfill)]
        if done:
            progress(f"{table}: already exchanged as snapshot {done[0].snapshot_id}")
            return int(done[0].snapshot_id)
        head = opened.current_snapshot()
        files = [] if head is None else [file for file in data_files(opened, head) if _may_hold(file, updates)]
        with tables.attempt(table, f"backfill-{backfill}.0") as folder:
            old, kept = _split(spark, schemas.with_lineage(opened.schema()), files, updates, folder)
            new = kept + [file for each in staged for file in written_in(each)]
            progress(f"{table}: {len(old)} files make room for {len(new)}")
            return tables.exchange(table, old, new, folder, backfill)


def _may_hold(file: DataFile, updates: Collection[int]) -> bool:
    """By the range of updates that the file's description tells."""
    low, high = (bounds.get(LINEAGE_FIELD.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None:
        return True
    first, last = from_bytes(LongType(), low), from_bytes(LongType(), high)
    return any(first <= update <= last for update in updates)


def _split(
    spark: SparkSession, schema: Any, files: Sequence[DataFile], updates: Collection[int], folder: str
) -> tuple[list[str], list[str]]:
    """The files that do hold rows of these updates, and new files with the rest of their rows."""
    from pyspark.sql import functions as F  # noqa: N812

    if not files or not updates:
        return [], []
    wanted = F.broadcast(spark.createDataFrame([(each,) for each in updates], f"{LINEAGE} long"))

    def rows(paths: Sequence[str]) -> Any:
        return spark.read.schema(schemas.spark_schema(schema)).parquet(*paths)

    paths = {key_of_spark(str(file.file_path)): str(file.file_path) for file in files}
    holding = rows(list(paths.values())).select(LINEAGE, F.col("_metadata.file_path").alias("path"))
    found = holding.join(wanted, LINEAGE, "left_semi").select("path").distinct().collect()
    old = sorted(paths[key_of_spark(each["path"])] for each in found)
    if not old:
        return [], []
    kept = rows(old).join(wanted, LINEAGE, "left_anti")
    return old, write_frame(schemas.cast(kept, schema), folder)
