"""What pre-commit checks, as tests: lint, format, types, and who may import whom."""

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_plugin.services.home import REPOSITORY

TOOLS = Path(sys.executable).parent


@pytest.mark.parametrize(
    "words",
    [
        ("ruff", "check"),
        ("ruff", "format", "--check"),
        pytest.param(("mypy",), marks=pytest.mark.long),
        ("lint-imports", "--no-cache"),
    ],
    ids=" ".join,
)
def test_the_tools_find_nothing(words: tuple[str, ...]) -> None:
    program, *rest = words
    ran = subprocess.run([TOOLS / program, *rest], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
