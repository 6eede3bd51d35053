"""The warehouse's Iceberg tables, without a jar: Spark writes Parquet, pyiceberg commits it.

A commit is one snapshot whose summary carries a marker, the id of the batch or refresh it belongs to. Before every
try the table is loaded again and searched for the marker, and the commit is accepted only on top of what was searched,
so any interleaving of two attempts at one batch gives one snapshot. pyiceberg's own retry does not look, and commits
twice: it is switched off on every table.
"""

from __future__ import annotations

import logging
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from spark_jobs import schema as schemas
from spark_jobs.bookkeeping import NAMESPACE, open_books
from spark_jobs.files import remove_folder
from spark_jobs.schema import Columns, SchemaError
from spark_jobs.snapshots import BACKFILL, FOLDER, MARKER, UPKEEP, data_files, marked, said, snapshot_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

PROPERTIES = {
    "commit.retry.num-retries": "0",
    # One manifest per append would make planning a read slower with every batch.
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "30",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
TRIES = 20


class CommitGaveUp(Exception):
    """A table was changed by others faster than we could commit to it."""


class Moved(Exception):
    """The table is no longer what the work was based on."""


class Tables:
    """The tables of one warehouse. Cheap to make, safe to use from several processes at once, not across a fork."""

    def __init__(self, database_url: str, warehouse: Path | str) -> None:
        self._books = open_books(database_url, warehouse)

    def close(self) -> None:
        """Give the database connections back."""
        self._books.close()

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- what tables exist and how they look

    def ensure(self, name: str, columns: Columns) -> Schema:
        """The table with these columns: made when missing, grown when they grew; refuses what would lose data."""
        for _ in tries(name):
            try:
                table = self.open(name)
            except NoSuchTableError:
                try:
                    return self._create(name, schemas.build(columns))
                except TableAlreadyExistsError:
                    continue
            added, widened = schemas.growth(name, table.schema(), columns)
            if not added and not widened:
                return table.schema()
            try:
                with table.update_schema() as change:
                    for column, kind in added:
                        change.add_column(column, schemas.iceberg_type(kind))
                    for column, kind in widened:
                        change.update_column(column, schemas.iceberg_type(kind))
            except CommitFailedException:
                continue
            return table.schema()
        raise AssertionError("unreachable: tries raises")

    def plan_schema(self, name: str, columns: Columns) -> Schema:
        """The schema a replaced table would have: its own while the columns are the same, else new ids for all."""
        try:
            table = self.open(name)
        except NoSuchTableError:
            self.ensure(name, columns)
            table = self.open(name)
        if schemas.columns_of(table.schema()) == schemas.columns_of(schemas.build(columns)):
            return table.schema()
        return schemas.build(columns, first_id=table.metadata.last_column_id + 1)

    def schema(self, name: str, snapshot_id: int | None = None) -> Schema:
        """The table's schema, or the one its snapshot is to be read with."""
        return self._schema(self.open(name), snapshot_id)

    def current(self, name: str) -> int | None:
        """The newest snapshot; None for a table that is missing or was never written."""
        try:
            snapshot = self.open(name).current_snapshot()
        except NoSuchTableError:
            return None
        return None if snapshot is None else int(snapshot.snapshot_id)

    def metadata_location(self, name: str) -> str:
        """The table's metadata file: all that an outside reader needs."""
        return str(self.open(name).metadata_location)

    # -- writing

    def find(self, name: str, marker: str) -> int | None:
        """The snapshot that carries the marker; refuses a marker whose successor is there already."""
        try:
            found = marked(self.open(name), marker)
        except NoSuchTableError:
            return None
        return None if found is None else int(found.snapshot_id)

    def summary(self, name: str, snapshot_id: int) -> dict[str, str]:
        """What a snapshot says of itself."""
        return said(snapshot_of(self.open(name), snapshot_id))

    def append(
        self,
        name: str,
        files: Sequence[str],
        marker: str,
        folder: str,
        *,
        base: int | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> int:
        """Add Parquet files as one snapshot; the marked snapshot that is already there, when there is one.

        With a `base`, only on top of that snapshot: raises Moved when another has come.
        """

        def stage(table: Table, change: Transaction, summary: dict[str, str]) -> None:
            head = table.current_snapshot()
            if base is not None and (head is None or head.snapshot_id != base):
                raise Moved(f"{name}: another snapshot than {base} is in front by now")
            new = _described(table, change, files)
            with change.update_snapshot(snapshot_properties=summary).merge_append() as snapshot:
                for file in new:
                    snapshot.append_data_file(file)

        return self._commit(name, {**(extra or {}), MARKER: marker, FOLDER: folder}, stage)

    def replace(
        self, name: str, files: Sequence[str], marker: str, folder: str, *, schema: Schema, extra: Mapping[str, str]
    ) -> int:
        """Put these files in the place of all others as one overwrite snapshot; a reader sees all old or all new.

        The columns become those of `schema`, from `plan_schema`, in the same commit.
        """

        def stage(table: Table, change: Transaction, summary: dict[str, str]) -> None:
            if schema.as_struct() != table.schema().as_struct():
                _swap_schema(name, table, change, schema)
            head = table.current_snapshot()
            old = [] if head is None else data_files(table, head)
            new = _described(table, change, files)
            with change.update_snapshot(snapshot_properties=summary).overwrite() as snapshot:
                for file in old:
                    snapshot.delete_data_file(file)
                for file in new:
                    snapshot.append_data_file(file)

        return self._commit(name, {**extra, MARKER: marker, FOLDER: folder}, stage)

    def rewrite(self, name: str, old: Sequence[str], files: Sequence[str], folder: str) -> int | None:
        """Put files in the place of others that hold the same rows; None when one of the others is gone by now."""
        try:
            return self._exchange(name, old, files, {FOLDER: folder, UPKEEP: "compacted"})
        except Moved:
            remove_folder(folder)
            return None

    def exchange(self, name: str, old: Sequence[str], files: Sequence[str], folder: str, backfill: int) -> int:
        """Put files in the place of others as one overwrite snapshot, once for each backfill."""
        return self._exchange(name, old, files, {FOLDER: folder, BACKFILL: str(backfill)})

    def _exchange(self, name: str, old: Sequence[str], files: Sequence[str], summary: dict[str, str]) -> int:
        def stage(table: Table, change: Transaction, summary: dict[str, str]) -> None:
            head = table.current_snapshot()
            there = {} if head is None else {str(file.file_path): file for file in data_files(table, head)}
            if head is None or not there.keys() >= set(old):
                raise Moved(f"{name}: a file that was to be replaced is no longer there")
            # It stands for all work that the head stands for.
            borrowed = said(head).keys() - {FOLDER, UPKEEP, BACKFILL}
            summary |= {key: said(head)[key] for key in borrowed if key.startswith("freshet.")}
            new = _described(table, change, files)
            with change.update_snapshot(snapshot_properties=summary).overwrite() as snapshot:
                for path in old:
                    snapshot.delete_data_file(there[path])
                for file in new:
                    snapshot.append_data_file(file)

        return self._commit(name, summary, stage)

    def _commit(
        self, name: str, summary: dict[str, str], stage: Callable[[Table, Transaction, dict[str, str]], None]
    ) -> int:
        for _ in tries(name):
            table = self.open(name)
            found = _done(table, summary)
            if found is not None:
                if said(found)[FOLDER] != summary[FOLDER]:
                    log.info("%s: another attempt was first: %s", name, said(found)[FOLDER])
                    remove_folder(summary[FOLDER])
                return int(found.snapshot_id)
            try:
                change = table.transaction()
                stage(table, change, summary)
                change.commit_transaction()
            except CommitFailedException as error:
                log.info("%s: %s; trying again", name, error)
                continue
            except DBAPIError as error:
                # The answer was lost, the commit perhaps not: only a look can tell.
                log.warning("%s: commit of %s: %s; looking whether it took place", name, summary[FOLDER], error)
                continue
            committed = _done(table, summary)
            assert committed is not None, f"{name}: commit of {summary[FOLDER]} left no snapshot"
            return int(committed.snapshot_id)
        raise AssertionError("unreachable: tries raises")

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Waits until no other process is in here for this table, and keeps others waiting."""
        with self._books.engine.connect() as connection:
            words = {"key": f"{NAMESPACE}.{name}"}
            connection.execute(text("SELECT pg_advisory_lock(hashtextextended(:key, 0))"), words)
            try:
                yield
            finally:
                connection.execute(text("SELECT pg_advisory_unlock(hashtextextended(:key, 0))"), words)

    @contextmanager
    def attempt(self, name: str, marker: str) -> Iterator[str]:
        """A folder for one attempt's files, removed when the attempt fails and no snapshot refers to it."""
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", marker)
        folder = f"{self.open(name).location()}/data/{safe}-{uuid.uuid4().hex}"
        try:
            yield folder
        except Exception:
            try:
                if all(said(snapshot).get(FOLDER) != folder for snapshot in self.open(name).snapshots()):
                    remove_folder(folder)
            except Exception:
                # The first failure is the one to tell; upkeep removes what is left.
                log.warning("%s: left %s behind", name, folder, exc_info=True)
            raise

    # -- reading

    def files(self, name: str, snapshot_id: int | None) -> list[str]:
        """The data files of a snapshot."""
        return [str(file.file_path) for file in self._planned(name, snapshot_id)[1]]

    def read(
        self, spark: SparkSession, name: str, snapshot_id: int | None, only: Sequence[DataFile] | None = None
    ) -> tuple[DataFrame, int]:
        """A snapshot, or only some of its files, as a Spark frame with its schema; and how many bytes they have."""
        schema, files = self._planned(name, snapshot_id)
        files = files if only is None else list(only)
        declared = schemas.spark_schema(schema)
        if not files:
            return spark.createDataFrame([], declared), 0
        frame = spark.read.schema(declared).parquet(*(str(file.file_path) for file in files))
        return frame, sum(int(file.file_size_in_bytes) for file in files)

    def size(self, name: str, snapshot_id: int | None) -> int:
        """How many bytes a snapshot's files have; nearly always it says so itself."""
        if snapshot_id is not None:
            told = said(snapshot_of(self.open(name), snapshot_id)).get("total-files-size")
            if told is not None:
                return int(told)
        return sum(int(file.file_size_in_bytes) for file in self._planned(name, snapshot_id)[1])

    def _planned(self, name: str, snapshot_id: int | None) -> tuple[Schema, list[DataFile]]:
        try:
            table = self.open(name)
        except NoSuchTableError:
            raise LookupError(f"{name} holds nothing yet: its first load or refresh must come first") from None
        files = [] if snapshot_id is None else data_files(table, snapshot_of(table, snapshot_id))
        return self._schema(table, snapshot_id), files

    def _schema(self, table: Table, snapshot_id: int | None) -> Schema:
        """Today's schema, which a grown table's old snapshots share; a replaced view's old snapshot has its own."""
        if snapshot_id is not None:
            own = table.schemas()[snapshot_of(table, snapshot_id).schema_id]
            if not set(own.field_ids) <= set(table.schema().field_ids):
                return own
        return table.schema()

    def open(self, name: str) -> Table:
        """The table as pyiceberg has it, as of now."""
        return self._books.load_table((NAMESPACE, name))

    def _create(self, name: str, schema: Schema) -> Schema:
        return self._books.create_table((NAMESPACE, name), schema, properties=PROPERTIES).schema()


def tries(name: str) -> Iterator[int]:
    """Try numbers with a growing, jittered pause between them; raises when they run out."""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(random.uniform(0.5, 1.0) * min(2.0, 0.01 * 2**attempt))
        yield attempt
    raise CommitGaveUp(
        f"{name}: {TRIES} tries to commit, and another writer was first each time; is something rewriting it in a loop?"
    )


def _done(table: Table, summary: Mapping[str, str]) -> Snapshot | None:
    """The snapshot of this work, whoever made it. Upkeep's is known by its folder: it has no marker of its own."""
    for sign in (BACKFILL, UPKEEP):
        if sign in summary:
            sign = FOLDER if sign == UPKEEP else sign
            return next((each for each in table.snapshots() if said(each).get(sign) == summary[sign]), None)
    return marked(table, summary[MARKER])


def _described(table: Table, change: Transaction, files: Sequence[str]) -> list[DataFile]:
    """Iceberg's description of Parquet files, from their footers; refuses files whose columns do not fit."""
    schema = change.table_metadata.schema()
    # The files' own column must be known here, or pyiceberg refuses it. Their description tells its range, too.
    wider = change.table_metadata.model_copy(update={"schemas": [schemas.with_lineage(schema)]})
    return [parquet_file_to_data_file(table.io, wider, file) for file in files]


def _swap_schema(name: str, table: Table, change: Transaction, schema: Schema) -> None:
    """Replace all columns in this transaction; refuses when the ids the files were written with are no longer free."""
    with change.update_schema(allow_incompatible_changes=True) as update:
        for column in table.schema().fields:
            update.delete_column(column.name)
        for column in schema.fields:
            update.add_column(column.name, column.field_type)
    if change.table_metadata.schema().as_struct() != schema.as_struct():
        raise SchemaError(f"{name}: its columns were changed by another refresh while this one wrote; run it again")
