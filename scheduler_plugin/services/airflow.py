"""Airflow on this machine: api-server, scheduler, dag-processor and triggerer, on loopback, quick to act.

Everything is set through AIRFLOW__ variables, so no airflow.cfg of the user's is read or written outside FRESHET_HOME.
The heartbeats are short because a dead triggerer or job should be noticed in seconds; the loops are short because an
object's freshness is measured in seconds. No component serves logs by itself: the page reads them from the disk.
"""

import hashlib
import http.client
import importlib.metadata
import json
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler_plugin.services import ServiceError, postgres, process
from scheduler_plugin.services.home import REPOSITORY, Home, Secrets, write_private
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings

API_SERVER = "api-server"
#: Component -> its words after `airflow`.
COMPONENTS: Mapping[str, tuple[str, ...]] = {
    API_SERVER: ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
}
MIGRATION = "airflow-migration"
PREFERRED_PORT = 8080
#: A second user, with the right to read only.
VIEWER = "viewer"
#: What does not depend on the installation. Section, option: value; the reason where it is not plain.
TUNING = {
    "CORE__EXECUTOR": "scheduler_plugin.live.executor.WarmLocalExecutor",
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    # Jobs inherit what the scheduler has imported.
    "CORE__MP_START_METHOD": "fork",
    # A look-up of the full name can hang where there is no name server.
    "CORE__HOSTNAME_CALLABLE": "socket.gethostname",
    "CORE__AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
    "CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "2",
    # A changed file is parsed at once, and so are the objects' DAGs when the catalog was changed: the tick asks for it.
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    "DAG_PROCESSOR__STALE_DAG_THRESHOLD": "60",
    # Five thousand objects take ten seconds of a core, and longer on a busy machine.
    "CORE__DAGBAG_IMPORT_TIMEOUT": "120",
    "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "180",
    "SCHEDULER__PARSING_CLEANUP_INTERVAL": "10",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",
    "SCHEDULER__JOB_HEARTBEAT_SEC": "2",
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "2",
    # A job that died with its process is noticed after this, not after the default five minutes.
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    # When the api-server is back, a task that waits for it goes on within two seconds, not within a minute and a half:
    # meanwhile it holds its slot. The same for the scheduler and the database.
    "WORKERS__EXECUTION_API_RETRIES": "30",
    "WORKERS__EXECUTION_API_RETRY_WAIT_MIN": "0.2",
    "WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "2",
    "DATABASE__MAX_DB_RETRIES": "10",
    # The tick lives in the triggerer: these two bring it back in four seconds after a crash.
    "TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "6",
    "API__HOST": "127.0.0.1",
    "API__WORKERS": "1",
    "LOGGING__COLORED_CONSOLE_LOG": "False",
}


def environment(settings: Settings, port: int) -> dict[str, str]:
    """What every component is started with, beside the caller's own environment."""
    home, secrets = settings.home, Secrets.of(settings.home)
    address = f"http://127.0.0.1:{port}"
    options = {
        **TUNING,
        "CORE__DAGS_FOLDER": settings.environment.get("FRESHET_DAGS") or str(REPOSITORY / "dags"),
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{settings.api_username}:admin,{VIEWER}:viewer",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home.airflow / "passwords.json"),
        "CORE__FERNET_KEY": secrets.fernet_key,
        "CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "DATABASE__SQL_ALCHEMY_CONN": settings.airflow_database_url,
        "API__PORT": str(port),
        "API__BASE_URL": address,
        "API__SECRET_KEY": secrets.api_secret_key,
        "API_AUTH__JWT_SECRET": secrets.jwt_secret,
    }
    return {
        "AIRFLOW_HOME": str(home.airflow),
        "FRESHET_HOME": str(home.root),
        # Absolute: components run in a folder of their own.
        "FRESHET_CATALOG": str(settings.catalog),
        "FRESHET_WAREHOUSE": settings.warehouse,
        "FRESHET_LANDING": settings.landing,
        "FRESHET_ARCHIVE": settings.archive,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), settings.environment.get("PYTHONPATH")))),
        # Components talk to each other on loopback, never through a proxy.
        "NO_PROXY": ",".join(filter(None, (settings.environment.get("NO_PROXY"), "127.0.0.1,localhost"))),
        "GX_ANALYTICS_ENABLED": "False",
        **{f"AIRFLOW__{name}": value for name, value in options.items()},
    }


def digest(settings: Settings, port: int) -> str:
    """Changes with anything a running component would not notice by itself."""
    together = {**settings.environment, **environment(settings, port)}
    ours = {name: value for name, value in together.items() if name.startswith(("FRESHET_", "AIRFLOW_"))}
    ours.pop(process.MARK, None)
    told = json.dumps([ours, str(REPOSITORY)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def choose_port(home: Home) -> int:
    """The port of the running api-server, or the last one used, or the usual one, or any that is free."""
    last = Record.read(home, API_SERVER)
    if last is not None and last.port is not None and last.alive:
        return last.port
    return process.free_port((last.port if last else None, PREFERRED_PORT))


def write_passwords(settings: Settings) -> None:
    """Airflow would make up passwords and print them to the log; ours are there before it looks."""
    passwords = json.dumps(
        {settings.api_username: settings.api_password, VIEWER: Secrets.of(settings.home).viewer_password}
    )
    write_private(settings.home.airflow / "passwords.json", passwords)


def start(settings: Settings, component: str, port: int) -> Record:
    return process.start(
        settings.home,
        component,
        [sys.executable, "-m", "airflow", *COMPONENTS[component]],
        environment={**settings.environment, **environment(settings, port)},
        port=port if component == API_SERVER else None,
        settings=digest(settings, port),
        folder=settings.home.airflow,
    )


def is_migrated(settings: Settings) -> bool:
    """Whether the database is as this version of Airflow left it. Cheap, so that `up` after a reboot is quick."""
    try:
        noted = json.loads(_migration_note(settings.home).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return bool(noted == [_version(), revision(settings.airflow_database_url)])


def start_migration(settings: Settings, port: int) -> Record:
    _migration_note(settings.home).unlink(missing_ok=True)
    words = [sys.executable, "-m", "airflow", "db", "migrate"]
    surroundings = {**settings.environment, **environment(settings, port)}
    return process.start(settings.home, MIGRATION, words, environment=surroundings, folder=settings.home.airflow)


def finish_migration(settings: Settings, migration: Record) -> None:
    if process.wait(migration) != 0:
        raise ServiceError(
            f"Airflow could not bring its database up to date. The end of {settings.home.logs / MIGRATION}.log:\n"
            f"{process.log_tail(settings.home, MIGRATION)}"
        )
    found = revision(settings.airflow_database_url)
    _migration_note(settings.home).write_text(json.dumps([_version(), found]))


def _migration_note(home: Home) -> Path:
    return home.run / f"{MIGRATION}-done.json"


def _version() -> str:
    return importlib.metadata.version("apache-airflow")


def revision(url: str) -> str | None:
    """The revision Airflow's database is at; None where Airflow has not been yet."""
    from psycopg2 import errors

    with closing(postgres.connect(url)) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SELECT version_num FROM alembic_version")
        except errors.UndefinedTable:
            return None
        row = cursor.fetchone()
        return row[0] if row else None


def health(settings: Settings) -> dict[str, Any] | None:
    """What our api-server says of all components; None when it does not answer, or somebody else does at its port."""
    record = Record.read(settings.home, API_SERVER)
    if record is None or not process.listens(record):
        return None
    address = urlsplit(settings.api_url)
    try:
        with closing(http.client.HTTPConnection(address.netloc, timeout=5)) as connection:
            connection.request("GET", f"{address.path}/api/v2/monitor/health")
            return dict(json.load(connection.getresponse()))
    except (http.client.HTTPException, OSError, ValueError):
        return None


def is_healthy(component: str, record: Record, told: Mapping[str, Any] | None, heard_since: float = 0.0) -> bool:
    """Has it given a sign of life since it was started, and since then? An older one was its forerunner's."""
    if told is None:
        return False
    if component == API_SERVER:
        return bool(told["metadatabase"]["status"] == "healthy")
    name = component.replace("-", "_")
    said = told.get(name) or {}
    at = said.get(f"latest_{name}_heartbeat")
    alive = said.get("status") == "healthy" and at is not None
    return alive and datetime.fromisoformat(at).timestamp() > max(record.started_at, heard_since)
