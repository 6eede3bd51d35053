"""Upkeep leaves every row, every needed version and every running attempt alone, and little else."""

import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from spark_jobs.load import SourceFile, load_batch
from spark_jobs.snapshots import Superseded
from spark_jobs.tables import Tables
from spark_jobs.upkeep import MERGED, keep_up, tidied

pytestmark = pytest.mark.services

COLUMNS = [("id", "long"), ("what", "string")]


class Table:
    """One table, filled batch by batch, kept up."""

    def __init__(self, spark: Any, tables: Tables, name: str, folder: Path) -> None:
        self.spark, self.tables, self.name, self._folder = spark, tables, name, folder

    def load(self, batch: int, rows: int = 10) -> int:
        path = self._folder / f"{batch}.csv"
        path.write_text("id,what\n" + "".join(f"{batch * 1000 + each},w\n" for each in range(rows)))
        return load_batch(
            spark=self.spark,
            tables=self.tables,
            table=self.name,
            columns=COLUMNS,
            format="csv",
            files=[SourceFile(update_id=1, path=str(path))],
            marker=f"batch-{batch}",
        ).snapshot_id

    def keep_up(self, *needed: int) -> Any:
        later = datetime.now(UTC) + timedelta(days=1)
        return keep_up(spark=self.spark, tables=self.tables, name=self.name, needed=needed, older_than=later)

    def ids(self, snapshot: int | None = None) -> list[int]:
        files = self.tables.files(self.name, snapshot or self.tables.current(self.name))
        return sorted(row[0] for row in duckdb.execute("SELECT id FROM read_parquet(?)", [files]).fetchall())

    def folders(self) -> set[str]:
        data = Path(self.tables.open(self.name).location()) / "data"
        return {each.name.rpartition("-")[0] for each in data.iterdir()}


@pytest.fixture
def table(spark_connect: Any, tables: Tables, name: str, tmp_path: Path) -> Table:
    return Table(spark_connect, tables, name, tmp_path)


def test_readers_may_have_the_merged_files_in_the_place_of_what_was_merged(table: Table) -> None:
    snapshots = [table.load(batch) for batch in range(1, MERGED + 1)]
    assert tidied(table.tables, table.name) is None
    table.keep_up(snapshots[-1])
    merged = table.tables.current(table.name)
    assert tidied(table.tables, table.name) == (snapshots[-1], merged)
    assert table.ids(merged) == table.ids(snapshots[-1])


def test_small_files_are_merged_and_every_row_stays(table: Table) -> None:
    snapshots = [table.load(batch) for batch in range(1, MERGED + 2)]
    before, early = table.ids(), table.ids(snapshots[2])
    result = table.keep_up(snapshots[2])
    assert (result.files_merged, result.snapshots_expired) == (MERGED + 1, MERGED)
    assert table.ids() == before
    assert len(table.tables.files(table.name, table.tables.current(table.name))) == 1
    assert table.ids(snapshots[2]) == early
    assert table.folders() == {"batch-1", "batch-2", "batch-3", f"upkeep-{MERGED + 1}"}
    again = table.keep_up(snapshots[2])
    assert (again.files_merged, again.snapshots_expired, again.paths_removed) == (0, 0, 0)


def test_a_batch_whose_snapshot_has_expired_is_not_loaded_again(table: Table) -> None:
    for batch in range(1, MERGED + 1):
        table.load(batch)
    before = table.ids()
    table.keep_up()
    for batch in (1, MERGED):
        with pytest.raises(Superseded):
            table.load(batch)
    table.load(MERGED + 1)
    assert len(table.ids()) == len(before) + 10


def test_a_load_that_is_frozen_during_upkeep_commits_its_rows_when_it_wakes(
    table: Table, ledger: Any, jobs: Any, tmp_path: Path
) -> None:
    columns = [list(column) for column in COLUMNS]
    ledger.declare(table.name, "table", columns=columns, format="csv", key=[], expectations=[])
    path = tmp_path / "frozen.csv"
    path.write_text("id,what\n7,w\n")
    ledger.arrive(table.name, path)
    decided = ledger.decide(table.name)
    sleeper = jobs.start(decided, 1, at="before pyiceberg.catalog.sql:SqlCatalog.commit_table", sent=signal.SIGSTOP)
    assert jobs.wait(sleeper) == "stopped"
    table.keep_up()
    assert jobs.go_on(sleeper) == "done"
    assert table.ids() == [7]


def test_what_failed_attempts_left_behind_is_removed(table: Table) -> None:
    table.load(1)
    table.load(2)
    litter = Path(table.tables.open(table.name).location()) / "data" / f"batch-1-{'0' * 32}"
    running = litter.with_name(f"batch-3-{'0' * 32}")
    for folder in (litter, running):
        folder.mkdir()
        (folder / "part-0.parquet").write_bytes(b"x")
    assert table.keep_up().paths_removed == 1
    assert running.exists()
    assert not litter.exists()
