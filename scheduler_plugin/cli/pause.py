"""Start no new jobs on an object, a group or everything, until `freshet resume`. What runs goes on to its end."""

import argparse
import time

from scheduler_plugin.cli.ledger import ledger, me
from scheduler_plugin.cli.main import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    target(parser)
    parser.add_argument("--drain", action="store_true", help="wait until what runs on them has ended")
    parser.add_argument("--why", default="", help="a word for those who ask")


def target(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("object", nargs="?", help="a table or view of the catalog")
    what.add_argument("--group", help="all objects of a group of the catalog")
    what.add_argument("--all", action="store_true", help="everything")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.store import controls

    with ledger() as database:
        objects = chosen(database, options)
        try:
            controls.pause(database, objects, who=me(), why=options.why)
        except LookupError as error:
            raise UserError(str(error)) from None
        print(f"Paused: {told(objects)}. `freshet resume` undoes it.")
        while options.drain and (left := controls.running(database, objects)):
            print(f"  still running: {', '.join(left)}", flush=True)
            time.sleep(1)
        if options.drain:
            print("Nothing runs on them any more.")
    return 0


def chosen(database: "object", options: argparse.Namespace) -> list[str] | None:
    """The objects that are meant; None: all of them."""
    from scheduler_plugin.store import objects

    if options.all:
        return None
    if options.object:
        return [options.object]
    catalog = objects.in_force(database)  # type: ignore[arg-type]
    groups = {group["name"]: list(group["objects"]) for group in catalog.settings["groups"]} if catalog else {}
    if options.group not in groups:
        known = ", ".join(groups) or "none"
        raise UserError(f"the catalog in force has no group {options.group}; it has {known}.")
    return groups[options.group]


def told(objects: list[str] | None) -> str:
    return "everything" if objects is None else ", ".join(objects)
