"""Let jobs start again on what `freshet pause` stopped. What is paused in Airflow's own UI stays so."""

import argparse

from scheduler_plugin.cli.ledger import ledger, me
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.pause import chosen, target, told


def arguments(parser: argparse.ArgumentParser) -> None:
    target(parser)
    parser.add_argument("--why", default="", help="a word for those who ask")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.store import controls

    with ledger() as database:
        objects = chosen(database, options)
        try:
            controls.resume(database, objects, who=me(), why=options.why)
        except LookupError as error:
            raise UserError(str(error)) from None
    print(f"Resumed: {told(objects)}.")
    return 0
