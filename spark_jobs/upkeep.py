"""Upkeep of one table: fewer and larger files, no snapshots and no files that nobody can need.

Small files are merged by size class, eight of a class into one of the next, so that each row is rewritten a few times
in its life and not with every run. What is removed is chosen by what can still be committed, not by the clock: with a
newer marker in front, an attempt at older work is refused, and then its folder is litter.
"""

from __future__ import annotations

import logging
import math
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import fsspec
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from sqlalchemy.exc import DBAPIError

from spark_jobs import schema
from spark_jobs.files import remove_folder, write_frame
from spark_jobs.snapshots import FOLDER, MARKER, UPKEEP, data_files, number, said
from spark_jobs.tables import Tables, tries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: Files of one size class that are merged into one, and how many times larger the next class is.
MERGED = 8
#: A file of this size is left alone.
LARGE_BYTES = 64 << 20
#: Clocks of the writers and of the file system may differ by this much.
SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepResult:
    """What upkeep did to a table."""

    files_merged: int
    snapshots_expired: int
    #: Folders of attempts that came to nothing or are forgotten, and metadata files.
    paths_removed: int


def keep_up(
    *,
    spark: SparkSession,
    tables: Tables,
    name: str,
    needed: Collection[int],
    older_than: datetime,
    open_backfills: Collection[int] = (),
) -> UpkeepResult:
    """Merge, expire what is not `needed` and from before `older_than`, sweep. One at a time for each table."""
    with tables.alone(name):
        return UpkeepResult(
            files_merged=merge(spark, tables, name),
            snapshots_expired=expire(tables, name, needed, older_than),
            paths_removed=sweep(tables, name, open_backfills),
        )


def merge(spark: SparkSession, tables: Tables, name: str) -> int:
    """Merge each size class that has enough files; returns how many files were replaced."""
    table = tables.open(name)
    head = table.current_snapshot()
    if head is None:
        return 0
    classes: dict[int, list[DataFile]] = defaultdict(list)
    for file in data_files(table, head):
        if file.file_size_in_bytes < LARGE_BYTES:
            classes[int(math.log(file.file_size_in_bytes, MERGED))].append(file)
    merged = 0
    for files in classes.values():
        if len(files) < MERGED:
            continue
        paths = [str(file.file_path) for file in files]
        with tables.attempt(name, f"upkeep-{number(said(head)[MARKER])}") as folder:
            # Only what is loaded has updates.
            loaded = said(head)[MARKER].startswith("batch-")
            columns = schema.with_lineage(table.schema()) if loaded else table.schema()
            frame = spark.read.schema(schema.spark_schema(columns)).parquet(*paths)
            size = sum(file.file_size_in_bytes for file in files)
            written = write_frame(schema.cast(frame, columns).coalesce(1 + size // LARGE_BYTES), folder)
            if tables.rewrite(name, paths, written, folder) is not None:
                merged += len(paths)
    return merged


def tidied(tables: Tables, name: str) -> tuple[int, int] | None:
    """(before, after): the snapshot whose rows upkeep has put into the files of the present one; None if it did not."""
    table = tables.open(name)
    head = table.current_snapshot()
    before = head
    while before is not None and UPKEEP in said(before):
        before = None if before.parent_snapshot_id is None else table.snapshot_by_id(before.parent_snapshot_id)
    if head is None or before is None or before.snapshot_id == head.snapshot_id:
        return None
    return int(before.snapshot_id), int(head.snapshot_id)


def expire(tables: Tables, name: str, needed: Collection[int], older_than: datetime) -> int:
    """Forget snapshots from before `older_than` that nobody needs; returns how many. Files are left to `sweep`."""
    for _ in tries(name):
        table = tables.open(name)
        head = table.current_snapshot()
        kept = {*needed, *([] if head is None else [head.snapshot_id])}
        past = [
            each.snapshot_id
            for each in table.snapshots()
            if each.snapshot_id not in kept and each.timestamp_ms < older_than.timestamp() * 1000
        ]
        if not past:
            return 0
        try:
            table.maintenance.expire_snapshots().by_ids(past).commit()
        except (CommitFailedException, DBAPIError) as error:
            log.info("%s: %s; trying again", name, error)
            continue
        return len(past)
    raise AssertionError("unreachable: tries raises")


def sweep(tables: Tables, name: str, open_backfills: Collection[int] = ()) -> int:
    """Remove files that no snapshot refers to and no attempt can still commit; returns how many paths."""
    table = tables.open(name)
    head = table.current_snapshot()
    if head is None:
        return 0
    removed = 0
    newest = number(said(head)[MARKER])
    referred = _referred(table)
    kept = {path.rsplit("/", 1)[0] for path in referred} | {said(each).get(FOLDER) for each in table.snapshots()}
    for folder, _ in _children(f"{table.location()}/data"):
        last = folder.rsplit("/", 1)[-1]
        attempt = re.fullmatch(r"\w+-(\d+)-[0-9a-f]{32}", last)
        backfill = re.fullmatch(r"backfill-(\d+)\.\d+-[0-9a-f]{32}", last)
        litter = (attempt and int(attempt[1]) <= newest) or (backfill and int(backfill[1]) not in open_backfills)
        if folder not in kept and litter:
            remove_folder(folder)
            removed += 1
    # A commit that was prepared before this head was made can no longer succeed, nor can what it wrote be needed.
    made = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC)
    for path, modified in _children(f"{table.location()}/metadata"):
        if path not in referred and modified < made - SKEW:
            remove_folder(path)
            removed += 1
    return removed


def _referred(table: Table) -> set[str]:
    """Every file that the table's metadata leads to."""
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in found:
                found.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                found.update(entry.data_file.file_path for entry in entries)
    return found


def _children(folder: str) -> list[tuple[str, datetime]]:
    """What lies in a folder, spelt as below the folder, and when it was last changed."""
    system, path = fsspec.core.url_to_fs(folder)
    if not system.exists(path):
        return []
    found: list[dict[str, Any]] = system.ls(path, detail=True)
    return [
        (f"{folder}/{each['name'].rstrip('/').rsplit('/', 1)[-1]}", _modified(system, each["name"])) for each in found
    ]


def _modified(system: Any, path: str) -> datetime:
    time: datetime = system.modified(path)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
