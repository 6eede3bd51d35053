"""The work of one job without Freshet around it: the very functions that its own jobs call.

Run by spark-submit, or called in an Airflow task. After a refresh it notes the time, for the benchmark to read.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def run(arm: str, step: str, file: str = "") -> None:
    from scheduler_plugin.catalog import catalog_path, load_catalog
    from scheduler_plugin.catalog.rows import catalog_row
    from scheduler_plugin.services.settings import Settings
    from spark_jobs.intake import SourceFile
    from spark_jobs.load import load_batch
    from spark_jobs.refresh import refresh_view
    from spark_jobs.tables import Tables

    settings = Settings.load()
    specs = {row.name: row.spec for row in catalog_row(load_catalog(catalog_path())).objects}
    trips, totals = f"trips_{arm}", f"totals_{arm}"
    with session(arm, settings) as spark, Tables(settings.database_url, settings.warehouse) as tables:
        if step == "load":
            spec = specs["trips"]
            load_batch(
                spark=spark,
                tables=tables,
                table=trips,
                columns=[tuple(column) for column in spec["columns"]],
                format=spec["format"],
                files=[SourceFile(update_id=1, path=file, size=Path(file).stat().st_size)],
                marker=f"batch-{time.time_ns()}",
                expectations=spec["expectations"],
            )
            return
        refresh_view(
            spark=spark,
            tables=tables,
            view=totals,
            sql=specs["totals"]["sql"].replace("trips", trips),
            reads={trips: tables.current(trips)},
            virtual={},
            marker=f"refresh-{time.time_ns()}",
        )
        (settings.home.root / f"done-{arm}").write_text(str(time.time()))


@contextmanager
def session(arm: str, settings: Any) -> Iterator[Any]:
    """The warm server's for `warm`, as Freshet's jobs have it; for `plain` one of its own, as spark-submit gives it."""
    from spark_jobs.session import SETTINGS, spark_session

    if arm == "warm":
        with spark_session(settings.spark_remote, kept=settings.home.spark / "sessions") as spark:
            yield spark
        return
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("plain")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    yield spark
    spark.stop()


if __name__ == "__main__":
    run(*sys.argv[1:])
