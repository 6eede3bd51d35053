"""The lease on the one loop of the installation.

A loop takes the lease when nobody holds it or the holder stopped renewing. Each taking raises the epoch, and every
write of the loop carries its epoch: a loop that was frozen and wakes up finds its writes refused.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, func, select, update
from sqlalchemy.dialects.postgresql import insert

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Lease


class LeaseLostError(Exception):
    """Another loop has taken over; this one must stop without writing anything more."""


def take(database: Database, holder: str, lasts: timedelta) -> int | None:
    """Takes or renews the lease for `holder`. Returns the epoch, or None while another holds it."""
    now = func.clock_timestamp()
    with database.transaction() as connection:
        connection.execute(
            insert(Lease)
            .values(id=1, holder="", epoch=0, expires_at=func.to_timestamp(0), event_seen=0, last_tick={})
            .on_conflict_do_nothing()
        )
        # A lease that ends later than one can was taken before the clock was put back.
        over = (Lease.expires_at < now) | (Lease.expires_at > now + lasts)
        held, epoch, expired = connection.execute(
            select(Lease.holder, Lease.epoch, over).where(Lease.id == 1).with_for_update()
        ).one()
        if held != holder and not expired:
            return None
        epoch += held != holder
        connection.execute(update(Lease).values(holder=holder, epoch=epoch, expires_at=now + lasts))
        return int(epoch)


def is_held(database: Database) -> bool:
    """Whether a loop is at work: it holds the lease and has finished a tick."""
    at_work = (Lease.expires_at > func.clock_timestamp()) & (Lease.last_tick != {})
    with database.transaction() as connection:
        return bool(connection.execute(select(at_work).where(Lease.id == 1)).scalar_one_or_none())


def give_back(database: Database, holder: str) -> None:
    """Ends the lease at once, so that the next loop need not wait for it to expire."""
    with database.transaction() as connection:
        connection.execute(
            update(Lease).where(Lease.holder == holder).values(expires_at=func.to_timestamp(0), holder="")
        )


def require_epoch(connection: Connection, epoch: int) -> None:
    """Refuses the transaction unless `epoch` is the one in force; holds it in force until commit."""
    current = connection.execute(select(Lease.epoch).where(Lease.id == 1).with_for_update(read=True)).scalar_one()
    if current != epoch:
        raise LeaseLostError(f"this loop has epoch {epoch}, but epoch {current} is in force")


def note_tick(connection: Connection, *, event_seen: int, last_tick: dict[str, Any]) -> None:
    connection.execute(update(Lease).where(Lease.id == 1).values(event_seen=event_seen, last_tick=last_tick))
