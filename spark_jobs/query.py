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
ONE_TASK = {
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": str(64 << 10),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}


def run_query(
    spark: SparkSession, tables: Tables, sql: str, reads: Mapping[str, int | None], virtual: Mapping[str, str]
) -> pa.Table:
    """The result of a query over pinned snapshots."""
    frame, bytes_in = prepared(spark, tables, sql, reads, virtual)
    if bytes_in <= TINY_BYTES:
        in_one_task(spark)
    return frame.toArrow()


def in_one_task(spark: SparkSession) -> None:
    """Lets the session do what comes next without sharing it out."""
    for setting, value in ONE_TASK.items():
        spark.conf.set(setting, value)


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
    """The query as a frame, and how many bytes there are to read. `only` narrows objects to some of their files."""
    from pyspark.errors import AnalysisException

    bytes_in = 0
    for name, snapshot_id in reads.items():
        frame, size = tables.read(spark, name, snapshot_id, (only or {}).get(name))
        frame.createOrReplaceTempView(f"`{name}`" if not name.isidentifier() else name)
        bytes_in += size

    # Virtual views may read one another: those whose parents are not there yet wait for the next round.
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
