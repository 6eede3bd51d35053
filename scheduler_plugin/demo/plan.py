"""What the replay will drop, and when: a pure plan, the same for the same input.

Flights and weather come in event-time order, a file every few simulated hours, and four times as often while the storm
of 8 and 9 February 2013 lasts: half the flights were cancelled, and more lands than can be refreshed one by one. The
registers (planes, airports, airlines) come in parts: most of each at the start, the rest now and then.

Some things go wrong on purpose, so that there is something to see: a feed delivers an error page for a file (the right
one follows later), a file is delivered twice, and one ends in a line that was cut off. The source itself adds a wind of
1,048 mph.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import polars as pl

from scheduler_plugin.demo.source import EVENTS, REGISTERS

HOUR = timedelta(hours=1)
#: Seconds of the replay between files of a feed when nothing special happens.
QUIET_SECONDS = 25.0
#: How much more often files land in the storm.
SURGE = 4
#: Shares of the replay after which another part of each register arrives, and how much of it comes first.
REGISTER_PARTS = (0.0, 0.25, 0.5, 0.75)
FIRST_PART = 0.85
EXTENSIONS = {"planes": "parquet", "airports": "json"}
#: A replay with fewer files of a feed has too few for anything to go wrong in.
FEWEST_FOR_TROUBLE = 12


class Trouble(StrEnum):
    ERROR_PAGE = "error page"
    TWICE = "delivered twice"
    CUT_LINE = "cut line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of 2013, start included and end not; whole hours, aware."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


#: Midnight to midnight in New York (UTC-5 in winter): days before, the storm, the mending, and the impossible wind.
STORM_WEEK = Window(start=datetime(2013, 2, 5, 5, tzinfo=UTC), end=datetime(2013, 2, 13, 5, tzinfo=UTC))
#: From noon on the 8th, when cancelling began, to the end of the 9th.
STORM = Window(start=datetime(2013, 2, 8, 17, tzinfo=UTC), end=datetime(2013, 2, 10, 5, tzinfo=UTC))
YEAR = Window(start=datetime(2013, 1, 1, 5, tzinfo=UTC), end=datetime(2014, 1, 1, 5, tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drop:
    """One file that lands."""

    #: Seconds after the replay begins.
    at_seconds: float
    feed: str
    filename: str
    rows: pl.DataFrame
    #: The stretch of 2013 it holds; None for a part of a register.
    covers: Window | None = None
    trouble: Trouble | None = None

    @property
    def adds_rows(self) -> int:
        """Rows of the source that come with this file and with none before it."""
        return 0 if self.trouble in (Trouble.ERROR_PAGE, Trouble.TWICE) else self.rows.height


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


def plan(source: Mapping[str, pl.DataFrame], window: Window, speed: float) -> list[Drop]:
    """Every file of the replay in order of time. `source`: feed -> all its rows, as `source.read` gives them."""
    drops: list[Drop] = []
    for feed in EVENTS:
        drops += _events(feed, source[feed], window, speed)
    for feed in REGISTERS:
        drops += _register(feed, source[feed], window.seconds / speed)
    return sorted(drops, key=lambda drop: (drop.at_seconds, drop.feed, drop.filename))


def _events(feed: str, rows: pl.DataFrame, window: Window, speed: float) -> list[Drop]:
    """A file for every block of hours that has rows; one without (no flights at night) is covered by the next."""
    rows = rows.sort("time_hour", maintain_order=True)
    hours = rows["time_hour"]
    drops: list[Drop] = []
    covered = window.start
    for end in _block_ends(window, speed):
        first, last = (int(hours.search_sorted(f"{moment:%Y-%m-%dT%H:%M:%SZ}")) for moment in (covered, end))
        if first == last:
            continue
        drops.append(
            Drop(
                at_seconds=(end - window.start).total_seconds() / speed,
                feed=feed,
                filename=f"{feed}_{covered:%Y%m%dT%H%M%SZ}_{end:%Y%m%dT%H%M%SZ}.{EXTENSIONS.get(feed, 'csv')}",
                rows=rows.slice(first, last - first),
                covers=Window(start=covered, end=end),
            )
        )
        covered = end
    if len(drops) < FEWEST_FOR_TROUBLE:
        return drops
    return _troubled_flights(drops) if feed == "flights" else _troubled_weather(drops)


def _block_ends(window: Window, speed: float) -> list[datetime]:
    quiet = max(1, round(QUIET_SECONDS * speed / 3600))
    ends = []
    at = window.start
    while at < window.end:
        stormy = STORM.start <= at < STORM.end
        end = min(at + (max(1, quiet // SURGE) if stormy else quiet) * HOUR, window.end)
        at = STORM.start if at < STORM.start < end else end
        ends.append(at)
    return ends


def _troubled_flights(drops: list[Drop]) -> list[Drop]:
    """A quarter in, a file is an error page and comes properly two files later; halfway, one ends in a cut line."""
    lost, cut = len(drops) // 4, len(drops) // 2
    late = replace(drops[lost], at_seconds=drops[lost + 2].at_seconds, filename=_renamed(drops[lost], "resent"))
    drops[lost] = replace(drops[lost], trouble=Trouble.ERROR_PAGE)
    drops[cut] = replace(drops[cut], trouble=Trouble.CUT_LINE)
    return [*drops, late]


def _troubled_weather(drops: list[Drop]) -> list[Drop]:
    """A third in, a file comes once more under another name, with the one after it."""
    number = len(drops) // 3
    again = replace(
        drops[number],
        at_seconds=drops[number + 1].at_seconds,
        filename=_renamed(drops[number], "again"),
        trouble=Trouble.TWICE,
    )
    return [*drops, again]


def _renamed(drop: Drop, tag: str) -> str:
    stem, _, extension = drop.filename.rpartition(".")
    return f"{stem}_{tag}.{extension}"


def _register(feed: str, rows: pl.DataFrame, seconds: float) -> list[Drop]:
    first = round(rows.height * FIRST_PART)
    later = len(REGISTER_PARTS) - 1
    cuts = [0, *(first + (rows.height - first) * number // later for number in range(later + 1))]
    return [
        Drop(
            at_seconds=share * seconds,
            feed=feed,
            filename=f"{feed}_part{number + 1}.{EXTENSIONS.get(feed, 'csv')}",
            rows=rows.slice(cuts[number], cuts[number + 1] - cuts[number]),
        )
        for number, share in enumerate(REGISTER_PARTS)
        if cuts[number] < cuts[number + 1]  # there are only 16 airlines
    ]
