"""Run the tests: all of them, or with --fast the pure ones that need no service. Other words go to pytest."""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: A path, `-k name`, `-x`: pytest's own.
OTHER_WORDS_GO_ON = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="only the pure tests: no Postgres, Spark or Airflow")


def run(options: argparse.Namespace) -> int:
    words = [sys.executable, "-m", "pytest"]
    if options.fast:
        words += ["-m", "not services", "-n", str(min(4, os.cpu_count() or 1))]
    words += [word for word in options.others if word != "--"]
    os.chdir(ROOT)
    os.execv(sys.executable, words)
