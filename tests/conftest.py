"""Real services for every test that asks: one Postgres, one Spark and one Airflow for the whole session, started when
the first test needs them and stopped at its end.

`postgres`, `database`   a server; a new, empty, migrated database of it
`spark_remote`           a Spark Connect server
`stack`                  all services, as `freshet up` starts them, with include/'s catalog and an author's DAG
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from scheduler_plugin.services import postgres as postgres_service
from scheduler_plugin.services import process
from scheduler_plugin.services import spark as spark_service
from scheduler_plugin.services import stack as services
from scheduler_plugin.services.home import REPOSITORY, Home
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.progress import Progress
from scheduler_plugin.services.settings import Settings

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile(
    "freshet", deadline=None, print_blob=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("freshet")

#: How long a service may take on a machine that does much else; a limit against hanging, not a measure.
PATIENCE_SECONDS = 420.0


def settings_in(root: Path, **given: str) -> Settings:
    """Settings for a home of the tests', whatever FRESHET_ variables the person has set."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("FRESHET_")}
    return Settings.load({**others, "FRESHET_HOME": str(root), **given})


def until(what: str, ready: Callable[[], Any]) -> Any:
    """What `ready` answers as soon as it is something; fails with `what` was waited for."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := ready()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)
    return found


def freshet(settings: Settings, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**settings.environment, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "scheduler_plugin.cli", *words]
    return subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def run_freshet() -> "Callable[..., subprocess.CompletedProcess[str]]":
    """`run_freshet(settings, "up")`: the command line in a process of its own, with the settings' environment."""
    return freshet


def new_home() -> Path:
    # Not below pytest's own folder: that is closed to the user whom Postgres runs as under root.
    root = Path(tempfile.mkdtemp(prefix="freshet-test-"))
    root.chmod(0o755)
    return root


def remove_home(root: Path) -> None:
    home = Home(root=root)
    services.down(home, Progress(io.StringIO()))
    if home.postgres.is_symlink():
        shutil.rmtree(home.postgres.resolve())
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def shared_settings() -> Iterator[Settings]:
    """The session's one home; nothing runs in it yet."""
    root = new_home()
    settings = settings_in(root, FRESHET_DAGS=str(root / "dags"))
    settings.home.make()
    yield settings
    remove_home(root)


@pytest.fixture
def own_settings() -> Iterator[Settings]:
    """A home for one test, empty at first and gone with everything that ran in it."""
    root = new_home()
    yield settings_in(root)
    remove_home(root)


@pytest.fixture(scope="session")
def postgres(shared_settings: Settings) -> Settings:
    """Postgres runs, in the session's home."""
    record = Record.read(shared_settings.home, postgres_service.SERVICE)
    if record is None or not record.alive:
        postgres_service.start(shared_settings.home)
    until("Postgres answers", lambda: postgres_service.ready(shared_settings.database_url))
    return shared_settings


@pytest.fixture(scope="session")
def template(postgres: Settings) -> str:
    """The name of a migrated database that others are copied from: quicker than migrating each."""
    from scheduler_plugin.store.migrate import upgrade

    url = database_url(postgres, "freshet_template")
    postgres_service.make_database(url)
    upgrade(url)
    return "freshet_template"


@pytest.fixture
def database(postgres: Settings, template: str) -> Iterator[Any]:
    """An empty ledger of the test's own."""
    with new_database(postgres, template) as database:
        yield database


@contextmanager
def new_database(postgres: Settings, template: str) -> Iterator[Any]:
    from scheduler_plugin.store.database import Database

    name = f"test_{uuid.uuid4().hex[:12]}"
    in_server(postgres, f"CREATE DATABASE {name} TEMPLATE {template}")
    database = Database(database_url(postgres, name))
    yield database
    database.close()
    in_server(postgres, f"DROP DATABASE {name} WITH (FORCE)")


def database_url(settings: Settings, name: str) -> str:
    return settings.database_url.rpartition("/")[0] + f"/{name}"


def in_server(settings: Settings, statement: str) -> None:
    with closing(postgres_service.connect(settings.database_url, database="postgres")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


@pytest.fixture(scope="session")
def spark_remote(shared_settings: Settings) -> str:
    """Spark Connect runs, in the session's home; its address."""
    record = Record.read(shared_settings.home, spark_service.SERVICE)
    if record is None or not record.alive:
        record = spark_service.start(shared_settings.home)
    until("Spark listens", lambda: process.listens(record))
    return shared_settings.spark_remote


@pytest.fixture(scope="session")
def stack(shared_settings: Settings) -> Settings:
    """All services run, in the session's home. A test that stops one starts it again.

    Beside Freshet's own DAGs there is one of an author's, as there is in any Airflow.
    """
    dags = Path(shared_settings.environment["FRESHET_DAGS"])
    shutil.copytree(REPOSITORY / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "tests" / "end_to_end" / "report_dag.py", dags)
    done = freshet(shared_settings, "up")
    assert done.returncode == 0, done.stderr
    return shared_settings
