"""The API in the real Airflow: closed to strangers, readable for readers, and only editors act, on the record."""

import re
from pathlib import Path
from typing import Any

import httpx
import pyarrow
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from pyarrow import parquet

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import demands
from scheduler_plugin.store.database import Database
from tests.conftest import until

pytestmark = pytest.mark.services

API = "/freshet/api/v1"


def operations(client: httpx.Client) -> list[tuple[str, str]]:
    """(method, path) of everything that is documented, with an object's name filled in."""
    spec = client.get(f"{API}/openapi.json").json()
    return [
        (method.upper(), "/freshet" + re.sub(r"\{\w+\}", "airlines", path))
        for path, methods in spec["paths"].items()
        for method in methods
    ]


def test_every_route_is_closed_to_whoever_is_not_logged_in(stack: Settings, admin: httpx.Client) -> None:
    routes = [
        *operations(admin),
        ("GET", f"{API}/openapi.json"),
        ("GET", "/freshet/"),
        ("GET", "/freshet/static/main.js"),
    ]
    assert len(routes) > 12
    with httpx.Client(base_url=stack.api_url, timeout=60, trust_env=False) as stranger:
        answers = {route: stranger.request(*route, json={} if route[0] == "POST" else None) for route in routes}
    assert {answer.status_code for answer in answers.values()} == {401}


def test_a_viewer_reads_everything_and_changes_nothing(stack: Settings, viewer: httpx.Client, loaded: str) -> None:
    database = Database(stack.database_url)
    before = len(demands.reports(database))
    for method, path in operations(viewer):
        answer = viewer.request(method, path, json={} if method == "POST" else None)
        # An action whose body is not right is refused before the rights are looked at.
        assert answer.status_code in ((200,) if method == "GET" else (403, 422)), (method, path, answer.text)
        assert method == "POST" or "ETag" in answer.headers, path
    assert viewer.post(f"{API}/objects/{loaded}/run", json={}).status_code == 403
    assert not viewer.get(f"{API}/objects/{loaded}").json()["may_edit"]
    assert len(demands.reports(database)) == before
    database.close()


def test_an_unchanged_answer_costs_nothing(viewer: httpx.Client, loaded: str) -> None:
    first = viewer.get(f"{API}/objects/{loaded}/graph")
    again = viewer.get(f"{API}/objects/{loaded}/graph", headers={"If-None-Match": first.headers["ETag"]})
    changed = again.status_code == 200 and again.json() != first.json()  # something ran in between
    assert changed or (again.status_code == 304 and not again.content)


def test_what_is_not_there_or_not_sound_is_refused_in_words(admin: httpx.Client) -> None:
    missing = admin.get(f"{API}/objects/nowhere'; DROP TABLE x --")
    assert (missing.status_code, "nowhere" in missing.json()["detail"]) == (404, True)
    for query in ({"limit": 100_000}, {"sort": "colour"}, {"offset": -1}, {"search": "x" * 101}):
        assert admin.get(f"{API}/board", params=query).status_code == 422
    assert admin.post(f"{API}/objects/airlines/run", json={"why": "x" * 501}).status_code == 422
    away = admin.post(f"{API}/objects/airlines/announce", json={"files": ["../../secrets.json"]})
    assert (away.status_code, "secrets.json" in away.json()["detail"]) == (409, True)
    assert admin.post(f"{API}/objects/worst_routes/run", json={}).status_code == 409  # a virtual view


def test_run_now_runs_and_is_on_the_record(stack: Settings, admin: httpx.Client, loaded: str) -> None:
    done = admin.post(f"{API}/objects/{loaded}/run", json={"why": "the\x00page's test"})
    assert done.status_code == 200, done.text
    number = int(re.search(r"demand (\d+)", done.json()["message"])[1])  # type: ignore[index]
    database = Database(stack.database_url)
    until("the demand has ended", lambda: demands.reports(database, only=[number])[0].outcome)
    (told,) = demands.reports(database, only=[number])
    database.close()
    assert (told.by, told.why, told.outcome) == ("admin", "the page's test", "met")
    noted = [each for each in records(admin, "freshet.run", f"load__{loaded}") if "the page's test" in each["extra"]]
    assert [each["owner"] for each in noted] == ["admin"]


def test_pause_and_resume_are_airflows_own(admin: httpx.Client, loaded: str) -> None:
    def paused() -> bool:
        return bool(admin.get(f"/api/v2/dags/load__{loaded}").json()["is_paused"])

    def held() -> list[str]:
        held: list[str] = admin.get(f"{API}/objects/{loaded}").json()["row"]["held"]
        return held

    assert admin.post(f"{API}/objects/{loaded}/pause", json={"why": "a pause"}).status_code == 200
    assert paused()
    until("the brain has heard of it", held)
    assert admin.post(f"{API}/objects/{loaded}/resume", json={}).status_code == 200
    assert not paused()
    until("the brain has heard of that too", lambda: not held())
    assert records(admin, "freshet.pause", f"load__{loaded}")[0]["owner"] == "admin"


def records(client: httpx.Client, event: str, dag: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v2/eventLogs", params={"event": event, "dag_id": dag}).json()[
        "event_logs"
    ]
    return found


def test_airflows_own_views_name_tag_document_and_link_an_object(admin: httpx.Client, loaded: str) -> None:
    dag = admin.get(f"/api/v2/dags/load__{loaded}/details").json()
    assert dag["dag_display_name"] == f"Load {loaded}"
    assert {tag["name"] for tag in dag["tags"]} == {"freshet", "table", "level:0", f"feed:{loaded}"}
    assert dag["owners"] == ["freshet"]
    assert "| `carrier` | string |" in dag["doc_md"]
    view = admin.get("/api/v2/dags/refresh__delays_by_carrier/details").json()
    assert "```sql" in view["doc_md"]
    assert "never be more than 45 s behind" in view["doc_md"]

    runs = admin.get(f"/api/v2/dags/load__{loaded}/dagRuns", params={"order_by": "id"}).json()["dag_runs"]
    run = next(each for each in runs if each["state"] == "success")
    links = f"/api/v2/dags/load__{loaded}/dagRuns/{run['dag_run_id']}/taskInstances/run/links"
    told = admin.get(links).json()["extra_links"]
    assert told["Freshness"].endswith(f"/plugin/freshet/freshet/#/object/{loaded}")
    assert told["Spark"].startswith("http://127.0.0.1:")


def test_airflows_assets_show_what_is_derived_from_what(admin: httpx.Client) -> None:
    def lineage() -> set[tuple[str, str]]:
        assets = admin.get("/api/v2/assets", params={"limit": 100}).json()["assets"]
        made = {each["dag_id"]: asset["name"] for asset in assets for each in asset["producing_tasks"]}
        return {
            (asset["name"], made[each["dag_id"]])
            for asset in assets
            for each in asset["consuming_tasks"]
            if each["dag_id"] in made
        }

    found = until("the DAGs have been parsed", lineage)
    assert {("flights", "flights_clean"), ("weather", "weather_clean"), ("planes", "fleet")} <= found
    assert not [pair for pair in found if pair[0] == pair[1]]


def test_the_plugin_is_registered_once_with_a_place_in_the_navigation_and_on_each_dag(admin: httpx.Client) -> None:
    plugins = admin.get("/api/v2/plugins", params={"limit": 100}).json()["plugins"]
    (ours,) = [each for each in plugins if each["name"] == "freshet"]
    assert {view["destination"] for view in ours["external_views"]} == {"nav", "dag"}
    assert [each["name"] for each in ours["fastapi_root_middlewares"]] == ["freshet"]


def test_whoever_may_read_the_objects_may_ask_about_them(viewer: httpx.Client, loaded: str) -> None:
    def ask(sql: str, **more: Any) -> httpx.Response:
        return viewer.post(f"{API}/queries", json={"sql": sql, **more})

    told = ask(f"SELECT count(*) AS n, max(carrier) AS last FROM {loaded}", max_staleness=600).json()
    assert (told["columns"], told["rows"][0][0] > 0) == (["n", "last"], True)
    version = told["freshness"][loaded]["version"]
    fixed = ask(f"SELECT count(*) AS n FROM {loaded}", versions={loaded: version}, as_of="2100-01-31T14:05:00+01:00")
    assert (fixed.json()["freshness"][loaded]["version"], fixed.json()["rows"]) == (version, [[told["rows"][0][0]]])
    assert ask(f"SELECT 1 FROM {loaded}", as_of="31/01/2026").status_code == 422
    assert any(each["id"] == told["query"] and each["by"] == "viewer" for each in viewer.get(f"{API}/queries").json())
    refused = ask("SELECT * FROM text.`/etc/hostname`")
    assert (refused.status_code, "schema" in refused.json()["detail"]) == (409, True)
    assert ask("SELECT * FROM nowhere").status_code == 409
    for none in (1, 2**63):
        assert ask(f"SELECT * FROM {loaded}", versions={loaded: none}).status_code == 404
    slow = ask(f"SELECT count(*) AS n FROM {loaded}", deadline=0.001)
    assert (slow.status_code, loaded in slow.json()["possible"]) == (409, True)


def test_the_api_keeps_to_its_documentation_whatever_is_sent(stack: Settings, admin: httpx.Client, loaded: str) -> None:
    """Schemathesis: no answer that is not documented, and no failure, for what is allowed and for what is not."""
    schema = schemathesis.openapi.from_dict(admin.get(f"{API}/openapi.json").json())
    schema.config.update(base_url=f"{stack.api_url}/freshet")
    log_in = {"Authorization": admin.headers["Authorization"]}
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=6, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(headers=log_in, timeout=60)

        check()
        tried += 1
    assert tried == len(operations(admin))


def test_an_expectation_that_only_warns_is_not_told_as_a_failure(stack: Settings, admin: httpx.Client) -> None:
    def quality(name: str) -> str | None:
        (row,) = admin.get(f"{API}/board", params={"search": name}).json()["objects"]
        told: str | None = row["quality"]
        return told

    landing = Path(stack.landing) / "planes"
    landing.mkdir(exist_ok=True)
    # No plane was built in 1900, says its file of expectations, and lets it pass.
    numbers = {name: pyarrow.array([1900], "int32") for name in ("year", "engines", "seats", "speed")}
    words = {name: ["old"] for name in ("tailnum", "type", "manufacturer", "model", "engine")}
    parquet.write_table(pyarrow.table(numbers | words), landing / "planes_of_1900.parquet")
    until("the warning is told", lambda: quality("planes") == "warning")
