"""Run the tests: pure ones beside those on real services, which share theirs; --fast runs the quick pure ones alone.

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
    cores = os.cpu_count() or 1
    words = [word for word in options.others if word != "--"]
    if options.fast:
        words = ["-m", "not services and not long", "-n", str(min(4, cores)), *words]
    elif not words:
        # One worker drives the services and waits for them much of the time; the others do the pure tests meanwhile.
        words = ["-n", str(min(4, cores) + 1), "--dist", "loadgroup"]
    return subprocess.call([sys.executable, "-m", "pytest", *words], cwd=ROOT)
