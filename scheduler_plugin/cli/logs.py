"""Show the services' logs: the end of one, or of all; -f goes on as they grow.

The log of a single run of an object is in Airflow, on the run's page.
"""

import argparse
import time
from pathlib import Path

from scheduler_plugin.cli.main import UserError
from scheduler_plugin.services.home import Home


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("service", nargs="?", help="postgres, spark, api-server, scheduler, ...; all when left out")
    parser.add_argument("-f", "--follow", action="store_true", help="go on as the logs grow, until Ctrl-C")
    parser.add_argument("-n", "--lines", type=int, default=20, help="how many lines of each log to begin with (20)")


def run(options: argparse.Namespace) -> int:
    home = Home.find()
    logs = sorted(home.logs.glob("*.log"))
    known = [path.stem for path in logs]
    if options.service:
        if options.service not in known:
            there = f"There is {', '.join(known)}." if known else "`freshet up` has not been run here."
            raise UserError(f"there is no log of `{options.service}` in {home.logs}. {there}")
        logs = [home.logs / f"{options.service}.log"]
    elif not logs:
        raise UserError(f"there are no logs in {home.logs}: `freshet up` has not been run here.")
    ends = {path: _show_end(path, options.lines, named=len(logs) > 1) for path in logs}
    last_shown = logs[-1]
    while options.follow:
        time.sleep(0.3)
        for path in logs:
            if path.stat().st_size < ends[path]:
                ends[path] = 0  # cut short by somebody: begin again
            new, ends[path] = _read_from(path, ends[path])
            if new:
                if path != last_shown:
                    print(f"==> {path.stem} <==")
                    last_shown = path
                print(new, end="", flush=True)
    return 0


def _show_end(path: Path, lines: int, *, named: bool) -> int:
    """Prints the last lines and returns where the file ended."""
    size = path.stat().st_size
    # A line of a log is rarely longer than this; a traceback in full is worth more than a fixed count.
    text, end = _read_from(path, max(0, size - 1000 * max(lines, 0)))
    if named:
        print(f"==> {path.stem} <==")
    shown = text.splitlines()[-lines:] if lines > 0 else []
    print("\n".join(shown), flush=True)
    return end


def _read_from(path: Path, start: int) -> tuple[str, int]:
    with path.open("rb") as file:
        file.seek(start)
        found = file.read()
    return found.decode(errors="replace"), start + len(found)
