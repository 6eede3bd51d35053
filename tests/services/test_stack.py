"""`freshet up`, `down` and `status` on real services: safe to repeat, and right after a crash."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import psutil
import pytest

from scheduler_plugin.catalog import load_catalog
from scheduler_plugin.services import process
from scheduler_plugin.services import stack as services
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings

pytestmark = pytest.mark.services


def pids(settings: Settings) -> dict[str, int]:
    records = {service: Record.read(settings.home, service) for service in services.SERVICES}
    return {service: record.pid for service, record in records.items() if record is not None and record.alive}


def family(settings: Settings) -> list[psutil.Process]:
    records = (Record.read(settings.home, service) for service in services.SERVICES)
    return [member for record in records if record is not None for member in process.family(record)]


@pytest.fixture
def client(stack: Settings) -> Iterator[httpx.Client]:
    """Airflow's API, logged in with the password from the file."""
    passwords = json.loads((stack.home.airflow / "passwords.json").read_text())
    with httpx.Client(base_url=stack.api_url, trust_env=False, timeout=30) as client:
        answer = client.post("/auth/token", json={"username": "admin", "password": passwords["admin"]})
        client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
        yield client


def test_status_finds_every_service_up(stack: Settings, run_freshet: Any) -> None:
    told = run_freshet(stack, "status", "--json")
    assert told.returncode == 0, told.stdout
    assert {item["service"]: item["state"] for item in json.loads(told.stdout)["services"]} == dict.fromkeys(
        services.SERVICES, "up"
    )


def test_up_again_changes_nothing(stack: Settings, run_freshet: Any) -> None:
    before = pids(stack)
    assert run_freshet(stack, "up").returncode == 0
    assert pids(stack) == before
    assert set(before) == set(services.SERVICES)


def test_nothing_listens_beyond_this_machine(stack: Settings) -> None:
    listening: set[str] = set()
    for member in family(stack):
        with suppress(psutil.NoSuchProcess):  # a task that has ended meanwhile
            listening |= {
                connection.laddr.ip.removeprefix("::ffff:")
                for connection in member.net_connections("tcp")
                if connection.status == psutil.CONN_LISTEN
            }
    assert listening == {"127.0.0.1"}


def test_the_api_is_closed_to_whoever_has_no_password(stack: Settings) -> None:
    with httpx.Client(base_url=stack.api_url, trust_env=False, timeout=30) as client:
        assert client.get("/api/v2/dags").status_code == 401
        wrong = client.post("/auth/token", json={"username": "admin", "password": "admin"})
        assert wrong.status_code == 401


def test_airflow_has_a_dag_for_every_object_and_no_import_error(stack: Settings, client: httpx.Client) -> None:
    catalog = load_catalog(stack.catalog)
    wanted = {"freshet_tick", "freshet_backfill", "freshet_upkeep"} | {f"load__{table}" for table in catalog.tables}
    wanted |= {f"refresh__{name}" for name, view in catalog.views.items() if view.materialized}
    found: set[str] = set()
    while not wanted <= found:
        errors = client.get("/api/v2/importErrors").json()["import_errors"]
        assert errors == []
        found = {dag["dag_id"] for dag in client.get("/api/v2/dags", params={"limit": 100}).json()["dags"]}


def test_a_killed_service_comes_back_alone(stack: Settings, run_freshet: Any) -> None:
    before = pids(stack)
    process.end([psutil.Process(before["triggerer"])], first=signal.SIGKILL)
    told = run_freshet(stack, "status", "--json")
    assert told.returncode == 3
    assert run_freshet(stack, "up").returncode == 0
    after = pids(stack)
    assert after.pop("triggerer") != before.pop("triggerer")
    assert after == before


def test_everything_comes_back_after_a_crash_of_the_whole_machine(stack: Settings, run_freshet: Any) -> None:
    before = pids(stack)
    process.end(family(stack), first=signal.SIGKILL)
    process.end(process.strays(stack.home), first=signal.SIGKILL)
    again = run_freshet(stack, "up")
    assert again.returncode == 0, again.stderr
    after = pids(stack)
    assert set(after) == set(services.SERVICES)
    assert not set(after.values()) & set(before.values())


def test_down_leaves_no_process_behind(stack: Settings, run_freshet: Any) -> None:
    members = family(stack)
    assert members
    assert run_freshet(stack, "down").returncode == 0
    assert [member for member in members if member.is_running()] == []
    assert process.strays(stack.home) == []
    told = run_freshet(stack, "status", "--json")
    assert {item["state"] for item in json.loads(told.stdout)["services"]} == {"down"}
    assert run_freshet(stack, "down").returncode == 0
    again = run_freshet(stack, "up")  # for the tests that follow
    assert again.returncode == 0, again.stderr
