"""One DAG per object: `load__<table>` and `refresh__<view>`. None has a schedule; Freshet's decisions start them.

Airflow reads this file again in every task. A task needs only its own DAG, and its own DAG needs only the object's
name, so the catalog is read just when the whole folder is parsed.
"""

from airflow.sdk import DAG, get_parsing_context

from scheduler_plugin.live.dispatch import POOL
from scheduler_plugin.live.operators import ObjectJob


def object_dag(dag_id: str, *, tags: list[str], doc: str | None = None) -> DAG:
    with DAG(
        dag_id,
        schedule=None,
        catchup=False,
        max_active_runs=4,
        tags=["freshet", *tags],
        doc_md=doc,
        is_paused_upon_creation=False,
    ) as dag:
        ObjectJob(task_id="run", retries=0, pool=POOL)
    return dag


asked_for = get_parsing_context().dag_id
if asked_for is not None:
    dags = [object_dag(asked_for, tags=[])] if asked_for.startswith(("load__", "refresh__")) else []
else:
    from scheduler_plugin.live.dag_docs import documented_objects

    dags = [object_dag(item.dag_id, tags=item.tags, doc=item.doc) for item in documented_objects()]
for dag in dags:
    globals()[dag.dag_id] = dag
