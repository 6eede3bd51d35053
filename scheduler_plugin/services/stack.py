"""All services together: up, down, and how they are.

Spark needs nothing and Airflow needs a migrated database, so the two ways go side by side. What already runs with the
settings it should have is left alone: `up` twice is `up` once, and `up` after a crash brings back what is missing.
A start that fails leaves the rest running; the next one goes on from there.
"""

import fcntl
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from scheduler_plugin.services import ServiceError, airflow, postgres, process, spark
from scheduler_plugin.services.home import Home
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.progress import Progress
from scheduler_plugin.services.settings import Settings

SERVICES = (postgres.SERVICE, spark.SERVICE, *airflow.COMPONENTS)
#: A busy two-core machine needs half a minute for Airflow; past this, something is wrong.
PATIENCE_SECONDS = 180.0
#: What ran while the database was away gives a sign of life again after this, or is started anew.
OUTLIVES_SECONDS = 12.0
#: A paused tick never starts, which is no failure of a service: say so and go on.
TICK_PATIENCE_SECONDS = 90.0
#: Less room than this and Postgres stops in the middle of things.
LEAST_FREE_BYTES = 300 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """One service as it is now."""

    service: str
    #: "up", "starting", "unwell" (runs, but does not answer), "down", or "away" (the user's own, out of reach).
    state: str
    #: Where it answers, without passwords; empty for what nobody calls.
    address: str
    pid: int | None
    #: Seconds since its start; None for the user's own servers.
    age: float | None


def up(settings: Settings, progress: Progress) -> None:
    """Everything running and healthy when it returns, or ServiceError."""
    prepare(settings.home)
    with locked(settings.home, progress):
        start = _Start(settings=settings, progress=progress, failed=threading.Event())
        with ThreadPoolExecutor(2) as pool:
            ways = [pool.submit(start.guarded, way) for way in (start.spark, start.database_and_airflow)]
        for way in ways:
            way.result()


def down(home: Home, progress: Progress) -> None:
    """Nothing of this home's is left running when it returns, not even when somebody has removed the home."""
    with locked(home, progress) if home.run.exists() else nullcontext():
        records = [Record.read(home, path.stem) for path in sorted(home.run.glob("*.json"))]
        running = [record for record in records if record is not None and process.family(record)]
        last = [record for record in running if record.service == postgres.SERVICE]
        first = [record for record in running if record.service != postgres.SERVICE]

        def end(record: Record) -> None:
            progress.doing(record.service, "stopping")
            (postgres.stop if record.service == postgres.SERVICE else process.stop)(record)
            progress.done(record.service, "stopped")

        # Postgres last: the others may have something left to write.
        for records_together in (first, last):
            with ThreadPoolExecutor(max(1, len(records_together))) as pool:
                list(pool.map(end, records_together))
        left = process.strays(home)
        process.end(left)
        if left:
            progress.done("others", f"{len(left)} process(es) without a record stopped")


def status(settings: Settings) -> list[ServiceStatus]:
    """How each service is; quick, and never waits for one that hangs for long."""
    told = airflow.health(settings)
    found = [
        _server(settings, postgres.SERVICE, "FRESHET_DATABASE_URL", 5432),
        _server(settings, spark.SERVICE, "FRESHET_SPARK_REMOTE", 15002),
    ]
    for component in airflow.COMPONENTS:
        record = Record.read(settings.home, component)
        well = record is not None and airflow.is_healthy(component, record, told)
        found.append(_status(component, record, well=well))
    return found


@contextmanager
def locked(home: Home, progress: Progress) -> Iterator[None]:
    """One `up` or `down` at a time; the system lets go of the lock when its holder dies."""
    with (home.run / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.doing("freshet", "waits for another `freshet up` or `down` to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
            progress.done("freshet", "the other one has finished")
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """One `up` under way."""

    settings: Settings
    progress: Progress
    #: Set when one way has failed, so that the other stops waiting.
    failed: threading.Event

    def guarded(self, way: Callable[[], None]) -> None:
        try:
            way()
        except BaseException:
            self.failed.set()
            raise

    def spark(self) -> None:
        home = self.settings.home
        if given := self.settings.environment.get("FRESHET_SPARK_REMOTE"):
            host, port = host_and_port(given, 15002)
            if not answers(host, port):
                raise ServiceError(f"No Spark Connect server answers at {host}:{port} (FRESHET_SPARK_REMOTE).")
            self.progress.done("spark", f"your own at {host}:{port}")
            return
        record = Record.read(home, spark.SERVICE)
        kept = record is not None and record.alive
        if record is None or not kept:
            self.progress.doing("spark", "starting")
            record = spark.start(home)
        try:
            self.wait(record, lambda: process.listens(record))
        except ServiceError:
            # It takes Spark seconds to come to its port, and somebody else may have come first.
            if not self.came_too_late(spark.SERVICE, "BindException"):
                raise
            record = spark.start(home)
            self.wait(record, lambda: process.listens(record))
        if not kept:
            spark.start_warming(home, self.settings.spark_remote)
        self.progress.done("spark", _ready(record, kept))

    def database_and_airflow(self) -> None:
        began = time.time()
        self.airflow(heard_since=began if self.postgres() else 0.0)

    def postgres(self) -> bool:
        """True when the embedded server was started just now."""
        home, settings = self.settings.home, self.settings
        kept = True
        if settings.environment.get("FRESHET_DATABASE_URL"):
            where = postgres.without_password(settings.database_url)
            if not postgres.ready(settings.database_url):
                raise ServiceError(f"No Postgres answers at {where} (FRESHET_DATABASE_URL). Start it, or unset that.")
            ready = f"your own at {where}"
        else:
            record = Record.read(home, postgres.SERVICE)
            kept = record is not None and record.alive
            if record is None or not kept:
                self.progress.doing("postgres", "starting")
                record = postgres.start(home)
            self.wait(record, lambda: postgres.ready(settings.database_url))
            ready = _ready(record, kept)
        postgres.make_database(settings.database_url)
        postgres.make_database(settings.airflow_database_url)
        self.progress.done("postgres", ready)
        return not kept

    def airflow(self, heard_since: float) -> None:
        try:
            self.components(heard_since)
        except ServiceError:
            # As with Spark: somebody else may have come to the port first. All components are told another one.
            if not self.came_too_late(airflow.API_SERVER, "address already in use"):
                raise
            self.components(heard_since)
        self.tick()

    def came_too_late(self, service: str, complaint: str) -> bool:
        """Whether a service ended because somebody else took its port while it started."""
        record = Record.read(self.settings.home, service)
        alive = record is not None and record.alive
        return not alive and complaint in process.log_tail(self.settings.home, service, lines=200)

    def components(self, heard_since: float) -> None:
        """What runs may outlive a crash of the database, and is asked for a sign of life from after it."""
        settings, progress = self.settings, self.progress
        port = airflow.choose_port(settings.home)
        digest = airflow.digest(settings, port)
        airflow.write_passwords(settings)
        self.migrate(port)
        records: dict[str, Record] = {}
        kept: set[str] = set()
        for component in airflow.COMPONENTS:
            record = Record.read(settings.home, component)
            if record is not None and record.alive and record.settings == digest:
                kept.add(component)
                records[component] = record
            else:
                records[component] = self.anew(component, record, port)
        # The api-server comes first: it says how the others are.
        for component, record in records.items():
            if component in kept and not self.outlives(component, record, heard_since):
                kept.discard(component)
                record = self.anew(component, record, port)
            self.wait(record, lambda c=component, r=record: airflow.is_healthy(c, r, airflow.health(settings)))
            progress.done(component, _ready(record, component in kept))

    def anew(self, component: str, record: Record | None, port: int) -> Record:
        if record is not None and process.family(record):
            self.progress.doing(component, "stopping, to start it anew")
            # What a dead scheduler has left behind ignores the polite word.
            process.stop(record, first=signal.SIGTERM if record.alive else signal.SIGKILL)
        self.progress.doing(component, "starting")
        return airflow.start(self.settings, component, port)

    def outlives(self, component: str, record: Record, heard_since: float) -> bool:
        """Whether a component that ran while the database was away gives a sign of life again."""
        until = time.monotonic() + OUTLIVES_SECONDS
        while heard_since and record.alive and time.monotonic() < until:
            if airflow.is_healthy(component, record, airflow.health(self.settings), heard_since):
                return True
            self.failed.wait(0.2)
        return record.alive and not heard_since

    def tick(self) -> None:
        """Until the loop has ticked once: Airflow must parse its DAG, schedule it and start its trigger before that."""
        from scheduler_plugin.store import lease
        from scheduler_plugin.store.database import Database

        database = Database(self.settings.database_url)
        try:
            self.progress.doing("tick", "starting")
            until = time.monotonic() + TICK_PATIENCE_SECONDS
            while not lease.is_held(database) and time.monotonic() < until and not self.failed.wait(0.2):
                pass
            held = lease.is_held(database)
            self.progress.done("tick", "at work" if held else "not yet: is `freshet_tick` paused in Airflow?")
        finally:
            database.close()

    def migrate(self, port: int) -> None:
        from scheduler_plugin.store.migrate import upgrade

        migration = None
        if not airflow.is_migrated(self.settings):
            self.progress.doing("database", "making or updating its tables")
            migration = airflow.start_migration(self.settings, port)
        upgrade(self.settings.database_url)
        if migration is not None:
            airflow.finish_migration(self.settings, migration)
            self.progress.done("database", "tables are up to date")

    def wait(self, record: Record, ready: Callable[[], bool]) -> None:
        log = self.settings.home.logs / f"{record.service}.log"
        until = time.monotonic() + PATIENCE_SECONDS
        while not ready():
            # Its last words come before the judgement: it may have died while we asked.
            if not record.alive:
                said = process.log_tail(self.settings.home, record.service)
                raise ServiceError(f"{record.service} ended as soon as it was started. The end of {log}:\n{said}")
            if time.monotonic() > until:
                raise ServiceError(
                    f"{record.service} runs (pid {record.pid}) but has not become ready in {PATIENCE_SECONDS:.0f} s. "
                    f"{log} may say why; `freshet down` and `freshet up` start it anew."
                )
            if self.failed.wait(0.1):
                raise ServiceError(f"{record.service} was still starting when another service failed.")


def _ready(record: Record, kept: bool) -> str:
    port = f", port {record.port}" if record.port else ""
    return f"{'already runs' if kept else 'ready'} (pid {record.pid}{port})"


def prepare(home: Home) -> None:
    try:
        home.make()
        (home.run / "lock").touch()
    except OSError as error:
        raise ServiceError(
            f"{home.root} cannot be written ({error.strerror}). "
            "Put that right, or set FRESHET_HOME to a folder of your own."
        ) from error
    free = shutil.disk_usage(home.root).free
    if free < LEAST_FREE_BYTES:
        raise ServiceError(
            f"Only {free / 2**20:.0f} MB are free where {home.root} is; Freshet needs {LEAST_FREE_BYTES / 2**20:.0f}. "
            "Make room, or set FRESHET_HOME to a folder on another disk."
        )


def _server(settings: Settings, service: str, variable: str, usual_port: int) -> ServiceStatus:
    if given := settings.environment.get(variable):
        host, port = host_and_port(given, usual_port)
        state = "up" if answers(host, port) else "away"
        return ServiceStatus(service=service, state=state, address=f"{host}:{port}", pid=None, age=None)
    record = Record.read(settings.home, service)
    well = record is not None and record.port is not None and answers("127.0.0.1", record.port)
    return _status(service, record, well=well)


def _status(service: str, record: Record | None, *, well: bool) -> ServiceStatus:
    if record is None or not record.alive:
        return ServiceStatus(service=service, state="down", address="", pid=None, age=None)
    age = time.time() - record.started_at
    state = "up" if well else "starting" if age < PATIENCE_SECONDS else "unwell"
    address = f"127.0.0.1:{record.port}" if record.port else ""
    return ServiceStatus(service=service, state=state, address=address, pid=record.pid, age=age)


def host_and_port(url: str, usual_port: int) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "localhost", parts.port or usual_port


def answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=2):
        return True
    return False
