"""What the replay will drop, and when: a pure plan, the same for the same input.

Flights and weather come in event-time order, a file every few simulated hours, and every hour while the storm of
8 and 9 February 2013 lasts: half the flights were cancelled, and more files land than can be loaded one by one. The
registers (planes, airports, airlines) come in parts: most of each at the start, the rest now and then.

Three things go wrong on purpose, so that there is something to see: a feed delivers an error page for a file (the
right one follows later), a file is delivered twice, and the source really holds a wind of 1,048 mph.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from scheduler_plugin.demo.source import EVENTS, REGISTERS, Row

HOUR = timedelta(hours=1)
#: Seconds of the replay between files of a feed when nothing special happens.
QUIET_SECONDS = 2.8
#: Shares of the replay after which another part of each register arrives.
REGISTER_PARTS = (0.0, 0.25, 0.5, 0.75)
FIRST_PART = 0.85
EXTENSIONS = {"planes": "parquet", "airports": "json"}
#: Instead of a file of flights; what a gateway says when the system behind it is down.
ERROR_PAGE = "<html><head><title>503 Service Unavailable</title></head><body>Try again later</body></html>\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of 2013, start included and end not; whole hours, aware."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


#: Midnight to midnight in New York (UTC-5 in winter): the days before, the storm, the mending, and the impossible wind.
STORM_WEEK = Window(start=datetime(2013, 2, 5, 5, tzinfo=UTC), end=datetime(2013, 2, 13, 5, tzinfo=UTC))
#: From noon on the 8th, when cancelling began, to the end of the 9th.
STORM = Window(start=datetime(2013, 2, 8, 17, tzinfo=UTC), end=datetime(2013, 2, 10, 5, tzinfo=UTC))
YEAR = Window(start=datetime(2013, 1, 1, 5, tzinfo=UTC), end=datetime(2014, 1, 1, 5, tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """One file that lands."""

    #: Seconds after the replay begins.
    at_seconds: float
    feed: str
    filename: str
    rows: tuple[Row, ...]
    #: How many of the rows should be in the table in the end.
    loaded: int
    trouble: Literal["error page", "delivered twice", None] = None


def choose_window(minutes: float, speed: float | None = None) -> tuple[Window, float]:
    """The stretch of 2013 to replay in so many minutes, and the simulated seconds that pass in a second.

    Without a speed it is the storm's week, however fast that makes it; with one, as many whole hours as fit, with the
    storm a little past the middle.
    """
    if minutes <= 0 or (speed is not None and speed <= 0):
        raise ValueError("minutes and speed must be above 0")
    if speed is None:
        return STORM_WEEK, STORM_WEEK.seconds / (minutes * 60)
    length = min(max(1, round(minutes * 60 * speed / 3600)) * HOUR, YEAR.end - YEAR.start)
    middle = STORM.start + (STORM.end - STORM.start) / 2
    start = min(max(middle - round(0.55 * (length / HOUR)) * HOUR, YEAR.start), YEAR.end - length)
    return Window(start=start, end=start + length), speed


def plan(rows: Mapping[str, Sequence[Row]], window: Window, speed: float, begins_at: datetime) -> list[Drop]:
    """Every file of the replay in order of time. `rows`: feed -> its rows inside the window (registers: all)."""
    drops: list[Drop] = []
    for feed in EVENTS:
        drops += _events(feed, rows[feed], window, speed, begins_at)
    for feed in REGISTERS:
        drops += _register(feed, rows[feed], window.seconds / speed, begins_at)
    return sorted(drops, key=lambda drop: (drop.at_seconds, drop.feed, drop.filename))


def expected_rows(drops: Iterable[Drop]) -> dict[str, int]:
    """Feed -> rows that its table holds once all of these files have been dealt with."""
    found: dict[str, int] = {}
    for drop in drops:
        found[drop.feed] = found.get(drop.feed, 0) + drop.loaded
    return found


def _events(feed: str, rows: Sequence[Row], window: Window, speed: float, begins_at: datetime) -> list[Drop]:
    """A file for every block of hours that has rows; one without (no flights at night) is covered by the next."""
    by_hour: dict[str, list[Row]] = {}
    for row in rows:
        by_hour.setdefault(str(row["time_hour"]), []).append(row)
    drops: list[Drop] = []
    covered = 0.0
    for start, end in _blocks(window, speed):
        hours = [start + number * HOUR for number in range(round((end - start) / HOUR))]
        inside = tuple(row for hour in hours for row in by_hour.get(f"{hour:%Y-%m-%dT%H:%M:%SZ}", ()))
        if not inside:
            continue
        at = (end - window.start).total_seconds() / speed
        drops.append(
            Drop(
                at_seconds=at,
                feed=feed,
                filename=_filename(feed, f"{start:%Y-%m-%dT%H}", covered, at, begins_at),
                rows=inside,
                loaded=sum(not _breaks_an_expectation(row) for row in inside),
            )
        )
        covered = at
    # A short replay has too few files for anything to go wrong in.
    if len(drops) < 12:
        return drops
    return _with_error_page(drops, begins_at) if feed == "flights" else _with_second_delivery(drops, begins_at)


def _blocks(window: Window, speed: float) -> list[tuple[datetime, datetime]]:
    quiet = max(1, round(QUIET_SECONDS * speed / 3600))
    blocks = []
    start = window.start
    while start < window.end:
        stormy = STORM.start <= start < STORM.end
        end = min(start + (max(1, quiet // 3) if stormy else quiet) * HOUR, window.end)
        if start < STORM.start < end:
            end = STORM.start
        blocks.append((start, end))
        start = end
    return blocks


def _with_error_page(drops: list[Drop], begins_at: datetime) -> list[Drop]:
    """A quarter into the replay a file is an error page; what should have been in it comes two files later."""
    number = len(drops) // 4
    lost, later = drops[number], drops[number + 2]
    page = Drop(
        at_seconds=lost.at_seconds,
        feed=lost.feed,
        filename=lost.filename,
        rows=(),
        loaded=0,
        trouble="error page",
    )
    begun = drops[number - 1].at_seconds
    again = Drop(
        at_seconds=later.at_seconds,
        feed=lost.feed,
        filename=_filename(lost.feed, "resent", begun, later.at_seconds, begins_at),
        rows=lost.rows,
        loaded=lost.loaded,
    )
    return [*drops[:number], page, *drops[number + 1 :], again]


def _with_second_delivery(drops: list[Drop], begins_at: datetime) -> list[Drop]:
    """A third into the replay a file comes once more, under another name."""
    number = len(drops) // 3
    first, following = drops[number], drops[number + 1]
    twice = Drop(
        at_seconds=following.at_seconds,
        feed=first.feed,
        filename=_filename(first.feed, "again", first.at_seconds, following.at_seconds, begins_at),
        rows=first.rows,
        loaded=0,
        trouble="delivered twice",
    )
    return [*drops, twice]


def _register(feed: str, rows: Sequence[Row], seconds: float, begins_at: datetime) -> list[Drop]:
    first = round(len(rows) * FIRST_PART)
    later = len(REGISTER_PARTS) - 1
    cuts = [0, *(first + (len(rows) - first) * number // later for number in range(later + 1))]
    drops = []
    for number, share in enumerate(REGISTER_PARTS):
        part = tuple(rows[cuts[number] : cuts[number + 1]])
        at = share * seconds
        begun = at - seconds / len(REGISTER_PARTS)
        name = _filename(feed, f"part{number + 1}", begun, at, begins_at)
        drops.append(Drop(at_seconds=at, feed=feed, filename=name, rows=part, loaded=len(part)))
    return drops


def _breaks_an_expectation(row: Row) -> bool:
    """Whether the gate will drop the row: only the impossible wind (include/expectations/weather.yml)."""
    return float(row.get("wind_speed") or 0) > 200


def _filename(feed: str, tag: str, start: float, end: float, begins_at: datetime) -> str:
    """The name says which stretch of the replay the file covers, to the millisecond (the pattern in the catalog)."""
    since, until = (
        (begins_at + timedelta(seconds=seconds)).astimezone(UTC).isoformat(timespec="milliseconds")
        for seconds in (start, end)
    )
    stamps = "_".join(each.replace("-", "").replace(":", "").replace("+0000", "Z") for each in (since, until))
    return f"{feed}_{tag}_{stamps}.{EXTENSIONS.get(feed, 'csv')}"
