"""Arrivals become updates: one row for each new content, whatever it is called and however often it is announced."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.models import EventKind, Object, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A whole file that has landed for a table."""

    table: str
    path: str
    size_bytes: int
    content_hash: str
    covers_from: datetime | None = None
    covers_to: datetime | None = None


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
            first_seen = select(Object.taken_in_at).where(Object.name == table).scalar_subquery()
            last_release = select(func.max(Update.release)).where(Update.table_name == table).scalar_subquery()
            start = connection.execute(select(func.coalesce(last_release, first_seen))).scalar_one_or_none()
            if start is None:
                raise LookupError(f"files arrived for table {table}, which no catalog taken in so far has")
            rows = [
                {
                    "table_name": table,
                    "path": file.path,
                    "size_bytes": file.size_bytes,
                    "content_hash": file.content_hash,
                    "covers_from": file.covers_from,
                    "covers_to": file.covers_to,
                    "start": start,
                    "release": now,
                }
                for file in files
            ]
            statement = insert(Update).on_conflict_do_nothing().returning(Update.id, sort_by_parameter_order=False)
            ids = sorted(connection.execute(statement, rows).scalars())
            new += ids
            times = {"start": start.timestamp(), "release": now.timestamp()}
            log_events(
                connection, now, [(EventKind.UPDATE_ARRIVED, table, {"update": update, **times}) for update in ids]
            )
    return new
