"""When each version is true: from the arrival of the newest update it holds up to the arrival of the first it lacks.

As in ORAD (paper 002). An arrival closes the open version of its table and of everything derived from it, in the
transaction that logs it; a commit gets the interval that follows from its batch, or from the versions it was computed
from. So at any moment the intervals of an object do not overlap, and an open one belongs to an object that is fresh.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, func, literal, select, update
from sqlalchemy.dialects.postgresql import array
from sqlalchemy.orm import aliased

from scheduler_plugin.store.models import Object, Update, UpdateState, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """[since, until); None is unbounded."""

    since: datetime | None = None
    until: datetime | None = None

    def __and__(self, other: "Interval") -> "Interval":
        return Interval(
            since=max(filter(None, (self.since, other.since)), default=None),
            until=min(filter(None, (self.until, other.until)), default=None),
        )

    @property
    def empty(self) -> bool:
        return self.since is not None and self.until is not None and self.since >= self.until


NEVER = Interval(since=datetime.fromtimestamp(0, UTC), until=datetime.fromtimestamp(0, UTC))


def close(connection: Connection, names: Sequence[str], at: datetime) -> None:
    """Ends the open versions of these objects and of all that derives from them."""
    derived = select(Object.name).where(Object.name.in_(names)).cte("derived", recursive=True)
    child = aliased(Object)
    derived = derived.union(select(child.name).where(child.parents.contains(array([derived.c.name]))))
    connection.execute(
        update(Version)
        .where(Version.object.in_(select(derived.c.name)), Version.valid_to.is_(None))
        .values(valid_to=func.greatest(literal(at), Version.valid_from))
    )


def of_batch(connection: Connection, table: str, batch: int) -> Interval:
    """Of the version that a batch makes: from its newest update, or the end of the version before, to the next one."""
    newest = select(func.max(Update.release)).where(Update.batch_id == batch).scalar_subquery()
    before = (
        select(Version.valid_to)
        .where(Version.object == table)
        .order_by(Version.committed_at.desc())
        .limit(1)
        .scalar_subquery()
    )
    waiting = Update.state.in_((UpdateState.PENDING, UpdateState.LOADING)) & Update.batch_id.is_distinct_from(batch)
    lacks = select(func.min(Update.release)).where(Update.table_name == table, waiting).scalar_subquery()
    since, until = connection.execute(select(func.greatest(newest, before), lacks)).one()
    return Interval(since=since, until=until)


def of_newest(connection: Connection, name: str) -> Interval:
    """Of a version that holds what the newest one holds, mended."""
    newest = select(Version.valid_from, Version.valid_to).where(Version.object == name)
    row = connection.execute(newest.order_by(Version.committed_at.desc()).limit(1)).one_or_none()
    return Interval() if row is None else Interval(since=row.valid_from, until=row.valid_to)


def of_reads(connection: Connection, reads: Mapping[str, int | None]) -> Interval:
    """Of a version computed from these: when all of them were true together, which is never for an empty interval."""
    whole = Interval()
    for name, snapshot in reads.items():
        whole = whole & (_never_run(connection, name) if snapshot is None else _of(connection, name, snapshot))
    return whole


def _of(connection: Connection, name: str, snapshot: int) -> Interval:
    row = connection.execute(
        select(Version.valid_from, Version.valid_to).where(Version.object == name, Version.snapshot_id == snapshot)
    ).one_or_none()
    return Interval() if row is None else Interval(since=row.valid_from, until=row.valid_to)


def _never_run(connection: Connection, name: str) -> Interval:
    """A table is truly empty until its first arrival; a view that was never refreshed says nothing true."""
    if connection.execute(select(Object.kind).where(Object.name == name)).scalar_one() != "table":
        return NEVER
    first = connection.execute(select(func.min(Update.release)).where(Update.table_name == name)).scalar_one()
    return Interval(until=first)
