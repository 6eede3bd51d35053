"""The tick: one loop in the whole installation, restarted by Airflow wherever a triggerer is alive.

Pausing this DAG stops all new decisions within seconds; what runs goes on to its end.
"""

from airflow.sdk import DAG

from scheduler_plugin.live.operators import Tick

with DAG(
    "freshet_tick",
    schedule="@continuous",
    max_active_runs=1,
    catchup=False,
    tags=["freshet"],
    doc_md=__doc__,
    is_paused_upon_creation=False,
):
    Tick(task_id="loop", retries=0)
