"""Sends decisions to Airflow over its REST API, and asks it what is paused.

The decision's run id goes with the request, so sending twice makes one run: Airflow answers 409 to the second.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime

import httpx

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store.decisions import Outgoing

log = logging.getLogger(__name__)

#: The tag that every DAG of ours carries.
TAG = "freshet"
ALERTS_DAG = "freshet_alerts"
#: The pool whose places are the slots.
POOL = "freshet"


class DispatchError(Exception):
    """Airflow did not take a run; the decision stays undispatched and is sent again at the next tick."""


class UnreachableError(DispatchError):
    """Airflow's API does not answer at all."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__(f"Airflow's API at {where} cannot be reached: {error}")


class Airflow:
    """A client of Airflow's API that logs in by itself, and again when its token is refused."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = httpx.Client(base_url=settings.api_url, timeout=10)
        self._token: str | None = None

    def close(self) -> None:
        self._client.close()

    def send(self, decision: Outgoing) -> None:
        """Makes the run of a decision, if it is not there already."""
        body = {"dag_run_id": decision.run_id, "logical_date": None, "note": decision.why}
        answer = self._request("POST", f"/api/v2/dags/{decision.dag_id}/dagRuns", json=body)
        if answer.status_code not in (200, 409):
            raise DispatchError(
                f"Airflow answered {answer.status_code} to run {decision.run_id} of {decision.dag_id}: "
                f"{answer.text[:300]}"
            )

    def give_up(self, dag_id: str, run_id: str) -> None:
        """Marks a run as failed, which ends its job and frees its place in the pool. One that is not there is fine."""
        answer = self._request("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", json={"state": "failed"})
        if answer.status_code not in (200, 404):
            log.warning("Airflow answered %d to ending run %s of %s", answer.status_code, run_id, dag_id)

    def clear(self, dag_id: str, run_id: str) -> None:
        """Clears a run, as somebody might in the UI: its task runs again under the same run id."""
        answer = self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/clear", json={"dry_run": False})
        if answer.status_code != 200:
            raise DispatchError(f"Airflow answered {answer.status_code} to clearing run {run_id} of {dag_id}")

    def set_pool(self, slots: int) -> None:
        """Makes the pool of the jobs as large as there are slots."""
        body = {"name": POOL, "slots": slots, "description": "Freshet's slots; the catalog says how many."}
        found = self._request("GET", f"/api/v2/pools/{POOL}")
        if found.status_code == 200 and found.json()["slots"] == slots:
            return
        if found.status_code == 200:
            answer = self._request(
                "PATCH", f"/api/v2/pools/{POOL}", params={"update_mask": "slots"}, json={**body, "pool": POOL}
            )
        else:
            answer = self._request("POST", "/api/v2/pools", json=body)
        if answer.status_code not in (200, 201, 409):
            raise DispatchError(f"Airflow answered {answer.status_code} to the pool {POOL}: {answer.text[:300]}")

    def parse_objects(self) -> None:
        """Asks for the file of the objects' DAGs to be parsed at once. What was never parsed will be without asking."""
        tables = {"tags": [TAG, "table"], "tags_match_mode": "all", "limit": 1}
        found = self._request("GET", "/api/v2/dags", params=tables)
        for dag in found.json()["dags"] if found.status_code == 200 else ():
            answer = self._request("PUT", f"/api/v2/parseDagFile/{dag['file_token']}")
            # 409: it has been asked for already.
            if answer.status_code not in (201, 409):
                raise DispatchError(f"Airflow answered {answer.status_code} when asked to parse the objects' DAGs")

    def alert(self, incident: int, what: str) -> None:
        """Makes the run that tells people of an incident, if it is not there already."""
        body = {"dag_run_id": f"incident-{incident}-{what}", "logical_date": None}
        answer = self._request("POST", f"/api/v2/dags/{ALERTS_DAG}/dagRuns", json=body)
        if answer.status_code not in (200, 409):
            raise DispatchError(f"Airflow answered {answer.status_code} to an alert: {answer.text[:300]}")

    def trigger(self, dag_id: str, conf: dict[str, str]) -> None:
        """Starts a run of any DAG."""
        answer = self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None, "conf": conf})
        if answer.status_code != 200:
            raise DispatchError(f"Airflow answered {answer.status_code} to a run of {dag_id}: {answer.text[:300]}")

    def empty_task_seconds(self, dag_id: str) -> float:
        """From a request to run a DAG by hand, whose task then has nothing to do, until its task has started."""
        began = time.time()
        answer = self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None})
        run = answer.json()["dag_run_id"]
        while True:
            found = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run}/taskInstances").json()
            started = [each["start_date"] for each in found["task_instances"] if each["start_date"]]
            if started:
                return datetime.fromisoformat(started[0]).timestamp() - began
            time.sleep(0.1)

    def paused(self) -> frozenset[str]:
        """The ids of our DAGs that somebody has paused."""
        found: list[str] = []
        while True:
            query: dict[str, str | int] = {"tags": TAG, "paused": "true", "limit": 100, "offset": len(found)}
            answer = self._request("GET", "/api/v2/dags", params=query)
            if answer.status_code != 200:
                raise DispatchError(f"Airflow answered {answer.status_code} when asked which DAGs are paused")
            page: Sequence[dict[str, str]] = answer.json()["dags"]
            found += [dag["dag_id"] for dag in page]
            if len(page) < 100:
                return frozenset(found)

    def _request(self, method: str, path: str, **content: object) -> httpx.Response:
        for last_try in (False, True):
            if self._token is None:
                self._log_in()
            try:
                answer = self._client.request(
                    method,
                    path,
                    headers={"Authorization": f"Bearer {self._token}"},
                    **content,  # type: ignore[arg-type]
                )
            except httpx.HTTPError as error:
                raise UnreachableError(self._settings.api_url, error) from error
            # An expired token is answered with 401, one signed before the server's restart with 403.
            if answer.status_code not in (401, 403) or last_try:
                return answer
            self._token = None
        raise AssertionError("unreachable")

    def _log_in(self) -> None:
        who = {"username": self._settings.api_username, "password": self._settings.api_password}
        try:
            answer = self._client.post("/auth/token", json=who)
        except httpx.HTTPError as error:
            raise UnreachableError(self._settings.api_url, error) from error
        if answer.status_code not in (200, 201):
            raise DispatchError(f"Airflow refused to log {who['username']} in: {answer.status_code}")
        self._token = answer.json()["access_token"]
