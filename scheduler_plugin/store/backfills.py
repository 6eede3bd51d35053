"""Backfills: load an interval of a table again from its source files, or compute a view and what derives from it again.

A backfill is cut into pieces. To the brain it is a table of its own, `backfill/<id>`, whose updates are the pieces and
whose reads are the weight that somebody gave it: so the one policy shares the slots between it and the live loads, and
its bound on waiting holds for both.

    stage    load some files aside; nobody can read them yet
    commit   put all that was staged in the place of the old rows, in one snapshot
    refresh  compute a view in full
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, text, update

from scheduler_plugin.store.backfill_plan import BackfillError, Mode, preview
from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.models import (
    OPEN_STATES,
    Action,
    Backfill,
    BackfillPiece,
    BackfillState,
    Decision,
    Event,
    EventKind,
    Freshness,
    Object,
    Update,
)

KIND = "backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillReport:
    """A backfill as it stands."""

    id: int
    object: str
    mode: str
    covers_from: datetime | None
    covers_to: datetime | None
    weight: float
    state: str
    who: str
    why: str
    started_at: datetime
    finished_at: datetime | None
    pieces: int
    pieces_done: int
    #: What the next or running piece does; None when there is none.
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the job of one piece has to do."""

    piece: int
    backfill: int
    position: int
    what: str
    object: str
    spec: Mapping[str, Any]
    updates: Sequence[int]
    #: (update, path, bytes, whether it has been released) of what is to be loaded aside.
    files: Sequence[tuple[int, str, int, bool]]
    #: Where the stages before have left their rows.
    staged: Sequence[str]
    #: For a commit: update of rows that were let out of quarantine -> the update they came with.
    let_out: Mapping[int, int]


# Asking ----------------------------------------------------------------------------------------------------------


def reports(database: Database, *, object: str | None = None, limit: int = 50) -> list[BackfillReport]:
    """Backfills, or those of one object, the newest first."""
    ahead = (
        select(BackfillPiece.what, BackfillPiece.object)
        .where(BackfillPiece.backfill_id == Backfill.id, BackfillPiece.finished_at.is_(None))
        .order_by(BackfillPiece.position)
        .limit(1)
        .lateral()
    )
    counts = (
        select(
            BackfillPiece.backfill_id,
            func.count().label("pieces"),
            func.count(BackfillPiece.finished_at).label("pieces_done"),
        )
        .group_by(BackfillPiece.backfill_id)
        .subquery()
    )
    wanted = (
        select(Backfill, counts.c.pieces, counts.c.pieces_done, (ahead.c.what + " " + ahead.c.object).label("next"))
        .join(counts, counts.c.backfill_id == Backfill.id)
        .outerjoin(ahead, text("true"))
        .order_by(Backfill.id.desc())
        .limit(limit)
    )
    if object is not None:
        wanted = wanted.where(Backfill.object == object)
    with database.transaction() as connection:
        return [BackfillReport(**dict(row._mapping)) for row in connection.execute(wanted)]


def open_ids(database: Database) -> list[int]:
    """Backfills whose staged rows may still be wanted."""
    with database.transaction() as connection:
        return list(connection.execute(select(Backfill.id).where(_is_open())).scalars())


# Acting ----------------------------------------------------------------------------------------------------------


def start(
    database: Database,
    name: str,
    *,
    who: str,
    why: str,
    mode: Mode | None = None,
    covers_from: datetime | None = None,
    covers_to: datetime | None = None,
    weight: float = 1.0,
) -> int:
    """Starts a backfill and returns its id. A weight counts like that many reads a minute."""
    if weight <= 0:
        raise BackfillError("a weight is a number above 0.")
    plan = preview(database, name, mode=mode, covers_from=covers_from, covers_to=covers_to)
    with database.logging_transaction() as (connection, now):
        running = connection.execute(
            select(Backfill.id).where(Backfill.object == name, _is_open())
        ).scalar_one_or_none()
        if running is not None:
            raise BackfillError(f"backfill {running} of `{name}` is under way. Wait for its end, or stop it.")
        identity = connection.execute(
            insert(Backfill)
            .values(
                object=name,
                mode=plan.mode,
                covers_from=covers_from,
                covers_to=covers_to,
                weight=weight,
                state=BackfillState.RUNNING,
                who=who,
                why=why,
                started_at=now,
            )
            .returning(Backfill.id)
        ).scalar_one()
        pieces = connection.execute(
            insert(BackfillPiece).returning(BackfillPiece.id, sort_by_parameter_order=True),
            [
                {
                    "backfill_id": identity,
                    "position": position,
                    "what": piece.what,
                    "object": piece.object,
                    "updates": list(piece.updates),
                    "bytes_in": piece.bytes_in,
                }
                for position, piece in enumerate(plan.pieces, start=1)
            ],
        ).scalars()
        brain_name = object_name(identity)
        event = (connection.execute(select(func.max(Event.id))).scalar_one() or 0) + 1
        connection.execute(
            insert(Object).values(
                name=brain_name,
                kind=KIND,
                materialized=True,
                parents=[],
                spec={"weight": weight, "access": 1.0, "period": 60.0, "staleness_limit": None},
                position=2**40 + identity,
                taken_in_at=now,
                defined_at_event=event,
            )
        )
        log_events(connection, now, [(EventKind.CATALOG_CHANGED, None, {"backfill": identity})])
        times = {"start": now.timestamp(), "release": now.timestamp()}
        log_events(
            connection, now, [(EventKind.UPDATE_ARRIVED, brain_name, {"update": each, **times}) for each in pieces]
        )
        _write_down(connection, now, who, "backfill start", name, why, identity)
    return identity


def pause(database: Database, identity: int, *, who: str, why: str) -> None:
    """Starts no further piece until `resume`; a running one goes on to its end."""
    with database.logging_transaction() as (connection, now):
        name = _change(connection, identity, BackfillState.RUNNING, BackfillState.PAUSED)
        log_events(connection, now, [(EventKind.HELD, object_name(identity), {"by": PAUSED})])
        _write_down(connection, now, who, "backfill pause", name, why, identity)


def resume(database: Database, identity: int, *, who: str, why: str) -> None:
    with database.logging_transaction() as (connection, now):
        name = _change(connection, identity, BackfillState.PAUSED, BackfillState.RUNNING)
        log_events(connection, now, [(EventKind.RELEASED, object_name(identity), {"by": PAUSED})])
        _write_down(connection, now, who, "backfill resume", name, why, identity)


def stop(database: Database, identity: int, *, who: str, why: str) -> None:
    """Ends a backfill. What is staged is forgotten; what was committed or computed stays."""
    with database.logging_transaction() as (connection, now):
        name = _change(connection, identity, None, BackfillState.STOPPED)
        connection.execute(update(Backfill).where(Backfill.id == identity).values(finished_at=now))
        brain_name = object_name(identity)
        running = connection.execute(
            select(Decision.id).where(Decision.object == brain_name, Decision.state.in_(OPEN_STATES))
        ).one_or_none()
        if running is None:
            _forget(connection, now, brain_name)
        else:
            log_events(connection, now, [(EventKind.HELD, brain_name, {"by": "it was stopped"})])
        _write_down(connection, now, who, "backfill stop", name, why, identity)


#: The reason of a hold that a person asked for.
PAUSED = "the backfill is paused"


def object_name(identity: int) -> str:
    """Its name to the brain; no object of a catalog can have it."""
    return f"backfill/{identity}"


# What decisions ask ----------------------------------------------------------------------------------------------


def next_piece(connection: Connection, brain_name: str) -> tuple[int, Sequence[str]]:
    """The piece that a decision is to run, and the objects whose snapshots it reads."""
    piece = connection.execute(
        select(BackfillPiece.id, BackfillPiece.what, Object.spec)
        .join(Object, Object.name == BackfillPiece.object)
        .where(BackfillPiece.backfill_id == _number(brain_name), BackfillPiece.finished_at.is_(None))
        .order_by(BackfillPiece.position)
        .limit(1)
    ).one()
    return piece.id, piece.spec["reads"] if piece.what == "refresh" else ()


def take(connection: Connection, piece: int, decision: int) -> None:
    connection.execute(update(BackfillPiece).where(BackfillPiece.id == piece).values(decision_id=decision))


def work(connection: Connection, decision: int) -> Work | None:
    """What a claimed decision of a backfill has to do; None when the backfill was stopped meanwhile."""
    found = connection.execute(
        select(BackfillPiece, Object.spec, Backfill.state)
        .join(Object, Object.name == BackfillPiece.object)
        .join(Backfill, Backfill.id == BackfillPiece.backfill_id)
        .where(BackfillPiece.decision_id == decision, BackfillPiece.finished_at.is_(None))
    ).one_or_none()
    if found is None or found.state == BackfillState.STOPPED:
        return None
    files = connection.execute(
        select(Update.id, func.coalesce(Update.archived, Update.path), Update.size_bytes, Update.ungated)
        .where(Update.id.in_(found.updates if found.what == "stage" else []))
        .order_by(Update.id)
    ).all()
    staged = connection.execute(
        select(BackfillPiece.outcome["folder"].astext)
        .where(BackfillPiece.backfill_id == found.backfill_id, BackfillPiece.what == "stage")
        .order_by(BackfillPiece.position)
    ).scalars()
    origins = connection.execute(
        select(Update.id, Update.origin_id).where(Update.id.in_(found.updates), Update.origin_id.is_not(None))
    ).all()
    return Work(
        piece=found.id,
        backfill=found.backfill_id,
        position=found.position,
        what=found.what,
        object=found.object,
        spec=found.spec,
        updates=found.updates,
        files=[(i, path, size, ungated) for i, path, size, ungated in files],
        staged=[folder for folder in staged if folder],
        let_out={each: origin or 0 for each, origin in origins},
    )


def settle(connection: Connection, now: datetime, done: Work, outcome: Mapping[str, Any]) -> None:
    """Writes down that a piece is done, and with the last one that the backfill is."""
    connection.execute(
        update(BackfillPiece).where(BackfillPiece.id == done.piece).values(outcome=dict(outcome), finished_at=now)
    )
    left = connection.execute(
        select(func.count()).where(BackfillPiece.backfill_id == done.backfill, BackfillPiece.finished_at.is_(None))
    ).scalar_one()
    if not left:
        connection.execute(
            update(Backfill)
            .where(Backfill.id == done.backfill, _is_open())
            .values(state=BackfillState.DONE, finished_at=now)
        )
    tidy(connection, now, object_name(done.backfill))


def tidy(connection: Connection, now: datetime, brain_name: str) -> None:
    """Takes the brain's object away when its backfill is over; called when a job of it has ended."""
    state = connection.execute(select(Backfill.state).where(Backfill.id == _number(brain_name))).scalar_one()
    if state in (BackfillState.STOPPED, BackfillState.DONE):
        _forget(connection, now, brain_name)


# Within ----------------------------------------------------------------------------------------------------------


def _is_open() -> Any:
    return Backfill.state.in_((BackfillState.RUNNING, BackfillState.PAUSED))


def _change(connection: Connection, identity: int, before: BackfillState | None, after: BackfillState) -> str:
    """Changes the state, or says why it cannot; returns the object."""
    found = connection.execute(
        select(Backfill.object, Backfill.state).where(Backfill.id == identity).with_for_update()
    ).one_or_none()
    if found is None:
        raise BackfillError(f"there is no backfill {identity}. `freshet backfill list` shows them.")
    allowed = (BackfillState.RUNNING, BackfillState.PAUSED) if before is None else (before,)
    if found.state not in allowed:
        raise BackfillError(f"backfill {identity} is {found.state.value}.")
    connection.execute(update(Backfill).where(Backfill.id == identity).values(state=after))
    return str(found.object)


def _forget(connection: Connection, now: datetime, brain_name: str) -> None:
    connection.execute(update(Object).where(Object.name == brain_name).values(removed_at=now))
    connection.execute(
        update(Freshness).where(Freshness.object == brain_name, Freshness.until.is_(None)).values(until=now)
    )
    log_events(connection, now, [(EventKind.CATALOG_CHANGED, None, {"ended": brain_name})])


def _number(brain_name: str) -> int:
    return int(brain_name.partition("/")[2])


def _write_down(connection: Connection, now: datetime, who: str, what: str, name: str, why: str, identity: int) -> None:
    connection.execute(
        insert(Action).values(at=now, who=who, what=what, object=name, why=why, detail={"backfill": identity})
    )
