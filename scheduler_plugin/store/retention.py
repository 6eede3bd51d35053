"""What upkeep asks of the ledger: which files may be archived, and forgetting history that is too old.

The ledger of updates is never pruned: it is what tells a file that comes again from a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, exists, func, select, update

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import (
    Access,
    Backfill,
    BackfillPiece,
    BackfillState,
    Cost,
    Decision,
    DecisionState,
    Freshness,
    Job,
    QualityResult,
    Update,
    UpdateState,
    Version,
)

#: A file that was loaded so long ago is not wanted where it landed: whoever delivered it has let go of it.
LEFT_ALONE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A loaded file that lies where it landed."""

    update: int
    table: str
    path: str
    size_bytes: int
    modified_ns: int
    settled_at: datetime
    #: Names under which the same content was delivered again.
    also_as: Sequence[str]


def to_archive(database: Database, *, limit: int = 10_000) -> list[Loaded]:
    """Loaded files that may be moved, oldest first; not of a table whose files a backfill may be about to read."""
    later = Update.__table__.alias("later")
    overwritten = exists().where(
        later.c.table_name == Update.table_name, later.c.path == Update.path, later.c.id > Update.id
    )
    open_backfill = exists().where(
        Backfill.object == Update.table_name, Backfill.state.in_((BackfillState.RUNNING, BackfillState.PAUSED))
    )
    with database.transaction() as connection:
        rows = connection.execute(
            select(
                Update.id.label("update"),
                Update.table_name.label("table"),
                Update.path,
                Update.size_bytes,
                Update.modified_ns,
                Update.settled_at,
                Update.also_as,
            )
            .where(
                Update.state == UpdateState.LOADED,
                Update.archived.is_(None),
                Update.origin_id.is_(None),
                Update.modified_ns.is_not(None),
                Update.settled_at < func.clock_timestamp() - LEFT_ALONE,
                ~overwritten,
                ~open_backfill,
            )
            .order_by(Update.id)
            .limit(limit)
        )
        return [Loaded(**dict(row._mapping)) for row in rows]


def archived(database: Database, moved: Sequence[tuple[int, str]]) -> None:
    """Writes down where updates' files lie now."""
    with database.transaction() as connection:
        for identity, path in moved:
            connection.execute(update(Update).where(Update.id == identity).values(archived=path))


def archived_before(database: Database, before: datetime) -> list[tuple[int, str]]:
    """Archived files of updates that were settled before then."""
    with database.transaction() as connection:
        rows = connection.execute(
            select(Update.id, Update.archived).where(Update.archived.is_not(None), Update.settled_at < before)
        )
        return [(identity, path) for identity, path in rows if path]


def forget(database: Database, updates: Sequence[int]) -> None:
    """Their archived files are gone: the ledger says so, and a backfill passes them over."""
    with database.transaction() as connection:
        connection.execute(update(Update).where(Update.id.in_(updates)).values(archived=""))


def prune(database: Database, before: datetime) -> dict[str, int]:
    """Forgets history from before then; how many rows of which table."""
    over = Decision.state.in_((DecisionState.DONE, DecisionState.FAILED)) & (Decision.finished_at < before)
    old = select(Decision.id).where(over)
    with database.transaction() as connection:
        removed = {
            "access": connection.execute(delete(Access).where(Access.minute < before)).rowcount,
            "quality_result": connection.execute(delete(QualityResult).where(QualityResult.at < before)).rowcount,
            "freshness": connection.execute(delete(Freshness).where(Freshness.until < before)).rowcount,
            "cost": connection.execute(delete(Cost).where(Cost.decision_id.in_(old))).rowcount,
            "job": connection.execute(delete(Job).where(Job.decision_id.in_(old))).rowcount,
            "version": connection.execute(
                delete(Version).where(Version.expired_at < before, Version.committed_at < before)
            ).rowcount,
        }
        # What still has a version, or belongs to a backfill, tells where something that is there comes from.
        kept = select(Version.decision_id).union(
            select(BackfillPiece.decision_id).where(BackfillPiece.decision_id.is_not(None))
        )
        removed["decision"] = connection.execute(delete(Decision).where(over, Decision.id.not_in(kept))).rowcount
    return removed
