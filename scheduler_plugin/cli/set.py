"""Change an object's weight or staleness limit for a while; afterwards the catalog holds again. `--weight catalog` or
`--limit catalog` takes it back at once."""

import argparse

from scheduler_plugin.cli.ledger import ledger, me
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.when import moment, span

TAKE_BACK = "catalog"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", help="a table or view of the catalog")
    parser.add_argument("--weight", help="how much its readers matter; the catalog's usual weight is 1")
    parser.add_argument("--limit", help="how stale it may become: 30s, 5m")
    parser.add_argument("--until", metavar="TIME", help="18:00, 2026-01-31T18:00:00Z, or a span like 2h")
    parser.add_argument("--why", default="", help="a word for those who ask")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.store import controls

    given = {"weight": options.weight, "limit": options.limit}
    wanted = {what: value for what, value in given.items() if value is not None}
    if not wanted:
        raise UserError("say what to set: --weight W or --limit L.")
    until = moment(options.until, future=True) if options.until else None
    if until is None and set(wanted.values()) != {TAKE_BACK}:
        raise UserError("say until when, such as --until 18:00: what should hold for good belongs in the catalog.")
    values = {what: None if text == TAKE_BACK else _number(what, text) for what, text in wanted.items()}
    with ledger() as database:
        for what, value in values.items():
            try:
                controls.override(
                    database,
                    options.object,
                    what,  # type: ignore[arg-type]
                    value,
                    until=until,
                    who=me(),
                    why=options.why,
                )
            except LookupError as error:
                raise UserError(str(error)) from None
            end = f" until {until.astimezone():%Y-%m-%d %H:%M:%S}" if until and value is not None else ""
            print(f"{options.object}: {what} is {'as in the catalog' if value is None else wanted[what]}{end}.")
    return 0


def _number(what: str, text: str) -> float:
    if what == "limit":
        limit = span(text)
        if limit == 0:
            raise UserError(f"--limit must be longer than {text}: nothing could ever keep it.", exit_code=2)
        return limit
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UserError(f"--weight must be a number above 0, not {text}.", exit_code=2)
    return weight
