"""The ledger for a command: open, closed at the end, and an answer when there is none."""

import getpass
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy.exc import DBAPIError

from scheduler_plugin.cli.main import UserError
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store.database import Database


@contextmanager
def ledger() -> Iterator[Database]:
    database = Database(Settings.load().database_url)
    try:
        yield database
    except DBAPIError as error:
        words = str(error.orig).strip().splitlines()[0]
        raise UserError(f"the ledger cannot be used ({words}). `freshet up` starts it.") from error
    finally:
        database.close()


def me() -> str:
    """Who is at the keyboard."""
    return getpass.getuser()


def print_json(items: Sequence[Any]) -> None:
    print(json.dumps([asdict(each) for each in items], indent=2, default=plain))


def plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value)
