"""Tells people of incidents through the Airflow notifiers that the catalog names. Freshet starts it, once for each
incident that begins, and once when it is over. Pausing this DAG silences the alerts; they come when it is resumed.
"""

from datetime import timedelta

from airflow.sdk import DAG

from scheduler_plugin.live.operators import SendAlert

with DAG(
    "freshet_alerts",
    schedule=None,
    catchup=False,
    tags=["freshet"],
    doc_md=__doc__,
    is_paused_upon_creation=False,
):
    SendAlert(task_id="tell", retries=3, retry_delay=timedelta(seconds=30))
