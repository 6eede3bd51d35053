"""A short chaos on services of its own: nothing is lost, nothing is doubled, and work goes on."""

from pathlib import Path

import pytest

from scheduler_plugin.chaos.pour import write_catalog
from scheduler_plugin.chaos.run import chaos
from scheduler_plugin.services.settings import Settings

pytestmark = pytest.mark.services


def test_every_row_is_there_once_after_kills_and_mistakes(
    own_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = write_catalog(Path(own_settings.home.root) / "include")
    for name, value in (("FRESHET_HOME", str(own_settings.home.root)), ("FRESHET_CATALOG", str(catalog))):
        monkeypatch.setenv(name, value)
    faults = ("kill a job", "kill triggerer", "two loops", "fail a run")
    report = chaos(Settings.load(), minutes=0.3, seed=1, only=faults, work_within=120.0)
    assert report.faults
    assert report.files["trips"] > 0
    assert report.problems == []
