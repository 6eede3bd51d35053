"""What a catalog says, as values: feeds, tables, views, slots, groups, policy.

All durations are seconds. Mappings keep the order of the file. A catalog that exists has passed every check, so
nobody who holds one needs to check again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from re import Pattern
from typing import Any, Literal

from scheduler_plugin.catalog.alerts import Alert

OnFail = Literal["block", "drop", "warn"]
DEFAULT_OWNER = "freshet"


def landing_path(landing: str, base: str) -> str:
    """Where a feed's files land: `landing` as written, or below `base`, the installation's landing folder or URL."""
    return landing if "://" in landing or Path(landing).is_absolute() else f"{base.rstrip('/')}/{landing}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnInterval:
    """A file covers the time from its smallest value of a column to its largest plus `length`."""

    column: str
    #: How long one value stands for: 3600 for a column that names hours.
    length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternInterval:
    """A file's name says which time it covers: groups `start` and, unless it is always one `length`, `end`."""

    pattern: Pattern[str]
    #: strptime format of the groups; a time without a zone is UTC.
    format: str
    length: float

    def covered(self, filename: str) -> tuple[datetime, datetime]:
        """The covered interval, aware. ValueError says what is wrong with the name."""
        match = self.pattern.fullmatch(filename)
        if match is None:
            raise ValueError(f"the file name `{filename}` does not match the feed's pattern `{self.pattern.pattern}`")
        start = self._time(filename, match["start"])
        end = match.groupdict().get("end")
        until = start + timedelta(seconds=self.length) if end is None else self._time(filename, end)
        if until <= start:
            raise ValueError(f"the file name `{filename}` covers no time: it ends at {until} and starts at {start}")
        return start, until

    def _time(self, filename: str, text: str) -> datetime:
        try:
            time = datetime.strptime(text, self.format)  # noqa: DTZ007 - a zone is added below where there is none
        except ValueError:
            raise ValueError(f"`{text}` in the file name `{filename}` is not a time like `{self.format}`") from None
        return time if time.tzinfo else time.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """An external source that drops files for one table."""

    name: str
    table: str
    #: As written: an absolute path, a URL that fsspec reads, or a path below the installation's landing folder.
    landing: str
    format: Literal["csv", "json", "parquet"]
    #: None: it is not known which time a file is about.
    interval: ColumnInterval | PatternInterval | None
    #: Seconds between files, as far as is known beforehand.
    period: float
    #: Seconds a file must have been left alone to count as whole; None: as long as where it lies makes necessary.
    settle: float | None
    #: A file is whole when one of its name and this suffix lies beside it; None: nothing says so.
    done: str | None
    #: Bytes of files that one batch may have; a single larger file is a batch of its own.
    max_batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One entry of `include/expectations/<table>.yml`: a great-expectations type, its arguments, what failing does."""

    expect: str
    #: block: the batch is not loaded; drop: the rows that fail are left out; warn: it is written down.
    on_fail: OnFail
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A base table, and what its feed's entry says about it."""

    name: str
    feed: str
    #: Column -> type, as Spark and Iceberg name them.
    columns: Mapping[str, str]
    #: Columns that tell rows apart; empty when nothing does.
    key: tuple[str, ...]
    expectations: tuple[Expectation, ...]
    weight: float
    #: Seconds; None is no limit.
    staleness_limit: float | None
    #: Reads per minute to assume until real ones have been counted.
    access: float
    #: Whom Airflow names as the owner of its DAG.
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An object derived by SQL. Its parents are read from the SQL and nowhere else."""

    name: str
    sql: str
    #: Tables and views, by name, in alphabetical order.
    parents: tuple[str, ...]
    #: False: virtual, never run.
    materialized: bool
    weight: float
    staleness_limit: float | None
    access: float
    owner: str
    #: While a table it is made from has files in quarantine: it goes on, or waits until somebody has dealt with them.
    when_parent_blocked: Literal["refresh", "hold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Objects whose jobs have the first right to these slots; idle ones are lent."""

    name: str
    slots: int
    objects: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which policy ranks, and its parameters."""

    name: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many seconds upkeep keeps what has served its purpose."""

    #: Loaded source files in the archive; a backfill cannot reach further back.
    archive: float
    #: Snapshots that nobody needs any more.
    snapshots: float
    #: Decisions, jobs, costs, quality results, reads and freshness spells.
    history: float
    #: Airflow's own runs, with their tasks and logs' rows.
    airflow: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file or folder the catalog was read from, as it was then."""

    path: Path
    #: (modified, bytes), or None where nothing was there.
    seen: tuple[int, int] | None

    @classmethod
    def of(cls, path: Path) -> "Source":
        try:
            found = path.stat()
        except OSError:
            return cls(path=path, seen=None)
        return cls(path=path, seen=(found.st_mtime_ns, found.st_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A whole, checked catalog."""

    path: Path
    slots: int
    groups: Mapping[str, Group]
    alerts: Mapping[str, Alert]
    policy: Policy
    tick_seconds: float
    #: When more unprocessed bytes wait than this, what frees most of them per second goes first; None: never.
    burst_bytes: int | None
    #: Seconds in which a read loses half its weight in the popularity.
    access_half_life: float
    retention: Retention
    feeds: Mapping[str, Feed]
    tables: Mapping[str, Table]
    views: Mapping[str, View]
    #: Object names by distance from the feeds: tables first, then each view one level above its highest parent.
    levels: tuple[tuple[str, ...], ...]
    #: Hash of the content of every file the catalog consists of.
    fingerprint: str
    sources: tuple[Source, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """Every object after all of its parents."""
        return tuple(name for level in self.levels for name in level)

    def parents(self, name: str) -> tuple[str, ...]:
        return self.views[name].parents if name in self.views else ()

    def unchanged_on_disk(self) -> bool:
        """Whether no file has been touched since: one `stat` each, so cheap enough for every tick."""
        return all(Source.of(source.path) == source for source in self.sources)
