"""From a file landing, while nothing else runs, to a refreshed view above its table: Freshet beside two plain ways.

    freshet   a file lands; Freshet takes it in, decides, loads, and refreshes the view
    warm      two DAGs chained by an asset, on the same warm Spark with preloaded imports; the first run is triggered
              by hand at the moment the file lands, so nothing is lost on noticing it
    plain     the same two DAGs with SparkSubmitOperator, as Airflow's documentation has it

All three do the same work with the same code on the same machine, in turns. `warm` shows what the dispatch brings,
`plain` what all of it brings.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_plugin.services import ServiceError

ARMS = ("freshet", "warm", "plain")
ROWS = 1000
#: Seconds after which an arm is taken to have failed.
PATIENCE_SECONDS = 600.0
CATALOG = """
slots: 2
tick_seconds: 1
policy: {name: default}
feeds:
  trips:
    format: csv
    period: 10s
    columns: {id: long, city: string, fare: double, happened: timestamp}
views:
  totals: {access: 1}
"""
VIEW = "SELECT city, count(*) AS trips, sum(fare) AS fares, max(happened) AS newest FROM trips GROUP BY city\n"
EXPECTATIONS = """
- {expect: expect_column_values_to_not_be_null, column: id, on_fail: drop}
- {expect: expect_column_values_to_be_between, column: fare, min_value: 0, max_value: 1000, on_fail: warn}
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds, after one that is not (5)")
    parser.add_argument("--arms", default=",".join(ARMS), help="which arms, with commas (freshet,warm,plain)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    #: Arm -> seconds of each round.
    seconds: Mapping[str, Sequence[float]]
    #: Where Freshet's time goes: stage -> seconds of each round.
    stages: Mapping[str, Sequence[float]]

    def as_json(self) -> dict[str, Any]:
        medians = {arm: statistics.median(each) for arm, each in self.seconds.items()}
        return {
            "seconds": {arm: list(each) for arm, each in self.seconds.items()},
            "median_seconds": medians,
            "times_freshet": {arm: median / medians["freshet"] for arm, median in medians.items()},
            "freshet_stages_median_seconds": {name: statistics.median(each) for name, each in self.stages.items()},
        }

    def as_text(self) -> str:
        from scheduler_plugin.cli.table import table

        told = self.as_json()
        arms = [
            (
                arm,
                f"{told['median_seconds'][arm]:.2f} s",
                f"{min(each):.2f} to {max(each):.2f} s",
                f"{told['times_freshet'][arm]:.1f}",
            )
            for arm, each in self.seconds.items()
        ]
        stages = [(name, f"{statistics.median(each):.2f} s") for name, each in self.stages.items()]
        rounds = len(self.seconds["freshet"])
        return "\n\n".join(
            (
                f"From a landing file to a refreshed view, {rounds} rounds in turns:",
                table(("way", "median", "range", "times freshet"), arms, right=("median", "range", "times freshet")),
                "Where Freshet's time goes (medians):",
                table(("stage", "time"), stages, right=("time",)),
            )
        )


def run(options: argparse.Namespace) -> Report:
    from scheduler_plugin.services import stack
    from scheduler_plugin.services.home import Home
    from scheduler_plugin.services.progress import Progress
    from scheduler_plugin.services.settings import Settings

    arms = options.arms.split(",")
    if "freshet" not in arms or not set(arms) <= set(ARMS):
        raise ServiceError(f"--arms takes freshet and any of {', '.join(ARMS[1:])}, not {options.arms}")
    root = Home.find().root / "bench"
    with Progress() as progress:
        stack.down(Home(root=root), progress)
    shutil.rmtree(root, ignore_errors=True)
    _prepare(root)
    settings = Settings.load()
    with ExitStack() as at_end:

        def down() -> None:
            with Progress() as progress:
                stack.down(settings.home, progress)

        at_end.callback(down)
        with Progress() as progress:
            stack.up(settings, progress)
        bench = Bench(settings)
        at_end.callback(bench.close)
        seconds: dict[str, list[float]] = {arm: [] for arm in arms}
        stages: dict[str, list[float]] = {}
        for number in range(options.rounds + 1):
            for arm in arms:
                took = bench.freshet(number) if arm == "freshet" else bench.plain(arm, number)
                print(f"round {number} {arm}: {took:.2f} s{'' if number else ' (to warm up)'}", file=sys.stderr)
                if number:
                    seconds[arm].append(took)
                    if arm == "freshet":
                        for name, value in bench.stages().items():
                            stages.setdefault(name, []).append(value)
                time.sleep(1)
    return Report(seconds=seconds, stages=stages)


def _prepare(root: Path) -> None:
    """A catalog of one table and one view, a DAG folder with the plain DAGs beside Freshet's, and the way to Spark."""
    from scheduler_plugin.services.home import REPOSITORY
    from scheduler_plugin.services.java import find_java
    from scheduler_plugin.services.spark import spark_folder

    include, dags = root / "include", root / "dags"
    for folder in (include / "views", include / "expectations", dags):
        folder.mkdir(parents=True)
    (include / "warehouse.yml").write_text(CATALOG)
    (include / "views" / "totals.sql").write_text(VIEW)
    (include / "expectations" / "trips.yml").write_text(EXPECTATIONS)
    for file in (*(REPOSITORY / "dags").glob("*.py"), Path(__file__).with_name("plain_dags.py")):
        shutil.copy(file, dags / file.name)
    os.environ |= {
        "FRESHET_HOME": str(root),
        "FRESHET_CATALOG": str(include / "warehouse.yml"),
        "FRESHET_DAGS": str(dags),
        "AIRFLOW_CONN_FRESHET_BENCH": '{"conn_type": "spark", "host": "local[2]"}',
        "SPARK_HOME": str(spark_folder()),
        "JAVA_HOME": str(find_java().program.parent.parent),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


class Bench:
    """One arm at a time, one file at a time."""

    def __init__(self, settings: Any) -> None:
        from scheduler_plugin.live.dispatch import Airflow
        from scheduler_plugin.store.database import Database

        self._settings = settings
        self._database = Database(settings.database_url)
        self._airflow = Airflow(settings)
        self._landed = 0.0

    def close(self) -> None:
        self._airflow.close()
        self._database.close()

    def freshet(self, number: int) -> float:
        """Drops a file and waits for the view's next snapshot."""
        before = self._version()
        self._write(Path(self._settings.landing) / "trips", number)
        _wait("Freshet", lambda: self._version() > before)
        return self._version() - self._landed

    def plain(self, arm: str, number: int) -> float:
        done = self._settings.home.root / f"done-{arm}"
        done.unlink(missing_ok=True)
        file = self._write(self._settings.home.root / "plain", number)
        self._airflow.trigger(f"bench_{arm}_load", {"file": str(file)})
        _wait(f"the DAG bench_{arm}_refresh", done.exists)
        time.sleep(0.05)  # until its line is written
        return float(done.read_text()) - self._landed

    def _write(self, folder: Path, number: int) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{number * ROWS + each},city {each % 50},{each % 90}.5,2026-01-01T00:00:00Z" for each in range(ROWS)]
        file = folder / f"trips_{number}.csv"
        draft = folder / f".{file.name}"
        draft.write_text("\n".join(["id,city,fare,happened", *lines, ""]))
        draft.rename(file)
        self._landed = time.time()
        return file

    def _version(self) -> float:
        from sqlalchemy import text

        with self._database.transaction() as connection:
            newest = connection.execute(text("SELECT max(committed_at) FROM freshet.version WHERE object = 'totals'"))
            found = newest.scalar_one()
        return found.timestamp() if found else 0.0

    def stages(self) -> dict[str, float]:
        """Where the time of the last file went, from the ledger."""
        from sqlalchemy import text

        with self._database.transaction() as connection:
            release = connection.execute(text("SELECT max(release) FROM freshet.update")).scalar_one()
            load, refresh = connection.execute(
                text(
                    "SELECT decided_at, claimed_at, decision.finished_at, stages FROM freshet.decision "
                    "JOIN freshet.job ON decision_id = decision.id ORDER BY decision.id DESC LIMIT 2"
                )
            ).all()[::-1]
        spark = {
            each: sum(row.stages.get(each, 0.0) for row in (load, refresh))
            for each in ("read", "gate", "plan", "write")
        }
        commit = sum(row.stages.get("commit", 0.0) for row in (load, refresh))
        in_jobs = sum((row.finished_at - row.claimed_at).total_seconds() for row in (load, refresh))
        return {
            "arrival: noticed, whole, in the ledger": release.timestamp() - self._landed,
            "tick: both decisions": (
                load.decided_at - release + (refresh.decided_at - load.finished_at)
            ).total_seconds(),
            "dispatch: both from decision to running task": (
                load.claimed_at - load.decided_at + (refresh.claimed_at - refresh.decided_at)
            ).total_seconds(),
            **{f"spark: {name}": seconds for name, seconds in spark.items()},
            "commit: both snapshots": commit,
            "job: session, catalog, ledger": in_jobs - sum(spark.values()) - commit,
        }


def _wait(what: str, ready: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not ready():
        if time.monotonic() > until:
            raise ServiceError(f"{what} has not done its work in {PATIENCE_SECONDS:.0f} s; its logs may say why.")
        time.sleep(0.02)
