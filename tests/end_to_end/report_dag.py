"""A DAG as an author would write it: wait for fresh objects, then ask. Stands beside Freshet's own in the tests."""

from airflow.sdk import DAG

from scheduler_plugin.live.query_operators import FreshnessSensor, FreshQueryOperator

with DAG("report", schedule=None, params={"sql": "SELECT 1"}, is_paused_upon_creation=False):
    fresh = FreshnessSensor(task_id="fresh", objects=["airlines"], demand=True, timeout=300)
    ask = FreshQueryOperator(task_id="ask", sql="{{ params.sql }}", max_staleness=60, deadline=300, retries=3)
    fresh >> ask
