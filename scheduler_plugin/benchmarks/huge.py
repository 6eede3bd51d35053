"""What is far too large: one CSV file of --size GB, more than a batch may have, and --files tiny files at once.

Both go the way of any file: into the ledger from a landing folder, into batches, and through the job that a task of
Airflow runs. In the end DuckDB counts the rows. Postgres and Spark are started for it, and stopped.
"""

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from scheduler_plugin.benchmarks.ground import services, timed
from scheduler_plugin.benchmarks.load import COLUMNS, write_large
from scheduler_plugin.services import ServiceError

#: Bytes of source in a batch, and rows in a tiny file.
BATCH = 1_000_000_000
TINY_ROWS = 10


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=float, default=5, metavar="GB", help="of the one file (5)")
    parser.add_argument("--files", type=int, default=100_000, help="tiny files (100000)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Haul:
    """What became of one landing folder."""

    what: str
    files: int
    megabytes: float
    #: Until every file was in the ledger; until the last batch was in the table.
    seconds_to_ledger: float
    seconds_to_table: float
    batches: int
    #: Rows as DuckDB counts them, all and different ones.
    rows: int
    distinct_rows: int
    expected_rows: int
    #: What Spark, and the process that ran the jobs, held at most.
    spark_peak_megabytes: float
    job_peak_megabytes: float
    #: Updates by state at the end.
    ledger: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    hauls: list[Haul]

    def as_json(self) -> dict[str, Any]:
        return {"hauls": [asdict(each) for each in self.hauls]}

    def as_text(self) -> str:
        from scheduler_plugin.cli.table import table

        rows = [
            (
                each.what,
                f"{each.megabytes:.0f} MB",
                f"{each.seconds_to_ledger:.1f} s",
                f"{each.seconds_to_table:.1f} s",
                each.batches,
                f"{each.rows:,} of {each.expected_rows:,}",
                f"{each.spark_peak_megabytes:.0f} MB",
                f"{each.job_peak_megabytes:.0f} MB",
            )
            for each in self.hauls
        ]
        titles = ("landed", "size", "in the ledger", "in the table", "batches", "rows", "Spark's peak", "job's peak")
        return table(titles, rows, right=titles[1:])


def run(options: argparse.Namespace) -> Report:
    from scheduler_plugin.services.home import Home

    if options.size <= 0 or options.files < 1:
        raise ServiceError("--size and --files must be above 0.")
    with services(Home.find().root / "bench-huge") as settings:
        bench = _Bench(settings)
        one = bench.haul("one file", lambda folder: _one(folder, options.size))
        many = bench.haul("tiny files", lambda folder: _tiny(folder, options.files))
    return Report(hauls=[one, many])


class _Bench:
    def __init__(self, settings: Any) -> None:
        from scheduler_plugin.store import lease
        from scheduler_plugin.store.database import Database

        self._settings = settings
        self._database = Database(settings.database_url)
        epoch = lease.take(self._database, "bench", timedelta(hours=6))
        assert epoch is not None, "nobody else uses this ledger"
        self._epoch = epoch

    def haul(self, what: str, land: Any) -> Haul:
        """Lets files land, takes them in, and loads batch after batch until nothing is pending."""
        from scheduler_plugin.live import job
        from scheduler_plugin.live.announce import Landing
        from scheduler_plugin.live.landing import LandingWatcher
        from scheduler_plugin.store import decisions, objects, reports

        name = what.replace(" ", "_")
        folder = Path(self._settings.landing) / name
        folder.mkdir(parents=True)
        expected = land(folder)
        files = list(folder.iterdir())
        spec = {"feed": name, "format": "csv", "interval": None, "columns": COLUMNS, "key": [], "expectations": []}
        table = objects.ObjectRow(
            name=name, kind="table", materialized=True, parents=(), spec={**spec, "max_batch": BATCH}
        )
        objects.take_in(self._database, objects.CatalogRow(settings={}, objects=[table]))
        watcher = LandingWatcher(self._database, [Landing(table=name, folder=str(folder))])

        def counts() -> Any:
            return next((each for each in reports.files(self._database) if each.table == name), None)

        def take_in() -> None:
            while (now := counts()) is None or now.announced < len(files):
                watcher.take_in(files)
                time.sleep(0.05)

        def load() -> int:
            batches = 0
            while counts().pending or counts().loading:
                wanted = decisions.NewDecision(object=name, policy="", slot=0, impact=1.0, why="bench", figures={})
                (decision,) = decisions.record(self._database, self._epoch, [wanted])
                job.run(self._settings, decision, 1)
                batches += 1
            return batches

        to_ledger = timed(take_in)
        with _peaks(self._settings) as peaks:
            began = time.monotonic()
            batches = load()
            to_table = time.monotonic() - began
        rows, distinct = self._count(name)
        now = counts()
        return Haul(
            what=what,
            files=len(files),
            megabytes=sum(file.stat().st_size for file in files) / 1e6,
            seconds_to_ledger=to_ledger,
            seconds_to_table=to_table,
            batches=batches,
            rows=rows,
            distinct_rows=distinct,
            expected_rows=expected,
            spark_peak_megabytes=peaks["spark"],
            job_peak_megabytes=peaks["job"],
            ledger={state: getattr(now, state) for state in ("pending", "loading", "loaded", "quarantined")},
        )

    def _count(self, name: str) -> tuple[int, int]:
        import duckdb

        from spark_jobs.tables import Tables

        with Tables(self._settings.database_url, self._settings.warehouse) as tables:
            files = tables.files(name, tables.current(name))
        found = (
            duckdb.connect()
            .execute("SELECT count(*), count(DISTINCT (id, note)) FROM read_parquet(?)", [files])
            .fetchone()
        )
        assert found is not None
        return int(found[0]), int(found[1])


def _one(folder: Path, gigabytes: float) -> int:
    return write_large(folder / "large.csv", gigabytes * 1000)


def _tiny(folder: Path, files: int) -> int:
    header = ",".join(name for name, _ in COLUMNS)
    for number in range(files):
        ids = range(number * TINY_ROWS, (number + 1) * TINY_ROWS)
        rows = "".join(f"{each},2024-01-01 10:00:00,city,1.5,2.50,2024-01-01,note {each}\n" for each in ids)
        (folder / f"{number}.csv").write_text(f"{header}\n{rows}")
    return files * TINY_ROWS


@contextmanager
def _peaks(settings: Any) -> Iterator[dict[str, float]]:
    """The most memory that Spark and this process have held meanwhile, in megabytes."""
    import psutil

    from scheduler_plugin.services.process import Record

    record = Record.read(settings.home, "spark")
    assert record is not None
    watched = {"spark": psutil.Process(record.pid), "job": psutil.Process()}
    peaks = dict.fromkeys(watched, 0.0)
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            for name, each in watched.items():
                peaks[name] = max(peaks[name], each.memory_info().rss / 1e6)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield peaks
    finally:
        over.set()
        looking.join()
