"""Real Postgres and real Spark for the jobs' tests, and jobs that can be hurt."""

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.services.home import REPOSITORY
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import arrivals, decisions, lease, objects
from scheduler_plugin.store.database import Database
from spark_jobs.session import spark_session
from spark_jobs.tables import Tables
from tests.conftest import new_database, settings_in


@pytest.fixture(scope="session")
def settings(postgres: Settings, spark_remote: str, template: str) -> Iterator[Settings]:
    """The session's Postgres and Spark, with a ledger and a warehouse of the jobs' tests alone."""
    with new_database(postgres, template) as database:
        given = {
            "FRESHET_DATABASE_URL": database.url,
            "FRESHET_WAREHOUSE": str(postgres.home.root / "jobs-warehouse"),
        }
        yield settings_in(postgres.home.root, **given)


# Not the session's: a test may kill Spark.
@pytest.fixture(scope="module")
def spark_connect(settings: Settings) -> Iterator[Any]:
    with spark_session(settings.spark_remote) as session:
        yield session


@pytest.fixture(scope="session")
def tables(settings: Settings) -> Iterator[Tables]:
    with Tables(settings.database_url, settings.warehouse) as tables:
        yield tables


@pytest.fixture
def name() -> str:
    """A table nobody else uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The ledger's side of a job, as the loop would play it."""

    database: Database
    epoch: int

    def declare(self, name: str, kind: str, parents: Sequence[str] = (), **spec: Any) -> None:
        row = objects.ObjectRow(name=name, kind=kind, materialized=True, parents=parents, spec=spec)
        before = objects.in_force(self.database)
        kept = [each for each in before.objects if each.name != name] if before else []
        objects.take_in(self.database, objects.CatalogRow(settings={}, objects=[*kept, row]))

    def arrive(self, table: str, *paths: Path) -> list[int]:
        return arrivals.take_in(
            self.database,
            [
                arrivals.Arrival(
                    table=table, path=str(path), size_bytes=path.stat().st_size, content_hash=uuid.uuid4().hex
                )
                for path in paths
            ],
        )

    def decide(self, name: str, parents: Sequence[str] = ()) -> int:
        new = decisions.NewDecision(
            object=name, policy="fifo", slot=0, impact=1.0, why="test", figures={}, parents=parents
        )
        return decisions.record(self.database, self.epoch, [new])[0]

    def give_up_on_jobs(self) -> None:
        """What the loop does when jobs give no sign of life: each open decision gets a new attempt."""
        decisions.unsent(self.database, unclaimed_after=timedelta(0), dead_after=timedelta(0))

    def ask(self, sql: str, **values: Any) -> list[Mapping[str, Any]]:
        from sqlalchemy import text

        with self.database.transaction() as connection:
            return [dict(row) for row in connection.execute(text(sql), values).mappings()]


@pytest.fixture(scope="session")
def ledger(settings: Settings) -> Iterator[Ledger]:
    database = Database(settings.database_url)
    epoch = None
    deadline = time.monotonic() + 60
    while epoch is None:
        assert time.monotonic() < deadline, "another loop holds the lease"
        epoch = lease.take(database, "tests", timedelta(hours=1))
    yield Ledger(database=database, epoch=epoch)
    lease.give_back(database, "tests")
    database.close()


class Jobs:
    """Runs jobs in processes of their own, forked from one that has its imports done, and hurts them."""

    def __init__(self, settings: Settings) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forked_jobs.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**settings.environment, "PYTHONPATH": str(REPOSITORY)},
        )

    def start(
        self,
        decision: int,
        attempt: int,
        *,
        at: str | None = None,
        sent: signal.Signals = signal.SIGKILL,
        most_bytes: int | None = None,
    ) -> int:
        """Starts a job; `at` is a step (see forked_jobs.py) at which it is sent a signal."""
        words = {"decision": decision, "attempt": attempt, "at": at, "signal": int(sent), "most_bytes": most_bytes}
        return int(self._ask(do="start", **words))

    def wait(self, pid: int) -> str:
        """`stopped`, `killed`, `done` or `failed`."""
        return str(self._ask(do="wait", pid=pid))

    def run(self, decision: int, attempt: int, **how: Any) -> str:
        return self.wait(self.start(decision, attempt, **how))

    def go_on(self, pid: int) -> str:
        """Lets a stopped job continue, and waits for its end."""
        return str(self._ask(do="go on", pid=pid))

    def _ask(self, **words: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(words), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="session")
def jobs(settings: Settings, ledger: Ledger) -> Iterator[Jobs]:
    jobs = Jobs(settings)
    yield jobs
    jobs.close()
