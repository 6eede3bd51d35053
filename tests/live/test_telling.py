"""What people and machines are told: alerts through an Airflow notifier, figures through Airflow's metrics."""

import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.live.alerts import AlertError, tell
from scheduler_plugin.live.metrics import Metrics, standing
from scheduler_plugin.live.watch import Watch
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import incidents, lease, objects
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.incidents import Condition
from tests.live import notifier
from tests.live.test_scheduler import catalog, log, table, view


def with_alerts(database: Database, alerts: Sequence[dict[str, Any]]) -> None:
    rows = catalog(table("t"), view("v", "t"))
    objects.take_in(database, replace(rows, settings={**rows.settings, "alerts": list(alerts)}))


@pytest.mark.services
def test_one_alert_when_it_begins_and_one_when_it_is_over(
    database: Database, postgres: Settings, tmp_path: Path
) -> None:
    here = f"{notifier.__name__}.FileNotifier"
    told = tmp_path / "told"
    text = "{{ event }} {{ incident.kind }} of {{ incident.object }}: {{ incident.summary }}"
    with_alerts(
        database,
        [
            {"name": "me", "notifier": here, "arguments": {"path": str(told), "text": text}, "kinds": ["breach"]},
            {"name": "other", "notifier": here, "arguments": {"path": str(told), "text": "no"}, "kinds": ["failing"]},
        ],
    )
    epoch = lease.take(database, "test", lease_seconds())
    assert epoch is not None
    begun = Condition(kind="breach", object="v", summary="v passed its limit.", body={})
    foreseen = Condition(kind="predicted_breach", object="v", summary="v will be stale.", body={})
    incidents.change(database, epoch, [begun, foreseen], [])
    first, second = incidents.unalerted(database)
    assert (first[1], second[1]) == ("opened", "opened")
    settings = replace(postgres, environment={**postgres.environment, "FRESHET_DATABASE_URL": database.url})
    tell(settings, {"run_id": f"incident-{first[0]}-opened"})
    for incident, what in (first, second):
        incidents.mark_alerted(database, incident, what)
    assert incidents.unalerted(database) == []
    incidents.change(database, epoch, [], [begun.key, foreseen.key])
    # That something foreseen did not happen is no news.
    assert incidents.unalerted(database) == [(first[0], "closed")]
    tell(settings, {"run_id": f"incident-{first[0]}-closed"})
    assert told.read_text().splitlines() == [
        "opened breach of v: v passed its limit.",
        "closed breach of v: Recovered after 0 s: v passed its limit.",
    ]


@pytest.mark.services
def test_a_notifier_that_fails_keeps_no_other_from_being_told(
    database: Database, postgres: Settings, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    arguments = {"path": str(told), "text": "heard"}
    with_alerts(
        database,
        [
            {"name": "broken", "notifier": "no.such.Notifier", "arguments": {}, "kinds": ["breach"]},
            {
                "name": "me",
                "notifier": f"{notifier.__name__}.FileNotifier",
                "arguments": arguments,
                "kinds": ["breach"],
            },
        ],
    )
    epoch = lease.take(database, "test", lease_seconds())
    assert epoch is not None
    incidents.change(
        database, epoch, [Condition(kind="breach", object="v", summary="v passed its limit.", body={})], []
    )
    settings = replace(postgres, environment={**postgres.environment, "FRESHET_DATABASE_URL": database.url})
    with pytest.raises(AlertError, match="broken"):
        tell(settings, {"run_id": f"incident-{incidents.unalerted(database)[0][0]}-opened"})
    assert told.read_text() == "heard\n"


def lease_seconds() -> Any:
    from scheduler_plugin.live.loop import LEASE

    return LEASE


def test_figures_go_where_airflows_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(5)
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(listener.getsockname()[1]))
        metrics = Metrics()
        assert metrics.on
        it = log(table("t"), view("v", "t"))
        it.arrive("t")
        metrics.tick(seconds=0.25, decided=2, failed=0, quarantined_rows=3)
        metrics.standing(*standing(it.scheduler, Watch([("breach", "v")]), it.now + 10))
        heard = {}
        while len(heard) < 11:
            name, _, value = listener.recv(2048).decode().partition(":")
            heard[name.removeprefix("airflow.freshet.")] = value.partition("|")[0]
    told = {name: float(value) for name, value in heard.items()}
    assert told["tick.seconds"] == 250.0
    assert (told["decisions"], told["quarantined_rows"]) == (2, 3)
    assert (told["queue"], told["stale"], told["slots"], told["slots_in_use"], told["breaches"]) == (1, 2, 2, 0, 1)
    assert told["qod"] == 0.0
    assert told["staleness.v"] == 11.0, json.dumps(told)
