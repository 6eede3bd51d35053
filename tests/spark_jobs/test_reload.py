"""A reload puts the rows of some updates anew into the table, all at once, and leaves every other row alone."""

from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.demo import duck
from spark_jobs.intake import SourceFile
from spark_jobs.load import load_batch
from spark_jobs.reload import exchange, stage
from spark_jobs.tables import Tables
from spark_jobs.upkeep import MERGED, merge, sweep

pytestmark = pytest.mark.services

COLUMNS = [("id", "long"), ("what", "string")]


class Table:
    """One table whose update n holds the ids n * 10 and n * 10 + 1."""

    def __init__(self, spark: Any, tables: Tables, name: str, folder: Path) -> None:
        self.spark, self.tables, self.name, self.folder = spark, tables, name, folder

    def file(self, update: int, what: str = "old") -> SourceFile:
        path = self.folder / f"{update}.csv"
        path.write_text(f"id,what\n{update * 10},{what}\n{update * 10 + 1},{what}\n")
        return SourceFile(update_id=update, path=str(path))

    def load(self, batch: int, *updates: int) -> None:
        self._do(load_batch, files=[self.file(each) for each in updates], marker=f"batch-{batch}")

    def stage(self, piece: int, *updates: int) -> str:
        files = [self.file(each, "new") for each in updates]
        folder, outcome = self._do(stage, files=files, backfill=7, piece=piece)
        assert outcome.rows == 2 * len(updates)
        return str(folder)

    def exchange(self, staged: list[str], *updates: int, backfill: int = 7) -> int:
        return exchange(
            spark=self.spark, tables=self.tables, table=self.name, updates=updates, staged=staged, backfill=backfill
        )

    def _do(self, what: Any, **more: Any) -> Any:
        return what(spark=self.spark, tables=self.tables, table=self.name, columns=COLUMNS, format="csv", **more)

    def rows(self) -> list[tuple[int, str]]:
        """What another engine reads of the table, through its metadata."""
        metadata = duck.scan(self.tables.metadata_location(self.name))
        return sorted(duck.connect().execute(f"SELECT * FROM {metadata}").fetchall())


@pytest.fixture
def table(spark_connect: Any, tables: Tables, name: str, tmp_path: Path) -> Table:
    return Table(spark_connect, tables, name, tmp_path)


def expected(new: set[int], *updates: int) -> list[tuple[int, str]]:
    return sorted((each * 10 + row, "new" if each in new else "old") for each in updates for row in (0, 1))


@pytest.mark.parametrize("small", [True, False])
def test_the_rows_of_some_updates_are_exchanged_whatever_files_hold_them(
    table: Table, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    if not small:
        monkeypatch.setattr("spark_jobs.load.SMALL_BYTES", 0)
    table.load(1, 1, 2, 3)
    for update in range(4, 4 + MERGED):
        table.load(update, update)
    assert merge(table.spark, table.tables, table.name) >= MERGED
    staged = [table.stage(1, 2, 3), table.stage(2, 5)]
    everything = (*range(1, 4 + MERGED),)
    assert table.rows() == expected(set(), *everything)
    # A batch that is loaded between staging and the exchange stays.
    table.load(90, 90)
    first = table.exchange(staged, 2, 3, 5)
    assert table.rows() == expected({2, 3, 5}, *everything, 90)
    # Again, as a retry or a job that was thought dead would.
    assert table.exchange(staged, 2, 3, 5) == first
    assert table.rows() == expected({2, 3, 5}, *everything, 90)
    # The next batch is loaded as if nothing had been, and the next backfill finds what this one left.
    table.load(91, 91)
    table.exchange([table.stage(3, 2, 90)], 2, 90, backfill=8)
    assert table.rows() == expected({2, 3, 5, 90}, *everything, 90, 91)


def test_what_a_stopped_backfill_has_staged_is_swept_and_a_running_ones_is_not(table: Table) -> None:
    table.load(1, 1)
    folder = Path(table.stage(1, 1))
    sweep(table.tables, table.name, open_backfills=[7])
    assert folder.exists()
    sweep(table.tables, table.name, open_backfills=[8])
    assert not folder.exists()
    assert table.rows() == expected(set(), 1)
