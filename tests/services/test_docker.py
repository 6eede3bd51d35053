"""The container files name things that exist; the containers themselves are not started here."""

import re
from pathlib import Path

import yaml

from scheduler_plugin.services import airflow
from scheduler_plugin.services.home import REPOSITORY

DOCKER = REPOSITORY / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yml").read_text())


def test_every_component_of_airflow_has_its_container() -> None:
    assert set(airflow.COMPONENTS) <= set(COMPOSE["services"])


def test_every_secret_that_compose_asks_for_is_in_the_example() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (DOCKER / "compose.yml").read_text()))
    offered = set(re.findall(r"^(\w+)=", (DOCKER / "example.env").read_text(), re.MULTILINE))
    assert asked == offered


def test_the_example_holds_no_secret() -> None:
    filled = re.findall(r"^(\w+)=(.+)$", (DOCKER / "example.env").read_text(), re.MULTILINE)
    assert filled == [("SPARK_MEMORY", "4g")]


def test_settings_that_containers_share_with_a_local_airflow_are_the_same() -> None:
    environment = COMPOSE["services"]["scheduler"]["environment"]
    ours = {f"AIRFLOW__{name}": value for name, value in airflow.TUNING.items()}
    shared = set(environment) & set(ours)
    assert {name: environment[name] for name in shared} == {name: ours[name] for name in shared}
    assert "AIRFLOW__CORE__EXECUTOR" in shared


def test_the_image_copies_what_it_runs() -> None:
    assert Path(REPOSITORY / "requirements.txt").exists()
    assert COMPOSE["services"]["migrate"]["command"][1] == str((DOCKER / "migrate.py").relative_to(REPOSITORY))
