"""Watches the landing folders and takes whole files in.

A file is whole when nobody has it open for writing and it has not changed for a moment; where the file system cannot
tell who writes, the moment is longer. Names that begin with a dot or end in .tmp or .part are drafts. Changes are told
by inotify where there is one; a listing now and then finds what it missed.
"""

import fcntl
import hashlib
import logging
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from sqlalchemy.exc import OperationalError
from watchfiles import watch

from scheduler_plugin.catalog import Catalog, PatternInterval, landing_path
from scheduler_plugin.store import arrivals
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)

#: Seconds a file must have been left alone: when it is known that nobody writes, and when that cannot be known.
SETTLE_SECONDS = 0.1
SETTLE_SECONDS_UNSURE = 1.0
#: Seconds between two listings.
LIST_SECONDS = 10.0
#: Files taken in within one transaction.
TAKE_IN_AT_ONCE = 1000
DRAFT_SUFFIXES = (".tmp", ".part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where one table's files land, and how their names tell what they cover."""

    table: str
    folder: Path
    interval: PatternInterval | None = None


def landings(catalog: Catalog, folder: str) -> list[Landing]:
    """The folders to watch, relative ones below `folder`. Other paths than local ones have to be announced."""
    return [
        Landing(
            table=feed.table,
            folder=Path(landing_path(feed.landing, folder)),
            interval=feed.interval if isinstance(feed.interval, PatternInterval) else None,
        )
        for feed in catalog.feeds.values()
        if "://" not in feed.landing
    ]


class LandingWatcher:
    """A thread that takes in what lands. `start` and `stop`; a changed catalog gets a new one."""

    def __init__(self, database: Database, landings: Iterable[Landing]) -> None:
        self._database = database
        self._landings = {each.folder: each for each in landings}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freshet-landing", daemon=True)
        #: Path -> (size, time of change) of what has been taken in as it is.
        self._known: dict[Path, tuple[int, int]] = {}
        #: Path -> (size, time of change, since when) of what is not whole yet.
        self._growing: dict[Path, tuple[int, int, float]] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                for folder in self._landings:
                    folder.mkdir(parents=True, exist_ok=True)
                self._watch()
            except (OSError, OperationalError) as error:
                log.warning("The landing folders cannot be watched for now: %s", error)
                self._stopping.wait(1)

    def _watch(self) -> None:
        listed = 0.0
        changes = watch(
            *self._landings,
            watch_filter=None,
            debounce=100,
            step=20,
            rust_timeout=100,
            yield_on_timeout=True,
            stop_event=self._stopping,
            recursive=False,
        )
        for changed in changes:
            paths = {Path(path) for _, path in changed} | set(self._growing)
            if time.monotonic() - listed >= LIST_SECONDS:
                paths |= set(self._listing())
                listed = time.monotonic()
            if paths:
                self._take_in(sorted(paths))

    def _listing(self) -> Iterator[Path]:
        for folder in self._landings:
            yield from folder.iterdir()

    def _take_in(self, paths: Iterable[Path]) -> None:
        looked_at = ((path, self._whole(path)) for path in paths)
        whole = {path: seen for path, seen in looked_at if seen is not None and self._known.get(path) != seen}
        waiting = iter(whole.items())
        while some := dict(islice(waiting, TAKE_IN_AT_ONCE)):
            self._record(some)

    def _record(self, whole: Mapping[Path, tuple[int, int]]) -> None:
        found = [arrival for path in whole if (arrival := self._arrival(path)) is not None]
        new = arrivals.take_in(self._database, found)
        self._known.update(whole)
        if new:
            log.info("%d new file(s) taken in, of %d", len(new), len(found))

    def _whole(self, path: Path) -> tuple[int, int] | None:
        """(size, time of change) of a file that is complete; None for what is not, not yet, or not a file."""
        if path.name.startswith(".") or path.suffix in DRAFT_SUFFIXES or path.parent not in self._landings:
            return None
        try:
            found = path.stat(follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                return None
            now = (found.st_size, found.st_mtime_ns)
            if self._known.get(path) == now:
                self._growing.pop(path, None)
                return now
            *before, since = self._growing.get(path, (None, None, 0.0))
            if tuple(before) != now:
                since = time.monotonic()
                self._growing[path] = (*now, since)
            written = being_written(path)
        except FileNotFoundError:
            self._growing.pop(path, None)
            return None
        settle = SETTLE_SECONDS_UNSURE if written is None else SETTLE_SECONDS
        if written or time.monotonic() - since < settle:
            return None
        del self._growing[path]
        return now

    def _arrival(self, path: Path) -> arrivals.Arrival | None:
        landing = self._landings[path.parent]
        try:
            with path.open("rb") as file:
                content_hash = hashlib.file_digest(file, "sha256").hexdigest()
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            log.warning("%s landed and cannot be read: %s", path, error)
            return None
        covers: tuple[datetime, datetime] | tuple[None, None] = (None, None)
        if landing.interval is not None:
            try:
                covers = landing.interval.covered(path.name)
            except ValueError as error:
                log.warning("%s is taken in without the time it covers: %s", path, error)
        return arrivals.Arrival(
            table=landing.table,
            path=str(path),
            size_bytes=size,
            content_hash=content_hash,
            covers_from=covers[0],
            covers_to=covers[1],
        )


def being_written(path: Path) -> bool | None:
    """Whether a process has the file open for writing; None where the file system cannot tell.

    The kernel grants a read lease on a file only while nobody has it open for writing.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return None
    finally:
        os.close(descriptor)
