"""Run an object now, with the stale ancestors it needs, before everything the policy would choose.

The wish is recorded with who made it and why; the decisions it leads to say so. A table with nothing to load has
nothing to run, and a virtual view is never run: for these it means "until it holds what has arrived by now".
"""

import argparse
import time

from scheduler_plugin.cli.ledger import ledger, me, print_json
from scheduler_plugin.cli.main import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", help="a table or view of the catalog")
    parser.add_argument("--why", default="", help="the reason, for the record")
    parser.add_argument("--by", default=None, help="who asks; the user of this machine unless given")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended; the exit code is 1 unless met")
    parser.add_argument("--json", action="store_true", help="print the demand as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.store import demands

    with ledger() as database:
        try:
            identity = demands.demand(database, options.object, by=options.by or me(), why=options.why)
        except LookupError as error:
            raise UserError(f"{error}; `freshet status` lists them.") from None
        (told,) = demands.reports(database, only=[identity])
        while options.wait and told.ended_at is None:
            time.sleep(0.2)
            (told,) = demands.reports(database, only=[identity])
    if options.json:
        print_json(told)
    elif told.outcome is None:
        print(f"Demand {told.id}: {told.object} goes first from now on, with what it needs. `freshet status` shows it.")
    else:
        print(f"Demand {told.id}: {told.object}: {told.outcome}.")
    return 1 if options.wait and told.outcome != "met" else 0
