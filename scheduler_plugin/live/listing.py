"""Finds new files in landing places that cannot be watched, by listing them: any path that fsspec reads.

A file is whole when two listings, at least `settle` apart, show it unchanged, or when the feed's marker lies beside it.
"""

import logging
import threading
import time
from collections.abc import Iterable
from typing import Any

import fsspec
from sqlalchemy.exc import OperationalError

from scheduler_plugin.live.announce import Landing, arrival, content
from scheduler_plugin.live.landing import DRAFT_SUFFIXES, LIST_SECONDS, TAKE_IN_AT_ONCE
from scheduler_plugin.store import arrivals
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)

#: What file systems call the sign that a file has changed; the first that a listing has is used.
STAMPS = ("ETag", "etag", "LastModified", "last_modified", "mtime", "modified", "updated", "created")


class LandingLister:
    """A thread that takes in what lands in remote places. `start` and `stop`; a changed catalog gets a new one."""

    def __init__(self, database: Database, landings: Iterable[Landing]) -> None:
        self._database = database
        self._landings = [each for each in landings if each.remote]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freshet-listing", daemon=True)
        #: Path -> what a listing said of it when it was taken in.
        self._known: dict[str, tuple[int, str]] = {}
        #: Path -> what a listing said of it, and since when.
        self._seen: dict[str, tuple[tuple[int, str], float]] = {}

    def start(self) -> None:
        if self._landings:
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._landings:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stopping.is_set():
            for landing in self._landings:
                try:
                    self.look(landing)
                # Each file system has errors of its own; one that is away must not keep the others from being listed.
                except Exception as error:
                    log.warning("%s cannot be listed for now: %s", landing.folder, error)
            self._stopping.wait(LIST_SECONDS)

    def look(self, landing: Landing) -> None:
        """Lists one place and takes in what is whole."""
        system, folder = fsspec.core.url_to_fs(landing.folder)
        system.invalidate_cache(folder)
        if not system.exists(folder):
            return
        listed: dict[str, dict[str, Any]] = {
            each["name"]: each for each in system.ls(folder, detail=True) if each["type"] == "file"
        }
        whole = {path: said for path, each in listed.items() if (said := self._whole(landing, path, each, listed))}
        found = []
        for path, said in whole.items():
            digest, size = content(system, path)
            found.append(
                (
                    path,
                    said,
                    arrival(
                        landing,
                        f"{landing.folder.rstrip('/')}/{path.rsplit('/', 1)[-1]}",
                        size=size,
                        content_hash=digest,
                    ),
                )
            )
            if len(found) == TAKE_IN_AT_ONCE:
                self._take_in(found)
                found = []
        self._take_in(found)

    def _take_in(self, found: list[tuple[str, tuple[int, str], arrivals.Arrival]]) -> None:
        if not found:
            return
        try:
            new = arrivals.take_in(self._database, [each for _, _, each in found])
        except OperationalError as error:
            log.warning("What landed cannot be written down for now: %s", error)
            return
        self._known.update({path: said for path, said, _ in found})
        if new:
            log.info("%d new file(s) taken in, of %d", len(new), len(found))

    def _whole(
        self, landing: Landing, path: str, entry: dict[str, Any], listed: dict[str, dict[str, Any]]
    ) -> tuple[int, str] | None:
        name = path.rsplit("/", 1)[-1]
        if name.startswith(".") or name.endswith(DRAFT_SUFFIXES) or (landing.done and name.endswith(landing.done)):
            return None
        said = (int(entry["size"] or 0), str(next((entry[stamp] for stamp in STAMPS if entry.get(stamp)), "")))
        if self._known.get(path) == said:
            return None
        if landing.done is not None:
            return said if path + landing.done in listed else None
        before, since = self._seen.get(path, (None, 0.0))
        if before != said:
            self._seen[path] = (said, time.monotonic())
            return None
        if time.monotonic() - since < (landing.settle or 0.0):
            return None
        del self._seen[path]
        return said
