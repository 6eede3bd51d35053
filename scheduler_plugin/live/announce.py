"""Files as arrivals: what a landed path tells of itself, and telling of files by hand.

No Airflow in here: the command line and the page announce files by the same function.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import fsspec

from scheduler_plugin.catalog import Catalog, PatternInterval, landing_path
from scheduler_plugin.catalog.rows import interval_rule
from scheduler_plugin.store import arrivals, objects
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where one table's files land, how their names tell what they cover, and when one is whole."""

    table: str
    #: An absolute path, or a URL that fsspec reads.
    folder: str
    interval: PatternInterval | None = None
    #: See `Feed`.
    settle: float | None = None
    done: str | None = None

    @property
    def remote(self) -> bool:
        return "://" in self.folder


class AnnounceError(Exception):
    """Why a file cannot be announced; for the person who did."""


def landings(catalog: Catalog, folder: str) -> list[Landing]:
    """The places to watch, relative ones below `folder`."""
    return [
        Landing(
            table=feed.table,
            folder=landing_path(feed.landing, folder),
            interval=feed.interval if isinstance(feed.interval, PatternInterval) else None,
            settle=feed.settle,
            done=feed.done,
        )
        for feed in catalog.feeds.values()
    ]


def arrival(
    landing: Landing, path: str, *, size: int, content_hash: str, modified_ns: int | None = None
) -> arrivals.Arrival:
    """A whole file of this landing."""
    covers: tuple[datetime, datetime] | tuple[None, None] = (None, None)
    if landing.interval is not None:
        try:
            covers = landing.interval.covered(path.rsplit("/", 1)[-1])
        except ValueError as error:
            log.warning("%s is taken in without the time it covers: %s", path, error)
    return arrivals.Arrival(
        table=landing.table,
        path=path,
        size_bytes=size,
        content_hash=content_hash,
        covers_from=covers[0],
        covers_to=covers[1],
        modified_ns=modified_ns,
    )


def refusal(landing: Landing, path: str, reason: str, *, modified_ns: int | None = None) -> arrivals.Arrival:
    """Something that can never be loaded; it is kept in mind by its name, having no content."""
    readable = path.encode(errors="backslashreplace").decode()
    return arrivals.Arrival(
        table=landing.table,
        path=readable,
        size_bytes=0,
        content_hash=hashlib.sha256(f"no file: {readable}".encode()).hexdigest(),
        modified_ns=modified_ns,
        refused=f"{readable}: {reason}",
    )


def announce(database: Database, feed: str, paths: Sequence[str]) -> list[int]:
    """Takes whole files in for a feed, wherever they lie. Returns the new updates: none for content that is known.

    All or nothing: a path that cannot be read is refused by name, and then nothing is taken in.
    """
    landing = _landing(database, feed)
    return arrivals.take_in(database, [_announced(landing, path) for path in paths])


def content(system: Any, path: str) -> tuple[str, int]:
    """A file's hash and how many bytes it has."""
    digest, size = hashlib.sha256(), 0
    with system.open(path, "rb") as file:
        for chunk in _chunks(file):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def _chunks(file: Any) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _landing(database: Database, feed: str) -> Landing:
    catalog = objects.in_force(database)
    tables = [each for each in catalog.objects if each.kind == "table"] if catalog else []
    for row in tables:
        if row.spec["feed"] == feed:
            rule = interval_rule(row.spec)
            return Landing(table=row.name, folder="/", interval=rule if isinstance(rule, PatternInterval) else None)
    names = ", ".join(sorted(row.spec["feed"] for row in tables))
    raise AnnounceError(f"there is no feed `{feed}`" + (f"; there is {names}." if names else " yet."))


def _announced(landing: Landing, path: str) -> arrivals.Arrival:
    try:
        path.encode()
        system, bare = fsspec.core.url_to_fs(path)
        # A local path must be found from anywhere, not only from where somebody typed it.
        spelt = bare if "://" not in path else path
        if system.isdir(bare):
            raise AnnounceError(f"{path} is a folder. Announce its files.")
        digest, size = content(system, bare)
    except FileNotFoundError:
        raise AnnounceError(f"{path} does not exist.") from None
    except (OSError, ValueError, ImportError) as error:
        raise AnnounceError(f"{path} cannot be read: {error}") from error
    return arrival(landing, spelt, size=size, content_hash=digest)
