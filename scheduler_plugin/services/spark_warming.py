"""Spark's first job: loads and compiles what every later job uses. Run as a process of its own by spark.py."""

import sys

from pyspark.sql import SparkSession

from scheduler_plugin.services.settings import Settings


def warm(remote: str, folder: str) -> None:
    session = SparkSession.builder.remote(remote).create()
    try:
        rows = session.range(1000).selectExpr("id", "id % 7 AS kind", "current_timestamp() AS at")
        rows.write.mode("overwrite").parquet(folder)
        session.read.parquet(folder).groupBy("kind").count().orderBy("kind").toPandas()
    finally:
        session.stop()


if __name__ == "__main__":
    warm(Settings.load().spark_remote, sys.argv[1])
