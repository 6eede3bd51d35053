"""Where Iceberg's own books are kept: two tables in Postgres that say which metadata file of each table is in force."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import ProgrammingError

NAMESPACE = "warehouse"
#: The Postgres schema of pyiceberg's two bookkeeping tables.
CATALOG_SCHEMA = "iceberg"
#: Any number, the same in every process: the advisory lock under which the bookkeeping tables are made.
_LOCK = 0x46726573686574


class Books(SqlCatalog):  # type: ignore[misc] # pyiceberg tells no types
    """Reads a table's metadata only when it is another file than before: files do not change, and take long to read."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._known: dict[tuple[str, str], Table] = {}

    def _convert_orm_to_iceberg(self, orm_table: Any) -> Table:
        name = (orm_table.table_namespace, orm_table.table_name)
        known = self._known.get(name)
        if known is None or known.metadata_location != orm_table.metadata_location:
            known = self._known[name] = super()._convert_orm_to_iceberg(orm_table)
        # Each caller has its own: a commit changes it.
        return copy.copy(known)


def open_books(database_url: str, warehouse: Path | str) -> Books:
    """The books of one warehouse, made when they are missing."""
    url = make_url(database_url)
    options = f"{url.query.get('options', '')} -csearch_path={CATALOG_SCHEMA}".strip()
    location = str(warehouse) if "://" in str(warehouse) else str(Path(warehouse).absolute())
    settings = {
        "uri": url.update_query_dict({"options": options}).render_as_string(hide_password=False),
        "warehouse": location,
        "pool_pre_ping": "true",
    }
    books = Books("freshet", **settings, init_catalog_tables="false")
    try:
        ready = books.namespace_exists(NAMESPACE)
    except ProgrammingError:
        ready = False
    if ready:
        return books
    books.close()
    return _made(settings)


def _made(settings: dict[str, str]) -> Books:
    """Makes the bookkeeping tables, one process at a time: CREATE ... IF NOT EXISTS alone still collides."""
    engine = create_engine(settings["uri"], isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        # Given back with the connection, however this ends.
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _LOCK})
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {CATALOG_SCHEMA}"))
        books = Books("freshet", **settings)
        books.create_namespace_if_not_exists(NAMESPACE)
        connection.invalidate()
    engine.dispose()
    return books
