"""The demo's traffic at 50, 100 and 200% of what the slots can carry, and a ten-fold surge: default policy beside FIFO.

Files of flights and weather, an hour of 2013 each, land at the pace that makes the load. What the slots can carry is
measured first: what FIFO takes for each file, with every update loaded and every view refreshed by itself. So 200% is
twice what can be done file by file, and what a policy saves by doing things together is its own merit.

How fresh anything can be is also a matter of how the files come: each arrival makes all that derives from it stale
until a chain of jobs has run. Therefore loads are played with one file of each feed at a time, and with several, as
from a feed that delivers twice a day (`2x12`: 200%, twelve hourly files of each feed together, twelve times less
often); and beside what was reached stands what a slot for every object would have brought, from a replay of the same
arrivals and job times.

All on real services of its own, in one run; the policy is changed in the catalog, without a restart.
"""

import argparse
import io
import math
import os
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler_plugin.demo.plan import Drop
    from scheduler_plugin.services.settings import Settings
    from scheduler_plugin.store.reports import DecisionReport

POLICIES = ("default", "fifo")
LOADS = "0.5,1,2,1x12,2x12,surge"

#: A surge comes on top of half load: so many times as many files for so many of their periods.
SURGE, SURGE_PERIODS = 10.0, 1.0
#: When the surge begins, in periods; and how long its end is waited for at most, in seconds.
CALM_PERIODS, LONGEST_RECOVERY = 3.0, 300.0
#: Recovered is what has nine tenths of the freshness from before, over a whole period.
RECOVERED = 0.9
#: Hours of 2013 to take files from.
HOURS = 6000
#: At this speed the demo makes a file of each hour.
SPEED = 180.0
PATIENCE_SECONDS = 400.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=90.0, help="of each load and policy, at least (90)")
    parser.add_argument("--loads", default=LOADS, help=f"which, with commas ({LOADS})")
    parser.add_argument("--warm-up", type=int, default=4, help="rounds of files before anything is measured (4)")
    parser.add_argument("--pictures", type=Path, help="where the pictures go (bench-freshness/ of FRESHET_HOME)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many files come, and how many of a feed at a time."""

    told: str
    share: float
    together: int = 1
    surge: bool = False

    @classmethod
    def parse(cls, told: str) -> "Load":
        if told == "surge":
            return cls(told=told, share=0.5, surge=True)
        share, _, together = told.partition("x")
        return cls(told=told, share=float(share), together=int(together or 1))


@dataclass(slots=True, kw_only=True)
class Arm:
    """One load under one policy."""

    load: str
    policy: str
    start: datetime
    end: datetime
    #: Seconds between files of a feed, or between the moments at which several come together.
    period: float
    updates: int
    jobs: int = 0
    qod: float = 0.0
    weighted_staleness: float = 0.0
    worst_stretch: float = 0.0
    #: QoD that a slot for each object would have brought, and that the replay of what ran has; of the default policy.
    ceiling: float | None = None
    replayed: float | None = None
    #: Seconds after the surge until reads are met as fresh as before it; None without a surge, or when never.
    recovery: float | None = None
    curve: Sequence[tuple[float, float, float]] = ()


@dataclass(slots=True)
class Report:
    slots: int
    #: Slot-seconds that one file of each feed needs when nothing is merged, and how many jobs those are.
    round_cost: float
    round_jobs: float
    arms: list[Arm] = field(default_factory=list)
    #: What is measured -> p50 and p95 in seconds.
    latencies: dict[str, tuple[float, float]] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        told = asdict(self)
        for arm in told["arms"]:
            arm |= {"start": arm["start"].isoformat(), "end": arm["end"].isoformat()}
        return told

    def as_text(self) -> str:
        from scheduler_plugin.cli.table import table

        rows = [
            (
                each.load,
                each.policy,
                f"{each.period:.1f} s",
                each.updates,
                each.jobs,
                f"{each.qod:.3f}",
                "-" if each.ceiling is None else f"{each.ceiling:.3f}",
                "-" if each.replayed is None else f"{each.replayed:.3f}",
                f"{each.weighted_staleness:.1f} s",
                f"{each.worst_stretch:.1f}",
                _recovered(each),
            )
            for each in self.arms
        ]
        measured = ("QoD", "at most", "replayed", "weighted staleness", "worst stretch", "recovery")
        head = ("load", "policy", "files every", "files", "jobs", *measured)
        times = [(name, f"{p50:.2f} s", f"{p95:.2f} s") for name, (p50, p95) in self.latencies.items()]
        return "\n\n".join(
            (
                f"{self.slots} slots; a file of each feed needs {self.round_jobs:.0f} jobs and {self.round_cost:.1f} "
                "slot-seconds when nothing is merged",
                table(head, rows, right=head[2:]),
                table(("latency", "p50", "p95"), times, right=("p50", "p95")),
                "\n".join(self.pictures),
            )
        )


def _recovered(arm: Arm) -> str:
    if arm.load != "surge":
        return "-"
    waited = (arm.end - arm.start).total_seconds() - (CALM_PERIODS + SURGE_PERIODS) * arm.period
    return f"over {waited:.0f} s" if arm.recovery is None else f"{arm.recovery:.0f} s"


def run(options: argparse.Namespace) -> Report:
    from scheduler_plugin.services import stack
    from scheduler_plugin.services.home import Home
    from scheduler_plugin.services.progress import Progress
    from scheduler_plugin.services.settings import Settings

    loads = [Load.parse(each) for each in options.loads.split(",")]
    root = Home.find().root / "bench-freshness"
    stack.down(Home(root=root), Progress(io.StringIO()))
    shutil.rmtree(root, ignore_errors=True)
    catalog = _catalog(root)
    os.environ |= {"FRESHET_HOME": str(root), "FRESHET_CATALOG": str(catalog)}
    settings = Settings.load()
    try:
        with Progress() as progress:
            stack.up(settings, progress)
        return Bench(settings, catalog, options.seconds).run(loads, options.warm_up, options.pictures or root)
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
    def __init__(self, settings: "Settings", catalog: Path, seconds: float) -> None:
        from scheduler_plugin.catalog import load_catalog
        from scheduler_plugin.demo.plan import choose_window, plan
        from scheduler_plugin.demo.replay import Replay
        from scheduler_plugin.demo.source import EVENTS, REGISTERS, read
        from scheduler_plugin.store.database import Database

        self._settings, self._path, self._seconds = settings, catalog, seconds
        self._database = Database(settings.database_url)
        self._catalog = load_catalog(catalog)
        source = {feed: read(feed) for feed in EVENTS + REGISTERS}
        drops = [each for each in plan(source, *choose_window(HOURS * 60 / SPEED, SPEED)) if not each.trouble]
        self._replay = Replay(self._catalog, settings.landing, drops)
        self._files: dict[str, Iterator[Drop]] = {
            feed: iter([each for each in drops if each.feed == feed]) for feed in EVENTS
        }
        self._registers = [each for each in drops if each.feed in REGISTERS]

    def run(self, loads: Sequence[Load], warm_up: int, pictures: Path) -> Report:
        try:
            for drop in self._registers:
                self._replay.write(drop)
            for _ in range(warm_up):
                self._land()
                self._wait()
            report = self._measure_fifo(files=3)
            tell(f"a file of each feed needs {report.round_jobs:.0f} jobs and {report.round_cost:.1f} slot-seconds")
            with suppress(KeyboardInterrupt):  # whoever has seen enough gets what has been measured
                for load in loads:
                    for policy in POLICIES:
                        arm = self._arm(load, policy, report.round_cost)
                        self._measure(arm)
                        report.arms.append(arm)
            report.latencies = self._latencies(report.arms)
            report.pictures = [str(draw(report, pictures))]
            return report
        finally:
            self._database.close()

    def _land(self, files: int = 1) -> None:
        for drops in self._files.values():
            for _ in range(files):
                self._replay.write(next(drops))

    def _wait(self) -> None:
        """Until everything is fresh, and the last job that anybody still wants has run."""
        until = time.monotonic() + PATIENCE_SECONDS
        at_rest = 0
        while at_rest < 3 and time.monotonic() < until:
            time.sleep(0.7)
            at_rest = at_rest + 1 if self._is_at_rest() else 0

    def _is_at_rest(self) -> bool:
        from scheduler_plugin.store import reports

        return all(each.fresh and each.running is None for each in reports.board(self._database).objects)

    def _decisions(self, since: datetime, until: datetime) -> "list[DecisionReport]":
        from scheduler_plugin.store.reports import latest_decisions

        return [each for each in latest_decisions(self._database, 20_000, since=since) if each.decided_at < until]

    def _measure_fifo(self, files: int) -> Report:
        """What FIFO takes for some files of each feed."""
        self._set_policy("fifo")
        since = datetime.now(UTC)
        self._land(files)
        self._wait()
        taken = [
            (each.finished_at - each.decided_at).total_seconds()
            for each in self._decisions(since, datetime.now(UTC))
            if each.finished_at is not None
        ]
        return Report(slots=self._catalog.slots, round_cost=sum(taken) / files, round_jobs=len(taken) / files)

    def _arm(self, load: Load, policy: str, round_cost: float) -> Arm:
        self._set_policy("default")
        self._wait()
        self._set_policy(policy)
        period = round_cost * load.together / (self._catalog.slots * load.share)
        # Whole periods: the time after an arrival is not like that before the next.
        length = math.ceil(self._seconds / period) * period
        surge = (CALM_PERIODS * period, (CALM_PERIODS + SURGE_PERIODS) * period) if load.surge else None
        if surge is not None:
            length = surge[1] + LONGEST_RECOVERY
        start, began, updates, due = datetime.now(UTC), time.monotonic(), 0, 0.0
        while (passed := time.monotonic() - began) < length:
            if passed < due:
                time.sleep(min(due - passed, 0.2))
                continue
            if surge is not None and passed > surge[1] and self._recovered(start, surge, period) is not None:
                length = passed
                break
            self._land(load.together)
            updates += load.together * len(self._files)
            due += period / SURGE if surge is not None and surge[0] <= due < surge[1] else period
        arm = Arm(
            load=load.told,
            policy=policy,
            start=start,
            end=start + timedelta(seconds=length),
            period=period,
            updates=updates,
        )
        if surge is not None:
            arm.recovery = self._recovered(start, surge, period)
        return arm

    def _recovered(self, start: datetime, surge: tuple[float, float], period: float) -> float | None:
        from scheduler_plugin.live.whatif import recorded

        until = datetime.now(UTC)
        points = round((until - start).total_seconds())
        return recovery(recorded(self._database, start, until, points=points).curve, surge, period)

    def _measure(self, arm: Arm) -> None:
        from scheduler_plugin.live.whatif import recorded, what_if

        points = round((arm.end - arm.start).total_seconds())
        found = recorded(self._database, arm.start, arm.end, points=points)
        arm.qod, arm.weighted_staleness, arm.worst_stretch = found.qod, found.weighted_staleness, found.worst_stretch
        arm.curve, arm.jobs = found.curve, found.jobs
        arm.replayed = what_if(self._database, start=arm.start, end=arm.end).replayed.qod
        if arm.policy == "default":
            slots = len(self._catalog.tables) + len(self._catalog.views)
            arm.ceiling = what_if(self._database, slots=slots, start=arm.start, end=arm.end).replayed.qod
        seconds = (arm.end - arm.start).total_seconds()
        tell(f"load {arm.load}, {arm.policy}: {arm.updates} files in {seconds:.0f} s, QoD {arm.qod:.3f}")

    def _set_policy(self, policy: str) -> None:
        text = self._path.read_text()
        for each in POLICIES:
            text = text.replace(f"name: {each}\n", f"name: {policy}\n", 1)
        self._path.write_text(text)
        time.sleep(2)  # the next tick takes it in

    def _latencies(self, arms: Sequence[Arm]) -> dict[str, tuple[float, float]]:
        from scheduler_plugin.live.dispatch import Airflow

        told: dict[str, tuple[float, float]] = {}
        for load in dict.fromkeys(arm.load for arm in arms):
            decisions = [each for arm in arms if arm.load == load for each in self._decisions(arm.start, arm.end)]
            starts = [(each.claimed_at - each.decided_at).total_seconds() for each in decisions if each.claimed_at]
            told[f"decision to running task, load {load}"] = _percentiles(starts)
            # Where there is always more to do, the next decision for a slot waits for nothing but the tick.
            if Load.parse(load).share > 1:
                told[f"finished job to next decision, load {load}"] = _percentiles(gaps(decisions))
        airflow = Airflow(self._settings)
        try:
            floor = [airflow.empty_task_seconds("refresh__fleet") for _ in range(20)]
        finally:
            airflow.close()
        return {**told, "Airflow alone: trigger to an empty task's start, no load": _percentiles(floor)}


def gaps(decisions: "Sequence[DecisionReport]") -> list[float]:
    """Seconds from the end of each job until its slot was given to the next."""
    found = []
    for slot in {each.slot for each in decisions}:
        ordered = sorted((each for each in decisions if each.slot == slot), key=lambda each: each.decided_at)
        for one, following in pairwise(ordered):
            if one.finished_at is not None:
                found.append((following.decided_at - one.finished_at).total_seconds())
    return found


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    if len(seconds) < 2:
        return (0.0, 0.0)
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return cuts[9], cuts[18]


def recovery(curve: Sequence[tuple[float, float, float]], surge: tuple[float, float], period: float) -> float | None:
    """Seconds after the surge until the fresh share, over a period from then on, is nearly what it was before."""
    before = [share for at, share, _ in curve if at < surge[0]]
    wanted = RECOVERED * sum(before) / len(before) if before else 0.0
    for at, _, _ in curve:
        if at >= surge[1] and at + period <= curve[-1][0]:
            within = [share for then, share, _ in curve if at <= then < at + period]
            if sum(within) / len(within) >= wanted:
                return at - surge[1]
    return None


def draw(report: Report, folder: Path) -> Path:
    """QoD over time, a panel for each load."""
    from scheduler_plugin.simulator.experiments import picture

    loads = list(dict.fromkeys(arm.load for arm in report.arms))
    figure, panels = picture.panels(len(loads), title="Fresh share of reads over time", columns=min(2, len(loads)))
    for axes, load in zip(panels, loads, strict=False):
        for number, arm in enumerate(each for each in report.arms if each.load == load):
            seconds, shares = zip(*((at, share) for at, share, _ in arm.curve), strict=True)
            every = max(1, len(seconds) // 12)
            picture.line(axes, seconds, shares, number, arm.policy, markevery=(number * every // 2, every))
        axes.set_ylim(-0.03, 1.03)
        picture.finished(axes, x="seconds", y="fresh share of reads", title=f"load {load}")
    folder.mkdir(parents=True, exist_ok=True)
    picture.saved(figure, folder / "freshness.png")
    return folder / "freshness.png"
