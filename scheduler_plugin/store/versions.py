"""Versions for readers: which to read together, which are held, and which nobody can need any more.

A reader gets one version of each object, all of them true at one instant (`brain.versions.together`), and pins them in
the same transaction. Removing takes two steps: `prune` marks what nobody needs, from when on nobody can choose it, and
only then upkeep removes the snapshots. A lock keeps the two apart.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf, nextafter
from threading import Event, Thread

from sqlalchemy import Connection, cast, delete, func, insert, select, text, true, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY, distinct_on
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.types import Text

from scheduler_plugin.brain.versions import Version as Valid
from scheduler_plugin.brain.versions import floor, together
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import OPEN_STATES, Decision, Object, Pin, Version
from scheduler_plugin.store.validity import Interval

#: How long a pin holds without a sign of life of its reader.
PINNED_FOR = timedelta(minutes=2)
#: How many of each object's newest versions are looked at first.
FEW = 8
#: An object that has not moved for so long keeps no old versions of others alive; together with them it may no longer
#: have a common instant, and a query is told so.
STUCK_AFTER = timedelta(hours=1)
_LOCK = 0x50494E53  # "PINS"


class NoCommonInstantError(LookupError):
    """The objects have no versions that were true together, or one of them has never had any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One version of each object, true together in the interval."""

    #: None: nothing has ever been loaded into it.
    snapshots: Mapping[str, int | None]
    interval: Interval
    #: Whether each is its object's newest.
    newest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReport:
    """One version, for people."""

    object: str
    snapshot_id: int
    committed_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    rows: int
    reads: Mapping[str, int | None]
    decision_id: int
    #: Readers that hold it now.
    pinned_by: Sequence[str]
    expired_at: datetime | None


def choose(
    connection: Connection,
    objects: Sequence[str],
    *,
    at: datetime | None = None,
    fixed: Mapping[str, int] | None = None,
    strict: bool = False,
) -> Chosen:
    """The newest versions that were true together, not after `at`; `fixed` names snapshots that must be among them.

    Where there are none: the newest of each, or with `strict` an error, as where one has never held anything. Until the
    transaction ends nothing is pruned.
    """
    connection.execute(text("SELECT pg_advisory_xact_lock_shared(:key)"), {"key": _LOCK})
    for few in (FEW, None):  # nearly always the answer is among the newest few; the same answer, if it is
        kept = _kept(connection, objects, few if at is None and not fixed else None)
        for name, snapshot in (fixed or {}).items():
            kept[name] = [each for each in kept.get(name, []) if each[0] == snapshot]
            if not kept[name]:
                raise LookupError(f"{name} has no version {snapshot} (any more); `freshet versions {name}` lists them")
        if strict and (never := [name for name in objects if not kept.get(name)]):
            which = "holds nothing yet: its" if len(never) == 1 else "hold nothing yet: their"
            raise NoCommonInstantError(f"{', '.join(never)} {which} first load or refresh must come first")
        chosen = _together(objects, kept, at)
        if chosen is not None:
            return chosen
    if strict:
        raise NoCommonInstantError(_apart(objects, kept, at))
    newest = {name: kept[name][-1][0] if kept.get(name) else None for name in objects}
    return Chosen(snapshots=newest, interval=Interval(), newest=True)


def _together(
    objects: Sequence[str], kept: Mapping[str, Sequence[tuple[int, Interval]]], at: datetime | None
) -> Chosen | None:
    # What was never run has nothing to read and stands in nobody's way; what was only run at odds with itself does.
    histories = {
        name: sorted((each for each in kept[name] if not each[1].empty), key=lambda each: _valid(each[1]).ltb)
        for name in objects
        if kept.get(name)
    }
    before = inf if at is None else nextafter(at.timestamp(), inf)
    found = together([[_valid(interval) for _, interval in history] for history in histories.values()], before)
    if found is None:
        return None
    snapshots: dict[str, int | None] = dict.fromkeys(objects)
    whole = Interval()
    for (name, history), place in zip(histories.items(), found.places, strict=True):
        assert place is not None, "versions of every object were found"
        snapshots[name] = history[place][0]
        whole = whole & history[place][1]
    newest = all(snapshots[name] == kept[name][-1][0] for name in histories)
    return Chosen(snapshots=snapshots, interval=whole, newest=newest)


def _kept(
    connection: Connection, objects: Sequence[str] | None = None, few: int | None = None
) -> dict[str, list[tuple[int, Interval]]]:
    """Per object (snapshot, interval) of its versions that may be read, oldest first; all of them or the newest few."""
    columns = (Version.object, Version.snapshot_id, Version.valid_from, Version.valid_to, Version.committed_at)
    rows = select(*columns).where(Version.expired_at.is_(None))
    if objects is not None and few is not None:
        names = func.unnest(cast(list(objects), ARRAY(Text))).table_valued("name")
        newest = rows.where(Version.object == names.c.name).order_by(Version.committed_at.desc()).limit(few).lateral()
        rows = select(*newest.c).select_from(names.join(newest, true()))
    elif objects is not None:
        rows = rows.where(Version.object.in_(objects))
    found: dict[str, list[tuple[int, Interval]]] = defaultdict(list)
    for name, snapshot, since, until, _ in sorted(connection.execute(rows), key=lambda row: row.committed_at):
        found[name].append((snapshot, Interval(since=since, until=until)))
    return found


def _valid(interval: Interval) -> Valid:
    return Valid(
        ltb=-inf if interval.since is None else interval.since.timestamp(),
        utb=inf if interval.until is None else interval.until.timestamp(),
    )


def _apart(objects: Sequence[str], kept: Mapping[str, Sequence[tuple[int, Interval]]], at: datetime | None) -> str:
    ends = [(kept[name][-1][1].until, name) for name in objects if kept.get(name) and kept[name][-1][1].until]
    when = f" at or before {at.isoformat()}" if at else ""
    slow = f"; {min(ends)[1]} has been out of date the longest, since {min(ends)[0]}" if ends else ""
    return f"no versions of {', '.join(objects)} were true together{when}{slow}"


# Holding ---------------------------------------------------------------------------------------------------------


@contextmanager
def pinned(
    database: Database,
    reader: str,
    objects: Sequence[str],
    *,
    at: datetime | None = None,
    fixed: Mapping[str, int] | None = None,
) -> Iterator[Chosen]:
    """Chooses versions that were true together and holds them for the time of the block, however long it takes."""
    chosen = pin(database, reader, objects, at=at, fixed=fixed)
    done = Event()

    def renew() -> None:
        while not done.wait(PINNED_FOR.total_seconds() / 4):
            with database.transaction() as connection:
                connection.execute(
                    update(Pin).where(Pin.reader == reader).values(expires_at=func.clock_timestamp() + PINNED_FOR)
                )

    thread = Thread(target=renew, name=f"{reader}-pins", daemon=True)
    thread.start()
    try:
        yield chosen
    finally:
        done.set()
        unpin(database, reader)


def pin(
    database: Database,
    reader: str,
    objects: Sequence[str],
    *,
    at: datetime | None = None,
    fixed: Mapping[str, int] | None = None,
) -> Chosen:
    """As `pinned`, for a reader that ends with `unpin` or is given up for dead after a while."""
    with database.transaction() as connection:
        chosen = choose(connection, objects, at=at, fixed=fixed, strict=True)
        until = func.clock_timestamp() + PINNED_FOR
        held = [(name, snapshot) for name, snapshot in chosen.snapshots.items() if snapshot is not None]
        if held:
            connection.execute(
                insert(Pin).values(
                    [
                        {"reader": reader, "object": name, "snapshot_id": snapshot, "expires_at": until}
                        for name, snapshot in held
                    ]
                )
            )
        return chosen


def unpin(database: Database, reader: str) -> None:
    """The reader is done."""
    with database.transaction() as connection:
        connection.execute(delete(Pin).where(Pin.reader == reader))


# Letting go ------------------------------------------------------------------------------------------------------


def needed_snapshots(database: Database, *, keep_since: datetime | None = None) -> dict[str, set[int]]:
    """Per object the snapshots that upkeep must leave: what a reader, a view or a recovery may still want.

    That is, of each object: the newest version, and those that may be true together with other objects' newest; what
    readers hold; what open decisions read; what each view was last computed from, so that it can be refreshed from
    what was added since. And all that was true after `keep_since`, for people who look back.

    Every other version is marked: nobody can choose it from here on.
    """
    with database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        kept = _kept(connection)
        now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        needed: dict[str, set[int]] = defaultdict(set)
        for name, versions in _wanted(kept, now).items():
            needed[name] |= versions
        for name, snapshot in _held(connection):
            needed[name].add(snapshot)
        if keep_since is not None:
            for name, history in kept.items():
                needed[name] |= {each for each, valid in history if valid.until is None or valid.until > keep_since}
        gone = [
            (name, snapshot)
            for name, history in kept.items()
            for snapshot, _ in history
            if snapshot not in needed[name]
        ]
        for name, snapshot in gone:
            connection.execute(
                update(Version).where(Version.object == name, Version.snapshot_id == snapshot).values(expired_at=now)
            )
        connection.execute(delete(Pin).where(Pin.expires_at < now))
        return dict(needed)


def _wanted(kept: Mapping[str, Sequence[tuple[int, Interval]]], now: datetime) -> dict[str, set[int]]:
    """The newest of each object, and what may be among the newest common versions of any objects."""
    moving = [
        [_valid(interval) for _, interval in history if not interval.empty]
        for history in kept.values()
        if history[-1][1].until is None or history[-1][1].until > now - STUCK_AFTER
    ]
    lowest = floor(moving)
    return {
        name: {
            history[-1][0],
            *(snapshot for snapshot, interval in history if not interval.empty and _valid(interval).utb >= lowest),
        }
        for name, history in kept.items()
    }


def _held(connection: Connection) -> Iterator[tuple[str, int]]:
    """(object, snapshot) that readers hold, open decisions read, or a view's newest version was computed from."""
    pins = select(Pin.object, Pin.snapshot_id).where(Pin.expires_at >= func.clock_timestamp())
    yield from ((row.object, row.snapshot_id) for row in connection.execute(pins))
    decisions = select(Decision.reads).where(Decision.state.in_(OPEN_STATES))
    newest = (
        select(Version.reads)
        .join(Object, (Object.name == Version.object) & Object.removed_at.is_(None))
        .ext(distinct_on(Version.object))
        .order_by(Version.object, Version.committed_at.desc())
    )
    for statement in (decisions, newest):
        for (reads,) in connection.execute(statement):
            yield from ((name, snapshot) for name, snapshot in reads.items() if snapshot is not None)


def tidied(database: Database, name: str, snapshot: int, tidied: int) -> None:
    """Upkeep has put the rows of the newest version into better files: readers get these from here on."""
    with database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        newest = connection.execute(
            select(Version).where(Version.object == name).order_by(Version.committed_at.desc()).limit(1)
        ).one_or_none()
        if newest is None or newest.snapshot_id != snapshot:
            return  # something newer has been committed, from the better files already
        connection.execute(
            upsert(Version)
            .values(**{**newest._mapping, "snapshot_id": tidied, "committed_at": func.clock_timestamp()})
            .on_conflict_do_nothing()
        )


# Telling ---------------------------------------------------------------------------------------------------------


def history(database: Database, name: str, *, limit: int = 50) -> list[VersionReport]:
    """An object's versions, the newest first."""
    with database.transaction() as connection:
        materialized = connection.execute(select(Object.materialized).where(Object.name == name)).scalar_one_or_none()
        if materialized is None:
            raise LookupError(f"no object of the catalog is called {name}; `freshet status` lists them.")
        if not materialized:
            raise LookupError(
                f"{name} is a virtual view: it has no versions, and is made of its parents' when it is read."
            )
        readers: dict[int, list[str]] = defaultdict(list)
        for reader, snapshot in connection.execute(
            select(Pin.reader, Pin.snapshot_id).where(Pin.object == name, Pin.expires_at >= func.clock_timestamp())
        ):
            readers[snapshot].append(reader)
        columns = [getattr(Version, each) for each in VersionReport.__slots__ if each != "pinned_by"]
        rows = connection.execute(
            select(*columns).where(Version.object == name).order_by(Version.committed_at.desc()).limit(limit)
        )
        return [VersionReport(**row._mapping, pinned_by=sorted(readers[row.snapshot_id])) for row in rows]


def behind(database: Database) -> set[str]:
    """Objects whose newest version lacks something that has arrived."""
    newest = (
        select(Version.object, Version.valid_to)
        .ext(distinct_on(Version.object))
        .order_by(Version.object, Version.committed_at.desc())
        .subquery()
    )
    with database.transaction() as connection:
        return set(connection.execute(select(newest.c.object).where(newest.c.valid_to.is_not(None))).scalars())


def intervals(database: Database, snapshots: Mapping[str, int | None]) -> dict[str, Interval]:
    """When each of these was true."""
    chosen = tuple_(Version.object, Version.snapshot_id).in_(list(snapshots.items()))
    with database.transaction() as connection:
        rows = connection.execute(select(Version.object, Version.valid_from, Version.valid_to).where(chosen))
        return {name: Interval(since=since, until=until) for name, since, until in rows}


def instant(chosen: Chosen) -> datetime:
    """An instant at which all of them were true: the latest arrival that they hold."""
    return chosen.interval.since or datetime.fromtimestamp(0, UTC)
