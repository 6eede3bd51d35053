"""Queries in the ledger: what was asked and promised, whose turn it is, what each read.

Whoever asks gives signs of life; a reader that died neither holds a turn nor keeps others waiting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, insert, select, text, update

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.lease import require_epoch
from scheduler_plugin.store.models import Cost, Demand, Query

#: A reader without a sign of life for this long is gone.
GONE_AFTER = timedelta(seconds=10)
#: How many of an object's latest jobs tell what the next will take.
LATEST_COSTS = 5
_LOCK = 0x51554552  # "QUER"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryReport:
    """One query, for people."""

    id: int
    sql: str
    by: str
    asked_at: datetime
    deadline: datetime | None
    max_staleness: float | None
    prefer: float | None
    as_of: datetime | None
    state: str
    instant: datetime | None
    versions: Mapping[str, Any] | None
    freshness: Mapping[str, Any] | None
    trade_off: Mapping[str, Any] | None
    spark_seconds: float | None
    rows: int | None
    started_at: datetime | None
    finished_at: datetime | None
    error: str | None


def ask(database: Database, **asked: Any) -> tuple[int, datetime]:
    """Writes a query down; returns its id and when it was asked."""
    now = func.clock_timestamp()
    with database.transaction() as connection:
        row = connection.execute(
            insert(Query)
            .values(state="waiting", asked_at=now, seen_at=now, **asked)
            .returning(Query.id, Query.asked_at)
        ).one()
        return int(row.id), row.asked_at


def note(database: Database, query: int, **values: Any) -> None:
    """Writes down what became of a query so far; a sign of life too."""
    with database.transaction() as connection:
        connection.execute(update(Query).where(Query.id == query).values(seen_at=func.clock_timestamp(), **values))


def take_turn(database: Database, query: int, most: int) -> bool:
    """Whether the query may run now: fewer than `most` do, and no ready one has an earlier deadline.

    A sign of life as well; ask again until it is true.
    """
    now = func.clock_timestamp()
    with database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        connection.execute(update(Query).where(Query.id == query).values(state="ready", seen_at=now))
        alive = Query.seen_at > now - GONE_AFTER
        running = connection.execute(
            select(func.count()).select_from(Query).where(Query.state == "running", alive)
        ).scalar_one()
        first = connection.execute(
            select(Query.id)
            .where(Query.state == "ready", alive)
            .order_by(Query.deadline.asc().nulls_last(), Query.id)
            .limit(1)
        ).scalar_one()
        if running >= most or first != query:
            return False
        connection.execute(update(Query).where(Query.id == query).values(state="running", started_at=now))
        return True


def weighed(database: Database, epoch: int, queries: Sequence[int], trade_off: Mapping[str, Any]) -> None:
    """Writes down what came of weighing these together."""
    with database.transaction() as connection:
        require_epoch(connection, epoch)
        connection.execute(update(Query).where(Query.id.in_(queries)).values(trade_off=trade_off))


def trade_off(database: Database, query: int) -> dict[str, Any] | None:
    """What came of weighing the query with others; None while nobody has."""
    with database.transaction() as connection:
        found: dict[str, Any] | None = connection.execute(select(Query.trade_off).where(Query.id == query)).scalar_one()
        return found


def costs(database: Database) -> dict[str, float]:
    """Each object's mean slot-seconds over its latest jobs."""
    place = func.row_number().over(partition_by=Cost.object, order_by=Cost.at.desc()).label("place")
    latest = select(Cost.object, Cost.slot_seconds, place).subquery()
    with database.transaction() as connection:
        rows = connection.execute(
            select(latest.c.object, func.avg(latest.c.slot_seconds))
            .where(latest.c.place <= LATEST_COSTS)
            .group_by(latest.c.object)
        )
        return {name: float(seconds) for name, seconds in rows}


def demanded_before(database: Database, deadline: datetime | None) -> list[str]:
    """Objects that open demands with an earlier deadline ask for."""
    earlier = Demand.deadline.is_not(None) if deadline is None else Demand.deadline <= deadline
    with database.transaction() as connection:
        return list(connection.execute(select(Demand.object).where(Demand.ended_at.is_(None), earlier)).scalars())


def spark_seconds(database: Database, sql: str) -> float:
    """What Spark will take for it: as the last time, or the mean of all lately; a guess before the first."""
    with database.transaction() as connection:
        for wanted in (Query.sql == sql, Query.sql.is_not(None)):
            latest = (
                select(Query.spark_seconds)
                .where(wanted, Query.state == "done")
                .order_by(Query.id.desc())
                .limit(LATEST_COSTS)
                .subquery()
            )
            found = connection.execute(select(func.avg(latest.c.spark_seconds))).scalar_one()
            if found is not None:
                return float(found)
    return 0.5


def reports(database: Database, *, only: int | None = None, limit: int = 50) -> list[QueryReport]:
    """The newest queries first, or one of them."""
    columns = [getattr(Query, name) for name in QueryReport.__slots__]
    wanted = select(*columns).order_by(Query.id.desc()).limit(limit)
    if only is not None:
        wanted = wanted.where(Query.id == only)
    with database.transaction() as connection:
        return [QueryReport(**row._mapping) for row in connection.execute(wanted)]
