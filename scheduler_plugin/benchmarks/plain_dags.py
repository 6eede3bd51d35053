"""The plain ways to do what Freshet does, as DAGs: one loads a file, the other is scheduled by the asset it updates.

`plain` submits each job to Spark with SparkSubmitOperator; `warm` runs the same code on the warm Spark Connect server
in a process with its imports done. Only the benchmark's Airflow sees this file.
"""

from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, Asset

from scheduler_plugin.benchmarks import plain_job

#: The run's conf tells the file; the asset's event carries nothing, so the refresh finds its way by the tables.
FILE = "{{ dag_run.conf['file'] }}"


def submitted(step: str, *words: str, **more: Any) -> SparkSubmitOperator:
    return SparkSubmitOperator(
        task_id="run",
        conn_id="freshet_bench",
        application=str(Path(plain_job.__file__)),
        application_args=["plain", step, *words],
        verbose=False,
        **more,
    )


def called(step: str, *words: str, **more: Any) -> PythonOperator:
    return PythonOperator(task_id="run", python_callable=plain_job.run, op_args=["warm", step, *words], **more)


for arm, job in (("plain", submitted), ("warm", called)):
    asset = Asset(f"freshet-bench://trips/{arm}")
    with DAG(f"bench_{arm}_load", schedule=None, tags=["bench"]) as load:
        job("load", FILE, outlets=[asset])
    with DAG(f"bench_{arm}_refresh", schedule=[asset], tags=["bench"]) as refresh:
        job("refresh")
    globals().update({load.dag_id: load, refresh.dag_id: refresh})
