"""The part of the board that is on the screen: searched, filtered, sorted and cut."""

from collections.abc import Callable, Collection
from typing import Any

from scheduler_plugin.web.desk import Snapshot, about_to_breach, breached, summary
from scheduler_plugin.web.models import Board, ObjectRow, SortKey, State

#: What each filter lets through.
STATES: dict[str, Callable[[ObjectRow, float], bool]] = {
    "stale": lambda row, now: not row.fresh,
    "fresh": lambda row, now: row.fresh,
    "breached": breached,
    "about": about_to_breach,
    "running": lambda row, now: row.running is not None,
    "held": lambda row, now: bool(row.held),
    "failing": lambda row, now: row.error is not None,
    "quarantine": lambda row, now: row.quarantined > 0,
}
#: What each order compares; None comes last in either direction.
_WORSE = (None, "ok", "warning", "failing")
KEYS: dict[str, Callable[[ObjectRow], Any]] = {
    "name": lambda row: row.name,
    "staleness": lambda row: None if row.current_to is None else -row.current_to,
    "headroom": lambda row: row.breach_at,
    "next": lambda row: row.predicted_start_at,
    "predicted": lambda row: row.predicted_fresh_at,
    "pending": lambda row: row.pending,
    "dirty": lambda row: row.dirty,
    "impact": lambda row: row.impact,
    "rank": lambda row: row.rank,
    "popularity": lambda row: row.popularity,
    "cost": lambda row: row.cost,
    "last": lambda row: row.last_run,
    "reads": lambda row: row.reads,
    "quality": lambda row: (_WORSE.index(row.quality), row.quarantined),
}


def cut(
    snapshot: Snapshot,
    seen: Collection[str],
    search: str = "",
    state: State | None = None,
    kind: str | None = None,
    sort: SortKey = "staleness",
    descending: bool = True,
    offset: int = 0,
    limit: int = 60,
) -> Board:
    """The part of the board that was asked for, of the objects that may be seen."""
    mine = [row for row in snapshot.rows if row.name in seen]
    wanted = ordered(matching(mine, search, state, kind, snapshot.at), sort, descending)
    return Board.model_construct(
        event=snapshot.whole.event,
        total=len(wanted),
        offset=offset,
        summary=summary(snapshot, mine),
        objects=wanted[offset : offset + limit],
    )


def matching(rows: list[ObjectRow], search: str, state: str | None, kind: str | None, now: float) -> list[ObjectRow]:
    words = search.lower().split()
    lets_through = STATES[state] if state is not None else None
    return [
        row
        for row in rows
        if (kind is None or row.kind == kind)
        and (lets_through is None or lets_through(row, now))
        and all(word in f"{row.name} {row.feed or ''} {row.group or ''}".lower() for word in words)
    ]


def ordered(rows: list[ObjectRow], sort: str, descending: bool) -> list[ObjectRow]:
    """By the key, equals by name, those without a value at the end."""
    key = KEYS[sort]
    known = sorted((row for row in rows if key(row) is not None), key=lambda row: row.name)
    known.sort(key=key, reverse=descending)
    return known + sorted((row for row in rows if key(row) is None), key=lambda row: row.name)
