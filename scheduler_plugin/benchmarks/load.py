"""Loading files: one large batch, and many small files as they trickle in, beside bare Spark, DuckDB and pyarrow.

    large     one CSV file of --size MB as one batch: Freshet with its gate on and off; Spark that reads with the same
              schema, casts and writes Parquet, and nothing else; DuckDB and pyarrow doing the same, for reference
    trickle   --files files of 1,000 rows, ten to a batch, with the gate on and off

Freshet looks at every file first, keeps malformed rows apart, counts what each file gave, marks each row's origin and
commits an Iceberg snapshot; the others do none of that. All arms run in turns on the same warm Spark, each after one
run, over at most 100 MB, that is not measured. What processors spent, Spark's and this process's, says more than the
clock on a machine that does other things too. Postgres and Spark are started for it, and stopped.
"""

import argparse
import csv
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scheduler_plugin.benchmarks.ground import services, timed
from scheduler_plugin.services import ServiceError

COLUMNS = [
    ("id", "long"),
    ("at", "timestamp"),
    ("city", "string"),
    ("fare", "double"),
    ("price", "decimal(10,2)"),
    ("day", "date"),
    ("note", "string"),
]
GATE = [
    {"expect": "expect_column_values_to_not_be_null", "on_fail": "drop", "arguments": {"column": "id"}},
    {
        "expect": "expect_column_values_to_be_between",
        "on_fail": "warn",
        "arguments": {"column": "fare", "min_value": 0, "max_value": 1000},
    },
]
ROWS_PER_FILE = 1000
FILES_PER_BATCH = 10
BLOCK_ROWS = 50_000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=float, default=100, metavar="MB", help="of the large file (100; 1000 is 1 GB)")
    parser.add_argument("--files", type=int, default=200, help="small files (200)")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of the large file (3)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    megabytes: float
    #: Arm -> seconds, and what processors spent, of each round.
    large: Mapping[str, Sequence[tuple[float, float]]]
    files: int
    #: Arm -> seconds of each batch.
    trickle: Mapping[str, Sequence[float]]
    #: Freshet's stages of the large file, median seconds.
    stages: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        medians = {arm: statistics.median(clock for clock, _ in each) for arm, each in self.large.items()}
        spent = {arm: statistics.median(spent for _, spent in each) for arm, each in self.large.items()}
        return {
            "megabytes": self.megabytes,
            "large_seconds": {arm: [clock for clock, _ in each] for arm, each in self.large.items()},
            "large_median_seconds": medians,
            "times_bare_spark": {arm: seconds / medians["bare spark"] for arm, seconds in medians.items()},
            "large_median_processor_seconds": spent,
            "times_bare_spark_in_processor_seconds": {arm: each / spent["bare spark"] for arm, each in spent.items()},
            "freshet_stages_median_seconds": dict(self.stages),
            "files": self.files,
            "trickle_median_seconds_per_batch": {arm: statistics.median(each) for arm, each in self.trickle.items()},
            "trickle_seconds": {arm: sum(each) for arm, each in self.trickle.items()},
        }

    def as_text(self) -> str:
        from scheduler_plugin.cli.table import table

        told = self.as_json()
        large = [
            (
                arm,
                f"{told['large_median_seconds'][arm]:.2f} s",
                f"{self.megabytes / told['large_median_seconds'][arm]:.0f} MB/s",
                f"{told['times_bare_spark'][arm]:.2f}",
                f"{told['large_median_processor_seconds'][arm]:.1f} s",
                f"{told['times_bare_spark_in_processor_seconds'][arm]:.2f}",
            )
            for arm in self.large
        ]
        small = [
            (
                arm,
                f"{told['trickle_seconds'][arm]:.1f} s",
                f"{told['trickle_median_seconds_per_batch'][arm]:.2f} s",
            )
            for arm in self.trickle
        ]
        stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.stages.items())
        return "\n\n".join(
            (
                f"{self.megabytes:.0f} MB of CSV as one batch:",
                table(
                    ("way", "median", "speed", "times bare", "processors", "times bare "),
                    large,
                    right=("median", "speed"),
                ),
                f"Where Freshet's time goes without the gate: {stages}",
                f"{self.files} files of {ROWS_PER_FILE} rows, {FILES_PER_BATCH} to a batch:",
                table(("way", "all", "a batch"), small, right=("all", "a batch")),
            )
        )


def run(options: argparse.Namespace) -> Report:
    from scheduler_plugin.services.home import Home

    if options.size <= 0 or options.files < FILES_PER_BATCH or options.rounds < 1:
        raise ServiceError(f"--size and --rounds must be above 0, --files at least {FILES_PER_BATCH}.")
    root = Home.find().root / "bench-load"
    with services(root) as settings:
        return _Bench(settings, root / "bench").measure(options)


@dataclass(slots=True)
class _Bench:
    settings: Any
    folder: Path
    batches: int = 0
    stages: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def measure(self, options: argparse.Namespace) -> Report:
        from spark_jobs.session import spark_session
        from spark_jobs.tables import Tables

        self.folder.mkdir(parents=True, exist_ok=True)
        source, warm = self.folder / "large.csv", self.folder / "warm.csv"
        write_large(source, options.size)
        write_large(warm, min(options.size, 100))
        megabytes = source.stat().st_size / 1e6
        with (
            spark_session(self.settings.spark_remote) as spark,
            Tables(self.settings.database_url, self.settings.warehouse) as tables,
        ):
            arms: dict[str, Callable[[Path], object]] = {
                "bare spark": lambda file: self._bare_spark(spark, file),
                "freshet, no gate": lambda file: self._load(spark, tables, "large", [file], (), note=True),
                "freshet, gate": lambda file: self._load(spark, tables, "large", [file], GATE),
                "duckdb": self._duckdb,
                "pyarrow": self._pyarrow,
            }
            for work in arms.values():
                work(warm)
            self.stages.clear()
            large: dict[str, list[tuple[float, float]]] = {arm: [] for arm in arms}
            for _ in range(options.rounds):
                for arm, work in arms.items():
                    large[arm].append(self._spent(work, source))
            trickle = {
                arm: self._trickle(spark, tables, arm.replace(" ", "_").replace(",", ""), options.files, gate)
                for arm, gate in (("freshet, no gate", ()), ("freshet, gate", GATE))
            }
        stages = {name: statistics.median(each) for name, each in self.stages.items()}
        return Report(megabytes=megabytes, large=large, files=options.files, trickle=trickle, stages=stages)

    def _spent(self, work: Callable[[Path], object], file: Path) -> tuple[float, float]:
        """By the clock, and by the processors' time of Spark and of this process."""
        import psutil

        from scheduler_plugin.services.process import Record

        record = Record.read(self.settings.home, "spark")
        assert record is not None
        watched = (psutil.Process(record.pid), psutil.Process())

        def spent() -> float:
            return sum(sum(each.cpu_times()[:2]) for each in watched)

        before = spent()
        clock = timed(lambda: work(file))
        return clock, spent() - before

    def _load(
        self, spark: Any, tables: Any, table: str, paths: Sequence[Path], gate: Sequence[Any], note: bool = False
    ) -> None:
        from spark_jobs.load import SourceFile, load_batch

        self.batches += 1
        done = load_batch(
            spark=spark,
            tables=tables,
            table=table,
            columns=COLUMNS,
            format="csv",
            files=[
                SourceFile(update_id=each, path=str(path), size=path.stat().st_size) for each, path in enumerate(paths)
            ],
            marker=f"batch-{self.batches}",
            expectations=gate,
        )
        assert done.rows and not done.quarantined_files
        for name, seconds in done.stages.items() if note else ():
            self.stages[name].append(seconds)

    def _bare_spark(self, spark: Any, source: Path) -> None:
        target = self.folder / "bare"
        schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
        frame = spark.read.schema(schema).option("header", "true").csv(str(source))
        frame = frame.selectExpr(*(f"CAST({name} AS {kind}) AS {name}" for name, kind in COLUMNS))
        frame.write.mode("overwrite").option("compression", "zstd").parquet(str(target))

    def _duckdb(self, source: Path) -> None:
        import duckdb

        kinds = {"long": "BIGINT", "string": "VARCHAR"}
        columns = ", ".join(f"'{name}': '{kinds.get(kind, kind.upper())}'" for name, kind in COLUMNS)
        read = f"read_csv('{source}', header=true, columns={{{columns}}})"
        duckdb.connect().execute(f"COPY (SELECT * FROM {read}) TO '{self.folder}/duck.parquet' (COMPRESSION zstd)")

    def _pyarrow(self, source: Path) -> None:
        import pyarrow as pa
        import pyarrow.csv as pc
        import pyarrow.parquet as pq

        kinds = {
            "long": pa.int64(),
            "timestamp": pa.timestamp("us"),
            "string": pa.string(),
            "double": pa.float64(),
            "decimal(10,2)": pa.decimal128(10, 2),
            "date": pa.date32(),
        }
        types = {name: kinds[kind] for name, kind in COLUMNS}
        rows = pc.read_csv(source, convert_options=pc.ConvertOptions(column_types=types))
        pq.write_table(rows, self.folder / "arrow.parquet", compression="zstd")

    def _trickle(self, spark: Any, tables: Any, table: str, files: int, gate: Sequence[Any]) -> list[float]:
        place = self.folder / table
        place.mkdir()
        paths = []
        for number in range(files):
            paths.append(place / f"{number}.csv")
            _write_rows(paths[-1], ROWS_PER_FILE, seed=number)
        seconds = []
        self._load(spark, tables, f"{table}_warm", paths[:FILES_PER_BATCH], gate)
        for first in range(0, files, FILES_PER_BATCH):
            some = paths[first : first + FILES_PER_BATCH]
            seconds.append(timed(lambda some=some: self._load(spark, tables, table, some, gate)))  # type: ignore[misc]
        return seconds


def write_large(path: Path, megabytes: float) -> int:
    """A file of about that size, a block of random rows over and over; returns how many rows it has."""
    block = path.with_suffix(".block")
    _write_rows(block, BLOCK_ROWS, seed=0)
    header, _, rows = block.read_bytes().partition(b"\n")
    block.unlink()
    blocks = 0
    with path.open("wb") as file:
        file.write(header + b"\n")
        while file.tell() < megabytes * 1e6:
            file.write(rows)
            blocks += 1
    return blocks * BLOCK_ROWS


def _write_rows(path: Path, rows: int, seed: int) -> None:
    dice = random.Random(seed)
    cities = [f"city {number}" for number in range(200)]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([name for name, _ in COLUMNS])
        for number in range(rows):
            day = f"2024-{dice.randint(1, 12):02d}-{dice.randint(1, 28):02d}"
            at = f"{day} {dice.randint(0, 23):02d}:{dice.randint(0, 59):02d}:00"
            fare, price = round(dice.uniform(0, 500), 3), f"{dice.uniform(0, 9999):.2f}"
            writer.writerow(
                [seed * rows + number, at, dice.choice(cities), fare, price, day, f"note {dice.random():.12f}"]
            )
