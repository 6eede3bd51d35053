"""The board: every object, what runs, and the latest decisions with their reasons, as one picture for a terminal."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scheduler_plugin.store.reports import Board, DecisionReport, ObjectReport

#: Cells of the staleness bar.
BAR = 12


def render(board: Board, *, title: str, note: str = "") -> RenderableType:
    """The whole board. `note` is one more line under the title."""
    head = Text(title, style="bold")
    head.append(f"   {_summary(board)}", style="not bold")
    parts: list[RenderableType] = [head]
    if note:
        parts.append(Text(note, style="dim"))
    if board.incidents:
        parts.append(Panel(_incidents(board), title="incidents", border_style="yellow"))
    parts += [_objects(board.objects), Panel(_decisions(board.decisions, board.at), title="latest decisions")]
    return Group(*parts)


def _summary(board: Board) -> str:
    tick = board.last_tick
    stale = sum(not item.fresh for item in board.objects)
    words = [
        f"QoD {board.qod:.2f}" if board.qod is not None else "no reads yet",
        f"{len(board.objects) - stale} of {len(board.objects)} fresh",
        f"{sum(item.pending for item in board.objects)} updates pending",
    ]
    if tick:
        words.append(f"{tick['running']} of {tick['slots']} slots in use")
        words.append(f"tick {tick['seconds'] * 1000:.0f} ms")
        if tick["state"] != "deciding":
            words.append(tick["state"])
    else:
        words.append("the first tick has not happened yet")
    return " · ".join(words)


def _incidents(board: Board) -> Text:
    """Breaches first, then what is foreseen; a foreseen one says how long is left."""
    order = ("overload", "breach", "failing", "blocked_batch", "silent_feed", "predicted_breach")
    lines = []
    for each in sorted(board.incidents, key=lambda each: (order.index(each.kind), each.object or ""))[:12]:
        style = "red" if each.kind in ("breach", "failing") else "yellow"
        words = each.summary
        if each.kind == "predicted_breach":
            left = each.body["at"] - board.at.timestamp()
            words = f"{each.object} will breach its limit of {each.body['limit']:g} s in {_seconds(max(left, 0.0))}"
            words += f" ({each.body['cause']})"
        lines.append(Text(words, style=style))
    if len(board.incidents) > 12:
        lines.append(Text(f"and {len(board.incidents) - 12} more", style="dim"))
    return Text("\n").join(lines)


def _objects(objects: Sequence[ObjectReport]) -> Table:
    table = Table(expand=True, pad_edge=False, box=None, header_style="bold")
    table.add_column("object", no_wrap=True)
    table.add_column("staleness", no_wrap=True, width=BAR + 9)
    for title in ("limit", "pending"):
        table.add_column(title, justify="right")
    table.add_column("now", no_wrap=True)
    for title in ("rows", "runs", "reads", "met fresh"):
        table.add_column(title, justify="right")
    for item in objects:
        table.add_row(
            Text(item.name, style="cyan" if item.kind == "table" else ""),
            _staleness(item),
            _seconds(item.staleness_limit),
            str(item.pending) if item.pending else "",
            _state(item),
            f"{item.rows:,}" if item.rows is not None else "",
            str(item.runs) if item.runs else "",
            str(item.reads) if item.reads else "",
            f"{item.reads_met_fresh / item.reads:.0%}" if item.reads else "",
        )
    return table


def _staleness(item: ObjectReport) -> Text:
    """Fresh objects say so: their age is only that nothing has arrived since."""
    if item.fresh:
        return Text("fresh", style="green")
    if item.staleness is None:
        return Text("never loaded", style="dim")
    share = min(item.staleness / item.staleness_limit, 1.0) if item.staleness_limit else 0.5
    style = "red" if item.staleness_limit and item.staleness > item.staleness_limit else "yellow"
    filled = max(1, round(share * BAR))
    return Text.assemble(("█" * filled, style), ("░" * (BAR - filled), "dim"), f" {_seconds(item.staleness):>6}")


def _state(item: ObjectReport) -> Text:
    if item.running is not None:
        words = {
            "decided": "decided",
            "dispatched": "starting",
            "claimed": "loading" if item.kind == "table" else "refreshing",
        }
        return Text(words[item.running], style="bold")
    return Text("virtual" if not item.materialized else "", style="dim")


def _decisions(decisions: Sequence[DecisionReport], now: datetime) -> Table:
    table = Table(expand=True, box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for decision in decisions:
        took = ((decision.finished_at or now) - decision.decided_at).total_seconds()
        style = {"failed": "red", "done": "dim"}.get(decision.state, "bold")
        why = decision.why if decision.error is None else decision.error.splitlines()[0]
        table.add_row(
            str(decision.id),
            Text(decision.object, style=style),
            f"{decision.state} {took:.1f} s",
            Text(why, style=style),
        )
    return table


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} m" if value < 7200 else f"{value / 3600:.0f} h"
