"""What people start in Airflow, on the real services: a backfill by its form, and upkeep."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import backfills, reports
from scheduler_plugin.store.database import Database
from tests.conftest import until

pytestmark = pytest.mark.services


@pytest.fixture
def ledger(stack: Settings) -> Iterator[Database]:
    database = Database(stack.database_url)
    yield database
    database.close()


class Airflow:
    def __init__(self, settings: Settings) -> None:
        self._client = httpx.Client(base_url=settings.api_url, timeout=120)
        who = {"username": settings.api_username, "password": settings.api_password}
        token = self._client.post("/auth/token", json=who).json()["access_token"]
        self._client.headers["Authorization"] = f"Bearer {token}"

    def run(self, dag: str, conf: dict[str, Any]) -> dict[str, str]:
        """Triggers a run and waits for its end: task -> state."""
        until(f"{dag} is there", lambda: self._client.get(f"/api/v2/dags/{dag}").status_code == 200)
        asked = self._client.post(f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None, "conf": conf})
        assert asked.status_code == 200, asked.text
        run = f"/api/v2/dags/{dag}/dagRuns/{asked.json()['dag_run_id']}"
        until(f"{dag} has run", lambda: self._client.get(run).json()["state"] in ("success", "failed"))
        found = self._client.get(f"{run}/taskInstances").json()["task_instances"]
        return {each["task_id"]: each["state"] for each in found}


def test_a_backfill_is_started_by_the_form_and_upkeep_archives_what_it_read(stack: Settings, ledger: Database) -> None:
    airflow = Airflow(stack)
    folder = Path(stack.landing) / "airlines"
    folder.mkdir(parents=True, exist_ok=True)

    def loaded() -> int:
        return sum(each.loaded for each in reports.files(ledger) if each.table == "airlines")

    before = loaded()
    (folder / "ours.csv").write_text("carrier,name\nZZ,Zeppelin\n")
    until("it is loaded", lambda: loaded() > before)
    form = {"object": "airlines", "why": "to see", "weight": 5}
    assert airflow.run("freshet_backfill", form) == {"run": "success"}
    (report, *_) = backfills.reports(ledger)
    assert (report.object, report.mode, report.why) == ("airlines", "reload", "to see")
    until("it is done", lambda: backfills.reports(ledger)[0].state == "done")
    assert airflow.run("freshet_backfill", {"object": "nothing"}) == {"run": "failed"}
    states = airflow.run("freshet_upkeep", {})
    assert set(states.values()) == {"success"}, states
