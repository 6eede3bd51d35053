"""The rows of a large batch: written as the table's Parquet while Spark reads their files, and judged there.

So the source is read once. Nothing that is written can be seen before the commit, and an expectation that looks at
Parquet reads its own columns only. What the gate keeps out is taken out of those Parquet files that hold it. Only when
the reading meets a malformed row it is done again, with care.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema

from spark_jobs import schema as schemas
from spark_jobs.batch import Row, Tally, row_of, tallies_of
from spark_jobs.files import remove, remove_folder, rows_in, write_frame, written_in
from spark_jobs.gate import ROW, Verdict, judge
from spark_jobs.intake import key_of_spark
from spark_jobs.reading import BAD, FILE
from spark_jobs.schema import LINEAGE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

_PART = "_part"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Malformed:
    """The malformed rows: held by Spark until they are released."""

    rows: DataFrame
    #: File -> how Spark spells it, and how many of its rows are malformed.
    files: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeBatch:
    """Rows in Parquet that nobody can see yet, less what has been taken out of them."""

    _spark: SparkSession
    _folder: str
    #: Of the Parquet: the table's, and the update that a row came with.
    _schema: Schema
    _parquet: Sequence[str]
    #: File -> update.
    _updates: Mapping[str, int]
    #: What each update gave before anything was taken out.
    _first: Mapping[int, int]
    _malformed: _Malformed | None
    _without_files: frozenset[str] = frozenset()
    _without_ids: frozenset[int] = frozenset()

    @classmethod
    def write_aside(
        cls, frame: Callable[[bool], DataFrame], folder: str, schema: Schema, updates: Mapping[str, int]
    ) -> LargeBatch:
        """Read the source, `frame(strict)`, and write what is well-formed; a file that breaks breaks here."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F  # noqa: N812

        with_lineage = schemas.with_lineage(schema)

        def write(rows: DataFrame) -> list[str]:
            return write_frame(schemas.cast(_with_updates(rows, updates), with_lineage), folder)

        strict, malformed = frame(True), None
        try:
            parquet = write(strict)
        except PySparkException as error:
            log.info("not every row is well-formed (%s); reading with care", str(error).strip().split("\n", 1)[0][:200])
            remove_folder(folder)
            parquet = write(frame(False).where(~F.col(BAD)))
            malformed = _malformed(frame(False))
        batch = cls(
            _spark=strict.sparkSession,
            _folder=folder,
            _schema=with_lineage,
            _parquet=parquet,
            _updates=updates,
            _first={},
            _malformed=malformed,
        )
        return replace(batch, _first=batch._counted())

    def _counted(self) -> dict[int, int]:
        """Rows by update."""
        if len(self._updates) == 1:
            (update,) = self._updates.values()
            rows = sum(rows_in(file) for file in self._parquet)
            return {update: rows} if rows else {}
        counted = {row[LINEAGE]: row["count"] for row in self._read().groupBy(LINEAGE).count().collect()}
        if unknown := counted.keys() - set(self._updates.values()):
            raise AssertionError(f"{self._folder}: rows of no file of this batch: {unknown}")
        return counted

    def counts(self) -> dict[str, tuple[int, int]]:
        bad = {} if self._malformed is None else {file: count for file, (_, count) in self._malformed.files.items()}
        good = {file: self._first.get(update, 0) for file, update in self._updates.items()}
        return {
            file: (good[file] + bad.get(file, 0), bad.get(file, 0))
            for file in self._updates
            if good[file] or file in bad
        }

    def malformed(self, files: Collection[str]) -> list[Row]:
        from pyspark.sql import functions as F  # noqa: N812

        if self._malformed is None or not files:
            return []
        spelt = [self._malformed.files[file][0] for file in files]
        found = self._malformed.rows.where(F.col(FILE).isin(spelt)).toArrow().to_pylist()
        return [row_of({**each, FILE: key_of_spark(each[FILE])}, number=None) for each in found]

    def rows(self, ids: Collection[int]) -> list[Row]:
        from pyspark.sql import functions as F  # noqa: N812

        if not ids:
            return []
        files = {update: file for file, update in self._updates.items()}
        found = self._frame().where(F.col(ROW).isin(list(ids))).drop(_PART).toArrow().to_pylist()
        return [row_of({FILE: files[each.pop(LINEAGE)], **each}, number=None) for each in found]

    def without(self, *, files: Collection[str] = (), ids: Collection[int] = ()) -> LargeBatch:
        taken = {file for file in files if self._first.get(self._updates[file])}
        return replace(self, _without_files=self._without_files | taken, _without_ids=self._without_ids | set(ids))

    def judge(self, expectations: Sequence[Mapping[str, Any]]) -> Verdict:
        if not expectations:
            return Verdict()
        return judge(self._frame().drop(LINEAGE, _PART), expectations, on_spark=True)

    def repeated(self, key: Sequence[str]) -> int:
        rows = self._frame().select(*key)
        return int(rows.count() - rows.distinct().count())

    def tally(self, interval: str | None) -> dict[str, Tally]:
        from pyspark.sql import functions as F  # noqa: N812

        files = {update: file for file, update in self._updates.items()}
        if interval is None and not (self._without_files or self._without_ids):
            return {files[update]: Tally(rows=rows, low=None, high=None) for update, rows in self._first.items()}
        asked = [F.count("*").alias("count")]
        if interval is not None:
            asked += [F.min(interval).alias(f"{interval}_min"), F.max(interval).alias(f"{interval}_max")]
        found = self._frame().groupBy(LINEAGE).agg(*asked).toArrow().to_pylist()
        return tallies_of([{**each, FILE: files[each[LINEAGE]]} for each in found], "count", interval)

    def write(self, folder: str, schema: Schema, updates: Mapping[str, int]) -> list[str]:
        """Only files that hold something that was taken out are written again, without it."""
        out = self._out()
        if out is None:
            return list(self._parquet)
        every = self._every()
        holding = {key_of_spark(each[_PART]) for each in every.where(out).select(_PART).distinct().collect()}
        old = [file for file in self._parquet if key_of_spark(file) in holding]
        if old:
            write_frame(schemas.cast(replace(self, _parquet=old)._frame(), self._schema), folder)
            remove(old)
        return written_in(folder)

    def release(self) -> None:
        if self._malformed is not None:
            self._malformed.rows.unpersist()

    def _read(self) -> DataFrame:
        declared = schemas.spark_schema(self._schema)
        if not self._parquet:
            return self._spark.createDataFrame([], declared)
        return self._spark.read.schema(declared).parquet(*self._parquet)

    def _every(self) -> DataFrame:
        """The rows as they were written, each with an id that is the same however often they are read."""
        from pyspark.sql import functions as F  # noqa: N812

        if not self._parquet:
            return self._read().withColumns({_PART: F.lit(""), ROW: F.lit(0)})
        # As Spark names files: the task's number, and which of the task's files.
        name = r"^part-(\d+)-.*-c(\d+)\."
        task, file = (F.regexp_extract("_metadata.file_name", name, group).cast("long") for group in (1, 2))
        number = F.shiftleft(task, 44) + F.shiftleft(file, 34) + F.col("_metadata.row_index")
        return self._read().select("*", F.col("_metadata.file_path").alias(_PART), number.alias(ROW))

    def _out(self) -> Any:
        """Which rows have been taken out; None for none."""
        from pyspark.sql import functions as F  # noqa: N812

        out = []
        if self._without_files:
            out.append(F.col(LINEAGE).isin([self._updates[file] for file in self._without_files]))
        if self._without_ids:
            out.append(F.col(ROW).isin(list(self._without_ids)))
        return out[0] | out[-1] if out else None

    def _frame(self) -> DataFrame:
        out = self._out()
        return self._every() if out is None else self._every().where(~out)


def _with_updates(frame: DataFrame, updates: Mapping[str, int]) -> DataFrame:
    """Each row with the update that its file is."""
    from pyspark.sql import functions as F  # noqa: N812

    if len(updates) == 1:
        (update,) = updates.values()
        return frame.withColumn(LINEAGE, F.lit(update).cast("long"))
    spelt = [(spelling, updates[key_of_spark(each)]) for each in frame.inputFiles() for spelling in _spellings(each)]
    pairs = frame.sparkSession.createDataFrame(spelt, f"{FILE} string, {LINEAGE} long")
    return frame.join(F.broadcast(pairs), FILE, "left")


def _spellings(path: str) -> set[str]:
    """Spark names a local file with one slash or three, by whom it is asked."""
    scheme, _, rest = path.partition(":/")
    return {f"file:/{rest.lstrip('/')}", f"file:///{rest.lstrip('/')}"} if scheme == "file" else {path}


def _malformed(frame: DataFrame) -> _Malformed:
    from pyspark.sql import functions as F  # noqa: N812

    # Spark finds rows that it holds by their plan, in any session, and a plan names a file and not its content: without
    # a word of its own this one could be answered with what a file of the same name held before.
    own = F.lit(uuid.uuid4().hex) != F.lit("")
    rows = frame.where(F.col(BAD) & own).withColumn(ROW, F.monotonically_increasing_id()).persist()
    counted = rows.groupBy(FILE).agg(F.count("*").alias("bad")).collect()
    return _Malformed(rows=rows, files={key_of_spark(each[FILE]): (each[FILE], each["bad"]) for each in counted})
