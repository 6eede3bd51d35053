"""The doctor's examination: each check looks at one thing and says what it found and what to do about it."""

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from scheduler_plugin.services import ServiceError, airflow, postgres, process, spark, stack
from scheduler_plugin.services.home import REPOSITORY
from scheduler_plugin.services.java import find_java
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    what: str
    #: "ok", "note" (worth knowing, nothing to do), or "trouble" (`freshet up` would fail or misbehave).
    level: str
    found: str
    remedy: str = ""


def examine(environment: Mapping[str, str] = os.environ) -> list[Finding]:
    settings = Settings.load(environment)
    findings = []
    for check in CHECKS:
        try:
            findings.append(check(settings))
        except ServiceError as error:
            findings.append(Finding(what=_title(check), level="trouble", found=str(error)))
    return findings


def _python(_: Settings) -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] != (3, 11):
        return Finding(
            what="python", level="trouble", found=version, remedy="Run `./freshet` with Python 3.11 on PATH."
        )
    return Finding(what="python", level="ok", found=f"{version} ({sys.executable})")


def _packages(_: Settings) -> Finding:
    wanted = dict(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;]+)", _lock(), flags=re.MULTILINE))
    wrong = []
    for name, version in wanted.items():
        try:
            there = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if there != version:
            wrong.append(f"{name} is {there}, not {version}")
    if wrong:
        shown = "; ".join(wrong[:5]) + (f"; {len(wrong) - 5} more" if len(wrong) > 5 else "")
        return Finding(what="packages", level="trouble", found=shown, remedy="Remove .venv and run `./freshet` again.")
    return Finding(what="packages", level="ok", found=f"{len(wanted)}, each as requirements.txt says")


def _lock() -> str:
    return (REPOSITORY / "requirements.txt").read_text()


def _java(settings: Settings) -> Finding:
    if settings.environment.get("FRESHET_SPARK_REMOTE"):
        return Finding(what="java", level="note", found="not needed: FRESHET_SPARK_REMOTE is set")
    java = find_java(settings.environment)
    return Finding(what="java", level="ok", found=f"{java.major} from {java.source} ({java.program})")


def _catalog(settings: Settings) -> Finding:
    from scheduler_plugin.catalog import CatalogError, load_catalog

    try:
        catalog = load_catalog(settings.catalog)
    except CatalogError as error:
        return Finding(
            what="catalog", level="trouble", found=str(error), remedy="Mend it; `freshet check` looks again."
        )
    told = f"{catalog.path}: {len(catalog.tables)} tables, {len(catalog.views)} views"
    return Finding(what="catalog", level="ok", found=told)


def _home(settings: Settings) -> Finding:
    root = settings.home.root
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        remedy = "Put that right, or set FRESHET_HOME to a folder of your own."
        return Finding(what="home", level="trouble", found=f"{there} cannot be written", remedy=remedy)
    free = shutil.disk_usage(there).free
    found = f"{root}, {free / 2**30:.1f} GB free"
    if free < stack.LEAST_FREE_BYTES:
        return Finding(what="home", level="trouble", found=found, remedy="Make room, or set FRESHET_HOME elsewhere.")
    return Finding(what="home", level="ok", found=found)


def _memory(_: Settings) -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = os.cpu_count() or 1
    found = f"{total:.0f} GB of memory, {cores} core(s); Spark gets {spark.memory()}"
    if total < 4:
        return Finding(what="machine", level="note", found=found, remedy="4 GB is the least that works well.")
    return Finding(what="machine", level="ok", found=found)


def _secrets(settings: Settings) -> Finding:
    path = settings.home.root / "secrets.json"
    if not path.exists():
        return Finding(what="secrets", level="ok", found="made by the first `freshet up`")
    loose = [item for item in (path, settings.home.airflow / "passwords.json") if item.exists() and _others_read(item)]
    if loose:
        found = f"others can read {', '.join(map(str, loose))}"
        return Finding(what="secrets", level="trouble", found=found, remedy=f"chmod 600 {' '.join(map(str, loose))}")
    return Finding(what="secrets", level="ok", found=f"{path}, readable by its owner alone")


def _others_read(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o077)


def _postgres(settings: Settings) -> Finding:
    if settings.environment.get("FRESHET_DATABASE_URL"):
        where = postgres.without_password(settings.database_url)
        if postgres.ready(settings.database_url):
            return Finding(what="postgres", level="ok", found=f"your own at {where} answers")
        remedy = "Start it, or correct or unset FRESHET_DATABASE_URL."
        return Finding(what="postgres", level="trouble", found=f"your own at {where} does not answer", remedy=remedy)
    owner = postgres.Owner.choose()
    postgres.programs_folder()
    found = f"embedded, run as {owner.name}" if owner.name else "embedded"
    return _port("postgres", settings, found, postgres.PREFERRED_PORT)


def _spark(settings: Settings) -> Finding:
    if given := settings.environment.get("FRESHET_SPARK_REMOTE"):
        host, port = stack.host_and_port(given, spark.PREFERRED_PORT)
        if stack.answers(host, port):
            return Finding(what="spark", level="ok", found=f"your own at {host}:{port} answers")
        remedy = "Start it, or correct or unset FRESHET_SPARK_REMOTE."
        return Finding(what="spark", level="trouble", found=f"nothing answers at {host}:{port}", remedy=remedy)
    spark.spark_folder()
    return _port("spark", settings, "Spark Connect from the pyspark wheel", spark.PREFERRED_PORT)


def _airflow(settings: Settings) -> Finding:
    version = importlib.metadata.version("apache-airflow")
    return _port(airflow.API_SERVER, settings, f"Airflow {version}", airflow.PREFERRED_PORT, what="airflow")


def _port(service: str, settings: Settings, found: str, usual: int, what: str = "") -> Finding:
    """A port in somebody else's hands is no trouble: another one is taken."""
    record = Record.read(settings.home, service)
    if record is not None and record.alive:
        return Finding(what=what or service, level="ok", found=f"{found}; runs on port {record.port}")
    if process.free_port((usual,)) != usual:
        remedy = f"Nothing to do: {service} takes another port, which `freshet status` shows."
        return Finding(what=what or service, level="note", found=f"{found}; port {usual} is taken", remedy=remedy)
    return Finding(what=what or service, level="ok", found=f"{found}; would run on port {usual}")


def _running(settings: Settings) -> Finding:
    states = [(item.service, item.state) for item in stack.status(settings)]
    found = ", ".join(f"{service} {state}" for service, state in states)
    if all(state == "down" for _, state in states):
        return Finding(what="services", level="note", found="all down", remedy="`freshet up` starts them.")
    if all(state == "up" for _, state in states):
        return Finding(what="services", level="ok", found="all up")
    remedy = "`freshet up` brings back what is missing; `freshet logs SERVICE` tells why it went."
    return Finding(what="services", level="note", found=found, remedy=remedy)


CHECKS: tuple[Callable[[Settings], Finding], ...] = (
    _python,
    _packages,
    _java,
    _catalog,
    _home,
    _memory,
    _secrets,
    _postgres,
    _spark,
    _airflow,
    _running,
)


def _title(check: Callable[[Settings], Finding]) -> str:
    return check.__name__.removeprefix("_")
