"""Writes the planned files into the feeds' landing folders, each when its time has come.

A file appears whole: it is written under a name that begins with a dot and renamed. The feeds' formats and column
types come from the catalog, as they do for whoever reads the files.
"""

import io
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from scheduler_plugin.catalog import Catalog, landing_path
from scheduler_plugin.demo.plan import Drop, Trouble, choose_window, plan
from scheduler_plugin.demo.source import EVENTS, REGISTERS, read

#: Instead of a file of flights: what a gateway says when the system behind it is down.
ERROR_PAGE = "<html><head><title>503 Service Unavailable</title></head><body>Try again later</body></html>\n"
#: Types of the catalog that are not written as text; CSV is text anyway.
NUMBERS = {"int": pl.Int32, "long": pl.Int64, "float": pl.Float32, "double": pl.Float64}


class Replay:
    """The plan, the landing folder, and what has been dropped so far."""

    def __init__(self, catalog: Catalog, landing: str, drops: Sequence[Drop]) -> None:
        self.catalog = catalog
        self.landing = landing
        self.drops = tuple(drops)
        self.dropped: list[Drop] = []

    @classmethod
    def prepare(cls, catalog: Catalog, landing: str, *, minutes: float = 4.0, speed: float | None = None) -> "Replay":
        """Reads the source and plans the replay. Takes a few seconds."""
        source = {feed: read(feed) for feed in EVENTS + REGISTERS}
        return cls(catalog, landing, plan(source, *choose_window(minutes, speed)))

    @property
    def seconds(self) -> float:
        return self.drops[-1].at_seconds if self.drops else 0.0

    def rows_sent(self) -> dict[str, int]:
        """Feed -> rows of the source that have been dropped so far, each counted once."""
        sent = dict.fromkeys(self.catalog.feeds, 0)
        for drop in self.dropped:
            sent[drop.feed] += drop.adds_rows
        return sent

    def run(
        self,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_drop: Callable[[Drop, Path], Any] = lambda drop, path: None,
    ) -> bool:
        """Drops every file at its time; False when stopped before the last. Called again, it goes on where it was."""
        left = self.drops[len(self.dropped) :]
        begun = clock() - (self.dropped[-1].at_seconds if self.dropped else 0.0)
        for drop in left:
            if stop.wait(max(0.0, begun + drop.at_seconds - clock())):
                return False
            on_drop(drop, self.write(drop))
        return True

    def write(self, drop: Drop) -> Path:
        """Puts one file in place and remembers it."""
        feed = self.catalog.feeds[drop.feed]
        folder = Path(landing_path(feed.landing, self.landing))
        folder.mkdir(parents=True, exist_ok=True)
        path, hidden = folder / drop.filename, folder / f".{drop.filename}.part"
        hidden.write_bytes(file_content(drop, feed.format, self.catalog.tables[feed.table].columns))
        hidden.replace(path)
        self.dropped.append(drop)
        return path


def file_content(drop: Drop, format: str, columns: Mapping[str, str]) -> bytes:
    """The file's bytes, in the feed's format."""
    if drop.trouble is Trouble.ERROR_PAGE:
        return ERROR_PAGE.encode()
    rows = drop.rows.select(pl.col(name).cast(NUMBERS.get(kind, pl.String)) for name, kind in columns.items())
    file = io.BytesIO()
    if format == "csv":
        rows.write_csv(file)
        if drop.trouble is Trouble.CUT_LINE:
            # The first row over again, as far as its third column.
            file.write(",".join(map(str, rows.row(0)[:3])).encode())
    elif format == "json":
        rows.write_ndjson(file)
    else:
        rows.write_parquet(file)
    return file.getvalue()
