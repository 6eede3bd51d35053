"""The demo's readers: who reads what and when is a pure plan, skewed as real reads are; then it is read for real.

Reads come as a Poisson stream; each falls on an object in proportion to its popularity (the catalog's `access`, which
falls like 1/rank in the demo: Zipf's law). A read fetches the first rows of the object's present snapshot with DuckDB,
some 10 ms of work; a virtual view is worked out when it is read.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_plugin.catalog import Catalog
from scheduler_plugin.demo import duck

#: Seconds between two rounds: reads are done and counted together, soon enough to meet what they would have met.
ROUND_SECONDS = 0.5
FIRST_ROWS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One read of an object."""

    #: Seconds after the replay begins.
    at_seconds: float
    object: str


def plan_accesses(
    popularity: Mapping[str, float], seconds: float, *, per_second: float | None = None, seed: int = 2013
) -> list[Access]:
    """The reads of so many seconds, in order. Popularity is in reads per minute; `per_second` scales their sum."""
    names = sorted(name for name, reads in popularity.items() if reads > 0)
    weights = [popularity[name] for name in names]
    rate = sum(weights) / 60 if per_second is None else per_second
    dice = random.Random(seed)
    found: list[Access] = []
    at = dice.expovariate(rate) if names and rate > 0 else seconds
    while at < seconds:
        found.append(Access(at_seconds=at, object=dice.choices(names, weights)[0]))
        at += dice.expovariate(rate)
    return found


class Reader:
    """Reads objects where `locate` finds their metadata files, and tells `count` how often each was read."""

    def __init__(
        self,
        catalog: Catalog,
        locate: Callable[[str], str | None],
        count: Callable[[Mapping[str, int]], None],
    ) -> None:
        """`locate` gives None for an object that has never been written; `count` is `store.accesses.count`."""
        self.catalog = catalog
        self.reads: Counter[str] = Counter()
        #: Reads that found nothing there yet.
        self.empty = 0
        self._locate = locate
        self._count = count
        self._duck = duck.connect()

    def run(self, planned: Sequence[Access], stop: threading.Event) -> None:
        """Every planned read at its time, a round at a time, until they are done or `stop` is set."""
        begun, done = time.monotonic(), 0
        uncounted: Counter[str] = Counter()
        while done < len(planned) and not stop.wait(ROUND_SECONDS):
            now = time.monotonic() - begun
            while done < len(planned) and planned[done].at_seconds <= now:
                self.read(planned[done].object)
                uncounted[planned[done].object] += 1
                done += 1
            try:
                self._count(uncounted)
                uncounted.clear()
            except LookupError:  # the loop has not taken the catalog in yet: they are counted with the next
                continue

    def read(self, name: str) -> list[tuple[Any, ...]]:
        """The object's first rows; none while it, or a parent of a virtual view, is not there."""
        self.reads[name] += 1
        source = self._source(name)
        if source is None:
            self.empty += 1
            return []
        return list(self._duck.execute(f"SELECT * FROM {source} LIMIT {FIRST_ROWS}").fetchall())

    def _source(self, name: str) -> str | None:
        """What to write after FROM: the Iceberg table, or a virtual view's SQL over its parents."""
        view = self.catalog.views.get(name)
        if view is None or view.materialized:
            location = self._locate(name)
            return None if location is None else duck.scan(location)
        parents = {parent: self._source(parent) for parent in view.parents}
        if not all(parents.values()):
            return None
        described = ", ".join(f"{parent} AS (SELECT * FROM {source})" for parent, source in parents.items())
        return f"(WITH {described} SELECT * FROM ({duck.in_duckdb(view.sql)}))"
