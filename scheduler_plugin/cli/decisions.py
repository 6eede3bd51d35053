"""List what was decided, the newest first: why, what became of it, and what it cost."""

import argparse

from scheduler_plugin.cli.ledger import ledger, print_json
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import table
from scheduler_plugin.cli.when import moment


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--object", help="of one object only")
    parser.add_argument("--since", metavar="TIME", help="14:05, 2026-01-31T14:05:00Z, or 10m (ago)")
    parser.add_argument("--limit", type=int, default=20, help="at most so many (20)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.store.reports import latest_decisions

    if options.limit < 1:
        raise UserError(f"--limit is at least 1, not {options.limit}", exit_code=2)
    since = moment(options.since) if options.since else None
    with ledger() as database:
        found = latest_decisions(database, options.limit, object=options.object, since=since)
    if options.json:
        print_json(found)
        return 0
    if not found:
        print("Nothing was decided.")
        return 0
    rows = [
        (
            each.id,
            f"{each.decided_at.astimezone():%H:%M:%S}",
            each.object,
            each.state if each.attempt == 1 else f"{each.state}, try {each.attempt}",
            "" if each.slot_seconds is None else f"{each.slot_seconds:.2f} s",
            f"{each.impact:.3g}",
            each.why if each.error is None else each.error.splitlines()[0],
        )
        for each in found
    ]
    right = ("id", "cost", "impact")
    print(table(("id", "at", "object", "outcome", "cost", "impact", "why"), rows, right=right))
    return 0
