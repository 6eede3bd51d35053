"""The ledger for a command: open, closed at the end, and an answer when there is none."""

import getpass
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from scheduler_plugin.cli.main import UserError
from scheduler_plugin.services.settings import Settings

if TYPE_CHECKING:
    from scheduler_plugin.store.database import Database


@contextmanager
def ledger() -> "Iterator[Database]":
    from scheduler_plugin.store.database import Database

    database = Database(Settings.load().database_url)
    try:
        with there():
            yield database
    finally:
        database.close()


@contextmanager
def there() -> Iterator[None]:
    """Says what to do when the ledger does not answer."""
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except DBAPIError as error:
        words = str(error.orig).strip().splitlines()[0]
        raise UserError(f"the ledger cannot be used ({words}): `freshet up` starts or mends it.") from error


def me() -> str:
    """Who is at the keyboard."""
    return getpass.getuser()


def print_json(found: Any) -> None:
    print(json.dumps(found, indent=2, default=plain))


def plain(value: Any) -> object:
    """What JSON has no word for: a dataclass by its fields, a time in ISO's way."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)
