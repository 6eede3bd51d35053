"""Run one of the papers' experiments again and show what came out beside what was published.

Without a name, lists the experiments. NAME.json and the picture NAME.png go to the folder DIR.
"""

import argparse
import contextlib
import difflib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler_plugin.cli.bar import bar
from scheduler_plugin.cli.main import UserError

if TYPE_CHECKING:
    from scheduler_plugin.simulator.experiments import Report


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="which experiment; without it, they are listed")
    parser.add_argument("--quick", action="store_true", help="a small version that takes seconds")
    parser.add_argument("--out", metavar="DIR", help="where the figures and the picture go (FRESHET_HOME/experiments)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.services.home import Home
    from scheduler_plugin.simulator.experiments import EXPERIMENTS, experiment

    if options.name is None:
        listed = {name: purpose for name, (_, purpose) in EXPERIMENTS.items()}
        width = max(map(len, listed))
        lines = (f"{name:<{width}}  {purpose}" for name, purpose in listed.items())
        print(json.dumps(listed, indent=2) if options.json else "\n".join(lines))
        return 0
    if options.name not in EXPERIMENTS:
        close = difflib.get_close_matches(options.name, EXPERIMENTS, n=1, cutoff=0.4)
        hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(EXPERIMENTS)}."
        raise UserError(f"there is no experiment {options.name}. {hint}", exit_code=2)
    folder = Path(options.out) if options.out else Home.find().root / "experiments"
    with bar("starting") as progress:
        chosen = experiment(options.name)
        with writing_into(folder):  # before minutes of work
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        report = chosen.run(options.quick, progress)
    picture = folder / f"{options.name}.png"
    found = {"title": report.title, "columns": report.columns, "rows": report.rows, "notes": report.notes}
    with writing_into(folder):
        write(report, json.dumps(found, indent=2), picture)
    if options.json:
        print(json.dumps({**found, "picture": str(picture)}, indent=2))
    else:
        show(report)
        print(f"Picture: {picture}")
    return 0


@contextlib.contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write into {folder}: {error.strerror}; choose another folder with --out") from None


def write(report: "Report", figures: str, picture: Path) -> None:
    """Both files whole or, when interrupted, as they were."""
    with tempfile.TemporaryDirectory(dir=picture.parent, prefix=".unfinished-") as unfinished:
        drawn = Path(unfinished) / picture.name
        told = drawn.with_suffix(".json")
        report.draw(drawn)
        told.write_text(figures + "\n", encoding="utf-8")
        told.replace(picture.with_suffix(".json"))
        drawn.replace(picture)


def show(report: "Report") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for number, column in enumerate(report.columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in report.rows:
        table.add_row(*(words(cell) for cell in row))
    # A log keeps whole lines; a terminal knows its own width.
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(report.title, markup=False, highlight=False)
    console.print(table)
    for note in report.notes:
        console.print(note, markup=False, highlight=False)


def words(cell: object) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
