"""Writes the planned files into the feeds' landing folders, each when its time has come.

A file appears whole: it is written under a name that begins with a dot and renamed. The feeds' formats and column
types come from the catalog, as they do for whoever reads the files.
"""

import csv
import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler_plugin.catalog import Catalog, landing_path
from scheduler_plugin.demo.plan import ERROR_PAGE, Drop, choose_window, expected_rows, plan
from scheduler_plugin.demo.source import EVENTS, REGISTERS, Row, read_rows

NUMBERS: dict[str, Callable[[str], Any]] = {"int": int, "long": int, "float": float, "double": float}


class Replay:
    """The plan, the folders, and what has been dropped so far."""

    def __init__(self, catalog: Catalog, landing: str, drops: Sequence[Drop]) -> None:
        self.catalog = catalog
        self.landing = landing
        self.drops = tuple(drops)
        self.dropped: list[Drop] = []

    @classmethod
    def prepare(
        cls, catalog: Catalog, landing: str, *, begins_at: datetime, minutes: float = 3, speed: float | None = None
    ) -> "Replay":
        """Reads the source and plans the replay. Takes about a second."""
        window, speed = choose_window(minutes, speed)
        rows: dict[str, list[Row]] = {feed: list(read_rows(feed, window.start, window.end)) for feed in EVENTS}
        rows |= {feed: list(read_rows(feed)) for feed in REGISTERS}
        return cls(catalog, landing, plan(rows, window, speed, begins_at))

    @property
    def seconds(self) -> float:
        return self.drops[-1].at_seconds if self.drops else 0.0

    def expected_rows(self) -> dict[str, int]:
        """Feed -> rows its table should hold once everything dropped so far has been dealt with."""
        return {**dict.fromkeys(self.catalog.feeds, 0), **expected_rows(self.dropped)}

    def run(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Any] = time.sleep,
        on_drop: Callable[[Drop, Path], Any] = lambda drop, path: None,
    ) -> None:
        """Drops every file at its time. `pause` may be `Event.wait`: a true answer ends the replay."""
        begun = clock()
        for drop in self.drops:
            while (left := begun + drop.at_seconds - clock()) > 0:
                if pause(left):
                    return
            on_drop(drop, self.write(drop))

    def write(self, drop: Drop) -> Path:
        """Puts one file in place and remembers it."""
        feed = self.catalog.feeds[drop.feed]
        columns = self.catalog.tables[feed.table].columns
        folder = Path(landing_path(feed.landing, self.landing))
        folder.mkdir(parents=True, exist_ok=True)
        path, hidden = folder / drop.filename, folder / f".{drop.filename}.part"
        if drop.trouble == "error page":
            hidden.write_text(ERROR_PAGE)
        else:
            rows = [{name: _value(row.get(name), kind) for name, kind in columns.items()} for row in drop.rows]
            WRITERS[feed.format](hidden, list(columns), rows)
        hidden.replace(path)
        self.dropped.append(drop)
        return path


def _value(text: str | None, kind: str) -> Any:
    return None if text is None else NUMBERS.get(kind, str)(text)


def _write_csv(path: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _write_json(path: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


def _write_parquet(path: Path, columns: list[str], rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows), path)


WRITERS: dict[str, Callable[[Path, list[str], list[dict[str, Any]]], None]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}
