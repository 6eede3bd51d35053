"""A short chaos on services of its own: nothing is lost, nothing is doubled, work goes on, and people are told."""

from pathlib import Path

import pytest

from scheduler_plugin.chaos.pour import write_catalog
from scheduler_plugin.chaos.run import chaos
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import reports
from scheduler_plugin.store.database import Database
from tests.conftest import until
from tests.live import notifier

pytestmark = pytest.mark.services

ALERTS = """
alerts:
  somebody:
    notifier: {notifier}
    arguments:
      path: {told}
      text: "{{{{ event }}}} {{{{ incident.kind }}}} of {{{{ incident.object }}}} ({{{{ incident.id }}}})"
    kinds: [silent_feed]
"""


def test_every_row_is_there_once_after_kills_and_mistakes(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(own_settings.home.root)
    catalog, told = write_catalog(root / "include"), root / "told"
    catalog.write_text(catalog.read_text() + ALERTS.format(notifier=f"{notifier.__name__}.FileNotifier", told=told))
    for name, value in (("FRESHET_HOME", str(root)), ("FRESHET_CATALOG", str(catalog))):
        monkeypatch.setenv(name, value)
    faults = ("kill a job", "kill triggerer", "two loops", "fail a run")
    report = chaos(Settings.load(), minutes=0.3, seed=1, only=faults, work_within=120.0)
    assert report.faults
    assert report.files["trips"] > 0
    assert report.problems == []
    # An object that is new has its DAG parsed and is run; the feeds are silent by now, of which somebody is told once.
    (root / "include" / "views" / "newest.sql").write_text("SELECT max(id) AS id FROM trips\n")
    catalog.write_text(catalog.read_text().replace("views:\n", "views:\n  newest: {access: 1}\n"))
    database = Database(own_settings.database_url)
    try:
        until("the new view has run", lambda: any(e.object == "newest" for e in reports.latest_decisions(database, 1)))
        until("it is fresh", lambda: all(each.fresh for each in reports.board(database).objects))
        until("somebody is told", lambda: told.exists() and "opened silent_feed of trips" in told.read_text())
        assert sorted(told.read_text().splitlines()) == sorted(set(told.read_text().splitlines()))
    finally:
        database.close()
