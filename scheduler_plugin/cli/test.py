"""Run the tests: first the pure ones side by side, then those on real services; --fast runs the quick pure ones alone.

Other words go to pytest, which then runs once with just these: a path, `-k name`, `-x`.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OTHER_WORDS_GO_ON = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="only the quick pure tests: no Postgres, Spark or Airflow")


def run(options: argparse.Namespace) -> int:
    side_by_side = ("-n", str(min(4, os.cpu_count() or 1)))
    words = [word for word in options.others if word != "--"]
    if options.fast:
        parts: list[tuple[str, ...]] = [("-m", "not services and not long", *side_by_side, *words)]
    else:
        parts = [tuple(words)] if words else [("-m", "not services", *side_by_side), ("-m", "services")]
    codes = [subprocess.call([sys.executable, "-m", "pytest", *part], cwd=ROOT) for part in parts]
    return next((code for code in codes if code), 0)
