"""Checkpoints of the brain: what it knew after an event, so that a replay of the log begins there."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.lease import require_epoch
from scheduler_plugin.store.models import Checkpoint, Event


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    event_id: int
    at: datetime
    state: dict[str, Any]


def write(database: Database, epoch: int, *, event_id: int, at: datetime, state: dict[str, Any]) -> None:
    with database.transaction() as connection:
        require_epoch(connection, epoch)
        connection.execute(insert(Checkpoint).values(event_id=event_id, at=at, state=state).on_conflict_do_nothing())


def newest(database: Database, *, upto: int | None = None) -> StoredCheckpoint | None:
    """The newest checkpoint, or the newest at or before event `upto`."""
    wanted = select(Checkpoint.event_id, Checkpoint.at, Checkpoint.state).order_by(Checkpoint.event_id.desc()).limit(1)
    if upto is not None:
        wanted = wanted.where(Checkpoint.event_id <= upto)
    with database.transaction() as connection:
        row = connection.execute(wanted).one_or_none()
    return None if row is None else StoredCheckpoint(event_id=row.event_id, at=row.at, state=row.state)


def forget_before(database: Database, when: datetime) -> int:
    """Deletes the log that no question about a time after `when` needs; returns how many events that were.

    Kept are the newest checkpoint at or before `when`, its event and everything after it; without one, everything.
    """
    with database.transaction() as connection:
        kept = connection.execute(select(func.max(Checkpoint.event_id)).where(Checkpoint.at <= when)).scalar_one()
        if kept is None:
            return 0
        connection.execute(delete(Checkpoint).where(Checkpoint.event_id < kept))
        return connection.execute(delete(Event).where(Event.id < kept)).rowcount


def last_event_at(database: Database, when: datetime | None) -> tuple[int, datetime] | None:
    """The last event at or before `when` (None: the newest), and its time."""
    wanted = select(Event.id, Event.at).order_by(Event.id.desc()).limit(1)
    if when is not None:
        wanted = wanted.where(Event.at <= when)
    with database.transaction() as connection:
        row = connection.execute(wanted).one_or_none()
    return None if row is None else (row.id, row.at)


def last_id(database: Database) -> int:
    """The event of the newest checkpoint; 0 before the first."""
    with database.transaction() as connection:
        return connection.execute(select(func.coalesce(func.max(Checkpoint.event_id), 0))).scalar_one()
