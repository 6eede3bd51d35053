"""What was kept out of the tables, and what people did about it.

A file is `f<update>`, a row `r<row>`. Released, it is loaded whatever the expectations say; retried, it is loaded as if
it had just arrived; dropped, nobody waits for it any more. Each action is written down with who and why.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, literal, null, select, union_all, update

from scheduler_plugin.store import arrivals
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Action, Object, QuarantinedRow, Update, UpdateState

What = Literal["release", "retry", "drop"]
DONE: Mapping[str, str] = {"release": "released", "retry": "retried", "drop": "dropped"}


class QuarantineError(Exception):
    """Why nothing was done; for the person who asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A file or a row that was kept out."""

    id: str
    table: str
    feed: str
    #: As it was delivered.
    file: str
    #: Counted from 1 without the header; None for a file, and where Spark read the file in pieces.
    row: int | None
    reason: str
    #: The row's text, or its values as JSON; None for a file.
    raw: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Something that somebody did."""

    at: datetime
    who: str
    what: str
    object: str
    why: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsOf:
    """Rows that came with one update and are to be loaded after all."""

    table: str
    update: int
    #: Where the update's file lies now.
    path: str
    spec: Mapping[str, Any]
    ids: Sequence[int]
    raws: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFile:
    """The file that holds them now."""

    rows: RowsOf
    path: str
    size_bytes: int
    content_hash: str


def items(database: Database, *, table: str | None = None, limit: int | None = None) -> list[Item]:
    """What is in quarantine, the newest first."""
    with database.transaction() as connection:
        files = select(
            literal("f").label("kind"),
            Update.id,
            Update.table_name,
            Update.path,
            null().label("row"),
            Update.reason,
            null().label("raw"),
            Update.settled_at.label("at"),
        ).where(Update.state == UpdateState.QUARANTINED)
        both = union_all(files, _rows()).subquery()
        wanted = (
            select(both, Object.spec["feed"].astext.label("feed"))
            .join(Object, Object.name == both.c.table_name)
            .order_by(both.c.at.desc(), both.c.kind, both.c.id.desc())
            .limit(limit)
        )
        if table is not None:
            wanted = wanted.where(both.c.table_name == table)
        return [_item(dict(row._mapping)) for row in connection.execute(wanted)]


def blocked_tables(database: Database) -> frozenset[str]:
    """Tables of which a file is kept out, so that they serve less than was delivered."""
    with database.transaction() as connection:
        found = connection.execute(
            select(Update.table_name).where(Update.state == UpdateState.QUARANTINED).distinct()
        ).scalars()
        return frozenset(found)


def show(database: Database, identity: str) -> tuple[list[Item], list[Past]]:
    """One item, or the rows that were kept out of one file, and what has been done about it."""
    kind, number = parse(identity)
    with database.transaction() as connection:
        table, update_id = _owner(connection, kind, number)
        past = connection.execute(
            select(Action.at, Action.who, Action.what, Action.object, Action.why, Action.detail)
            .where(Action.object == table, Action.detail["updates"].contains([update_id]))
            .order_by(Action.id)
        ).all()
    found = [each for each in items(database, table=table) if each.id == identity]
    if not found and kind == "f":
        with database.transaction() as connection:
            ids = connection.execute(
                select(QuarantinedRow.id).where(
                    QuarantinedRow.update_id == update_id, QuarantinedRow.resolution.is_(None)
                )
            ).scalars()
            rows = {f"r{each}" for each in ids}
        found = [each for each in items(database, table=table) if each.id in rows]
    return found, [Past(**row._mapping) for row in past]


def parse(identity: str) -> tuple[str, int]:
    match = re.fullmatch(r"([fr])(\d+)", identity)
    if match is None:
        raise QuarantineError(f"`{identity}` is not the id of a file (f12) or a row (r34). `list` shows them.")
    return match[1], int(match[2])


def rows_to_load(database: Database, identities: Collection[str]) -> list[RowsOf]:
    """The rows among these items, by the update that they came with; a file that was loaded stands for its rows."""
    with database.transaction() as connection:
        _, rows = _chosen(connection, identities)
        found = connection.execute(
            select(
                QuarantinedRow.id,
                QuarantinedRow.raw,
                Update.id.label("update_id"),
                Update.table_name,
                func.coalesce(Update.archived, Update.path).label("path"),
                Object.spec,
            )
            .join(Update, Update.id == QuarantinedRow.update_id)
            .join(Object, Object.name == Update.table_name)
            .where(QuarantinedRow.id.in_(rows))
            .order_by(QuarantinedRow.id)
        ).all()
    by_update: dict[int, list[Any]] = defaultdict(list)
    for row in found:
        by_update[row.update_id].append(row)
    return [
        RowsOf(
            table=some[0].table_name,
            update=update_id,
            path=some[0].path,
            spec=some[0].spec,
            ids=[row.id for row in some],
            raws=[row.raw or "" for row in some],
        )
        for update_id, some in by_update.items()
    ]


def settle(
    database: Database, what: What, identities: Collection[str], *, who: str, why: str, made: Sequence[RowFile] = ()
) -> dict[str, int]:
    """Does it to all of these items, or to none; counts files and rows. `made` are the files that hold the rows."""
    if not why.strip():
        raise QuarantineError("say why: it is kept with what was done.")
    with database.logging_transaction() as (connection, now):
        files, rows = _chosen(connection, identities)
        by_table: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for each, table in files.items():
            by_table[table][0].append(each)
        for each, (table, _) in rows.items():
            by_table[table][1].append(each)
        for table, (updates, _) in by_table.items():
            if what == "drop":
                connection.execute(update(Update).where(Update.id.in_(updates)).values(state=UpdateState.DROPPED))
            elif updates:
                arrivals.again(connection, now, table, updates, ungated=what == "release")
        connection.execute(update(QuarantinedRow).where(QuarantinedRow.id.in_(rows)).values(resolution=DONE[what]))
        for file in made:
            if not set(file.rows.ids) <= rows.keys():
                raise QuarantineError(f"rows of update {file.rows.update} have been dealt with by somebody else.")
            _load_rows(connection, now, file, ungated=what == "release")
        for table, (updates, row_ids) in by_table.items():
            owners = sorted({*updates, *(rows[each][1] for each in row_ids)})
            detail = {"files": updates, "rows": row_ids, "updates": owners}
            connection.execute(
                insert(Action).values(at=now, who=who, what=f"quarantine {what}", object=table, why=why, detail=detail)
            )
    return {"files": len(files), "rows": len(rows)}


def _load_rows(connection: Connection, now: datetime, file: RowFile, *, ungated: bool) -> None:
    origin = connection.execute(select(Update).where(Update.id == file.rows.update)).one()
    identity = connection.execute(
        insert(Update)
        .values(
            table_name=file.rows.table,
            path=file.path,
            size_bytes=file.size_bytes,
            content_hash=file.content_hash,
            covers_from=origin.covers_from,
            covers_to=origin.covers_to,
            origin_id=origin.id,
            start=now,
            release=now,
        )
        .returning(Update.id)
    ).scalar_one()
    arrivals.again(connection, now, file.rows.table, [identity], ungated=ungated)


def _rows() -> Any:
    return (
        select(
            literal("r").label("kind"),
            QuarantinedRow.id,
            QuarantinedRow.table_name,
            Update.path,
            QuarantinedRow.row_number.label("row"),
            QuarantinedRow.reason,
            QuarantinedRow.raw,
            QuarantinedRow.at,
        )
        .join(Update, Update.id == QuarantinedRow.update_id)
        .where(QuarantinedRow.resolution.is_(None))
    )


def _item(row: Mapping[str, Any]) -> Item:
    return Item(
        id=f"{row['kind']}{row['id']}",
        table=row["table_name"],
        feed=row["feed"] or row["table_name"],
        file=row["path"],
        row=row["row"],
        reason=row["reason"] or "",
        raw=row["raw"],
        at=row["at"],
    )


def _owner(connection: Connection, kind: str, number: int) -> tuple[str, int]:
    wanted = (
        select(Update.table_name, Update.id).where(Update.id == number)
        if kind == "f"
        else select(QuarantinedRow.table_name, QuarantinedRow.update_id).where(QuarantinedRow.id == number)
    )
    found = connection.execute(wanted).one_or_none()
    if found is None:
        raise QuarantineError(f"there is nothing with the id {kind}{number}. `list` shows what is in quarantine.")
    return found[0], found[1]


def _chosen(connection: Connection, identities: Collection[str]) -> tuple[dict[int, str], dict[int, tuple[str, int]]]:
    """File -> table, and row -> (table, update), of items that are in quarantine; refuses any that is not."""
    numbers: dict[str, set[int]] = {"f": set(), "r": set()}
    for identity in identities:
        kind, number = parse(identity)
        numbers[kind].add(number)
    kept_out = connection.execute(
        select(Update.id, Update.table_name)
        .where(Update.id.in_(numbers["f"]), Update.state == UpdateState.QUARANTINED)
        .with_for_update()
    ).all()
    files: dict[int, str] = {row.id: row.table_name for row in kept_out}
    loaded = numbers["f"] - files.keys()
    found = connection.execute(
        select(QuarantinedRow.id, QuarantinedRow.table_name, QuarantinedRow.update_id)
        .where(
            QuarantinedRow.resolution.is_(None),
            QuarantinedRow.id.in_(numbers["r"]) | QuarantinedRow.update_id.in_(loaded),
        )
        .with_for_update()
    ).all()
    rows: dict[int, tuple[str, int]] = {row.id: (row.table_name, row.update_id) for row in found}
    gone = [f"f{each}" for each in sorted(loaded - {row.update_id for row in found})]
    gone += [f"r{each}" for each in sorted(numbers["r"] - rows.keys())]
    if gone:
        raise QuarantineError(f"{', '.join(gone)} is not in quarantine (any more). `list` shows what is.")
    return files, rows
