"""Tell of whole files for a feed, wherever they lie: a path, or a URL that fsspec reads.

Files in the feed's landing folder need no announcement. Content that is known already is not loaded again.
"""

import argparse
import json

from scheduler_plugin.cli.main import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("feed")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--json", action="store_true", help="print the new updates as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.cli.ledger import ledger
    from scheduler_plugin.live.announce import AnnounceError, announce

    with ledger() as database:
        try:
            new = announce(database, options.feed, options.paths)
        except AnnounceError as error:
            raise UserError(str(error)) from None
    if options.json:
        print(json.dumps({"feed": options.feed, "announced": len(options.paths), "updates": new}))
    else:
        known = len(options.paths) - len(new)
        print(f"{len(new)} new file(s) for {options.feed}" + (f", {known} known already" if known else "") + ".")
    return 0
