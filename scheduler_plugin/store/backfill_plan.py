"""What a backfill would do: files to load again, cut into pieces, views to compute, and what it would cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, exists, func, select

from scheduler_plugin.store.arrivals import MOST_FILES
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Cost, Update, UpdateState, Version
from scheduler_plugin.store.objects import ObjectRow, in_force

Mode = Literal["reload", "recompute"]
#: Slot-seconds to assume of a job of which nothing is known.
UNKNOWN_COST = 1.0


class BackfillError(Exception):
    """Why it cannot be done; for the person who asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    what: Literal["stage", "commit", "refresh"]
    #: The table or view it works on.
    object: str
    updates: Sequence[int] = ()
    bytes_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a backfill would do."""

    object: str
    mode: Mode
    files: int
    bytes: int
    views: Sequence[str]
    slot_seconds: float
    pieces: Sequence[Piece] = field(repr=False)


def preview(
    database: Database,
    name: str,
    *,
    mode: Mode | None = None,
    covers_from: datetime | None = None,
    covers_to: datetime | None = None,
) -> Preview:
    """What a backfill would do; nothing is changed. Without a mode a table is loaded again, a view computed."""
    catalog = in_force(database)
    rows = {row.name: row for row in catalog.objects} if catalog else {}
    if name not in rows:
        raise BackfillError(f"there is no table or view `{name}`.")
    mode = mode or ("reload" if rows[name].kind == "table" else "recompute")
    if mode == "reload" and rows[name].kind != "table":
        raise BackfillError(f"`{name}` is a view: it has no files to load. Use the mode recompute.")
    if mode == "recompute" and (covers_from or covers_to):
        raise BackfillError("a view is computed whole: leave the interval out.")
    if covers_from and covers_to and covers_from >= covers_to:
        raise BackfillError(f"the interval ends at {covers_to} and begins at {covers_from}: it is empty.")
    views = _derived(rows, name) if mode == "reload" else _derived(rows, name, itself=True)
    with database.transaction() as connection:
        # A view that was never computed has nothing to be computed again, and perhaps no parents yet.
        computed = set(connection.execute(select(Version.object).where(Version.object.in_(views)).distinct()).scalars())
        views = [view for view in views if view in computed]
        pieces: list[Piece] = []
        files: list[Any] = []
        if mode == "reload":
            files = _files(connection, name, covers_from, covers_to)
            if not files:
                raise BackfillError(f"no file of `{name}` that was loaded is about that time.")
            pieces = _cut(connection, name, files, rows[name].spec.get("max_batch"))
        elif not views:
            raise BackfillError(f"nothing is to be computed: `{name}` has no view that has been computed before.")
        pieces += [Piece(what="refresh", object=view) for view in views]
        return Preview(
            object=name,
            mode=mode,
            files=len(files),
            bytes=sum(file.size_bytes for file in files),
            views=views,
            slot_seconds=sum(_cost(connection, piece) for piece in pieces),
            pieces=pieces,
        )


def _files(connection: Connection, table: str, covers_from: datetime | None, covers_to: datetime | None) -> list[Any]:
    """Loaded files about a time in the interval, oldest first; where it is not known, by when they arrived."""
    begin, end = func.coalesce(Update.covers_from, Update.release), func.coalesce(Update.covers_to, Update.release)
    # Another file lies under its name by now, or it is no longer kept.
    later = Update.__table__.alias("later")
    overwritten = exists().where(later.c.table_name == table, later.c.path == Update.path, later.c.id > Update.id)
    wanted = select(Update.id, Update.size_bytes).where(
        Update.table_name == table,
        Update.state == UpdateState.LOADED,
        Update.origin_id.is_(None),
        (Update.archived != "") | (Update.archived.is_(None) & ~overwritten),
    )
    if covers_to is not None:
        wanted = wanted.where(begin < covers_to)
    if covers_from is not None:
        # A file that covers no time, an arrival, lies in the interval that it begins.
        wanted = wanted.where((end > covers_from) | ((begin == end) & (end >= covers_from)))
    return list(connection.execute(wanted.order_by(begin, Update.id)).all())


def _cut(connection: Connection, table: str, files: Sequence[Any], most: int | None) -> list[Piece]:
    """Pieces no larger than a batch may be, and the one that puts them into the table."""
    pieces: list[Piece] = []
    some: list[int] = []
    size = 0
    for file in files:
        if some and ((most is not None and size + file.size_bytes > most) or len(some) >= MOST_FILES):
            pieces.append(Piece(what="stage", object=table, updates=some, bytes_in=size))
            some, size = [], 0
        some.append(file.id)
        size += file.size_bytes
    pieces.append(Piece(what="stage", object=table, updates=some, bytes_in=size))
    # Rows that were let out of quarantine leave with the file they came with: it is judged anew.
    chosen = [file.id for file in files]
    let_out = connection.execute(
        select(Update.id).where(Update.origin_id.in_(chosen), Update.state == UpdateState.LOADED)
    ).scalars()
    return [*pieces, Piece(what="commit", object=table, updates=[*chosen, *let_out])]


def _derived(rows: Mapping[str, ObjectRow], name: str, *, itself: bool = False) -> list[str]:
    """Materialized views below, each after all of its parents."""
    reached = {name}
    ordered: list[str] = []
    waiting = [row for row in rows.values() if row.kind == "view"]
    grew = True
    while grew:
        grew = False
        for row in list(waiting):
            if all(parent not in {each.name for each in waiting} for parent in row.parents):
                waiting.remove(row)
                grew = True
                if reached & set(row.parents) or (itself and row.name == name):
                    reached.add(row.name)
                    if row.materialized:
                        ordered.append(row.name)
    return ordered


def _cost(connection: Connection, piece: Piece) -> float:
    """Expected slot-seconds: by bytes for files, where the table has a history, and else by what a job took."""
    recent = (
        select(Cost.slot_seconds, Cost.bytes_in)
        .where(Cost.object == piece.object)
        .order_by(Cost.at.desc())
        .limit(20)
        .subquery()
    )
    mean, seconds, size = connection.execute(
        select(func.avg(recent.c.slot_seconds), func.sum(recent.c.slot_seconds), func.sum(recent.c.bytes_in))
    ).one()
    if mean is None:
        return UNKNOWN_COST
    if piece.what == "stage" and size:
        return max(float(mean), float(seconds) / float(size) * piece.bytes_in)
    return float(mean)
