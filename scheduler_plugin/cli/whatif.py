"""Play recorded arrivals, costs and accesses once more, with another policy or number of slots, beside what really
happened. Without either it replays what ran, which shows how far such a replay can be trusted."""

import argparse
import json
from typing import TYPE_CHECKING

from scheduler_plugin.cli.ledger import ledger
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import table
from scheduler_plugin.cli.when import moment

if TYPE_CHECKING:
    from scheduler_plugin.live.whatif import WhatIf


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", help="one of `freshet policies` for the mixed model (the one that ran)")
    parser.add_argument("--slots", type=int, help="how many jobs may run at once (as many as there were)")
    parser.add_argument("--from", dest="start", metavar="TIME", help="14:05, a full time, or 1h (ago); the beginning")
    parser.add_argument("--to", dest="end", metavar="TIME", help="likewise; the last event")
    parser.add_argument("--json", action="store_true", help="print everything, with curves, as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.live.whatif import WhatIfError, what_if

    if options.slots is not None and options.slots < 1:
        raise UserError("--slots must be at least 1.")
    start = moment(options.start) if options.start else None
    end = moment(options.end) if options.end else None
    with ledger() as database:
        try:
            found = what_if(database, policy=options.policy, slots=options.slots, start=start, end=end)
        except WhatIfError as error:
            raise UserError(str(error)) from None
    print(json.dumps(found.as_json(), indent=2) if options.json else prose(found))
    return 0


def prose(found: "WhatIf") -> str:
    span = f"{found.start.astimezone():%Y-%m-%d %H:%M:%S} to {found.end.astimezone():%H:%M:%S}"
    rows = [
        (
            name,
            f"{each.policy}, {each.slots} slots",
            f"{each.qod:.3f}",
            f"{each.weighted_staleness:.1f} s",
            f"{each.worst_stretch:.2f}",
            f"{each.limits_breached} ({each.seconds_over_limit:.0f} s)",
            f"{each.slot_hours:.3f}",
            each.jobs,
        )
        for name, each in (("really", found.real), ("replayed", found.replayed))
    ]
    head = ("", "decided by", "QoD", "weighted staleness", "worst stretch", "limits breached", "slot-hours", "jobs")
    return f"{span}, {found.arrivals} updates\n\n{table(head, rows, right=head[2:])}"
