"""Nothing lost, nothing twice: the loop is killed at each of its steps, beside a real Airflow that runs the jobs."""

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb
import psutil
import pytest

from scheduler_plugin.services import process
from scheduler_plugin.services.home import REPOSITORY
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import reports
from scheduler_plugin.store.database import Database
from spark_jobs.tables import Tables
from tests.conftest import until

pytestmark = pytest.mark.services

#: Every place between two effects that somebody outside the process can see.
STEPS = (
    "after scheduler_plugin.store.lease:take",
    "before scheduler_plugin.store.arrivals:take_in",
    "after scheduler_plugin.store.arrivals:take_in",
    "on result scheduler_plugin.store.freshness:events_after",
    "on result scheduler_plugin.store.decisions:record",
    "on result scheduler_plugin.store.decisions:unsent",
    "before scheduler_plugin.live.dispatch:Airflow.send",
    "after scheduler_plugin.live.dispatch:Airflow.send",
    "after scheduler_plugin.store.decisions:mark_dispatched",
    "after scheduler_plugin.store.freshness:note",
)


@contextmanager
def without_its_own_loop(stack: Settings) -> Iterator[None]:
    """The triggerer is frozen, and the loop in it; awake again it finds that others have decided."""
    record = Record.read(stack.home, "triggerer")
    assert record is not None
    members = process.family(record)
    for member in members:
        member.suspend()
    try:
        yield
    finally:
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.resume()


def test_every_row_is_there_once_after_the_loop_was_killed_at_each_step(stack: Settings) -> None:
    landing = Path(stack.landing) / "airlines"
    landing.mkdir(exist_ok=True)
    environment = {**stack.environment, "PYTHONPATH": str(REPOSITORY)}
    program = str(Path(__file__).with_name("hurt_loop.py"))
    expected = []
    with without_its_own_loop(stack):
        for number, step in enumerate(STEPS):
            rows = [f"{number}-{row}" for row in range(50)]
            text = "".join(f"{row},killed {step}\n" for row in rows)
            (landing / f"airlines_killed_{number}.csv").write_text("carrier,name\n" + text)
            expected += rows
            done = subprocess.run([sys.executable, program, step], env=environment, cwd=REPOSITORY, check=False)
            assert done.returncode == -signal.SIGKILL, f"never came to {step}"

    database = Database(stack.database_url)
    try:
        until(
            "all is fresh", lambda: all(each.fresh and each.running is None for each in reports.board(database).objects)
        )
        (files,) = (each for each in reports.files(database) if each.table == "airlines")
    finally:
        database.close()
    assert files.pending == files.loading == 0
    with Tables(stack.database_url, stack.warehouse) as tables:
        parquet = tables.files("airlines", tables.current("airlines"))
    asked = "SELECT carrier FROM read_parquet(?) WHERE name LIKE 'killed %'"
    assert Counter(carrier for (carrier,) in duckdb.execute(asked, [parquet]).fetchall()) == Counter(expected)
