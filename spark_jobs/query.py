"""SQL over pinned snapshots: what a refresh and a reader have in common.

Parents become temp views of the session over exactly the files of their pinned snapshots; virtual views become temp
views over those, which is the same as writing their SQL in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile

from spark_jobs.tables import Tables

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Bytes of input up to which one task does it all: to share it out would take longer than to do it.
TINY_BYTES = 8 << 20


def run_query(
    spark: SparkSession, tables: Tables, sql: str, reads: Mapping[str, int | None], virtual: Mapping[str, str]
) -> pa.Table:
    """The result of a query over pinned snapshots."""
    return prepared(spark, tables, sql, reads, virtual)[0].toArrow()


def confine(spark: SparkSession) -> None:
    """Switches off, for the session, what SQL from people must not do: read files by name, read the server's variables.

    The SQL itself has been checked before; this is the second lock on the same door.
    """
    spark.conf.set("spark.sql.runSQLOnFiles", "false")
    spark.conf.set("spark.sql.variable.substitute", "false")


def prepared(
    spark: SparkSession,
    tables: Tables,
    sql: str,
    reads: Mapping[str, int | None],
    virtual: Mapping[str, str],
    only: Mapping[str, Sequence[DataFile]] | None = None,
) -> tuple[DataFrame, int]:
    """The query as a frame, and how many bytes there are to read. `only` narrows objects to some of their files.

    What is tiny is read as one part each, which Spark then neither shuffles nor shares out.
    """
    from pyspark.errors import AnalysisException

    read = {name: tables.read(spark, name, snapshot, (only or {}).get(name)) for name, snapshot in reads.items()}
    bytes_in = sum(size for _, size in read.values())
    for name, (frame, _) in read.items():
        whole = frame.coalesce(1) if bytes_in <= TINY_BYTES else frame
        whole.createOrReplaceTempView(f"`{name}`" if not name.isidentifier() else name)

    # Virtual views may read one another: those whose parents are not there yet wait for the next round. What an earlier
    # user of the session meant by their names must not pass for them.
    for name in virtual:
        spark.catalog.dropTempView(name)
    waiting = dict(virtual)
    while waiting:
        failures = {}
        for name, text in waiting.items():
            try:
                spark.sql(text).createOrReplaceTempView(name)
            except AnalysisException as error:
                failures[name] = error
        if len(failures) == len(waiting):
            name, first = next(iter(failures.items()))
            raise ValueError(f"virtual view {name} cannot be expanded: {str(first).splitlines()[0]}") from first
        waiting = {name: waiting[name] for name in failures}
    return spark.sql(sql), bytes_in
