"""New rows put together with what a view holds: merged by keys, directly or by way of partial aggregates.

The partial aggregates of a refresh lie beside its files, for the next one to go on from. What is small is computed
in one run of Spark, collected into this process and written from here: Spark's own way to write a file takes longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlglot

from spark_jobs import files, schema
from spark_jobs.difference import Way

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyspark.sql import Column, DataFrame, SparkSession

#: Rows up to which this process writes what comes of a tiny input.
TINY_ROWS = 400_000


def collected(frame: DataFrame) -> DataFrame | pa.Table:
    """The rows of what came of a tiny input; still the frame when they are many after all."""
    rows = frame.limit(TINY_ROWS + 1).toArrow()
    return rows if rows.num_rows <= TINY_ROWS else frame


def from_partials(
    spark: SparkSession, way: Way, before: str | None, folder: str, planned: Schema, *, tiny: bool
) -> DataFrame | pa.Table:
    """The view's rows from partial aggregates: those of the rows read, merged with those before, kept for the next."""
    kinds = _averaged(spark, way)
    partials = spark.sql(way.partials({name for name, kind in kinds.items() if kind.startswith("decimal")}))
    columns = partials.schema.fields
    # Without the ids that those of a table carry: files that this process writes have none to match.
    by_name = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in columns)
    if before is not None:
        sums = {f"{each.column}{part}": "sum" for each in way.averages for part in ("_sum", "_count")}
        held = spark.read.schema(by_name).parquet(before)
        partials = merged(replace(way, merged_by={**way.merged_by, **sums}), held, partials, tiny=tiny)
    # Parquet has no type for intervals that both writers agree on.
    if tiny and "interval" not in by_name:
        rows = _both(partials, [each.name for each in columns], way, kinds, folder, planned)
        if rows is not None:
            return rows
    files.write_frame(partials.coalesce(1), folder)
    kept = _with_averages(spark.read.schema(by_name).parquet(folder), way, kinds)
    return kept.where(way.having or "true").select(*_shown(way, planned))


def _averaged(spark: SparkSession, way: Way) -> dict[str, str]:
    """Which type each average has."""
    if not way.averages:
        return {}
    probe = sqlglot.parse_one(way.partial or "", read="spark").select(
        *(f"{each.sql} AS {each.column}" for each in way.averages), append=False, dialect="spark"
    )
    return {each.name: each.dataType.simpleString() for each in spark.sql(probe.sql("spark")).schema.fields}


def _both(
    partials: DataFrame, columns: Sequence[str], way: Way, kinds: Mapping[str, str], folder: str, planned: Schema
) -> pa.Table | None:
    """Partial aggregates and the view's rows of one run of Spark's: the ones are written down, the others returned."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = collected(
        _with_averages(partials, way, kinds).select(
            F.struct(*columns).alias("partial"),
            F.struct(*_shown(way, planned)).alias("shown"),
            F.expr(way.having or "true").alias("having"),
        )
    )
    if not isinstance(rows, pa.Table):
        return None
    files.write_table(pa.Table.from_struct_array(rows["partial"]), folder)
    return pa.Table.from_struct_array(rows.filter(rows["having"])["shown"])


def _with_averages(partials: DataFrame, way: Way, kinds: Mapping[str, str]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    for each in way.averages:
        count = F.col(f"{each.column}_count")
        share = (F.col(f"{each.column}_sum") / count).cast(kinds[each.column])
        partials = partials.withColumn(each.column, F.when(count > 0, share))
    return partials


def _shown(way: Way, planned: Schema) -> list[Column]:
    """The view's columns."""
    from pyspark.sql import functions as F  # noqa: N812

    return [
        schema.column(F.expr(sql), each) for sql, each in zip((way.shown or {}).values(), planned.fields, strict=True)
    ]


def merged(by: Way, held: DataFrame, result: DataFrame, *, tiny: bool) -> DataFrame:
    """What there was and what the new rows give, merged by the keys, with the types they have."""
    from pyspark.sql import functions as F  # noqa: N812

    functions = {"sum": F.sum, "min": F.min, "max": F.max}
    kinds = {each.name: each.dataType for each in result.schema.fields}
    columns = [
        functions[function](f"`{column}`").cast(kinds[column]).alias(column)
        for column, function in by.merged_by.items()
    ]
    both = held.unionByName(result)
    together = (both.coalesce(1) if tiny else both).groupBy(*(f"`{key}`" for key in by.keys or ()))
    # A view of keys alone has nothing to merge: each key is there once.
    return together.agg(*columns) if columns else together.count().drop("count")
