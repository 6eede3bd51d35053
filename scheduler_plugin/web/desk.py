"""What the api-server keeps between requests: the ledger's door, the brain that follows, and one picture of the whole.

However many people look, the ledger is asked for the whole at most once a second. Until the brain has read the log, the
ledger alone answers.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from scheduler_plugin.live.follower import Explained, Figures, Follower, Outlook
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import objects, standing
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.standing import Standing, Whole
from scheduler_plugin.web.brain import Brain
from scheduler_plugin.web.models import ObjectRow, Quality, Summary

KEEP_SECONDS = 1.0
#: A picture that took long to make is kept for so many times as long.
KEEP_TIMES = 3.0
#: Nobody is shown a picture that is out of date by more than this.
WAIT_SECONDS = 5.0
#: A loop that has not ticked for so long is not running.
SILENT_SECONDS = 15.0
#: An object with less than this share of its limit left is about to breach it.
ABOUT = 0.25

NOTHING = Figures(
    impact=None,
    rank=None,
    dirty=0,
    popularity=0.0,
    cost=0.0,
    level=0,
    limit=None,
    held=(),
    starts_at=None,
    fresh_at=None,
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything at one instant."""

    at: float
    whole: Whole
    outlook: Outlook
    groups: dict[str, str]
    by_name: dict[str, Standing]
    children: dict[str, list[str]]
    rows: list[ObjectRow]


class Desk:
    """One for each process."""

    def __init__(self, database: Database | None = None) -> None:
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._given = database is not None
        self._database = database
        self._follower = None if database is None else Follower(database)
        self._snapshot: Snapshot | None = None
        self._good_until = 0.0
        self._kept: dict[Any, tuple[float, Any]] = {}
        self.brain = Brain(lambda: self.follower)

    def explain(self, name: str) -> Explained | None:
        """Why the object is, or is not, next; None while the brain is busy reading the log."""
        told: Explained | None = self.kept(("explain", name), 1.5, lambda: self.brain.explain(name))
        return told

    @property
    def settings(self) -> Settings:
        return Settings.load()

    @property
    def database(self) -> Database:
        """The ledger, wherever it is now: an embedded server may come back on another port."""
        if self._given and self._database is not None:
            return self._database
        url = self.settings.database_url
        with self._opening:
            if self._database is None or self._database.url != url:
                self._database, old = Database(url), self._database
                self._follower = Follower(self._database)
                if old is not None:
                    old.close()
            return self._database

    @property
    def follower(self) -> Follower:
        _ = self.database
        assert self._follower is not None
        return self._follower

    def snapshot(self) -> Snapshot:
        """The whole, a second old or so; older where it takes long to make, so that looking never fills a core."""
        known = self._snapshot
        if known is not None and time.monotonic() < self._good_until:
            return known
        # While somebody makes a new one, others go on with what there is.
        if not self._lock.acquire(blocking=known is None or time.monotonic() > self._good_until + WAIT_SECONDS):
            assert known is not None
            return known
        try:
            if self._snapshot is None or time.monotonic() >= self._good_until:
                began = time.monotonic()
                self._snapshot = self._take()
                took = time.monotonic() - began
                self._good_until = time.monotonic() + max(KEEP_SECONDS, KEEP_TIMES * took)
            return self._snapshot
        finally:
            self._lock.release()

    def start(self) -> None:
        """Makes a first picture, and only then lets the brain read the log: people wait for the picture."""

        def begin() -> None:
            with suppress(Exception):  # whoever asks is told
                self.snapshot()
            self.brain.start()

        threading.Thread(target=begin, name="freshet-desk", daemon=True).start()

    def prepare(self, then: Callable[[Snapshot], Any]) -> None:
        """Makes a picture beside the request, for somebody who is about to ask for it."""

        def make() -> None:
            with suppress(Exception):  # whoever asks is told
                then(self.snapshot())

        threading.Thread(target=make, name="freshet-desk", daemon=True).start()

    def forget(self) -> None:
        """After an action, so that whoever acted sees it."""
        self.brain.hurry()
        self._good_until = 0.0
        self._kept.clear()

    def kept(self, key: Any, seconds: float, make: Callable[[], Any]) -> Any:
        """An answer that is dear to make, kept for a while."""
        at, found = self._kept.get(key, (0.0, None))
        if time.monotonic() - at > seconds or found is None:
            found = make()
            if len(self._kept) > 200:
                self._kept.clear()
            self._kept[key] = (time.monotonic(), found)
        return found

    def _take(self) -> Snapshot:
        database = self.database
        whole = standing.whole(database)
        settings = self.kept("settings", 30.0, lambda: objects.settings_in_force(database))
        outlook = self.brain.outlook() or _of_ledger(whole, settings)
        groups = {name: group["name"] for group in settings.get("groups", ()) for name in group["objects"]}
        children: dict[str, list[str]] = {}
        for each in whole.objects:
            for parent in each.parents:
                children.setdefault(parent, []).append(each.name)
        return Snapshot(
            at=whole.at.timestamp(),
            whole=whole,
            outlook=outlook,
            groups=groups,
            by_name={each.name: each for each in whole.objects},
            children=children,
            rows=[_row(each, outlook.objects.get(each.name, NOTHING), groups) for each in whole.objects],
        )


def _of_ledger(whole: Whole, settings: Mapping[str, Any]) -> Outlook:
    """What can be said without the brain: nobody waits for ranks to see how stale things are."""
    return Outlook(
        objects={each.name: replace(NOTHING, limit=each.spec["staleness_limit"]) for each in whole.objects},
        backlog=None,
        slots=settings.get("slots", 0),
        policy=settings.get("policy", {}).get("name", ""),
    )


def epoch(at: datetime | None) -> float | None:
    return None if at is None else round(at.timestamp(), 3)


def rounded(value: float | None) -> float | None:
    """Four digits are enough for a person, and keep answers small."""
    return None if value is None or value != value or abs(value) == float("inf") else float(f"{value:.4g}")


def short(words: str, most: int) -> str:
    """No more of it than a page has room for, and visibly so."""
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _row(each: Standing, figures: Figures, groups: dict[str, str]) -> ObjectRow:
    limit, current_to = figures.limit, epoch(each.current_to)
    return ObjectRow(
        name=each.name,
        kind=each.kind,
        virtual=not each.materialized,
        level=figures.level,
        feed=each.spec.get("feed"),
        group=groups.get(each.name),
        fresh=each.fresh,
        since=epoch(each.since),
        current_to=current_to,
        limit=limit,
        breach_at=round(current_to + limit, 3) if current_to is not None and limit is not None else None,
        predicted_start_at=None if figures.starts_at is None or each.fresh else round(figures.starts_at, 1),
        predicted_fresh_at=None if figures.fresh_at is None or each.fresh else round(figures.fresh_at, 1),
        pending=each.pending,
        dirty=figures.dirty,
        impact=rounded(figures.impact),
        rank=figures.rank,
        popularity=rounded(figures.popularity) or 0.0,
        cost=rounded(figures.cost) or 0.0,
        running=each.state,
        decision=each.decision,
        decided_at=epoch(each.decided_at),
        last_run=epoch(each.committed_at),
        rows=each.rows,
        held=list(figures.held),
        reads=int(each.reads),
        reads_met_fresh=int(each.reads_met_fresh),
        quality=_quality(each),
        quarantined=each.quarantined,
        error=short(each.last_error, 300) if each.last_error else None,
    )


def _quality(each: Standing) -> Quality | None:
    if not each.expectations:
        return None
    return "failing" if each.failed_expectations else "warning" if each.warning_expectations else "ok"


def summary(snapshot: Snapshot, rows: list[ObjectRow]) -> Summary:
    """The figures above the board, over the objects that the user may see."""
    now, by_name = snapshot.at, snapshot.by_name
    counted = any(row.reads for row in rows)
    weight = {row.name: float(row.reads) if counted else float(by_name[row.name].spec["access"]) for row in rows}
    total = sum(weight.values())
    return Summary(
        objects=len(rows),
        fresh=sum(row.fresh for row in rows),
        qod=round(sum(weight[row.name] for row in rows if row.fresh) / total, 4) if total else None,
        slots=snapshot.outlook.slots,
        running=sum(row.running is not None for row in rows),
        backlog=rounded(snapshot.outlook.backlog),
        breached=sum(breached(row, now) for row in rows),
        about_to_breach=sum(about_to_breach(row, now) for row in rows),
        policy=snapshot.outlook.policy,
        tick=_tick(snapshot.whole),
    )


def _tick(whole: Whole) -> dict[str, Any]:
    told = whole.last_tick
    silent = whole.at.timestamp() - told.get("at", 0.0) > SILENT_SECONDS
    return {**{key: told[key] for key in ("state", "ready", "running", "slots") if key in told}, "silent": silent}


def breached(row: ObjectRow, now: float) -> bool:
    return row.breach_at is not None and now > row.breach_at


def about_to_breach(row: ObjectRow, now: float) -> bool:
    return row.breach_at is not None and row.limit is not None and 0 <= row.breach_at - now < ABOUT * row.limit
