"""The demo's traffic at 50, 100 and 200% of what the slots can carry, and a ten-fold surge: default policy beside FIFO.

Files of flights and weather, an hour of 2013 each, land at the pace that makes the load; what the slots can carry is
reckoned from what the jobs took while warming up, with every update loaded and refreshed by itself, as FIFO does. The
policy is changed in the catalog, without a restart. All on the real services, in one run, on services of its own.
"""

import argparse
import io
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

POLICIES = ("default", "fifo")

SURGE = 10
#: Hours of 2013 to take files from.
HOURS = 6000
SPEED = 180.0
PATIENCE_SECONDS = 300.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=120.0, help="of each load and policy (120)")
    parser.add_argument("--loads", default="0.5,1,2,surge", help="which, with commas (0.5,1,2,surge)")
    parser.add_argument("--warm-up", type=int, default=3, help="rounds of files before anything is measured (3)")
    parser.add_argument("--pictures", type=Path, help="where the pictures go (bench-freshness/ of FRESHET_HOME)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    load: str
    policy: str
    updates: int
    qod: float
    weighted_staleness: float
    worst_stretch: float
    #: Seconds after the surge until reads are met as fresh as before it; None without a surge, or when never.
    recovery: float | None
    curve: Sequence[tuple[float, float, float]]


@dataclass(slots=True)
class Report:
    slots: int
    #: Slot-seconds that one round of files needs when nothing is merged.
    round_cost: float
    arms: list[Arm] = field(default_factory=list)
    #: What is measured -> p50 and p95 in seconds.
    latencies: dict[str, tuple[float, float]] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        from scheduler_plugin.cli.table import table

        rows = [
            (
                each.load,
                each.policy,
                each.updates,
                f"{each.qod:.3f}",
                f"{each.weighted_staleness:.1f} s",
                f"{each.worst_stretch:.1f}",
                "-" if each.recovery is None else f"{each.recovery:.0f} s",
            )
            for each in self.arms
        ]
        head = ("load", "policy", "updates", "QoD", "weighted staleness", "worst stretch", "recovery")
        times = [(name, f"{p50:.2f} s", f"{p95:.2f} s") for name, (p50, p95) in self.latencies.items()]
        return "\n\n".join(
            (
                f"{self.slots} slots; a round of files needs {self.round_cost:.1f} slot-seconds when nothing is merged",
                table(head, rows, right=head[2:]),
                table(("latency", "p50", "p95"), times, right=("p50", "p95")),
                "\n".join(self.pictures),
            )
        )


def run(options: argparse.Namespace) -> Report:
    from scheduler_plugin.services import stack
    from scheduler_plugin.services.home import Home
    from scheduler_plugin.services.progress import Progress
    from scheduler_plugin.services.settings import Settings

    root = Home.find().root / "bench-freshness"
    stack.down(Home(root=root), Progress(io.StringIO()))
    shutil.rmtree(root, ignore_errors=True)
    catalog = _catalog(root)
    os.environ |= {"FRESHET_HOME": str(root), "FRESHET_CATALOG": str(catalog)}
    settings = Settings.load()
    try:
        with Progress() as progress:
            stack.up(settings, progress)
        return Bench(settings, catalog, options.seconds).run(
            options.loads.split(","), options.warm_up, options.pictures or root
        )
    finally:
        with Progress() as progress:
            stack.down(settings.home, progress)


def _catalog(root: Path) -> Path:
    from scheduler_plugin.catalog.load import DEFAULT

    shutil.copytree(DEFAULT.parent, root / "include")
    return root / "include" / DEFAULT.name


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, settings: Any, catalog: Path, seconds: float) -> None:
        from scheduler_plugin.catalog import load_catalog
        from scheduler_plugin.demo.plan import choose_window, plan
        from scheduler_plugin.demo.replay import Replay
        from scheduler_plugin.demo.source import EVENTS, REGISTERS, read
        from scheduler_plugin.store.database import Database

        self._settings, self._path, self._seconds = settings, catalog, seconds
        self._database = Database(settings.database_url)
        self._catalog = load_catalog(catalog)
        source = {feed: read(feed) for feed in EVENTS + REGISTERS}
        # At this speed the demo makes a file of each hour.
        drops = [each for each in plan(source, *choose_window(HOURS * 60 / SPEED, SPEED)) if not each.trouble]
        self._replay = Replay(self._catalog, settings.landing, drops)
        self._files: dict[str, Iterator[Any]] = {
            feed: iter([each for each in drops if each.feed == feed]) for feed in EVENTS
        }
        self._registers = [each for each in drops if each.feed in REGISTERS]

    def run(self, loads: Sequence[str], warm_up: int, pictures: Path) -> Report:
        try:
            for drop in self._registers:
                self._replay.write(drop)
            for _ in range(warm_up):
                self._round()
                self._wait(self._fresh)
            report = Report(slots=self._catalog.slots, round_cost=self._round_cost())
            tell(f"a round needs {report.round_cost:.1f} slot-seconds")
            for load in loads:
                for policy in POLICIES:
                    report.arms.append(self._arm(load, policy, report.round_cost))
                    told = report.arms[-1]
                    tell(
                        f"load {load}, {policy}: QoD {told.qod:.3f}, weighted staleness {told.weighted_staleness:.1f} s"
                    )
            report.latencies = self._latencies()
            report.pictures = [str(each) for each in draw(report, pictures)]
            return report
        finally:
            self._database.close()

    def _round(self) -> None:
        for drops in self._files.values():
            self._replay.write(next(drops))

    def _fresh(self) -> bool:
        from scheduler_plugin.store import reports

        return all(each.fresh and each.running is None for each in reports.board(self._database).objects)

    def _wait(self, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        time.sleep(2)  # until what was written has been taken in
        while not ready() and time.monotonic() < until:
            time.sleep(0.2)

    def _round_cost(self) -> float:
        """What FIFO runs for one file of each feed, by what the jobs took last."""
        from scheduler_plugin.live import memory

        warehouse = memory.at_time(self._database, None).warehouse
        total = 0.0
        for feed in self._files:
            table = warehouse.number(self._catalog.feeds[feed].table)
            below = [each for each in warehouse.graph.descendants(table) if not warehouse.graph.virtual[each]]
            total += sum(warehouse.fixed[each] for each in (table, *below))
        return total

    def _arm(self, load: str, policy: str, round_cost: float) -> Arm:
        from scheduler_plugin.live.whatif import recorded

        self._set_policy("default")
        self._wait(self._fresh)
        self._set_policy(policy)
        share = 0.5 if load == "surge" else float(load)
        pause = round_cost / (self._catalog.slots * share)
        surge = (self._seconds * 0.3, self._seconds * 0.4) if load == "surge" else None
        start, began, updates = datetime.now(UTC), time.monotonic(), 0
        due = 0.0
        while (passed := time.monotonic() - began) < self._seconds:
            if passed < due:
                time.sleep(min(due - passed, 0.2))
                continue
            self._round()
            updates += len(self._files)
            due += pause / SURGE if surge and surge[0] <= passed < surge[1] else pause
        found = recorded(self._database, start, start + timedelta(seconds=self._seconds))
        return Arm(
            load=load,
            policy=policy,
            updates=updates,
            qod=found.qod,
            weighted_staleness=found.weighted_staleness,
            worst_stretch=found.worst_stretch,
            recovery=_recovery(found.curve, surge) if surge else None,
            curve=found.curve,
        )

    def _set_policy(self, policy: str) -> None:
        text = self._path.read_text()
        for each in POLICIES:
            text = text.replace(f"name: {each}\n", f"name: {policy}\n", 1)
        self._path.write_text(text)
        time.sleep(2)  # the next tick takes it in

    def _latencies(self) -> dict[str, tuple[float, float]]:
        from scheduler_plugin.live.dispatch import Airflow
        from scheduler_plugin.store.reports import latest_decisions

        decisions = latest_decisions(self._database, 2000)
        starts = [(each.claimed_at - each.decided_at).total_seconds() for each in decisions if each.claimed_at]
        decided = sorted(each.decided_at for each in decisions)
        gaps = []
        for each in decisions:
            after = [at for at in decided if each.finished_at is not None and at > each.finished_at]
            if after and each.finished_at is not None:
                gaps.append((after[0] - each.finished_at).total_seconds())
        airflow = Airflow(self._settings)
        try:
            floor = [airflow.empty_task_seconds("refresh__fleet") for _ in range(10)]
        finally:
            airflow.close()
        return {
            "decision to running task": _percentiles(starts),
            "finished job to next decision": _percentiles(gaps),
            "Airflow alone: trigger to an empty task's start": _percentiles(floor),
        }


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    if len(seconds) < 2:
        return (0.0, 0.0)
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return cuts[9], cuts[18]


def _recovery(curve: Sequence[tuple[float, float, float]], surge: tuple[float, float]) -> float | None:
    """Seconds after the surge until the fresh share, over five points, is at nine tenths of what it was before."""
    before = [share for at, share, _ in curve if at < surge[0]]
    usual = 0.9 * sum(before) / len(before) if before else 0.0
    after = [(at, share) for at, share, _ in curve if at >= surge[1]]
    for place in range(len(after) - 4):
        if sum(share for _, share in after[place : place + 5]) / 5 >= usual:
            return after[place][0] - surge[1]
    return None


def draw(report: Report, folder: Path) -> list[Path]:
    """QoD over time, a picture for each load."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    by_load: Mapping[str, list[Arm]] = {
        load: [each for each in report.arms if each.load == load] for load in dict.fromkeys(a.load for a in report.arms)
    }
    for load, arms in by_load.items():
        figure, axes = pyplot.subplots(figsize=(8, 3.5))
        for arm in arms:
            axes.plot([at for at, _, _ in arm.curve], [share for _, share, _ in arm.curve], label=arm.policy)
        axes.set(xlabel="seconds", ylabel="fresh share of reads", ylim=(0, 1.05), title=f"load {load}")
        axes.legend()
        figure.tight_layout()
        files.append(folder / f"freshness-{load}.png")
        figure.savefig(files[-1], dpi=110)
        pyplot.close(figure)
    return files
