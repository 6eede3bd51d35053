"""Upkeep, every quarter of an hour: small files are merged and snapshots that nobody needs forgotten (`tables`), loaded
files go to the archive (`files`), old history is forgotten (`history`), and Airflow's own old runs (`airflow`). The
catalog says under `retention` how long things are kept. No part waits for another; the last two do something in the
first run of the day (UTC), and in runs that somebody triggers.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from scheduler_plugin.live.operators import Upkeep

with DAG(
    "freshet_upkeep",
    schedule="*/15 * * * *",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["freshet"],
    doc_md=__doc__,
    is_paused_upon_creation=False,
):
    for part in ("tables", "files"):
        Upkeep(task_id=part, part=part, retries=0, execution_timeout=timedelta(minutes=30))
    for part in ("history", "airflow"):
        Upkeep(task_id=part, part=part, daily=True, retries=0, execution_timeout=timedelta(minutes=30))
