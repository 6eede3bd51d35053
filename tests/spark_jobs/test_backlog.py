"""What is too much for one batch drains in bounded pieces, oldest first (`freshet bench huge` does it in full size)."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from scheduler_plugin.live import job
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import arrivals

pytestmark = pytest.mark.services


def test_tiny_files_and_one_too_large_for_any_batch_are_loaded_each_row_once(
    ledger: Any, settings: Settings, tables: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "MOST_FILES", 40)
    monkeypatch.setattr("spark_jobs.load.SMALL_BYTES", 2000)
    ledger.declare(name, "table", columns=[["id", "long"]], format="csv", key=[], expectations=[], max_batch=4000)
    paths = [tmp_path / f"{number}.csv" for number in range(100)]
    for number, path in enumerate(paths):
        path.write_text(f"id\n{number}\n")
    paths[60].write_text("id\n" + "".join(f"{each}\n" for each in range(1000, 11_000)))
    ledger.arrive(name, *paths)
    batches = []
    while ledger.ask("SELECT id FROM freshet.update WHERE table_name = :name AND state = 'pending'", name=name):
        assert job.run(settings, ledger.decide(name), 1)
        (batch,) = ledger.ask(
            "SELECT updates FROM freshet.batch WHERE table_name = :name ORDER BY id DESC LIMIT 1", name=name
        )
        batches.append(batch["updates"])
    assert batches == [40, 20, 1, 39]
    files = tables.files(name, tables.current(name))
    found = duckdb.connect().execute("SELECT id FROM read_parquet(?) ORDER BY id", [files]).fetchall()
    assert [row[0] for row in found] == [*range(60), *range(61, 100), *range(1000, 11_000)]
