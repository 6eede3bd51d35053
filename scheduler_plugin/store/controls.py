"""What people do to the scheduler: pause, resume, and change a weight or a limit for a while.

Each is an event of the log and nothing else, so that a replay knows it, and who did it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, select

from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.models import OPEN_STATES, Decision, Event, EventKind, Object

#: The reason of a hold that a person asked for; see `scheduler_plugin.live.scheduler`.
BY_HAND = "it is paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """One thing that somebody did."""

    at: datetime
    what: str
    #: None: everything.
    object: str | None
    body: dict[str, Any]


def pause(database: Database, objects: Sequence[str] | None, *, who: str, why: str = "") -> None:
    """No new job on these objects until they are resumed; None: on any object. What runs goes on to its end."""
    _log(database, EventKind.HELD, objects, {"by": BY_HAND, "who": who, "why": why})


def resume(database: Database, objects: Sequence[str] | None, *, who: str, why: str = "") -> None:
    """Undoes `pause`; resuming everything (None) also resumes each object that was paused by itself."""
    body = {"by": BY_HAND, "who": who, "why": why}
    if objects is None:
        objects = _paused(database)
        _log(database, EventKind.RELEASED, None, body)
    _log(database, EventKind.RELEASED, objects, body)


def override(
    database: Database,
    object: str,
    what: Literal["weight", "limit"],
    value: float | None,
    *,
    until: datetime | None,
    who: str,
    why: str = "",
) -> None:
    """Sets a weight, or a staleness limit in seconds, until a time; None takes an override back."""
    body = {
        "what": what,
        "value": value,
        "until": None if until is None else until.timestamp(),
        "by": who,
        "why": why,
    }
    _log(database, EventKind.OVERRIDDEN, [object], body)


def history(database: Database, limit: int = 50) -> list[Control]:
    """What people did, the newest first."""
    kinds = (EventKind.HELD, EventKind.RELEASED, EventKind.OVERRIDDEN)
    wanted = select(Event.at, Event.kind, Event.object, Event.body).where(Event.kind.in_(kinds))
    with database.transaction() as connection:
        rows = connection.execute(wanted.order_by(Event.id.desc()).limit(limit))
        return [Control(at=at, what=kind.value, object=name, body=body) for at, kind, name, body in rows]


def running(database: Database, objects: Sequence[str] | None) -> list[str]:
    """Which of these objects (None: all) have an open decision: what a drain waits for."""
    wanted = select(Decision.object).where(Decision.state.in_(OPEN_STATES)).order_by(Decision.object)
    if objects is not None:
        wanted = wanted.where(Decision.object.in_(objects))
    with database.transaction() as connection:
        return list(connection.execute(wanted).scalars())


def _log(database: Database, kind: EventKind, objects: Sequence[str] | None, body: dict[str, Any]) -> None:
    with database.logging_transaction() as (connection, now):
        if objects is not None:
            _require(connection, objects)
        log_events(connection, now, [(kind, name, body) for name in (objects if objects is not None else (None,))])


def _require(connection: Connection, objects: Sequence[str]) -> None:
    known = connection.execute(select(Object.name).where(Object.name.in_(objects), Object.removed_at.is_(None)))
    unknown = sorted(set(objects) - set(known.scalars()))
    if unknown:
        raise LookupError(f"no object of the catalog is called {', '.join(unknown)}")


def _paused(database: Database) -> list[str]:
    """Objects that may have been paused by hand: releasing one that is not changes nothing."""
    wanted = (
        select(Event.object)
        .join(Object, Object.name == Event.object)
        .where(Event.kind == EventKind.HELD, Event.body["by"].as_string() == BY_HAND, Object.removed_at.is_(None))
        .distinct()
    )
    with database.transaction() as connection:
        return sorted(filter(None, connection.execute(wanted).scalars()))
