"""Demands: an object that somebody, or a query, wants run before all else.

The wish is a row for people and an event for the loop, in one transaction. The loop runs the object and what it needs
first (`scheduler_plugin.brain.demands`) and writes here how it ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select, update

from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.lease import require_epoch
from scheduler_plugin.store.models import Demand, EventKind, Object


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandReport:
    """One demand, for people."""

    id: int
    object: str
    by: str
    why: str
    deadline: datetime | None
    run: bool
    made_at: datetime
    ended_at: datetime | None
    #: met, failed, missed, declined or withdrawn; None while it is open.
    outcome: str | None


def demand(
    database: Database, object: str, *, by: str, why: str, deadline: datetime | None = None, run: bool = True
) -> int:
    """Asks for `object` before all else; returns the demand's id.

    With `run` it runs once, fresh or not; without, until it holds everything that has arrived by now.
    """
    return demand_all(database, [object], by=by, why=why, deadline=deadline, run=run)[0]


def demand_all(
    database: Database,
    objects: Sequence[str],
    *,
    by: str,
    why: str,
    deadline: datetime | None,
    run: bool,
    wish: tuple[int, float] | None = None,
) -> list[int]:
    """Demands of one instant: when all are met, the objects have been true together at it.

    With a `wish`, the query's id and its preference, each may be declined when it is not worth the wait.
    """
    made = []
    with database.logging_transaction() as (connection, now):
        for name in objects:
            known = select(Object.name).where(Object.name == name, Object.removed_at.is_(None))
            if connection.execute(known).one_or_none() is None:
                raise LookupError(f"no object of the catalog is called {name}")
            identity = connection.execute(
                insert(Demand)
                .values(object=name, by=by, why=why, deadline=deadline, run=run, made_at=now)
                .returning(Demand.id)
            ).scalar_one()
            until = deadline.timestamp() if deadline else None
            body = {"demand": identity, "by": by, "why": why, "deadline": until, "run": run}
            if wish is not None:
                body |= {"query": wish[0], "prefer": wish[1]}
            log_events(connection, now, [(EventKind.DEMANDED, name, body)])
            made.append(int(identity))
    return made


def withdraw(database: Database, demands: Sequence[int], outcome: str = "withdrawn") -> None:
    """Nobody waits for these any more: withdrawn, missed when their deadline has passed, or declined."""
    with database.logging_transaction() as (connection, now):
        rows = connection.execute(
            update(Demand)
            .where(Demand.id.in_(demands), Demand.ended_at.is_(None))
            .values(ended_at=now, outcome=outcome)
            .returning(Demand.id, Demand.object)
        ).all()
        said = {"declined": True} if outcome == "declined" else {}
        events = [(EventKind.DEMAND_ENDED, name, {"demand": number, **said}) for number, name in rows]
        log_events(connection, now, events)


def end(database: Database, epoch: int, ended: Sequence[tuple[int, str, datetime]]) -> None:
    """Writes down what the loop saw end: (demand, outcome, when). Once more changes nothing."""
    if not ended:
        return
    with database.transaction() as connection:
        require_epoch(connection, epoch)
        for number, outcome, at in ended:
            connection.execute(
                update(Demand)
                .where(Demand.id == number, Demand.ended_at.is_(None))
                .values(ended_at=at, outcome=outcome)
            )


def reports(database: Database, *, only: Sequence[int] | None = None, limit: int = 50) -> list[DemandReport]:
    """The newest demands first, or those with these ids."""
    columns = [getattr(Demand, name) for name in DemandReport.__slots__]
    wanted = select(*columns).order_by(Demand.id.desc()).limit(limit)
    if only is not None:
        wanted = wanted.where(Demand.id.in_(only))
    with database.transaction() as connection:
        return [DemandReport(**row._mapping) for row in connection.execute(wanted)]
