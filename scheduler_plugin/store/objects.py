"""The catalog in force, as rows: what the loop, the jobs and the reports know of each object.

Specs are plain JSON, so that this folder does not need to know the catalog's classes.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import false, func, insert, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert

from scheduler_plugin.store import validity
from scheduler_plugin.store.database import Database, log_events
from scheduler_plugin.store.models import CatalogVersion, Event, EventKind, Freshness, Object


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRow:
    """One object of a catalog."""

    name: str
    kind: str
    materialized: bool
    parents: Sequence[str]
    spec: Mapping[str, Any]
    #: See `Object.defined_at_event`; 0 where it does not matter.
    defined_at_event: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRow:
    """The settings of the catalog in force, and its objects in declaration order."""

    settings: Mapping[str, Any]
    objects: Sequence[ObjectRow]

    @property
    def fingerprint(self) -> str:
        """The same for catalogs that mean the same, wherever and in whatever words they are written."""
        items = [[each.name, each.kind, each.materialized, list(each.parents), each.spec] for each in self.objects]
        return hashlib.sha256(json.dumps([self.settings, items], sort_keys=True).encode()).hexdigest()


def take_in(database: Database, catalog: CatalogRow) -> bool:
    """Makes `catalog` the one in force; removed objects keep their rows and history. False when it already is."""
    with database.logging_transaction() as (connection, now):
        newest = connection.execute(select(CatalogVersion.fingerprint).order_by(CatalogVersion.id.desc()).limit(1))
        if newest.scalar_one_or_none() == catalog.fingerprint:
            return False
        event = (connection.execute(select(func.max(Event.id))).scalar_one() or 0) + 1
        before = {row.name: row for row in connection.execute(select(*Object.__table__.columns))}
        names = [item.name for item in catalog.objects]
        gone = Object.name.not_in(names) & Object.removed_at.is_(None) & (Object.kind != "backfill")
        removed = connection.execute(update(Object).where(gone).values(removed_at=now).returning(Object.name)).scalars()
        connection.execute(
            update(Freshness).where(Freshness.object.in_(removed.all()), Freshness.until.is_(None)).values(until=now)
        )
        defined, rows = [], []
        for position, item in enumerate(catalog.objects):
            known = before.get(item.name)
            values = {
                "kind": item.kind,
                "materialized": item.materialized,
                "spec": dict(item.spec),
                "parents": list(item.parents),
                "position": position,
                "removed_at": None,
            }
            same = (
                known is not None
                and known.removed_at is None
                and known.materialized == item.materialized
                and definition(known.spec) == definition(item.spec)
            )
            if known is not None and not same and item.kind == "view":
                validity.close(connection, [item.name], now)
            defined.append(known.defined_at_event if known is not None and same else event)
            if known is None or any(getattr(known, column) != value for column, value in values.items()):
                rows.append({"name": item.name, "taken_in_at": now, "defined_at_event": defined[-1], **values})
        if rows:
            statement = upsert(Object)
            changing = [column for column in rows[0] if column not in ("name", "taken_in_at")]
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=[Object.name],
                    set_={column: statement.excluded[column] for column in changing},
                ),
                rows,
            )
        connection.execute(
            insert(CatalogVersion).values(
                fingerprint=catalog.fingerprint,
                event_id=event,
                settings=dict(catalog.settings),
                objects=[
                    {**asdict(item), "defined_at_event": since}
                    for item, since in zip(catalog.objects, defined, strict=True)
                ],
                taken_in_at=now,
            )
        )
        body = {"fingerprint": catalog.fingerprint, "policy": catalog.settings.get("policy")}
        log_events(connection, now, [(EventKind.CATALOG_CHANGED, None, body)])
    return True


def definition(spec: Mapping[str, Any]) -> Any:
    """What makes a view's content: its SQL and that of the virtual views it reads. A table's content is its files."""
    return spec.get("sql"), spec.get("virtual")


def in_force(database: Database, *, at_event: int | None = None, backfills: bool = False) -> CatalogRow | None:
    """The catalog last taken in, or the one that was in force at an event of the log.

    With `backfills` also those that are under way, which to the brain are objects like the others.
    """
    wanted = select(CatalogVersion.settings, CatalogVersion.objects).order_by(CatalogVersion.id.desc()).limit(1)
    if at_event is not None:
        wanted = wanted.where(CatalogVersion.event_id <= at_event)
    names = ("name", "kind", "materialized", "parents", "spec", "defined_at_event")
    under_way = select(*(getattr(Object, each) for each in names)).where(
        Object.kind == "backfill", Object.removed_at.is_(None), true() if backfills else false()
    )
    with database.transaction() as connection:
        found = connection.execute(wanted).one_or_none()
        more = connection.execute(under_way.order_by(Object.position)).all()
    if found is None:
        return None
    objects = [ObjectRow(**each) for each in found.objects] + [ObjectRow(**row._mapping) for row in more]
    return CatalogRow(settings=found.settings, objects=objects)


def settings_in_force(database: Database) -> Mapping[str, Any]:
    """The catalog's settings alone, without its objects; empty before any was taken in."""
    wanted = select(CatalogVersion.settings).order_by(CatalogVersion.id.desc()).limit(1)
    with database.transaction() as connection:
        return connection.execute(wanted).scalar_one_or_none() or {}
