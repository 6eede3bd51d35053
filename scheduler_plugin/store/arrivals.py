"""Arrivals become updates: one row for each new content, whatever it is called and however often it is announced."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, all_, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.models import EventKind, Object, Update, UpdateState

#: Files that one batch may have: listing and planning more of them together is slower than apart.
MOST_FILES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A whole file that has landed for a table, or something that looked like one and cannot be loaded."""

    table: str
    path: str
    size_bytes: int
    content_hash: str
    covers_from: datetime | None = None
    covers_to: datetime | None = None
    modified_ns: int | None = None
    #: Why it goes to quarantine at once: it is no file that could be loaded.
    refused: str | None = None


def take_in(database: Database, arrivals: Sequence[Arrival]) -> list[int]:
    """Records what is new among `arrivals` and tells the loop. Returns the ids of the new updates.

    Files taken in together cover the same stretch of the scheduler's clock: from the table's last release until now.
    """
    new: list[int] = []
    with database.logging_transaction() as (connection, now):
        by_table: dict[str, list[Arrival]] = defaultdict(list)
        for arrival in arrivals:
            by_table[arrival.table].append(arrival)
        for table, files in by_table.items():
            start = _start(connection, table)
            rows = [
                {
                    "table_name": table,
                    "path": file.path,
                    "size_bytes": file.size_bytes,
                    "content_hash": file.content_hash,
                    "covers_from": file.covers_from,
                    "covers_to": file.covers_to,
                    "modified_ns": file.modified_ns,
                    "start": start,
                    "release": now,
                    "state": UpdateState.QUARANTINED if file.refused else UpdateState.PENDING,
                    "reason": file.refused,
                    "settled_at": now if file.refused else None,
                }
                for file in files
            ]
            statement = (
                insert(Update)
                .on_conflict_do_nothing()
                .returning(Update.id, Update.path, Update.content_hash, Update.state, sort_by_parameter_order=False)
            )
            made = connection.execute(statement, rows).all()
            ids = sorted(row.id for row in made if row.state == UpdateState.PENDING)
            new += ids
            _replace(connection, table, [row.path for row in made], [row.id for row in made])
            _note_other_names(connection, table, {(row.path, row.content_hash) for row in made}, files)
            _tell(connection, now, table, ids, start)
    return new


def again(connection: Connection, now: datetime, table: str, updates: Sequence[int], *, ungated: bool) -> None:
    """Makes quarantined updates pending once more, within a `logging_transaction`."""
    start = _start(connection, table)
    connection.execute(
        update(Update)
        .where(Update.id.in_(updates))
        .values(
            state=UpdateState.PENDING,
            batch_id=None,
            rows=None,
            reason=None,
            settled_at=None,
            start=start,
            release=now,
            ungated=ungated,
        )
    )
    _tell(connection, now, table, updates, start)


def known(database: Database, tables: Collection[str]) -> dict[str, tuple[int, int]]:
    """Path -> (size, time of change) of files that lie where they landed; the newest of each name."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(Update.path, Update.size_bytes, Update.modified_ns)
            .where(Update.table_name.in_(tables), Update.archived.is_(None), Update.modified_ns.is_not(None))
            .order_by(Update.id)
        )
        return {path: (size, modified or 0) for path, size, modified in rows}


def mark_replaced(connection: Connection, table: str, batch: int) -> None:
    """What a batch refused because its file has been overwritten by a later delivery waits for nobody."""
    later = Update.__table__.alias("later")
    newer = select(later.c.id).where(later.c.table_name == table, later.c.path == Update.path, later.c.id > Update.id)
    connection.execute(
        update(Update)
        .where(Update.batch_id == batch, Update.state == UpdateState.QUARANTINED, newer.exists())
        .values(state=UpdateState.REPLACED)
    )


def _start(connection: Connection, table: str) -> datetime:
    first_seen = select(Object.taken_in_at).where(Object.name == table).scalar_subquery()
    last_release = select(func.max(Update.release)).where(Update.table_name == table).scalar_subquery()
    start: datetime | None = connection.execute(select(func.coalesce(last_release, first_seen))).scalar_one_or_none()
    if start is None:
        raise LookupError(f"files arrived for table {table}, which no catalog taken in so far has")
    return start


def _tell(connection: Connection, now: datetime, table: str, updates: Sequence[int], start: datetime) -> None:
    times = {"start": start.timestamp(), "release": now.timestamp()}
    sizes = {
        row.id: row.size_bytes
        for row in connection.execute(select(Update.id, Update.size_bytes).where(Update.id.in_(updates)))
    }
    log_events(
        connection,
        now,
        [(EventKind.UPDATE_ARRIVED, table, {"update": each, "bytes": sizes[each], **times}) for each in updates],
    )


def _replace(connection: Connection, table: str, paths: Sequence[str], new: Sequence[int]) -> None:
    """A file delivered again under its name takes the place of its quarantined version."""
    if not new:
        return
    connection.execute(
        update(Update)
        .where(
            Update.table_name == table,
            Update.path.in_(paths),
            Update.state == UpdateState.QUARANTINED,
            Update.id < min(new),
        )
        .values(state=UpdateState.REPLACED)
    )


def _note_other_names(
    connection: Connection, table: str, made: Collection[tuple[str, str]], files: Sequence[Arrival]
) -> None:
    repeated = [file for file in files if (file.path, file.content_hash) not in made]
    for file in repeated:
        connection.execute(
            update(Update)
            .where(
                Update.table_name == table,
                Update.content_hash == file.content_hash,
                Update.path != file.path,
                literal(file.path) != all_(Update.also_as),
            )
            .values(also_as=func.array_append(Update.also_as, file.path))
        )
