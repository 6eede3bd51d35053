"""Nothing lost, nothing twice: a load is killed, or taken for dead and woken again, at each of its steps."""

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

pytestmark = pytest.mark.services

COLUMNS = [["id", "long"], ["what", "string"]]
#: Every place between two effects that somebody outside the process can see, and a few within one.
STEPS = [
    "after scheduler_plugin.store.decisions:claim",
    "after spark_jobs.load:_read",
    "after spark_jobs.batch:SmallBatch.write",
    "after spark_jobs.load:write_text",
    "before pyiceberg.table:Transaction.commit_transaction",
    "before pyiceberg.catalog.sql:SqlCatalog.commit_table",
    "after pyiceberg.catalog.sql:SqlCatalog.commit_table",
    "after spark_jobs.tables:Tables.append",
    "before scheduler_plugin.store.decisions:finish",
    "after scheduler_plugin.store.decisions:finish",
]


@pytest.fixture
def batch(ledger: Any, tables: Any, name: str, tmp_path: Path) -> int:
    """A decision to load three files: 1 to 100, 101 to 200 with a bad row, and one that cannot be read."""
    expectation = {
        "expect": "expect_column_values_to_not_be_null",
        "on_fail": "drop",
        "arguments": {"column": "what"},
    }
    ledger.declare(name, "table", columns=COLUMNS, format="csv", key=[], expectations=[expectation])
    for number, start in enumerate((1, 101)):
        rows = "".join(f"{each},w{each}\n" for each in range(start, start + 100))
        (tmp_path / f"{number}.csv").write_text("id,what\n" + rows + ("x,bad\n7000,\n" if number else ""))
    (tmp_path / "2.csv").write_text("id,wat\n1,a\n")
    ledger.arrive(name, *(tmp_path / f"{number}.csv" for number in range(3)))
    return int(ledger.decide(name))


@pytest.fixture
def check(ledger: Any, tables: Any, name: str) -> Callable[[], None]:
    def check() -> None:
        connection = duckdb.connect()
        found = connection.execute(
            "SELECT id FROM read_parquet(?)", [tables.files(name, tables.current(name))]
        ).fetchall()
        assert Counter(row[0] for row in found) == Counter(range(1, 201))
        quarantined = ledger.ask("SELECT raw FROM freshet.quarantined_row WHERE table_name = :name", name=name)
        assert sorted(row["raw"] for row in quarantined) == ["x,bad", '{"id": 7000, "what": null}']
        states = ledger.ask("SELECT state, rows FROM freshet.update WHERE table_name = :name ORDER BY id", name=name)
        assert [tuple(row.values()) for row in states] == [("loaded", 100), ("loaded", 100), ("quarantined", 0)]

    return check


@pytest.mark.parametrize("step", STEPS)
def test_a_load_killed_at_any_step_is_finished_by_the_next_attempt(
    ledger: Any, jobs: Any, batch: int, check: Callable[[], None], step: str
) -> None:
    assert jobs.run(batch, 1, at=step) == "killed"
    ledger.give_up_on_jobs()
    assert jobs.run(batch, 2) == "done"
    check()


@pytest.mark.parametrize("step", STEPS)
def test_a_load_taken_for_dead_that_wakes_up_after_its_successor_adds_nothing(
    ledger: Any, jobs: Any, batch: int, check: Callable[[], None], step: str
) -> None:
    sleeper = jobs.start(batch, 1, at=step, sent=signal.SIGSTOP)
    assert jobs.wait(sleeper) == "stopped"
    ledger.give_up_on_jobs()
    assert jobs.run(batch, 2) == "done"
    assert jobs.go_on(sleeper) == "done"
    check()


def test_a_disk_that_is_full_fails_the_job_with_its_words_and_the_next_decision_loads_everything(
    ledger: Any, jobs: Any, name: str, batch: int, check: Callable[[], None]
) -> None:
    assert jobs.run(batch, 1, most_bytes=600) == "failed"
    ((error,),) = (row.values() for row in ledger.ask("SELECT error FROM freshet.decision WHERE id = :id", id=batch))
    assert "File too large" in error
    assert jobs.run(int(ledger.decide(name)), 1) == "done"
    check()


def test_two_attempts_at_the_same_time_load_once(ledger: Any, jobs: Any, batch: int, check: Callable[[], None]) -> None:
    # Both have read the batch before either commits.
    pids = []
    for attempt in (1, 2):
        pids.append(jobs.start(batch, attempt, at="after spark_jobs.load:_read", sent=signal.SIGSTOP))
        assert jobs.wait(pids[-1]) == "stopped"
        ledger.give_up_on_jobs()
    first = jobs.start(batch, 3)
    assert [jobs.go_on(pid) for pid in pids] == ["done", "done"]
    assert jobs.wait(first) == "done"
    check()
