"""Show the services, how fresh each object is, what waits and runs, and the latest decisions.

The exit code is 0 when every service is up, 3 otherwise.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from scheduler_plugin.cli.ledger import print_json
from scheduler_plugin.cli.table import duration, table
from scheduler_plugin.services import ServiceError, stack
from scheduler_plugin.services.settings import Settings

if TYPE_CHECKING:
    from scheduler_plugin.store.reports import Board, FileCounts

NOT_ALL_UP = 3
DOWN = "Postgres is not up: `freshet up`."


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    settings = Settings.load()
    services = stack.status(settings)
    states = {item.service: item.state for item in services}
    board, files, trouble = _board(settings) if states["postgres"] == "up" else (None, [], DOWN)
    if options.json:
        told: dict[str, Any] = {
            "home": str(settings.home.root),
            "services": services,
            "board": board,
            "files": files,
            "trouble": trouble,
        }
        print_json(told)
    else:
        print(_services(services))
        print()
        _show(board) if board else print(trouble)
    return 0 if set(states.values()) == {"up"} else NOT_ALL_UP


def _board(settings: Settings) -> "tuple[Board | None, list[FileCounts], str | None]":
    """The ledger's answer, or why there is none."""
    from sqlalchemy.exc import DBAPIError

    from scheduler_plugin.store.database import Database
    from scheduler_plugin.store.reports import board, files

    try:
        database = Database(settings.database_url)
        try:
            return board(database), files(database), None
        finally:
            database.close()
    except DBAPIError as error:
        # A server in the middle of its start, or a database without our tables yet.
        return (
            None,
            [],
            f"The ledger cannot be read yet ({str(error.orig).strip().splitlines()[0]}): `freshet up` mends it.",
        )
    except ServiceError as error:
        return None, [], str(error)


def _services(services: list[stack.ServiceStatus]) -> str:
    rows = [(item.service, item.state, item.address or "-", item.pid or "-", duration(item.age)) for item in services]
    return table(("service", "state", "address", "pid", "for"), rows, right=("pid", "for"))


def _show(board: "Board") -> None:
    from rich.console import Console

    from scheduler_plugin.cli.board import render

    if not board.objects:
        print("No objects yet: the tick has not read the catalog.")
        return
    # Without a terminal nothing says how wide a line may be; let nothing be cut off.
    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(render(board, title="freshet"))
