"""Break things on purpose: kills, freezes and mistakes at random, on services of its own, while known rows pour in.
Afterwards the ledger, the tables (by DuckDB) and the freshness history are looked at. The exit code is 0 when every
update was loaded once, nothing is left open, and work went on within 15 s of each part being back."""

import argparse
import io
import json
import random
import sys

from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import table


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (10)")
    parser.add_argument("--seed", type=int, help="makes the same faults in the same order again")
    parser.add_argument("--only", help="these faults only, with commas; `--only help` lists them")
    parser.add_argument("--keep", action="store_true", help="leave the services running for a look")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.chaos.faults import FAULTS
    from scheduler_plugin.chaos.run import chaos, own_settings
    from scheduler_plugin.services import stack
    from scheduler_plugin.services.home import Home
    from scheduler_plugin.services.progress import Progress

    only = options.only.split(",") if options.only else []
    if set(only) - set(FAULTS):
        raise UserError(f"the faults are: {', '.join(FAULTS)}.")
    seed = random.randrange(10**6) if options.seed is None else options.seed
    settings = own_settings(Home.find().root / "chaos")
    try:
        report = chaos(
            settings, minutes=options.minutes, seed=seed, only=only, say=lambda told: print(told, file=sys.stderr)
        )
    finally:
        if not options.keep:
            stack.down(settings.home, Progress(io.StringIO()))
    if options.json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        rows = [
            (each.told, f"{each.back_after:.1f} s", "-" if each.work_after is None else f"{each.work_after:.1f} s")
            for each in report.faults
        ]
        print(table(("fault", "back after", "work after"), rows, right=("back after", "work after")))
        files = ", ".join(f"{count} files of {name}" for name, count in report.files.items())
        rest = "never" if report.settled_after is None else f"{report.settled_after:.1f} s after the last file"
        print(f"\nseed {report.seed}; {files}; settled {rest}")
        print("\n".join(report.problems) or "All is well: every row once, nothing left open, no hole in the history.")
    return 1 if report.problems else 0
