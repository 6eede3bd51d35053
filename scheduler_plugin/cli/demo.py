"""Start everything and watch it at work: New York's flights of February 2013 land as files, much faster than they
happened; the storm of the 8th and 9th comes as a surge; a small reader reads the views.

The demo has a home of its own below FRESHET_HOME and begins with an empty warehouse each time. It ends by itself, or
with Ctrl-C, with a summary that DuckDB has checked.
"""

import argparse
import json
import os
import sys

from scheduler_plugin.cli.main import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=4.0, help="how long files land (4)")
    parser.add_argument(
        "--speed",
        type=float,
        help="seconds of 2013 that pass in one second; by default the storm's week fits the minutes",
    )
    parser.add_argument("--keep", action="store_true", help="leave everything running at the end")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(options: argparse.Namespace) -> int:
    if options.minutes <= 0 or (options.speed is not None and options.speed <= 0):
        raise UserError("--minutes and --speed must be above 0", exit_code=2)
    from scheduler_plugin.services.home import Home

    os.environ["FRESHET_HOME"] = str(Home.find().root / "demo")
    from scheduler_plugin.demo.run import DemoOptions, run_demo
    from scheduler_plugin.demo.summary import as_text

    summary = run_demo(DemoOptions(minutes=options.minutes, speed=options.speed, keep=options.keep, quiet=options.json))
    if summary is None:
        return 130
    print(json.dumps(summary.as_json(), indent=2) if options.json else as_text(summary))
    if not summary.all_right:
        print("freshet demo: the summary does not add up; see above.", file=sys.stderr)
    return 0 if summary.all_right else 1
