"""The whole path on the real services: a file lands, its table is loaded, its views are refreshed, people interfere."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scheduler_plugin.catalog import Catalog, catalog_path, load_catalog
from scheduler_plugin.demo.outside import Outside
from scheduler_plugin.demo.plan import Drop
from scheduler_plugin.demo.replay import Replay
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import reports
from scheduler_plugin.store.database import Database
from spark_jobs.tables import Tables
from tests.conftest import until

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(catalog_path())


@pytest.fixture(scope="module")
def ledger(stack: Settings) -> Iterator[Database]:
    database = Database(stack.database_url)
    yield database
    database.close()


@pytest.fixture(scope="module")
def replay(stack: Settings, catalog: Catalog) -> Replay:
    return Replay.prepare(catalog, stack.landing)


@pytest.fixture(scope="module")
def airflow(stack: Settings) -> Iterator[httpx.Client]:
    """A person at Airflow's API."""
    client = httpx.Client(base_url=stack.api_url, timeout=30)
    who = {"username": stack.api_username, "password": stack.api_password}
    client.headers["Authorization"] = f"Bearer {client.post('/auth/token', json=who).json()['access_token']}"
    yield client
    client.close()


def pause(airflow: httpx.Client, dag: str, paused: bool) -> None:
    answer = airflow.patch(f"/api/v2/dags/{dag}", json={"is_paused": paused})
    assert answer.status_code == 200, answer.text


def first(replay: Replay, feed: str) -> Drop:
    return next(drop for drop in replay.drops if drop.feed == feed and drop not in replay.dropped and not drop.trouble)


def all_fresh(ledger: Database) -> bool:
    objects = reports.board(ledger).objects
    return bool(objects) and all(each.fresh and each.running is None for each in objects)


def loaded(ledger: Database) -> dict[str, int]:
    return {each.table: each.loaded for each in reports.files(ledger)}


def test_files_land_and_every_table_and_view_becomes_what_the_source_says(
    stack: Settings, ledger: Database, catalog: Catalog, replay: Replay
) -> None:
    assert not any(loaded(ledger).values()), "tests that load something else on the stack come later"
    for feed in ("airlines", "airports", "planes", "flights", "weather"):
        replay.write(first(replay, feed))
    until("every file is loaded", lambda: sum(loaded(ledger).values()) == 5)
    until("every object is fresh", lambda: all_fresh(ledger))

    board = reports.board(ledger)
    assert all(each.runs >= 1 for each in board.objects if each.materialized)
    assert all(decision.why for decision in board.decisions)
    with Tables(stack.database_url, stack.warehouse) as tables:
        places = {each.name: tables.metadata_location(each.name) for each in board.objects if each.materialized}
    assert [each for each in Outside(catalog, replay.dropped).compare(places) if not each.same] == []


def test_a_decisions_run_is_in_airflow_under_its_id(ledger: Database, airflow: httpx.Client) -> None:
    decision = next(each for each in reports.latest_decisions(ledger, 100) if each.object == "flights")
    run = airflow.get(f"/api/v2/dags/load__flights/dagRuns/decision-{decision.id}")
    assert run.status_code == 200, run.text
    assert run.json()["note"] == decision.why


def test_pausing_an_objects_dag_holds_that_object_and_no_other(
    ledger: Database, replay: Replay, airflow: httpx.Client
) -> None:
    before = loaded(ledger)
    pause(airflow, "load__weather", True)
    time.sleep(3)  # the loop asks Airflow every second
    for feed in ("weather", "flights"):
        replay.write(first(replay, feed))
    until("the other table is loaded", lambda: loaded(ledger)["flights"] == before["flights"] + 1)
    assert loaded(ledger)["weather"] == before["weather"]
    pause(airflow, "load__weather", False)
    until("the held table is loaded", lambda: loaded(ledger)["weather"] == before["weather"] + 1)


def test_pausing_the_tick_stops_new_decisions_while_arrivals_go_on(
    ledger: Database, replay: Replay, airflow: httpx.Client
) -> None:
    until("everything is fresh", lambda: all_fresh(ledger))
    pause(airflow, "freshet_tick", True)
    until("the tick says so", lambda: reports.board(ledger).last_tick["state"].startswith("paused"))
    newest = reports.latest_decisions(ledger, 1)[0].id
    replay.write(first(replay, "flights"))
    until("the arrival is in the ledger", lambda: sum(each.pending for each in reports.files(ledger)) == 1)
    time.sleep(3)
    assert reports.latest_decisions(ledger, 1)[0].id == newest
    pause(airflow, "freshet_tick", False)
    until("it is loaded after all", lambda: not any(each.pending for each in reports.files(ledger)))


def test_a_file_that_is_no_table_is_in_quarantine_with_its_reason(stack: Settings, ledger: Database) -> None:
    page = Path(stack.landing) / "airlines" / "airlines_page.csv"
    page.write_text("<html>Try again later</html>\n")
    until("the file is settled", lambda: reports.quarantined_files(ledger))
    ((table, path, reason),) = reports.quarantined_files(ledger)
    assert (table, Path(path).name) == ("airlines", "airlines_page.csv")
    assert "header" in reason
