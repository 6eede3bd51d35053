"""Read the warehouse: one SELECT over its tables and views, at one instant at which all versions read were true.

With --max-staleness, what is too old is loaded and refreshed on demand before the query, at its deadline's priority; a
query that cannot be answered in time is told so at once (exit code 4) with what could be had instead. With --prefer,
queries that wait and updates that are pending share the time: 0 answers at once, 1 waits for everything. The answer
says how fresh it is, per object, and which versions were read.
"""

import argparse
import sys
from typing import Any

from scheduler_plugin.cli.ledger import me, print_json, there
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import duration, table
from scheduler_plugin.cli.when import moment
from scheduler_plugin.services.settings import Settings

NOT_IN_TIME = 4


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sql", help="a SELECT in Spark's dialect")
    parser.add_argument("--deadline", metavar="30s", help="when the answer is of no use any more")
    parser.add_argument("--max-staleness", metavar="60s", help="the answer must have been true so recently")
    parser.add_argument("--prefer", type=float, metavar="0..1", help="how much freshness is worth waiting for")
    parser.add_argument(
        "--as-of", metavar="TIME", help="read what was true then: 14:05, 2026-01-31T14:05:00Z, or 10m (ago)"
    )
    parser.add_argument(
        "--version", action="append", default=[], metavar="OBJECT=N", help="read this version of an object"
    )
    parser.add_argument(
        "--limit", type=int, default=1000, metavar="N", help="the most rows to show (1000, at most 10000)"
    )
    parser.add_argument("--by", default=None, help="who asks; the user of this machine unless given")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.catalog.confined import ConfinedError
    from scheduler_plugin.live.queries import MOST_ROWS, Asked, CannotMeetError, ask
    from spark_jobs.session import SparkGone

    if options.prefer is not None and not 0 <= options.prefer <= 1:
        raise UserError(f"--prefer is a number from 0 to 1, not {options.prefer:g}", exit_code=2)
    if not 1 <= options.limit <= MOST_ROWS:
        raise UserError(f"--limit is a number from 1 to {MOST_ROWS}, not {options.limit}", exit_code=2)
    asked = Asked(
        sql=options.sql,
        by=options.by or me(),
        deadline=_seconds("--deadline", options.deadline),
        max_staleness=_seconds("--max-staleness", options.max_staleness),
        prefer=options.prefer,
        as_of=moment(options.as_of) if options.as_of else None,
        at_versions=dict(map(_version, options.version)),
        most_rows=options.limit,
    )
    try:
        with there():
            answer = ask(Settings.load(), asked)
    except ConfinedError as error:
        raise UserError(f"the SQL is refused: {error}", exit_code=2) from None
    except CannotMeetError as error:
        if options.json:
            print_json({"query": error.query, "refused": str(error), "possible": error.possible})
            return NOT_IN_TIME
        raise UserError(str(error), exit_code=NOT_IN_TIME) from None
    except LookupError as error:
        raise UserError(str(error)) from None
    except SparkGone as error:
        raise UserError(f"{error}. `freshet up` starts it again.") from None
    if options.json:
        print_json(answer)
        return 0
    if answer.rows:
        print(table(answer.columns, [["-" if cell is None else cell for cell in row] for row in answer.rows]))
    else:
        print("no rows")
    print(file=sys.stderr)
    if answer.cut:
        print(f"only the first {len(answer.rows)} rows; --limit shows more", file=sys.stderr)
    header = ("read", "version", "current to", "how fresh")
    print(table(header, [_told(name, each) for name, each in answer.freshness.items()]), file=sys.stderr)
    spent = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in answer.seconds.items())
    print(f"query {answer.query}: {spent}", file=sys.stderr)
    return 0


def _told(name: str, each: Any) -> tuple[str, str, str, str]:
    fresh = "fresh" if each["fresh"] else f"stale for {duration(each['stale_seconds'])}"
    return name, each["version"] or "-", each["current_to"] or "-", fresh


def _seconds(option: str, words: str | None) -> float | None:
    from scheduler_plugin.catalog import values

    try:
        return None if words is None else values.duration(words)
    except ValueError as error:
        raise UserError(f"{option}: {error}", exit_code=2) from None


def _version(words: str) -> tuple[str, int]:
    name, equals, number = words.partition("=")
    if not equals or not number.isdecimal():
        raise UserError(f"--version takes OBJECT=N, not {words!r}; `freshet versions OBJECT` lists them", exit_code=2)
    return name, int(number)
