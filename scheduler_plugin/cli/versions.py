"""List the versions of an object: when each was true, what it was computed from, who holds it.

A version is true from the arrival of the newest update it holds up to the arrival of the first that it lacks. Read an
old one with `freshet query ... --as-of TIME`, or `--version OBJECT=SNAPSHOT`, while it is kept.
"""

import argparse
from datetime import datetime

from scheduler_plugin.cli.ledger import ledger, print_json
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", help="a table or materialized view of the catalog")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="the newest N (20)")
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.store import versions

    if options.limit < 1:
        raise UserError(f"--limit is at least 1, not {options.limit}", exit_code=2)
    with ledger() as database:
        try:
            found = versions.history(database, options.object, limit=options.limit)
        except LookupError as error:
            raise UserError(str(error)) from None
    if options.json:
        print_json(found)
        return 0
    if not found:
        print(f"{options.object} has no version yet: nothing has been loaded or refreshed.")
        return 0
    rows = [
        (
            each.snapshot_id,
            _time(each.committed_at),
            _time(each.valid_from, "the beginning"),
            _time(each.valid_to, "now" if each.expired_at is None else "-"),
            each.rows,
            "gone" if each.expired_at else ", ".join(each.pinned_by) or "-",
        )
        for each in found
    ]
    header = ("version", "committed", "true from", "until", "rows", "held by")
    print(table(header, rows, right=("version", "rows")))
    return 0


def _time(at: datetime | None, otherwise: str = "-") -> str:
    return otherwise if at is None else at.astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
