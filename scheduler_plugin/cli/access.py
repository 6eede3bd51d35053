"""Announce reads that others have done, so that popularity counts them: a number, or a log of queries.

    freshet access airport_board --count 20
    freshet access --log queries.log

A log has one query a line: SQL, or a JSON object with the SQL under `sql`, `query` or `statement` and, where it stands
for several, `count`. What a line reads is found in its SQL; names that the catalog does not have are passed over.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from scheduler_plugin.cli.ledger import ledger
from scheduler_plugin.cli.main import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", nargs="?", help="a table or view of the catalog")
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many reads (1)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="a log of queries, one a line")
    parser.add_argument("--json", action="store_true", help="print what was counted as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.live.access_log import reads_of
    from scheduler_plugin.store import accesses, objects

    if (options.object is None) == (options.log is None):
        raise UserError("name an object, or give a log of queries with --log", exit_code=2)
    if options.count < 1:
        raise UserError(f"--count is at least 1, not {options.count}", exit_code=2)
    passed_over = 0
    with ledger() as database:
        if options.log is None:
            counted = Counter({options.object: options.count})
        else:
            catalog = objects.in_force(database)
            known = {row.name for row in catalog.objects} if catalog else set()
            try:
                with options.log.open(encoding="utf-8", errors="replace") as lines:
                    counted, passed_over = reads_of(lines, known)
            except OSError as error:
                raise UserError(f"cannot read {options.log}: {error.strerror}") from None
        try:
            accesses.count(database, counted)
        except LookupError as error:
            raise UserError(f"{error}; `freshet status` lists them.") from None
    if options.json:
        print(json.dumps({"counted": dict(sorted(counted.items())), "lines_passed_over": passed_over}, indent=2))
    else:
        for name, number in sorted(counted.items()):
            print(f"{name}: {number} read(s) counted")
        if passed_over:
            print(f"{passed_over} line(s) passed over: no SQL that reads the catalog")
    return 0
