"""The sensor and the query operator in a DAG of one's own, run by the real Airflow."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import queries, reports
from scheduler_plugin.store.database import Database
from tests.conftest import until
from tests.web.conftest import person

pytestmark = pytest.mark.services


@pytest.fixture
def admin(stack: Settings) -> Iterator[httpx.Client]:
    with person(stack, stack.api_username) as client:
        yield client


def run(client: httpx.Client, sql: str) -> dict[str, Any]:
    """Runs DAG `report` to its end; returns how its query went."""
    asked = client.post("/api/v2/dags/report/dagRuns", json={"logical_date": None, "conf": {"sql": sql}})
    assert asked.status_code == 200, asked.text
    path = f"/api/v2/dags/report/dagRuns/{asked.json()['dag_run_id']}"
    until("the run has ended", lambda: client.get(path).json()["state"] in ("success", "failed"))
    states = {each["task_id"]: each for each in client.get(f"{path}/taskInstances").json()["task_instances"]}
    assert states["fresh"]["state"] == "success"
    found: dict[str, Any] = states["ask"]
    if found["state"] == "success":
        pushed = client.get(f"{path}/taskInstances/ask/xcomEntries/return_value", params={"deserialize": True})
        found["answer"] = pushed.json()["value"]
    return found


def test_a_dag_waits_until_its_objects_are_fresh_and_asks_once(stack: Settings, admin: httpx.Client) -> None:
    landing = Path(stack.landing) / "airlines"
    landing.mkdir(parents=True, exist_ok=True)
    until("the DAG is there", lambda: admin.get("/api/v2/dags/report").status_code == 200)
    (landing / "airlines_for_the_report.csv").write_text("carrier,name\nQQ,Quiet Quays\n")
    database = Database(stack.database_url)
    try:
        until(
            "the file was noticed",
            lambda: any(each.table == "airlines" and each.loaded + each.pending for each in reports.files(database)),
        )
        told = run(admin, "SELECT name FROM airlines WHERE carrier = 'QQ'")
        assert told["state"] == "success"
        answer = told["answer"]
        assert answer["rows"] == [["Quiet Quays"]]
        assert answer["freshness"]["airlines"]["version"]
        (row,) = queries.reports(database, only=answer["query"])
        assert (row.by, row.state) == ("report.ask", "done")
        refused = run(admin, "SELECT * FROM text.`/etc/hostname`")
        assert (refused["state"], refused["try_number"]) == ("failed", 1)
    finally:
        database.close()
