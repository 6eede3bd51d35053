"""What lands is taken in once, when it is whole, wherever it lands; what is no file is told of."""

import os
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from scheduler_plugin.live import landing
from scheduler_plugin.live.announce import AnnounceError, Landing, announce
from scheduler_plugin.live.landing import LandingWatcher
from scheduler_plugin.live.listing import LandingLister
from scheduler_plugin.store import objects, reports
from scheduler_plugin.store.database import Database

pytestmark = pytest.mark.services


@pytest.fixture
def ledger(database: Database) -> Database:
    spec = {"feed": "f", "interval": None}
    row = objects.ObjectRow(name="t", kind="table", materialized=True, parents=(), spec=spec)
    objects.take_in(database, objects.CatalogRow(settings={}, objects=[row]))
    return database


def counts(ledger: Database) -> tuple[int, int, int]:
    """Pending, quarantined, repeated."""
    found = reports.files(ledger)
    return (found[0].pending, found[0].quarantined, found[0].repeated) if found else (0, 0, 0)


def settle(watcher: LandingWatcher, folder: Path, until: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline, "waited in vain"
        watcher.take_in(sorted(folder.iterdir()))
        time.sleep(0.02)


def watcher(ledger: Database, folder: Path, **how: Any) -> LandingWatcher:
    return LandingWatcher(ledger, [Landing(table="t", folder=str(folder), **how)])


def test_a_file_is_left_alone_while_somebody_writes_it(ledger: Database, tmp_path: Path) -> None:
    watching = watcher(ledger, tmp_path)
    (tmp_path / "whole.csv").write_text("a\n1\n")
    with (tmp_path / "growing.csv").open("w") as file:
        file.write("a\n")
        file.flush()
        settle(watching, tmp_path, lambda: counts(ledger)[0] == 1)
        file.write("1\n2\n")
    settle(watching, tmp_path, lambda: counts(ledger)[0] == 2)


def test_with_a_marker_declared_only_the_marker_says_that_a_file_is_whole(ledger: Database, tmp_path: Path) -> None:
    watching = watcher(ledger, tmp_path, done=".done")
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(name)
    (tmp_path / "b.csv.done").touch()
    settle(watching, tmp_path, lambda: counts(ledger)[0] == 1)
    (tmp_path / "a.csv.done").touch()
    settle(watching, tmp_path, lambda: counts(ledger) == (2, 0, 0))


def test_what_is_no_file_is_in_quarantine_with_the_reason_and_the_rest_goes_on(
    ledger: Database, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.csv"
    outside.write_text("secret")
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "link.csv").symlink_to(outside)
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    (folder / os.fsdecode(b"latin-\xe9.csv")).write_text("odd")
    (folder / 'it\'s a "name"\nof two lines.csv').write_text("good")
    (folder / "draft.csv.tmp").write_text("draft")
    settle(watcher(ledger, folder), folder, lambda: sum(counts(ledger)) >= 5)
    assert counts(ledger) == (1, 4, 0)
    reasons = sorted(reason.partition(": ")[2] for _, _, reason in reports.quarantined_files(ledger))
    assert [reason.split(";")[0].split(",")[0] for reason in reasons] == [
        "it is a folder",
        "it is a link",
        "it is no file but a pipe",
        "its name is not UTF-8",
    ]


def test_the_same_content_under_another_name_is_counted_and_not_loaded(ledger: Database, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv"):
        (tmp_path / name).write_text("same")
    settle(watcher(ledger, tmp_path), tmp_path, lambda: counts(ledger) == (1, 0, 2))
    # A loop that starts anew looks at the same files and learns nothing.
    settle(watcher(ledger, tmp_path), tmp_path, lambda: True)
    assert counts(ledger) == (1, 0, 2)


def test_a_loop_that_starts_anew_does_not_read_what_the_ledger_knows(
    ledger: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("a")
    settle(watcher(ledger, tmp_path), tmp_path, lambda: counts(ledger)[0] == 1)
    monkeypatch.setattr(landing, "being_written", lambda path: pytest.fail(f"{path} was opened"))
    watcher(ledger, tmp_path).take_in([tmp_path / "a.csv"])


def test_a_running_watcher_hears_of_files_by_itself(ledger: Database, tmp_path: Path) -> None:
    watching = watcher(ledger, tmp_path / "made by it")
    watching.start()
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "made by it").exists():
            assert time.monotonic() < deadline
        threads = [
            threading.Thread(target=(tmp_path / "made by it" / f"{each}.csv").write_text, args=[str(each)])
            for each in range(20)
        ]
        for thread in threads:
            thread.start()
        while counts(ledger)[0] < 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        watching.stop()


@pytest.mark.parametrize("done", [None, ".done"])
def test_any_file_system_is_listed(ledger: Database, done: str | None) -> None:
    place = Landing(table="t", folder=f"memory://landing-{uuid.uuid4().hex}", done=done)
    system, folder = fsspec.core.url_to_fs(place.folder)
    listing = LandingLister(ledger, [place])
    listing.look(place)  # nothing there yet, not even the folder
    system.pipe(f"{folder}/a.csv", b"a")
    listing.look(place)
    assert counts(ledger)[0] == 0
    system.pipe(f"{folder}/a.csv{done}" if done else f"{folder}/.hidden", b"")
    listing.look(place)
    listing.look(place)
    assert counts(ledger) == (1, 0, 0)
    (path,) = (each["path"] for each in ask(ledger))
    assert path == f"{place.folder}/a.csv"
    with fsspec.open(path) as file:
        assert file.read() == b"a"


def test_files_are_announced_from_anywhere_all_or_none(ledger: Database, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a")
    (tmp_path / "b.csv").write_text("b")
    with pytest.raises(AnnounceError, match=r"gone\.csv does not exist"):
        announce(ledger, "f", [str(tmp_path / "a.csv"), str(tmp_path / "gone.csv")])
    with pytest.raises(AnnounceError, match="no feed `g`; there is f"):
        announce(ledger, "g", [])
    with pytest.raises(AnnounceError, match="is a folder"):
        announce(ledger, "f", [str(tmp_path)])
    assert len(announce(ledger, "f", [str(tmp_path / name) for name in ("a.csv", "b.csv")])) == 2
    assert announce(ledger, "f", [str(tmp_path / "a.csv")]) == []
    assert counts(ledger) == (2, 0, 0)


def ask(ledger: Database) -> list[dict[str, Any]]:
    from sqlalchemy import text

    with ledger.transaction() as connection:
        return [dict(row) for row in connection.execute(text("SELECT * FROM freshet.update")).mappings()]
