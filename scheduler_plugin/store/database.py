"""One door to the database: an engine, transactions, and the log whose order is the order of commits.

Rows of `event` are written under one advisory lock that is held until commit. So a reader that has seen event n has
seen every event before it, which plain identity columns do not promise, and `at` never goes back along the ids even
when the machine's clock does.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from select import select as select_ready
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, func, literal, select, text
from sqlalchemy.dialects.postgresql import insert

from scheduler_plugin.store import validity
from scheduler_plugin.store.models import Event, EventKind

#: The channel the loop listens on.
CHANNEL = "freshet"
_LOG_LOCK = 0x46524553  # "FRES"


class Database:
    """Connections to the `freshet` schema, and the log."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine: Engine = create_engine(url, pool_pre_ping=True, pool_size=4, max_overflow=4, pool_recycle=900)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def logging_transaction(self) -> Iterator[tuple[Connection, datetime]]:
        """A transaction that may write to the log; yields the instant that its events carry.

        Everything in it happens after everything in the log so far and before everything still to come.
        """
        with self.engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOG_LOCK})
            last = select(Event.at).order_by(Event.id.desc()).limit(1).scalar_subquery()
            now: datetime = connection.execute(select(func.greatest(func.clock_timestamp(), last))).scalar_one()
            yield connection, now

    @contextmanager
    def listener(self) -> Iterator["Listener"]:
        """A connection of its own that hears of new events."""
        pooled = self.engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        try:
            connection.autocommit = True
            connection.cursor().execute(f"LISTEN {CHANNEL}")
            yield Listener(connection)
        finally:
            connection.close()


class Listener:
    """Waits for what `log_events` announces."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def wait(self, seconds: float) -> bool:
        """True as soon as something was logged since the last call; False after `seconds`."""
        if not self._connection.notifies:
            if not select_ready([self._connection], [], [], seconds)[0]:
                return False
            self._connection.poll()
        heard = bool(self._connection.notifies)
        self._connection.notifies.clear()
        return heard


def log_events(
    connection: Connection, at: datetime, events: Sequence[tuple[EventKind, str | None, Mapping[str, Any]]]
) -> None:
    """Appends events within a `logging_transaction` and wakes the loop when it commits.

    What has arrived ends the validity of every version that lacks it.
    """
    if not events:
        return
    connection.execute(
        insert(Event),
        [{"at": at, "kind": kind, "object": name, "body": dict(body)} for kind, name, body in events],
    )
    arrived = {name for kind, name, _ in events if kind == EventKind.UPDATE_ARRIVED and name is not None}
    if arrived:
        validity.close(connection, sorted(arrived), at)
    connection.execute(select(func.pg_notify(literal(CHANNEL), literal(""))))
