"""Watches the local landing folders and takes whole files in.

A file is whole when nobody has it open for writing and it has not changed for a moment; where the file system cannot
tell who writes, the moment is longer; a feed may name the moment, or a marker file that says so. Names that begin with
a dot or end in .tmp or .part are drafts. Changes are told by inotify where there is one; a listing now and then finds
what it missed. What lies there and is no file goes to quarantine, so that somebody hears of it.
"""

import fcntl
import hashlib
import logging
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from sqlalchemy.exc import OperationalError
from watchfiles import watch

from scheduler_plugin.live.announce import Landing, arrival, refusal
from scheduler_plugin.store import arrivals
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)

#: Seconds a file must have been left alone: when it is known that nobody writes, and when that cannot be known.
SETTLE_SECONDS = 0.1
SETTLE_SECONDS_UNSURE = 1.0
#: Seconds between two listings.
LIST_SECONDS = 10.0
#: Files taken in within one transaction: a job that settles meanwhile waits no longer than this takes.
TAKE_IN_AT_ONCE = 500
DRAFT_SUFFIXES = (".tmp", ".part")


class LandingWatcher:
    """A thread that takes in what lands in local folders. `start` and `stop`; a changed catalog gets a new one."""

    def __init__(self, database: Database, landings: Iterable[Landing]) -> None:
        self._database = database
        self._landings = {Path(each.folder): each for each in landings if not each.remote}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freshet-landing", daemon=True)
        #: Path -> (size, time of change) of what has been taken in as it is; None before the ledger was asked.
        self._known: dict[Path, tuple[int, int]] | None = None
        #: Path -> (size, time of change, since when) of what is not whole yet.
        self._growing: dict[Path, tuple[int, int, float]] = {}
        #: What could not be opened, and has been complained of.
        self._unreadable: set[Path] = set()

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
            paths = {self._data(Path(path)) for _, path in changed} | set(self._growing)
            if time.monotonic() - listed >= LIST_SECONDS:
                paths |= set(self._listing())
                listed = time.monotonic()
            if paths:
                self.take_in(paths)

    def _listing(self) -> Iterator[Path]:
        for folder in self._landings:
            yield from folder.iterdir()

    def _data(self, path: Path) -> Path:
        """The file that a marker speaks of; any other path as it is."""
        landing = self._landings.get(path.parent)
        name = path.name.removesuffix(landing.done or "") if landing else ""
        return path.with_name(name) if name else path

    def take_in(self, paths: Iterable[Path]) -> None:
        """Takes in what of these is whole, oldest first, and does not know yet."""
        if self._known is None:
            names = [each.table for each in self._landings.values()]
            self._known = {Path(path): seen for path, seen in arrivals.known(self._database, names).items()}
        whole = [(path, seen) for path in paths if (seen := self._whole(path, self._known)) is not None]
        waiting = iter(sorted(whole, key=lambda each: (each[1][1], each[0])))
        while some := dict(islice(waiting, TAKE_IN_AT_ONCE)):
            found = [each for path, seen in some.items() if (each := self._arrival(path, seen)) is not None]
            new = arrivals.take_in(self._database, found)
            self._known.update(some)
            if new:
                log.info("%d new file(s) taken in, of %d", len(new), len(found))

    def _whole(self, path: Path, known: dict[Path, tuple[int, int]]) -> tuple[int, int] | None:
        """(size, time of change) of what is complete and news; None for anything else."""
        landing = self._landings.get(path.parent)
        if landing is None or path.name.startswith(".") or path.suffix in DRAFT_SUFFIXES:
            return None
        if landing.done is not None and path.name.endswith(landing.done):
            return None
        try:
            found = path.stat(follow_symlinks=False)
            now = (found.st_size, found.st_mtime_ns)
            if known.get(path) == now:
                self._growing.pop(path, None)
                return None
            if not stat.S_ISREG(found.st_mode):
                return now
            if landing.done is not None:
                return now if path.with_name(path.name + landing.done).exists() else None
            *before, since = self._growing.get(path, (None, None, 0.0))
            if tuple(before) != now:
                since = time.monotonic()
                self._growing[path] = (*now, since)
            written = being_written(path)
            self._unreadable.discard(path)
        except FileNotFoundError:
            self._growing.pop(path, None)
            known.pop(path, None)
            return None
        except OSError as error:
            self._growing.pop(path, None)
            if path not in self._unreadable:
                log.warning("%s landed and cannot be read: %s. It is looked at again.", path, error)
            self._unreadable.add(path)
            return None
        settle = SETTLE_SECONDS_UNSURE if written is None else SETTLE_SECONDS
        settle = settle if landing.settle is None else landing.settle
        if written or time.monotonic() - since < settle:
            return None
        del self._growing[path]
        return now

    def _arrival(self, path: Path, seen: tuple[int, int]) -> arrivals.Arrival | None:
        landing = self._landings[path.parent]
        if reason := _unfit(path):
            log.warning("%s: %s", path, reason)
            return refusal(landing, str(path), reason, modified_ns=seen[1])
        try:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            log.warning("%s landed and cannot be read: %s", path, error)
            return None
        return arrival(landing, str(path), size=size, content_hash=content, modified_ns=seen[1])


def _unfit(path: Path) -> str | None:
    """Why this can never be loaded; None for a plain file."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8; rename it"
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"it is a link, to {path.readlink()}; put the file itself there, or announce it where it is"
    if stat.S_ISDIR(mode):
        return "it is a folder; put its files into the landing folder itself"
    return None if stat.S_ISREG(mode) else "it is no file but a pipe, a socket or a device"


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
