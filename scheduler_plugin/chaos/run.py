"""One chaos run: pour, break, mend, and look at everything afterwards."""

import io
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from scheduler_plugin.chaos.faults import FAULTS
from scheduler_plugin.chaos.pour import Pour, write_catalog
from scheduler_plugin.services import ServiceError, stack
from scheduler_plugin.services.home import Home
from scheduler_plugin.services.progress import Progress
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import freshness, reports
from scheduler_plugin.store.database import Database

#: Work must go on so soon after the part is back, in seconds.
WORK_WITHIN = 15.0
#: Everything must be settled so soon after the last file, in seconds.
SETTLED_WITHIN = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    told: str
    #: Seconds until what was broken was running again.
    back_after: float
    #: Seconds from then until the next job began or ended; None: none did within SETTLED_WITHIN.
    work_after: float | None


@dataclass(slots=True)
class Report:
    seed: int
    faults: list[Fault] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)
    settled_after: float | None = None
    #: What is wrong at the end; empty when all is well.
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": not self.problems}


def chaos(
    settings: Settings,
    *,
    minutes: float,
    seed: int,
    only: Sequence[str] = (),
    work_within: float = WORK_WITHIN,
    say: Callable[[str], None] = lambda told: None,
) -> Report:
    """Does faults at random on the services of `settings`, which are started if need be and left running."""
    chance = random.Random(seed)
    report = Report(seed=seed)
    _up(settings)
    database = Database(settings.database_url)
    pour = Pour(Path(settings.landing))
    try:
        pour.start()
        _until(SETTLED_WITHIN, lambda: _works_since(database, 0.0))
        until = time.monotonic() + minutes * 60
        longest = 60.0 if minutes >= 5 else 6.0
        names = list(only or FAULTS)
        chance.shuffle(names)
        while time.monotonic() < until:
            for name in names:  # each once before any comes again
                if time.monotonic() >= until:
                    break
                fault = _broken(settings, database, name, chance, longest)
                report.faults.append(fault)
                worked = "none" if fault.work_after is None else f"{fault.work_after:.1f} s"
                say(f"{fault.told}; back after {fault.back_after:.1f} s, work after {worked}")
                time.sleep(chance.uniform(0.5, 3.0))
        pour.stop()
        report.files = dict(pour.files)
        began = time.monotonic()
        if _until(SETTLED_WITHIN, lambda: _settled(database, pour)):
            report.settled_after = time.monotonic() - began
        report.problems = problems(settings, database, pour, report, work_within)
    finally:
        if not report.files:
            pour.stop()
        database.close()
    return report


def _broken(settings: Settings, database: Database, name: str, chance: random.Random, longest: float) -> Fault:
    began = time.monotonic()
    told = FAULTS[name](settings, chance, longest)
    _up(settings)
    back = time.time()
    back_after = time.monotonic() - began
    work = _until(SETTLED_WITHIN, lambda: _works_since(database, back))
    return Fault(name=name, told=told, back_after=back_after, work_after=work)


def _up(settings: Settings) -> None:
    """Brings back what is missing; what dies while it is coming back is brought back once more."""
    for last in (False, False, True):
        try:
            stack.up(settings, Progress(io.StringIO()))
            return
        except ServiceError:
            if last:
                raise
            time.sleep(1)


def _until(seconds: float, ready: Callable[[], bool]) -> float | None:
    """Seconds until it was so; None when it was not in time."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            if ready():
                return time.monotonic() - began
        except SQLAlchemyError:
            pass  # Postgres may be on its way
        time.sleep(0.1)
    return None


def _works_since(database: Database, since: float) -> bool:
    """Whether a job has begun or ended since then."""
    newest = reports.latest_decisions(database, 8)
    moments = [at for each in newest for at in (each.claimed_at, each.finished_at) if at is not None]
    return any(at.timestamp() > since for at in moments)


def _settled(database: Database, pour: Pour) -> bool:
    files = {each.table: each for each in reports.files(database)}
    loaded = all(name in files and files[name].loaded == count for name, count in pour.files.items())
    return loaded and all(each.fresh and each.running is None for each in reports.board(database).objects)


def problems(settings: Settings, database: Database, pour: Pour, report: Report, work_within: float) -> list[str]:
    """Everything that is not as it should be once all has come to rest."""
    from spark_jobs.tables import Tables

    found: list[str] = []
    board = reports.board(database)
    if report.settled_after is None:
        stale = [each.name for each in board.objects if not each.fresh]
        found.append(f"not settled {SETTLED_WITHIN:.0f} s after the last file; stale: {', '.join(stale) or 'nothing'}")
    for each in reports.files(database):
        dropped = pour.files[each.table]
        if each.loaded != dropped or each.pending or each.loading or each.quarantined:
            found.append(
                f"{each.table}: {dropped} files dropped, {each.loaded} loaded, {each.pending} pending, "
                f"{each.loading} loading, {each.quarantined} in quarantine"
            )
    found += [f"{each.name}: a decision is open ({each.running})" for each in board.objects if each.running]
    if board.last_tick.get("running"):
        found.append(f"{board.last_tick['running']} slot(s) are taken, and nothing runs")
    found += freshness.flaws(database)
    with Tables(settings.database_url, settings.warehouse) as tables:
        places = {each.name: tables.metadata_location(each.name) for each in board.objects if each.materialized}
    found += pour.differences({name: place for name, place in places.items() if place})
    for fault in report.faults:
        if fault.work_after is None or fault.work_after > work_within:
            took = "not at all" if fault.work_after is None else f"after {fault.work_after:.0f} s"
            found.append(f"work went on {took} after: {fault.told}")
    return found


def own_settings(root: Path) -> Settings:
    """An installation of chaos's own, empty."""
    stack.down(Home(root=root), Progress(io.StringIO()))
    shutil.rmtree(root, ignore_errors=True)
    return settings_for(root)


def settings_for(root: Path) -> Settings:
    import os

    catalog = write_catalog(root / "include")
    os.environ |= {"FRESHET_HOME": str(root), "FRESHET_CATALOG": str(catalog)}
    return Settings.load()
