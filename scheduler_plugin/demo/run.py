"""The demo from start to end: services up, files land, readers read, everything drains, the summary is checked."""

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from scheduler_plugin.catalog import Catalog, catalog_path, load_catalog
from scheduler_plugin.cli.board import render
from scheduler_plugin.demo.reader import Reader, plan_accesses
from scheduler_plugin.demo.replay import Replay
from scheduler_plugin.demo.summary import Summary, summarize
from scheduler_plugin.services import ServiceError, stack
from scheduler_plugin.services.progress import Progress
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import accesses, reports
from scheduler_plugin.store.database import Database

#: Seconds to wait for the last file's consequences.
PATIENCE_SECONDS = 240.0
#: Seconds between two lines where no board can be drawn.
LINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    minutes: float
    speed: float | None
    keep: bool
    #: Nothing but progress lines on standard error.
    quiet: bool


def run_demo(options: DemoOptions) -> Summary | None:
    """None when it was interrupted before anything landed."""
    settings = Settings.load()
    catalog = load_catalog(catalog_path())
    _begin_afresh(settings)
    with ExitStack() as at_end:
        if not options.keep:
            at_end.callback(_down, settings)
        with Progress() as progress:
            stack.up(settings, progress)
        where = (
            f"Airflow {settings.api_url}   user {settings.api_username}   "
            f"password in {settings.home.airflow / 'passwords.json'}"
        )
        print(where, file=sys.stderr)
        database = Database(settings.database_url)
        at_end.callback(database.close)
        summary = _play(settings, catalog, database, options, where)
        if options.keep:
            print(f"Left running. `FRESHET_HOME={settings.home.root} ./freshet down` stops it.", file=sys.stderr)
        return summary


def _play(settings: Settings, catalog: Catalog, database: Database, options: DemoOptions, where: str) -> Summary | None:
    begins_at = datetime.now(UTC)
    replay = Replay.prepare(catalog, settings.landing, minutes=options.minutes, speed=options.speed)
    stop = threading.Event()
    feeder = threading.Thread(target=replay.run, args=(stop,), name="demo-replay", daemon=True)
    reader = threading.Thread(
        target=_read, args=(settings, catalog, database, replay.seconds, stop), name="demo-reader", daemon=True
    )
    interrupted = False
    with _shown(database, where, options.quiet) as show:
        feeder.start()
        reader.start()
        try:
            while feeder.is_alive():
                show(f"{len(replay.dropped)} of {len(replay.drops)} files have landed")
                time.sleep(0.5)
            _drain(database, replay, show)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            stop.set()
            feeder.join(timeout=5)
            reader.join(timeout=5)
    if interrupted and not replay.dropped:
        return None
    return summarize(settings, catalog, database, replay, since=begins_at, interrupted=interrupted)


def _drain(database: Database, replay: Replay, show: "Show") -> None:
    """Until every file is settled and every object fresh."""
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        board = show("all files have landed; what is left is drained")
        files = reports.files(database)
        settled = sum(table.loaded + table.quarantined for table in files)
        waiting = sum(table.pending + table.loading for table in files)
        landed = sum(drop.trouble != "delivered twice" for drop in replay.dropped)
        if settled >= landed and not waiting and all(item.fresh and item.running is None for item in board.objects):
            return
        time.sleep(0.5)


def _read(settings: Settings, catalog: Catalog, database: Database, seconds: float, stop: threading.Event) -> None:
    """Reads the views as their popularity has it, and counts it."""
    from spark_jobs.tables import Tables

    popularity = {item.name: item.access for item in (*catalog.tables.values(), *catalog.views.values())}
    with Tables(settings.database_url, settings.warehouse) as tables:
        reader = Reader(
            catalog,
            locate=lambda name: tables.metadata_location(name) if tables.current(name) is not None else None,
            count=lambda reads: accesses.count(database, reads),
        )
        reader.run(plan_accesses(popularity, seconds), stop)


class Show:
    """Draws the board on a terminal, and a line now and then elsewhere."""

    def __init__(self, database: Database, where: str, live: Live | None) -> None:
        self._database = database
        self._where = where
        self._live = live
        self._said = 0.0

    def __call__(self, doing: str) -> reports.Board:
        board = reports.board(self._database)
        if self._live is not None:
            self._live.update(render(board, title=f"freshet demo: {doing}", note=self._where), refresh=True)
        elif time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            stale = [item.name for item in board.objects if not item.fresh]
            running = [item.name for item in board.objects if item.running]
            qod = f"QoD {board.qod:.2f}" if board.qod is not None else "no reads yet"
            latest = f"; latest: {board.decisions[0].object}, {board.decisions[0].why}" if board.decisions else ""
            print(
                f"{doing}; {qod}; {len(stale)} of {len(board.objects)} stale; "
                f"running: {', '.join(running) or 'nothing'}{latest}",
                file=sys.stderr,
                flush=True,
            )
        return board


@contextmanager
def _shown(database: Database, where: str, quiet: bool) -> Iterator[Show]:
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield Show(database, where, None)
        return
    with Live(console=console, auto_refresh=False, screen=False, transient=True) as live:
        yield Show(database, where, live)


def _begin_afresh(settings: Settings) -> None:
    """Ends what an earlier demo left running, and removes what it kept. The folder is the demo's alone."""
    _down(settings)
    if settings.home.root.exists():
        try:
            shutil.rmtree(settings.home.root)
        except OSError as error:
            raise ServiceError(f"{settings.home.root} of an earlier demo cannot be removed: {error}") from error


def _down(settings: Settings) -> None:
    with Progress() as progress:
        stack.down(settings.home, progress)
