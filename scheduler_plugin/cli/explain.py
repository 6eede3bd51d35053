"""Say why an object is, or is not, next: its impact and what that is made of, stale ancestors, its place among the
candidates, what goes first and by how much, and when it is expected to run. Now, or at any time the log covers."""

import argparse
import json
from typing import TYPE_CHECKING

from scheduler_plugin.cli.ledger import ledger
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import duration, table
from scheduler_plugin.cli.when import moment

if TYPE_CHECKING:
    from scheduler_plugin.live.explain import ObjectExplanation


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", help="a table or view of the catalog")
    parser.add_argument("--at", metavar="TIME", help="a past time: 14:05, 2026-01-31T14:05:00Z, or 10m (ago)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.live.explain import explain

    when = moment(options.at) if options.at else None
    with ledger() as database:
        try:
            found = explain(database, options.object, when)
        except LookupError as error:
            raise UserError(str(error)) from None
    print(json.dumps(found.as_json(), indent=2) if options.json else prose(found))
    return 0


def prose(found: "ObjectExplanation") -> str:
    limit = "no limit" if found.limit is None else f"limit {duration(found.limit)}"
    group = f", group {found.group}" if found.group else ""
    lines = [
        f"{found.object} ({found.kind}{group}) at {found.at.astimezone():%Y-%m-%d %H:%M:%S}: {found.summary}",
        f"staleness {duration(found.staleness)}, {limit}, {found.pending} updates pending, "
        f"about {found.expected_cost:.2f} s to run (spread {found.cost_spread:.2f} s)",
        f"impact {found.impact:.4g} by policy {found.policy}: {found.why}",
        "  made of " + ", ".join(f"{name} {value:.4g}" for name, value in found.ingredients.items()),
    ]
    lines += found.concerns
    if found.dirty_ancestors:
        lines.append(f"stale ancestors, which go first: {', '.join(found.dirty_ancestors)}")
    if found.rank is not None:
        lines.append(f"number {found.rank} of {found.candidates} that may start now")
    if found.failures:
        lines.append(f"its last {found.failures} job(s) failed; it is tried again after a growing pause")
    if found.ahead:
        lines.append("ahead of it:")
        rows = [(each.object, f"{each.impact:.4g}", f"{each.by:+.4g}", each.why) for each in found.ahead[:10]]
        lines += ["  " + line for line in table(("object", "impact", "by", "why"), rows).splitlines()]
    if found.expected_at is not None:
        lines.append(f"expected to start at {found.expected_at.astimezone():%H:%M:%S}")
    return "\n".join(lines)
