"""Reads of objects, counted by the minute, and the popularity learnt from them."""

from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from scheduler_plugin.brain.clock import ClockCache
from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.models import Access, EventKind, Freshness, Object

#: So many places has the clock cache that knows what is hot.
HOT_PLACES = 64


def count(database: Database, reads: Mapping[str, int]) -> None:
    """Adds reads that just happened. Whether they met the object fresh is looked up here and now."""
    if not reads:
        return
    with database.transaction() as connection:
        fresh = dict(
            connection.execute(
                select(Object.name, func.coalesce(Freshness.fresh, False))
                .outerjoin(Freshness, (Freshness.object == Object.name) & Freshness.until.is_(None))
                .where(Object.name.in_(list(reads)))
            ).all()
        )
        unknown = sorted(set(reads) - set(fresh))
        if unknown:
            raise LookupError(f"no object of the catalog is called {', '.join(unknown)}")
        minute = func.date_trunc("minute", func.clock_timestamp())
        statement = insert(Access)
        statement = statement.on_conflict_do_update(
            index_elements=[Access.object, Access.minute],
            set_={
                "count": Access.count + statement.excluded.count,
                "met_fresh": Access.met_fresh + statement.excluded.met_fresh,
            },
        )
        for name, number in sorted(reads.items()):
            met = number if fresh[name] else 0
            connection.execute(statement.values(object=name, minute=minute, count=number, met_fresh=met))


def per_minute(database: Database, half_life: timedelta) -> dict[str, float]:
    """Each object's reads a minute, recent ones counting more: a read loses half its weight every `half_life`."""
    age = func.extract("epoch", func.clock_timestamp() - Access.minute)
    halves = age / half_life.total_seconds()
    # The weights of a steady one-a-minute stream add up to half_life / ln 2 minutes.
    steady = half_life.total_seconds() / 60 / func.ln(2.0)
    with database.transaction() as connection:
        return {
            name: float(rate)
            for name, rate in connection.execute(
                select(Access.object, func.sum(Access.count * func.power(0.5, halves)) / steady)
                .where(Access.minute > func.clock_timestamp() - 10 * half_life)
                .group_by(Access.object)
            )
        }


def hot(database: Database, places: int) -> list[str]:
    """What was read lately, in so many places: the clock cache of ORAD, fed with the last hour's reads."""
    with database.transaction() as connection:
        read = connection.execute(
            select(Access.object)
            .where(Access.minute > func.clock_timestamp() - timedelta(hours=1))
            .order_by(Access.minute, Access.count, Access.object)
        ).scalars()
        names: dict[str, int] = {}
        cache = ClockCache(places)
        for name in read:
            cache.touch(names.setdefault(name, len(names)))
    known = list(names)
    return [known[number] for number in cache.objects()]


def learn(database: Database, access: Mapping[str, float]) -> None:
    """Tells the brain how popular these objects have become."""
    with database.logging_transaction() as (connection, now):
        log_events(
            connection,
            now,
            [(EventKind.ACCESS_LEARNT, name, {"access": rate}) for name, rate in sorted(access.items())],
        )
