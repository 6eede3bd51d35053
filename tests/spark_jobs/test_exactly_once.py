"""Nothing lost, nothing twice: a load, Spark or Postgres is killed at each step of a load, or a load wakes up late."""

import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from scheduler_plugin.services import postgres, process, spark
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings
from tests.conftest import until

pytestmark = pytest.mark.services

COLUMNS = [["id", "long"], ["what", "string"]]
#: Every place between two effects that somebody outside the process can see, and a few within one.
STEPS = [
    "after scheduler_plugin.store.decisions:claim",
    "before spark_jobs.load:_rows",
    "after spark_jobs.load:_read",
    "after spark_jobs.batch:SmallBatch.write",
    "after spark_jobs.load:write_text",
    "before pyiceberg.table:Transaction.commit_transaction",
    "before pyiceberg.catalog.sql:SqlCatalog.commit_table",
    "after pyiceberg.catalog.sql:SqlCatalog.commit_table",
    "after spark_jobs.tables:Tables.append",
    "before scheduler_plugin.store.settling:finish",
    "after scheduler_plugin.store.settling:finish",
]


@dataclass(frozen=True, slots=True)
class Load:
    """A decision to load three files: 1 to 100, 101 to 200 with two bad rows, and one that cannot be read."""

    ledger: Any
    tables: Any
    table: str
    decision: int

    @classmethod
    def decide(cls, ledger: Any, tables: Any, table: str, folder: Path) -> "Load":
        expectation = {
            "expect": "expect_column_values_to_not_be_null",
            "on_fail": "drop",
            "arguments": {"column": "what"},
        }
        ledger.declare(table, "table", columns=COLUMNS, format="csv", key=[], expectations=[expectation])
        folder.mkdir(exist_ok=True)
        for number, start in enumerate((1, 101)):
            rows = "".join(f"{each},w{each}\n" for each in range(start, start + 100))
            (folder / f"{number}.csv").write_text("id,what\n" + rows + ("x,bad\n7000,\n" if number else ""))
        (folder / "2.csv").write_text("id,wat\n1,a\n")
        ledger.arrive(table, *(folder / f"{number}.csv" for number in range(3)))
        return cls(ledger, tables, table, int(ledger.decide(table)))

    def next_run(self) -> tuple[int, int] | None:
        """The decision and attempt that the loop would have run now; None when all is settled."""
        self.ledger.give_up_on_jobs()
        ((state, attempt),) = (
            (row["state"], row["attempt"])
            for row in self.ledger.ask("SELECT state, attempt FROM freshet.decision WHERE id = :id", id=self.decision)
        )
        if state == "done":
            return None
        return (int(self.ledger.decide(self.table)), 1) if state == "failed" else (self.decision, attempt)

    def check(self) -> None:
        files = self.tables.files(self.table, self.tables.current(self.table))
        found = duckdb.connect().execute("SELECT id FROM read_parquet(?)", [files]).fetchall()
        assert Counter(row[0] for row in found) == Counter(range(1, 201))
        of_table = {"name": self.table}
        quarantined = self.ledger.ask("SELECT raw FROM freshet.quarantined_row WHERE table_name = :name", **of_table)
        assert sorted(row["raw"] for row in quarantined) == ["x,bad", '{"id": 7000, "what": null}']
        states = self.ledger.ask(
            "SELECT state, rows FROM freshet.update WHERE table_name = :name ORDER BY id", **of_table
        )
        assert [tuple(row.values()) for row in states] == [("loaded", 100), ("loaded", 100), ("quarantined", 0)]


@pytest.fixture
def load(ledger: Any, tables: Any, name: str, tmp_path: Path) -> Load:
    return Load.decide(ledger, tables, name, tmp_path)


@pytest.mark.parametrize("step", STEPS)
def test_a_load_killed_at_any_step_is_finished_by_the_next_attempt(
    ledger: Any, jobs: Any, load: Load, step: str
) -> None:
    assert jobs.run(load.decision, 1, at=step) == "killed"
    ledger.give_up_on_jobs()
    assert jobs.run(load.decision, 2) == "done"
    load.check()


@pytest.mark.parametrize("step", STEPS)
def test_a_load_taken_for_dead_that_wakes_up_after_its_successor_adds_nothing(
    ledger: Any, jobs: Any, load: Load, step: str
) -> None:
    sleeper = jobs.start(load.decision, 1, at=step, sent=signal.SIGSTOP)
    assert jobs.wait(sleeper) == "stopped"
    ledger.give_up_on_jobs()
    assert jobs.run(load.decision, 2) == "done"
    assert jobs.go_on(sleeper) == "done"
    load.check()


def test_a_disk_that_is_full_fails_the_job_with_its_words_and_the_next_decision_loads_everything(
    ledger: Any, jobs: Any, load: Load
) -> None:
    assert jobs.run(load.decision, 1, most_bytes=600) == "failed"
    ((error,),) = (
        row.values() for row in ledger.ask("SELECT error FROM freshet.decision WHERE id = :id", id=load.decision)
    )
    assert "File too large" in error
    assert jobs.run(int(ledger.decide(load.table)), 1) == "done"
    load.check()


def test_two_attempts_at_the_same_time_load_once(ledger: Any, jobs: Any, load: Load) -> None:
    # Both have read the batch before either commits.
    pids = []
    for attempt in (1, 2):
        pids.append(jobs.start(load.decision, attempt, at="after spark_jobs.load:_read", sent=signal.SIGSTOP))
        assert jobs.wait(pids[-1]) == "stopped"
        ledger.give_up_on_jobs()
    first = jobs.start(load.decision, 3)
    assert [jobs.go_on(pid) for pid in pids] == ["done", "done"]
    assert jobs.wait(first) == "done"
    load.check()


#: Until a small batch has been read; after that nobody asks Spark.
WITH_SPARK = STEPS[: STEPS.index("after spark_jobs.load:_read") + 1]


@pytest.mark.parametrize(("service", "steps"), [(postgres.SERVICE, STEPS), (spark.SERVICE, WITH_SPARK)])
def test_a_service_killed_while_loads_stand_at_each_step_loses_nothing(
    ledger: Any, tables: Any, jobs: Any, settings: Settings, name: str, tmp_path: Path, service: str, steps: list[str]
) -> None:
    loads = [Load.decide(ledger, tables, f"{name}_{place}", tmp_path / str(place)) for place in range(len(steps))]
    pids = [jobs.start(load.decision, 1, at=step, sent=signal.SIGSTOP) for load, step in zip(loads, steps, strict=True)]
    assert {jobs.wait(pid) for pid in pids} == {"stopped"}
    kill(settings, service)
    ends = Counter(jobs.go_on(pid) for pid in pids)
    # Some had no more need of it; whoever did must not have taken its absence for a fault of the files.
    assert ends.keys() <= {"done", "failed"}
    for load in loads:
        if again := load.next_run():
            assert jobs.run(*again) == "done"
        load.check()


def kill(settings: Settings, service: str) -> None:
    """kill -9, and start it again."""
    record = Record.read(settings.home, service)
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    until("the server is gone", lambda: not record.alive)
    if service == postgres.SERVICE:
        postgres.start(settings.home)
        until("Postgres answers", lambda: postgres.ready(settings.database_url))
    else:
        begun = spark.start(settings.home)
        until("Spark listens", lambda: process.listens(begun))
