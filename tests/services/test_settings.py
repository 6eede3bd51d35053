"""Where the services are: variables first, then what `freshet up` wrote down."""

import json
from pathlib import Path

import pytest

from scheduler_plugin.services import ServiceError, airflow
from scheduler_plugin.services.home import Home, Secrets
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(root=tmp_path)
    home.make()
    return home


def settings(home: Home, **given: str) -> Settings:
    return Settings.load({"FRESHET_HOME": str(home.root), **given})


def note(home: Home, service: str, port: int) -> None:
    Record(service=service, pid=1, birth="", started_at=0, command=(), port=port).write(home)


def test_nothing_started_says_what_starts_it(home: Home) -> None:
    for name in ("database_url", "airflow_database_url", "spark_remote", "api_url"):
        with pytest.raises(ServiceError, match="freshet up"):
            getattr(settings(home), name)


def test_embedded_services_are_found_by_their_records(home: Home) -> None:
    for number, service in enumerate(("postgres", "spark", "api-server")):
        note(home, service, 4000 + number)
    found = settings(home)
    assert found.database_url.endswith("@127.0.0.1:4000/freshet")
    assert found.airflow_database_url.endswith("@127.0.0.1:4000/airflow")
    assert found.spark_remote.startswith("sc://localhost:4001/;token=")
    assert found.api_url == "http://127.0.0.1:4002"


def test_a_server_of_ones_own_wins_and_airflow_gets_a_database_apart(home: Home) -> None:
    note(home, "postgres", 4000)
    found = settings(home, FRESHET_DATABASE_URL="postgres://me:secret@db.example:6543/house?sslmode=require")
    assert found.database_url == "postgresql+psycopg2://me:secret@db.example:6543/house?sslmode=require"
    assert found.airflow_database_url == "postgresql+psycopg2://me:secret@db.example:6543/house_airflow?sslmode=require"


def test_another_kind_of_database_is_refused_by_name(home: Home) -> None:
    with pytest.raises(ServiceError, match=r"FRESHET_DATABASE_URL must be a postgresql:// URL, not mysql://"):
        _ = settings(home, FRESHET_DATABASE_URL="mysql://db/house").database_url


def test_folders_are_absolute_and_other_stores_are_left_as_they_are(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.root)
    found = settings(home, FRESHET_LANDING="drop", FRESHET_WAREHOUSE="s3://bucket/house")
    assert found.landing == str(home.root / "drop")
    assert found.warehouse == "s3://bucket/house"
    assert found.archive == str(home.archive)


def test_secrets_are_made_once_and_readable_by_their_owner_alone(home: Home) -> None:
    first = Secrets.of(home)
    assert Secrets.of(home) == first
    path = home.root / "secrets.json"
    assert path.stat().st_mode & 0o777 == 0o600
    kept = json.loads(path.read_text())
    del kept["spark_token"]
    path.write_text(json.dumps(kept))
    again = Secrets.of(home)
    assert again.postgres_password == first.postgres_password
    assert again.spark_token != first.spark_token


def test_airflow_listens_on_loopback_and_its_password_file_is_private(home: Home) -> None:
    note(home, "postgres", 4000)
    found = settings(home)
    environment = airflow.environment(found, 4002)
    assert environment["AIRFLOW__API__HOST"] == "127.0.0.1"
    airflow.write_passwords(found)
    path = Path(environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
    assert path.stat().st_mode & 0o777 == 0o600
    passwords = json.loads(path.read_text())
    assert passwords["admin"] == found.api_password
    assert set(passwords) == {"admin", "viewer"}
    assert passwords["viewer"] != passwords["admin"]


def test_a_component_is_started_anew_when_its_settings_change_and_only_then(home: Home) -> None:
    note(home, "postgres", 4000)
    before = airflow.digest(settings(home), 4002)
    assert airflow.digest(settings(home, PATH="/elsewhere"), 4002) == before
    assert airflow.digest(settings(home, FRESHET_CATALOG="other.yml"), 4002) != before
    assert airflow.digest(settings(home), 4003) != before
    note(home, "postgres", 4001)
    assert airflow.digest(settings(home), 4002) != before
