"""`freshet check`: a summary when all is well, every problem otherwise, as prose or JSON."""

import json
from pathlib import Path

import pytest

from scheduler_plugin.cli.main import main


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "recent.sql").write_text("SELECT * FROM events")
    path = tmp_path / "warehouse.yml"
    path.write_text(
        "slots: 2\n"
        "feeds: {events: {format: csv, columns: {x: int}, period: 1m}}\n"
        "views: {recent: {materialized: false}}\n"
    )
    return path


def test_a_sound_catalog_is_summed_up(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--catalog", str(catalog)]) == 0
    said = capsys.readouterr().out
    assert "1 tables, 1 views (1 virtual), 2 levels, 2 slots, policy default. No problems." in said
    assert "recent  virtual, reads events" in said


def test_the_summary_is_also_json(catalog: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", "--catalog", str(catalog)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"]
    assert told["levels"] == [[{"name": "events", "parents": []}], [{"name": "recent", "parents": ["events"]}]]


def test_a_limit_shorter_than_the_time_between_files_is_named(
    catalog: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog.write_text(catalog.read_text().replace("{materialized: false}", "{staleness_limit: 30s}"))
    assert main(["check", "--catalog", str(catalog)]) == 0
    assert "over its limit of 30 s between files of events, every 60 s" in capsys.readouterr().out
    catalog.write_text(catalog.read_text().replace("staleness_limit: 30s", "staleness_limit: 2m"))
    assert main(["check", "--catalog", str(catalog)]) == 0
    assert "over its limit" not in capsys.readouterr().out


def test_problems_are_told_and_the_exit_code_says_so(
    catalog: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (catalog.parent / "views" / "recent.sql").write_text("SELECT * FROM event")
    monkeypatch.setenv("FRESHET_CATALOG", str(catalog))
    assert main(["check"]) == 1
    assert "reads `event`, which no feed or view provides. Did you mean `events`?" in capsys.readouterr().err
    assert main(["check", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["ok"]
    assert len(told["problems"]) == 1
