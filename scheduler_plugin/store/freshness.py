"""The history of freshness, written by the loop from what the brain concluded of each event."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, func, or_, select, text

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.lease import note_tick, require_epoch
from scheduler_plugin.store.models import Event, EventKind, Freshness, Lease, Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """From `at` on, the object is fresh or not, and current up to `current_to`."""

    object: str
    at: datetime
    fresh: bool
    current_to: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """One row of the log."""

    id: int
    at: datetime
    kind: EventKind
    object: str | None
    body: dict[str, Any]


def events_after(database: Database, seen: int, *, upto: int | None = None, limit: int = 50_000) -> list[LoggedEvent]:
    """What was logged after event `seen`, at most to event `upto`, in order."""
    wanted = select(Event.id, Event.at, Event.kind, Event.object, Event.body).where(Event.id > seen)
    if upto is not None:
        wanted = wanted.where(Event.id <= upto)
    with database.transaction() as connection:
        rows = connection.execute(wanted.order_by(Event.id).limit(limit))
        return [LoggedEvent(id=i, at=at, kind=kind, object=name, body=body) for i, at, kind, name, body in rows]


def last_noted_event(database: Database) -> int:
    """The last event whose consequences are in the history already."""
    with database.transaction() as connection:
        return connection.execute(select(Lease.event_seen).where(Lease.id == 1)).scalar_one_or_none() or 0


def open_spells(database: Database) -> dict[str, tuple[bool, datetime | None]]:
    """Each object's present spell: fresh or not, and current up to when."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(Freshness.object, Freshness.fresh, Freshness.current_to).where(Freshness.until.is_(None))
        )
        return {name: (fresh, current_to) for name, fresh, current_to in rows}


def stale_since(database: Database) -> dict[str, datetime]:
    """Since when each stale object has been stale."""
    with database.transaction() as connection:
        last_fresh = (
            select(Freshness.object, func.max(Freshness.until).label("at"))
            .where(Freshness.fresh)
            .group_by(Freshness.object)
            .subquery()
        )
        rows = connection.execute(
            select(Freshness.object, func.coalesce(last_fresh.c.at, Freshness.since))
            .outerjoin(last_fresh, last_fresh.c.object == Freshness.object)
            .where(Freshness.until.is_(None), ~Freshness.fresh)
        )
        return {row[0]: row[1] for row in rows}


_NEW = (
    "jsonb_to_recordset(CAST(:rows AS jsonb)) "
    "AS new(object text, at timestamptz, fresh boolean, current_to timestamptz)"
)
_SAME_INSTANT = text(
    f"UPDATE freshet.freshness AS old SET fresh = new.fresh, current_to = new.current_to FROM {_NEW} "
    "WHERE old.object = new.object AND old.until IS NULL AND old.since = new.at RETURNING old.object"
)
_END_SPELLS = text(
    f"UPDATE freshet.freshness AS old SET until = new.at FROM {_NEW} "
    "WHERE old.object = new.object AND old.until IS NULL AND old.since <> new.at"
)
_BEGIN_SPELLS = text(
    "INSERT INTO freshet.freshness (object, since, fresh, current_to) "
    f"SELECT new.object, new.at, new.fresh, new.current_to FROM {_NEW}"
)


def note(
    database: Database, epoch: int, changes: Sequence[Change], *, event_seen: int, last_tick: dict[str, Any]
) -> None:
    """Writes the spells that the loop saw end and begin, and how far in the log it has come."""
    # Several changes of one object at one instant are one: the last. Those of one object come one after another, those
    # of different objects together, so that a thousand views that turn stale are three statements.
    rounds: list[list[dict[str, Any]]] = []
    places: dict[str, int] = defaultdict(int)
    for change in {(change.object, change.at): change for change in changes}.values():
        place = places[change.object]
        places[change.object] += 1
        if place == len(rounds):
            rounds.append([])
        current_to = change.current_to.isoformat() if change.current_to else None
        rounds[place].append(
            {"object": change.object, "at": change.at.isoformat(), "fresh": change.fresh, "current_to": current_to}
        )
    with database.transaction() as connection:
        require_epoch(connection, epoch)
        for together in rounds:
            rows = {"rows": json.dumps(together)}
            same = set(connection.execute(_SAME_INSTANT, rows).scalars())
            connection.execute(_END_SPELLS, rows)
            new = {"rows": json.dumps([row for row in together if row["object"] not in same])}
            connection.execute(_BEGIN_SPELLS, new)
        note_tick(connection, event_seen=event_seen, last_tick=last_tick)


def flaws(database: Database) -> list[str]:
    """Where the history has a hole, an overlap, or not exactly one open spell; empty when it is sound."""
    after = func.lead(Freshness.since).over(partition_by=Freshness.object, order_by=Freshness.since)
    spells = select(Freshness.object, Freshness.since, Freshness.until, after.label("after")).subquery()
    wrong = or_(
        and_(spells.c.after.is_not(None), spells.c.until.is_distinct_from(spells.c.after)),
        and_(spells.c.after.is_(None), spells.c.until.is_not(None)),
    )
    removed = select(Object.name).where(Object.removed_at.is_not(None))
    with database.transaction() as connection:
        rows = connection.execute(
            select(spells.c.object, spells.c.until, spells.c.after)
            .where(wrong, spells.c.object.not_in(removed))
            .order_by(spells.c.object, spells.c.since)
        )
        return [f"{name}: a spell ends at {until} and the next begins at {after}" for name, until, after in rows]
