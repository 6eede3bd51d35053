"""Load an interval of a table again from its source files, or compute a view and all that derives from it again.

  freshet backfill OBJECT [--from TIME] [--to TIME] --why WHY     start one
  freshet backfill OBJECT [--from TIME] [--to TIME] --preview     only say what it would do
  freshet backfill list                                           how far they are
  freshet backfill pause|resume|stop ID --why WHY

A table's old rows stay until all new ones are ready, and are then exchanged in one step. It shares the slots with live
work by the same policy; --weight counts like that many reads a minute.
"""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import table

if TYPE_CHECKING:
    from scheduler_plugin.store.database import Database

VERBS = ("list", "pause", "resume", "stop")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="OBJECT|VERB", help=f"an object, or one of {', '.join(VERBS)}")
    parser.add_argument("id", nargs="?", type=int, help="of the backfill to pause, resume or stop")
    parser.add_argument("--from", dest="covers_from", metavar="TIME", help="2024-02-08 or 2024-02-08T15:00Z")
    parser.add_argument("--to", dest="covers_to", metavar="TIME", help="up to but without it")
    parser.add_argument("--mode", choices=("reload", "recompute"), help="by default what fits the object")
    parser.add_argument("--weight", type=float, default=1.0, help="its share against live work (1)")
    parser.add_argument("--why", help="kept with your name")
    parser.add_argument("--preview", action="store_true", help="only say what it would do")
    parser.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.cli.ledger import ledger
    from scheduler_plugin.store.backfill_plan import BackfillError

    with ledger() as database:
        try:
            if options.what == "list":
                _list(database, options)
            elif options.what in VERBS:
                _change(database, options)
            else:
                _start(database, options)
        except BackfillError as error:
            raise UserError(str(error)) from None
    return 0


def _list(database: "Database", options: argparse.Namespace) -> None:
    from scheduler_plugin.cli.ledger import print_json
    from scheduler_plugin.store import backfills

    found = backfills.reports(database)
    if options.json:
        print_json(found)
        return
    rows = [
        (each.id, each.object, each.mode, each.state, f"{each.pieces_done}/{each.pieces}", each.next or "-", each.who)
        for each in found
    ]
    print(table(("id", "object", "mode", "state", "pieces", "next", "by"), rows) if rows else "There is no backfill.")


def _change(database: "Database", options: argparse.Namespace) -> None:
    from scheduler_plugin.cli.ledger import me
    from scheduler_plugin.store import backfills

    if options.id is None:
        raise UserError(f"which one? `freshet backfill {options.what} ID`; `freshet backfill list` shows them.")
    change = {"pause": backfills.pause, "resume": backfills.resume, "stop": backfills.stop}[options.what]
    change(database, options.id, who=me(), why=_why(options))
    print(json.dumps({"id": options.id}) if options.json else f"Backfill {options.id}: {options.what}.")


def _start(database: "Database", options: argparse.Namespace) -> None:
    from scheduler_plugin.cli.ledger import me
    from scheduler_plugin.live.backfill_job import moment, told
    from scheduler_plugin.store import backfill_plan, backfills

    begin, end = moment(options.covers_from), moment(options.covers_to)
    plan = backfill_plan.preview(database, options.what, mode=options.mode, covers_from=begin, covers_to=end)
    if options.preview:
        print(json.dumps(asdict(plan), indent=2) if options.json else told(plan))
        return
    identity = backfills.start(
        database,
        options.what,
        who=me(),
        why=_why(options),
        mode=options.mode,
        covers_from=begin,
        covers_to=end,
        weight=options.weight,
    )
    if options.json:
        print(json.dumps({"id": identity, **asdict(plan)}, indent=2))
    else:
        print(f"{told(plan)}\nBackfill {identity} is under way: `freshet backfill list` shows how far it is.")


def _why(options: argparse.Namespace) -> str:
    if not options.why:
        raise UserError("say why, with --why: it is kept with your name.")
    return str(options.why)
