"""List what was kept out of the tables and why, and deal with it.

  list      files (f12) and rows (r34) that were kept out, the newest first
  show      one of them whole, and what has been done about it
  release   load it although an expectation failed
  retry     load it as if it had just arrived: the catalog or the expectations have been mended
  drop      leave it out for good

The id of a file that was loaded without some of its rows stands for those rows. A mended file that is delivered under
the same name takes the place of its quarantined version by itself.
"""

import argparse
import json
from dataclasses import asdict

from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import table


def arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    listing = verbs.add_parser("list", help="what is in quarantine")
    listing.add_argument("--table")
    listing.add_argument("--limit", type=int, default=50, help="at most so many (50)")
    listing.add_argument("--json", action="store_true")
    show = verbs.add_parser("show", help="one item whole")
    show.add_argument("id")
    show.add_argument("--json", action="store_true")
    for verb, purpose in (
        ("release", "load it although an expectation failed"),
        ("retry", "load it as if it had just arrived"),
        ("drop", "leave it out for good"),
    ):
        sub = verbs.add_parser(verb, help=purpose)
        sub.add_argument("ids", nargs="*", metavar="ID", help="f12, r34 ...")
        sub.add_argument("--table", help="everything of this table instead")
        sub.add_argument("--why", required=True, help="kept with your name")
        sub.add_argument("--json", action="store_true")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.cli.ledger import ledger
    from scheduler_plugin.store.quarantine import QuarantineError

    with ledger() as database:
        try:
            {"list": _list, "show": _show}.get(options.verb, _act)(database, options)
        except QuarantineError as error:
            raise UserError(str(error)) from None
    return 0


def _list(database: object, options: argparse.Namespace) -> None:
    from scheduler_plugin.cli.ledger import print_json
    from scheduler_plugin.store import quarantine

    found = quarantine.items(database, table=options.table, limit=options.limit)  # type: ignore[arg-type]
    if options.json:
        print_json(found)
        return
    if not found:
        print("Nothing is in quarantine.")
        return
    rows = [
        (each.id, each.table, each.row or "-", f"{each.at:%Y-%m-%d %H:%M:%S}", _short(each.reason)) for each in found
    ]
    print(table(("id", "table", "row", "since", "why"), rows, right=("row",)))


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= 120 else line[:117] + "..."


def _show(database: object, options: argparse.Namespace) -> None:
    from scheduler_plugin.cli.ledger import plain
    from scheduler_plugin.store import quarantine

    found, past = quarantine.show(database, options.id)  # type: ignore[arg-type]
    if options.json:
        told = {"items": [asdict(each) for each in found], "actions": [asdict(each) for each in past]}
        print(json.dumps(told, indent=2, default=plain))
        return
    for each in found:
        place = f", row {each.row}" if each.row else ""
        print(
            f"{each.id}  table {each.table}, feed {each.feed}, {each.file}{place}\n  since {each.at:%Y-%m-%d %H:%M:%S}"
        )
        print(f"  {each.reason}")
        if each.raw is not None:
            print(f"  {each.raw}")
    if not found:
        print(f"{options.id} is not in quarantine any more.")
    for action in past:
        print(f"{action.at:%Y-%m-%d %H:%M:%S}  {action.who}: {action.what}: {action.why}")


def _act(database: object, options: argparse.Namespace) -> None:
    from scheduler_plugin.cli.ledger import me
    from scheduler_plugin.live.quarantine import act
    from scheduler_plugin.services.settings import Settings
    from scheduler_plugin.store import quarantine

    ids = set(options.ids)
    if bool(ids) == bool(options.table):
        raise UserError("name either ids (`freshet quarantine list` shows them) or --table.")
    if options.table:
        ids = {each.id for each in quarantine.items(database, table=options.table)}  # type: ignore[arg-type]
    archive = Settings.load().archive
    done = act(database, options.verb, ids, who=me(), why=options.why, archive=archive)  # type: ignore[arg-type]
    print(json.dumps(done) if options.json else f"{done['files']} file(s) and {done['rows']} row(s): {options.verb}.")
