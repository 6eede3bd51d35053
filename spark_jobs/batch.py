"""The rows of a batch between reading and writing, in one of two homes with the same face.

A small batch is fetched once and then sifted, gated and written in this process: one Spark job in all, where each
further one would cost more than the work. A large batch stays on Spark and is never fetched (`large.py`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from spark_jobs import schema as schemas
from spark_jobs.files import write_rows
from spark_jobs.gate import ROW, Verdict, instant, judge
from spark_jobs.intake import key_of_spark
from spark_jobs.reading import BAD, FILE, RAW, REASON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_HIDDEN = (FILE, BAD, RAW, REASON, ROW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row that does not go into the table."""

    id: int
    file: str
    #: Counted from 1 within its file, without the header; None where Spark read the file in pieces.
    number: int | None
    reason: str | None
    raw: str | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one file gives to the table."""

    rows: int
    low: datetime | None
    high: datetime | None


class Batch(Protocol):
    """What loading asks of a batch's rows."""

    def counts(self) -> dict[str, tuple[int, int]]:
        """Rows and malformed rows of each file that has any."""

    def malformed(self, files: Collection[str]) -> list[Row]:
        """The malformed rows of these files."""

    def rows(self, ids: Collection[int]) -> list[Row]:
        """These rows."""

    def without(self, *, files: Collection[str] = (), ids: Collection[int] = ()) -> Batch:
        """The well-formed rows, less those of some files and less some rows."""

    def judge(self, expectations: Sequence[Mapping[str, Any]]) -> Verdict:
        """Pass all rows through the gate."""

    def repeated(self, key: Sequence[str]) -> int:
        """Rows whose key another row of the batch has too."""

    def tally(self, interval: str | None) -> dict[str, Tally]:
        """Each file's rows and the range of its interval column."""

    def write(self, folder: str, schema: Schema, updates: Mapping[str, int]) -> list[str]:
        """The rows as the table's Parquet, each with the update of its file, and no other Parquet in the folder."""

    def release(self) -> None:
        """Give back what the rows take up; they cannot be used any more."""


class SmallBatch:
    """Rows in this process."""

    def __init__(self, rows: pa.Table, spark: SparkSession, first: Mapping[str, int]) -> None:
        self._rows = rows
        self._spark = spark
        #: File -> the id of its first row, whether or not that one is still among the rows.
        self._first = first

    @classmethod
    def fetch(cls, frame: DataFrame) -> SmallBatch:
        """Run the one Spark job of a small batch."""
        rows = frame.drop(BAD).toArrow()
        names = {reported: key_of_spark(reported) for reported in pc.unique(rows[FILE]).to_pylist()}
        files = pa.array([names[reported] for reported in rows[FILE].to_pylist()], pa.string())
        rows = rows.set_column(rows.schema.get_field_index(FILE), FILE, files)
        # Stable, so a row's place within its file is its number there.
        rows = rows.append_column(ROW, pa.array(range(rows.num_rows), pa.int64()))
        firsts = rows.group_by(FILE).aggregate([(ROW, "min")]).to_pylist()
        return cls(rows, frame.sparkSession, {each[FILE]: each[f"{ROW}_min"] for each in firsts})

    @classmethod
    def empty(cls, spark: SparkSession, columns: schemas.Columns) -> SmallBatch:
        """No rows."""
        names = [name for name, _ in columns] + [FILE, RAW, REASON]
        none = pa.table({**{name: pa.array([], pa.string()) for name in names}, ROW: pa.array([], pa.int64())})
        return cls(none, spark, {})

    def counts(self) -> dict[str, tuple[int, int]]:
        flags = pa.table({FILE: self._rows[FILE], "bad": pc.cast(pc.is_valid(self._rows[RAW]), pa.int64())})
        grouped = flags.group_by(FILE).aggregate([("bad", "count"), ("bad", "sum")])
        return {each[FILE]: (each["bad_count"], each["bad_sum"]) for each in grouped.to_pylist()}

    def malformed(self, files: Collection[str]) -> list[Row]:
        return self._select(pc.and_(pc.is_valid(self._rows[RAW]), self._in(FILE, files)))

    def rows(self, ids: Collection[int]) -> list[Row]:
        return self._select(self._in(ROW, ids))

    def without(self, *, files: Collection[str] = (), ids: Collection[int] = ()) -> SmallBatch:
        out = pc.or_(pc.is_valid(self._rows[RAW]), pc.or_(self._in(FILE, files), self._in(ROW, ids)))
        return SmallBatch(self._rows.filter(pc.invert(out)), self._spark, self._first)

    def judge(self, expectations: Sequence[Mapping[str, Any]]) -> Verdict:
        if not expectations:
            return Verdict()
        import pandas

        # Without these a column of integers with a gap becomes floats, and large neighbours become equal.
        whole = {pa.int32(): pandas.Int32Dtype(), pa.int64(): pandas.Int64Dtype(), pa.bool_(): pandas.BooleanDtype()}
        bare = self._rows.drop_columns([FILE, RAW, REASON])
        return judge(
            bare.to_pandas(types_mapper=whole.get),
            expectations,
            on_spark=False,
            as_spark=lambda: self._spark.createDataFrame(bare),
        )

    def repeated(self, key: Sequence[str]) -> int:
        distinct = self._rows.group_by(list(key)).aggregate([]).num_rows
        return int(self._rows.num_rows - distinct)

    def tally(self, interval: str | None) -> dict[str, Tally]:
        asked = [(ROW, "count")] + ([] if interval is None else [(interval, "min"), (interval, "max")])
        return tallies_of(self._rows.group_by(FILE).aggregate(asked).to_pylist(), f"{ROW}_count", interval)

    def write(self, folder: str, schema: Schema, updates: Mapping[str, int]) -> list[str]:
        if not self._rows.num_rows:
            return []
        lineage = pa.array([updates[file] for file in self._rows[FILE].to_pylist()], pa.int64())
        return write_rows(self._rows.append_column(schemas.LINEAGE, lineage), folder, schemas.with_lineage(schema))

    def release(self) -> None:
        pass

    def _in(self, column: str, values: Collection[Any]) -> Any:
        return pc.is_in(self._rows[column], value_set=pa.array(list(values), self._rows[column].type))

    def _select(self, mask: Any) -> list[Row]:
        found = self._rows.filter(mask).to_pylist()
        return [row_of(each, number=each[ROW] - self._first[each[FILE]] + 1) for each in found]


def row_of(each: Mapping[str, Any], number: int | None) -> Row:
    """A row as a reader of the frame has it; a well-formed one may lack what only malformed ones have."""
    values = {name: value for name, value in each.items() if name not in _HIDDEN}
    raw = each.get(RAW)
    raw = raw if raw is not None else json.dumps(values, default=str)
    return Row(id=each[ROW], file=each[FILE], number=number, reason=each.get(REASON), raw=raw, values=values)


def tallies_of(found: Sequence[Mapping[str, Any]], count: str, interval: str | None) -> dict[str, Tally]:
    """What was found of each file: its rows under `count`, its interval under the column's name and what was asked."""
    return {
        each[FILE]: Tally(
            rows=each[count], low=instant(each.get(f"{interval}_min")), high=instant(each.get(f"{interval}_max"))
        )
        for each in found
    }
