"""New rows put together with what a view holds: merged by keys, directly or by way of partial aggregates.

The partial aggregates of a refresh lie beside its files, for the next one to go on from. What is small is collected
into this process, written from here, and handed back to Spark as rows: Spark's own way to write and read a file takes
longer than both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sqlglot

from spark_jobs import files
from spark_jobs.difference import Way

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Rows up to which this process writes the result of a tiny input.
TINY_ROWS = 100_000


def collected(frame: DataFrame) -> pa.Table | None:
    """The rows of what came of a tiny input; None when they are many after all."""
    rows = frame.limit(TINY_ROWS + 1).toArrow()
    return rows if rows.num_rows <= TINY_ROWS else None


def from_partials(spark: SparkSession, way: Way, before: str | None, folder: str, *, tiny: bool) -> DataFrame:
    """The view's rows from partial aggregates: those of the rows read, merged with those before, kept for the next."""
    from pyspark.sql import functions as F  # noqa: N812

    bare = way.partials(())
    kinds = {}
    if way.averages:
        probe = sqlglot.parse_one(way.partial or "", read="spark").select(
            *(f"{each.sql} AS {each.column}" for each in way.averages), append=False, dialect="spark"
        )
        kinds = {each.name: each.dataType.simpleString() for each in spark.sql(probe.sql("spark")).schema.fields}
        bare = way.partials({name for name, kind in kinds.items() if kind.startswith("decimal")})
    partials = spark.sql(bare)
    if before is not None:
        sums = {f"{each.column}{part}": "sum" for each in way.averages for part in ("_sum", "_count")}
        held = spark.read.schema(_by_name(partials)).parquet(before)
        partials = merged(replace(way, merged_by={**way.merged_by, **sums}), held, partials, tiny=tiny)
    together = _kept(spark, partials, folder, tiny)
    for each in way.averages:
        count = F.col(f"{each.column}_count")
        share = (F.col(f"{each.column}_sum") / count).cast(kinds[each.column])
        together = together.withColumn(each.column, F.when(count > 0, share))
    together.createOrReplaceTempView("merged")
    return spark.sql(way.final or "")


def _kept(spark: SparkSession, partials: DataFrame, folder: str, tiny: bool) -> DataFrame:
    """The partial aggregates, computed once and written down for the next refresh."""
    # Parquet has no type for them that both writers agree on.
    plain = not any("interval" in each.dataType.simpleString() for each in partials.schema.fields)
    rows = collected(partials) if tiny and plain else None
    if rows is None:
        files.write_frame(partials.coalesce(1), folder)
        return spark.read.schema(_by_name(partials)).parquet(folder)
    files.write_table(rows, folder)
    return spark.createDataFrame(rows, schema=partials.schema)


def _by_name(partials: DataFrame) -> str:
    """The columns without the ids that those of a table carry: files that this process writes have none to match."""
    return ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in partials.schema.fields)


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
