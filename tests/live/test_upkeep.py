"""Upkeep of files and history: what was loaded goes to the archive once, what is too old goes, nothing else does."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from scheduler_plugin.catalog import catalog_path, load_catalog
from scheduler_plugin.catalog.rows import catalog_row
from scheduler_plugin.live import upkeep
from scheduler_plugin.live.announce import landings
from scheduler_plugin.live.landing import LandingWatcher
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import decisions, lease, objects, retention, settling
from scheduler_plugin.store.database import Database

pytestmark = pytest.mark.services

CATALOG = load_catalog(catalog_path())


class Place:
    """A ledger whose table `airlines` has loaded two files that lie where they landed."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        places = {
            "FRESHET_HOME": str(folder),
            "FRESHET_LANDING": str(folder / "in"),
            "FRESHET_ARCHIVE": str(folder / "kept"),
        }
        self.settings = Settings.load(places)
        self.landing = folder / "in" / "airlines"
        self.landing.mkdir(parents=True)
        objects.take_in(database, catalog_row(CATALOG))
        for name, content in (("a.csv", "a"), ("b.csv", "b"), ("b again.csv", "b")):
            (self.landing / name).write_text(content)
        watcher = LandingWatcher(database, landings(CATALOG, self.settings.landing))
        while len(self.ask("SELECT id FROM freshet.update")) < 2:
            watcher.take_in(sorted(self.landing.iterdir()))
        self.load()
        self.ask("UPDATE freshet.update SET settled_at = settled_at - interval '1 hour' RETURNING id")

    def load(self) -> None:
        epoch = lease.take(self.database, "test", timedelta(minutes=5))
        new = decisions.NewDecision(object="airlines", policy="fifo", slot=0, impact=1.0, why="", figures={})
        (decision,) = decisions.record(self.database, epoch or 0, [new])
        claim = decisions.claim(self.database, decision, 1, "w")
        assert claim is not None
        outcome = settling.Outcome(snapshot_id=1, rows=2, bytes_in=1, bytes_out=1, stages={})
        settling.finish(self.database, claim, outcome)

    def ask(self, sql: str) -> list[Any]:
        with self.database.transaction() as connection:
            return list(connection.execute(text(sql)).all())

    def files(self) -> None:
        upkeep.files(self.settings, self.database, CATALOG)

    def archived(self) -> list[str]:
        return sorted(path.name for path in Path(self.settings.archive).rglob("*") if path.is_file())


@pytest.fixture
def place(database: Database, tmp_path: Path) -> Place:
    return Place(database, tmp_path)


def test_loaded_files_move_to_the_archive_with_their_copies_and_the_ledger_knows_where(place: Place) -> None:
    (place.landing / "later.csv").write_text("not loaded yet")
    place.files()
    assert [path.name for path in place.landing.iterdir()] == ["later.csv"]
    assert len(place.archived()) == 3
    for path, content in place.ask("SELECT archived, path FROM freshet.update"):
        assert Path(path).read_text() == Path(content).stem
    place.files()
    assert len(place.archived()) == 3


def test_a_file_that_was_overwritten_since_is_left_alone(place: Place) -> None:
    (place.landing / "a.csv").write_text("something new")
    place.files()
    assert (place.landing / "a.csv").exists()
    assert (None,) in place.ask("SELECT archived FROM freshet.update")


def test_a_crash_between_moving_and_writing_down_is_made_good(place: Place) -> None:
    (loaded, *_) = retention.to_archive(place.database)
    target = upkeep.archive_path(Path(place.settings.archive), loaded)
    target.parent.mkdir(parents=True)
    Path(loaded.path).rename(target)
    place.files()
    assert place.ask("SELECT count(*) FROM freshet.update WHERE archived IS NULL") == [(0,)]


def test_what_is_older_than_the_retention_is_forgotten_and_the_ledger_of_files_is_not(place: Place) -> None:
    later = datetime.now(UTC) + timedelta(seconds=1)
    removed = retention.prune(place.database, later)
    # The version is still there, and with it the decision that made it.
    assert (removed["job"], removed["cost"], removed["decision"], removed["version"]) == (1, 1, 0, 0)
    assert place.ask("SELECT count(*) FROM freshet.update") == [(2,)]
