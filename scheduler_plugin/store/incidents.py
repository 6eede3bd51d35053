"""Incidents: what people should know of, from when it begins until it is over. One alert each, not one per tick."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, select, update

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.lease import require_epoch
from scheduler_plugin.store.models import Incident

#: Kinds whose end is worth an alert too; that a breach was foreseen and did not happen is not.
RECOVERS = ("breach", "silent_feed", "failing", "blocked_batch", "overload")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is the case now. The same kind and object are the same incident as long as it lasts."""

    kind: str
    object: str | None
    summary: str
    body: dict[str, Any]

    @property
    def key(self) -> tuple[str, str | None]:
        return self.kind, self.object


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentReport:
    """One incident, for people."""

    id: int
    kind: str
    object: str | None
    opened_at: datetime
    closed_at: datetime | None
    summary: str
    body: dict[str, Any]


def open_keys(database: Database) -> set[tuple[str, str | None]]:
    with database.transaction() as connection:
        rows = connection.execute(select(Incident.kind, Incident.object).where(Incident.closed_at.is_(None)))
        return {(kind, name) for kind, name in rows}


def change(
    database: Database, epoch: int, begun: Sequence[Condition], over: Collection[tuple[str, str | None]]
) -> None:
    """Opens an incident for each of `begun`, and closes those that are over."""
    if not begun and not over:
        return
    with database.transaction() as connection:
        require_epoch(connection, epoch)
        now = func.clock_timestamp()
        for kind, name in over:
            same = Incident.object.is_not_distinct_from(name)
            connection.execute(
                update(Incident).where(Incident.kind == kind, same, Incident.closed_at.is_(None)).values(closed_at=now)
            )
        for each in begun:
            connection.execute(
                insert(Incident).values(
                    kind=each.kind, object=each.object, opened_at=now, summary=each.summary, body=each.body
                )
            )


def retell(database: Database, epoch: int, condition: Condition) -> None:
    """What an open incident says now. It is the same incident: nobody is alerted again."""
    same = (Incident.kind == condition.kind) & Incident.object.is_not_distinct_from(condition.object)
    with database.transaction() as connection:
        require_epoch(connection, epoch)
        connection.execute(
            update(Incident)
            .where(same, Incident.closed_at.is_(None))
            .values(summary=condition.summary, body=condition.body)
        )


def reports(database: Database, *, only_open: bool = True, limit: int = 100) -> list[IncidentReport]:
    """The newest first."""
    columns = [getattr(Incident, name) for name in IncidentReport.__slots__]
    wanted = select(*columns).order_by(Incident.id.desc()).limit(limit)
    if only_open:
        wanted = wanted.where(Incident.closed_at.is_(None))
    with database.transaction() as connection:
        return [IncidentReport(**row._mapping) for row in connection.execute(wanted)]


def get(database: Database, incident: int) -> IncidentReport:
    columns = [getattr(Incident, name) for name in IncidentReport.__slots__]
    with database.transaction() as connection:
        return IncidentReport(**connection.execute(select(*columns).where(Incident.id == incident)).one()._mapping)


def unalerted(database: Database) -> list[tuple[int, str]]:
    """(incident, "opened" or "closed") of which nobody has been told yet, in order."""
    untold = Incident.alerted_at.is_(None)
    recovered = Incident.closed_at.is_not(None) & Incident.recovery_alerted_at.is_(None) & Incident.kind.in_(RECOVERS)
    with database.transaction() as connection:
        rows = connection.execute(
            select(Incident.id, untold.label("new"), recovered.label("over"))
            .where(untold | recovered)
            .order_by(Incident.id)
        ).all()
    return [(row.id, what) for row in rows for what, due in (("opened", row.new), ("closed", row.over)) if due]


def mark_alerted(database: Database, incident: int, what: str) -> None:
    told = {"opened": "alerted_at", "closed": "recovery_alerted_at"}[what]
    with database.transaction() as connection:
        connection.execute(update(Incident).where(Incident.id == incident).values({told: func.clock_timestamp()}))
