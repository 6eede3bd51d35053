"""Run the tests: pure ones beside those on real services, which share theirs; --fast runs the quick pure ones alone.

Other words go to pytest, which then runs once with just these: a path, `-k name`, `-x`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OTHER_WORDS_GO_ON = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fast", action="store_true", help="only the quick pure tests: no Postgres, Spark or Airflow")


def run(options: argparse.Namespace) -> int:
    words = [word for word in options.others if word != "--"]
    side_by_side = ("-n", str(min(4, os.cpu_count() or 1)))
    if options.fast:
        return subprocess.call(_pytest("-m", "not services and not long", *side_by_side, *words), cwd=ROOT)
    if words:
        return subprocess.call(_pytest(*words), cwd=ROOT)
    # Tests on services wait for them much of the time: the pure ones run meanwhile, and are told of afterwards.
    with tempfile.TemporaryFile() as said:
        pure = _pytest("-m", "not services", *side_by_side)
        with subprocess.Popen(pure, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT) as beside:
            code = subprocess.call(_pytest("-m", "services"), cwd=ROOT)
        said.seek(0)
        sys.stdout.write(said.read().decode(errors="replace"))
    return code or beside.returncode


def _pytest(*words: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *words]
