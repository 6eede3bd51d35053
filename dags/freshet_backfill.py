"""Backfills. Trigger this DAG to start one: a table's interval is loaded again from its source files, or a view and all
that derives from it is computed again. Every piece of a backfill is a run of this DAG, started by Freshet's decisions
beside the live loads; pausing the DAG pauses all backfills. `./freshet backfill list` shows how far they are.
"""

from airflow.sdk import DAG, Param

from scheduler_plugin.live.operators import BackfillJob

with DAG(
    "freshet_backfill",
    schedule=None,
    catchup=False,
    max_active_runs=4,
    tags=["freshet"],
    doc_md=__doc__,
    is_paused_upon_creation=False,
    params={
        "object": Param("", type="string", title="Object", description="a table or a view of the catalog"),
        "from": Param(
            None, type=["null", "string"], title="From", description="2024-02-08 or 2024-02-08T15:00Z; empty: the first"
        ),
        "to": Param(None, type=["null", "string"], title="To", description="up to but without it; empty: the last"),
        "mode": Param("as it fits", enum=["as it fits", "reload", "recompute"], title="Mode"),
        "weight": Param(
            1.0,
            type="number",
            exclusiveMinimum=0,
            title="Speed",
            description="its share against live loads: it counts like an object with so many reads a minute",
        ),
        "why": Param("", type="string", title="Why", description="kept with your name"),
        "preview_only": Param(False, type="boolean", title="Only say what it would do"),
    },
):
    BackfillJob(task_id="run", retries=0)
