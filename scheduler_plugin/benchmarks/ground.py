"""Postgres and Spark for one benchmark: in a home of their own, gone at its end."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scheduler_plugin.services import ServiceError


@contextmanager
def services(root: Path) -> Iterator[Any]:
    """Both run, with an empty ledger; yields the settings."""
    from scheduler_plugin.services import postgres, process, spark
    from scheduler_plugin.services.home import Home
    from scheduler_plugin.services.settings import Settings
    from scheduler_plugin.store import migrate

    shutil.rmtree(root, ignore_errors=True)
    home = Home(root=root)
    home.make()
    records = []
    try:
        records.append(postgres.start(home))
        settings = Settings.load({"FRESHET_HOME": str(root)})
        wait_until(lambda: postgres.ready(settings.database_url))
        records.append(spark.start(home))
        wait_until(lambda: process.listens(records[-1]))
        postgres.make_database(settings.database_url)
        migrate.upgrade(settings.database_url)
        yield settings
    finally:
        for record in records:
            process.stop(record)
        if home.postgres.is_symlink():
            shutil.rmtree(home.postgres.resolve(), ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def wait_until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not ready():
        if time.monotonic() > deadline:
            raise ServiceError("Postgres or Spark did not come up within three minutes.")
        time.sleep(0.1)


def timed(work: Callable[[], object]) -> float:
    """How long the work takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began
