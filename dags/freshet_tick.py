"""The tick: one loop in the whole installation, restarted by Airflow wherever a triggerer is alive.

Pausing this DAG stops all new decisions within seconds; what runs goes on to its end.
"""

from datetime import UTC, datetime

from airflow.sdk import DAG

from scheduler_plugin.live.operators import Tick

with DAG(
    "freshet_tick",
    schedule="@continuous",
    # Without a start the first run's interval is empty, the second would have the first's date, and Airflow 3.3 makes
    # no second run: the loop would end with its first run.
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    max_active_runs=1,
    catchup=False,
    tags=["freshet"],
    doc_md=__doc__,
    is_paused_upon_creation=False,
):
    Tick(task_id="loop", retries=0)
