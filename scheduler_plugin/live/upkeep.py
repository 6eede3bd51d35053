"""What DAG `freshet_upkeep` does: tidy tables, archive loaded files, forget old history, clean Airflow's own tables."""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from scheduler_plugin.catalog import Catalog, catalog_path, load_catalog
from scheduler_plugin.live.announce import landings
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import accesses, backfills, checkpoints, retention, versions
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)

#: Snapshots and files younger than this are left alone whatever the retention: somebody may be at them right now.
GRACE = timedelta(minutes=10)


class UpkeepError(Exception):
    """A part of upkeep could not be done; the rest was."""


def run(part: str) -> None:
    """Does one part, by name."""
    settings = Settings.load()
    database = Database(settings.database_url)
    try:
        PARTS[part](settings, database, load_catalog(catalog_path()))
    finally:
        database.close()


def tables(settings: Settings, database: Database, catalog: Catalog) -> None:
    """Merges small files, forgets snapshots nobody needs, removes files that nothing refers to."""
    from pyiceberg.exceptions import NoSuchTableError

    from spark_jobs.session import spark_session
    from spark_jobs.tables import Tables
    from spark_jobs.upkeep import keep_up, tidied

    now = datetime.now(UTC)
    kept_for = max(timedelta(seconds=catalog.retention.snapshots), GRACE)
    failed = []
    with Tables(settings.database_url, settings.warehouse) as iceberg, spark_session(settings.spark_remote) as spark:
        hot = set(accesses.hot(database, accesses.HOT_PLACES))
        for name in sorted(catalog.order, key=lambda name: name not in hot):
            if name in catalog.views and not catalog.views[name].materialized:
                continue
            needed = versions.needed_snapshots(database, keep_since=now - kept_for).get(name, set())
            try:
                done = keep_up(
                    spark=spark,
                    tables=iceberg,
                    name=name,
                    needed=needed,
                    older_than=now - kept_for,
                    open_backfills=backfills.open_ids(database),
                )
                if better := tidied(iceberg, name):
                    versions.tidied(database, name, *better)
            except NoSuchTableError:
                continue  # nothing has been loaded into it yet
            except Exception as error:  # one table's trouble is no reason to leave the others
                log.exception("%s could not be kept up", name)
                failed.append(f"{name}: {error}")
                continue
            log.info(
                "%s: %d files merged, %d snapshots forgotten, %d paths removed",
                name,
                done.files_merged,
                done.snapshots_expired,
                done.paths_removed,
            )
    if failed:
        raise UpkeepError("; ".join(failed))


def files(settings: Settings, database: Database, catalog: Catalog) -> None:
    """Moves loaded files out of the landing folders, and removes archived ones that are too old."""
    folders = {Path(each.folder) for each in landings(catalog, settings.landing) if not each.remote}
    markers = {each.table: each.done for each in landings(catalog, settings.landing) if each.done}
    if "://" in settings.archive:
        log.info("The archive is at %s; files stay where they landed, which backfills know.", settings.archive)
    else:
        moved = []
        for loaded in retention.to_archive(database):
            target = archive_path(Path(settings.archive), loaded)
            if Path(loaded.path).parent in folders and _move(loaded, target):
                moved.append((loaded.update, str(target)))
                _move_others(loaded, target, folders)
                if marker := markers.get(loaded.table):
                    with suppress(FileNotFoundError):
                        Path(loaded.path + marker).unlink()
        retention.archived(database, moved)
        log.info("%d loaded files archived", len(moved))
    before = datetime.now(UTC) - timedelta(seconds=catalog.retention.archive)
    gone = []
    for identity, path in retention.archived_before(database, before):
        with suppress(FileNotFoundError):
            Path(path).unlink()
        gone.append(identity)
    retention.forget(database, gone)
    log.info("%d archived files removed", len(gone))


def archive_path(archive: Path, loaded: retention.Loaded) -> Path:
    """Always the same for one update: after a crash between moving a file and writing it down it is found there."""
    return archive / loaded.table / f"{loaded.settled_at:%Y-%m-%d}" / f"{loaded.update}-{Path(loaded.path).name}"


def _move(loaded: retention.Loaded, target: Path) -> bool:
    """Whether the file is in the archive now. What lies there under its name and is not the file is left alone."""
    path = Path(loaded.path)
    try:
        found = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return target.exists()
    if (found.st_size, found.st_mtime_ns) != (loaded.size_bytes, loaded.modified_ns):
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.rename(target)
    except OSError:  # another file system
        draft = target.with_name(f".{target.name}")
        shutil.copy2(path, draft)
        draft.rename(target)
        path.unlink()
    return True


def _move_others(loaded: retention.Loaded, target: Path, folders: set[Path]) -> None:
    """The same content under other names goes along."""
    for number, name in enumerate(loaded.also_as, start=1):
        other = Path(name)
        with suppress(OSError):
            if other.parent in folders and other.stat().st_size == loaded.size_bytes:
                other.rename(target.with_name(f"{target.name}.repeated-{number}"))


def history(settings: Settings, database: Database, catalog: Catalog) -> None:
    """Forgets decisions, costs, quality results, reads and freshness from before the retention."""
    before = datetime.now(UTC) - timedelta(seconds=catalog.retention.history)
    removed = retention.prune(database, before) | {"event": checkpoints.forget_before(database, before)}
    log.info("Forgotten: %s", ", ".join(f"{count} of {name}" for name, count in removed.items()))


def airflow(settings: Settings, database: Database, catalog: Catalog) -> None:
    """Airflow's own cleaning, for runs from before the retention."""
    before = datetime.now(UTC) - timedelta(seconds=catalog.retention.airflow)
    command = [sys.executable, "-m", "airflow", "db", "clean", "--skip-archive", "--yes"]
    command += ["--clean-before-timestamp", before.isoformat()]
    # A task may not speak to Airflow's database; its own command may.
    environment = {**os.environ, "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": settings.airflow_database_url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines()[-30:]:
        log.info("%s", line)
    if done.returncode:
        raise UpkeepError(f"airflow db clean ended with {done.returncode}: {done.stderr.strip()[-500:]}")


PARTS: Mapping[str, Callable[[Settings, Database, Catalog], None]] = {
    "tables": tables,
    "files": files,
    "history": history,
    "airflow": airflow,
}
