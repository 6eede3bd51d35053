"""One DAG per object: `load__<table>` and `refresh__<view>`. None has a schedule; Freshet's decisions start them.

Airflow reads this file again in every task. A task needs only its own DAG, and its own DAG needs only the object's
name, so the catalog is read just when the whole folder is parsed. What that adds is for people: the assets make
Airflow's graph of assets show what is derived from what, and start nothing.
"""

from typing import Any

from airflow.sdk import DAG, Asset, get_parsing_context

from scheduler_plugin.live.dispatch import POOL
from scheduler_plugin.live.operators import ObjectJob


def object_dag(dag_id: str, *, tags: list[str], inlets: Any = (), outlets: Any = (), **words: Any) -> DAG:
    with DAG(
        dag_id,
        schedule=None,
        catchup=False,
        max_active_runs=4,
        tags=["freshet", *tags],
        is_paused_upon_creation=False,
        **words,
    ) as dag:
        ObjectJob(task_id="run", retries=0, pool=POOL, inlets=inlets, outlets=outlets)
    return dag


def asset(name: str) -> Asset:
    return Asset(name=name, uri=f"freshet://warehouse/{name}", group="freshet")


asked_for = get_parsing_context().dag_id
if asked_for is not None:
    dags = [object_dag(asked_for, tags=[])] if asked_for.startswith(("load__", "refresh__")) else []
else:
    from scheduler_plugin.live.dag_docs import documented_objects

    dags = [
        object_dag(
            item.dag_id,
            tags=list(item.tags),
            dag_display_name=item.display_name,
            default_args={"owner": item.owner},
            doc_md=item.doc,
            inlets=[asset(each) for each in item.reads],
            outlets=[asset(item.name)],
        )
        for item in documented_objects()
    ]
for dag in dags:
    globals()[dag.dag_id] = dag
