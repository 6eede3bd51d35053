"""The replay writes whole files, in the feeds' formats, and can be stopped and taken up again."""

import csv
import json
import threading
from pathlib import Path

import polars as pl
import pytest

from scheduler_plugin.catalog import Catalog
from scheduler_plugin.demo.plan import Drop, Trouble
from scheduler_plugin.demo.replay import Replay, file_content


def at_once(drops: list[Drop]) -> list[Drop]:
    """The same files without the waiting."""
    from dataclasses import replace

    return [replace(drop, at_seconds=0.0) for drop in drops]


@pytest.fixture
def replay(catalog: Catalog, week: list[Drop], tmp_path: Path) -> Replay:
    return Replay(catalog, str(tmp_path), at_once(week))


def test_every_file_lands_under_its_name_and_nothing_else_stays(replay: Replay, tmp_path: Path) -> None:
    assert replay.run(threading.Event())
    landed = {(path.parent.name, path.name) for path in tmp_path.rglob("*") if path.is_file()}
    assert landed == {(drop.feed, drop.filename) for drop in replay.drops}


def test_a_file_is_whole_when_it_appears(replay: Replay, catalog: Catalog) -> None:
    def look(drop: Drop, path: Path) -> None:
        feed = catalog.feeds[drop.feed]
        assert path.read_bytes() == file_content(drop, feed.format, catalog.tables[feed.table].columns)

    assert replay.run(threading.Event(), on_drop=look)


def test_a_stopped_replay_goes_on_where_it_was(replay: Replay) -> None:
    stop = threading.Event()

    def stop_at_the_tenth(drop: Drop, path: Path) -> None:
        if len(replay.dropped) == 10:
            stop.set()

    assert not replay.run(stop, on_drop=stop_at_the_tenth)
    assert len(replay.dropped) == 10
    assert replay.run(threading.Event())
    assert replay.dropped == list(replay.drops)


def test_a_replay_taken_up_again_does_not_hurry_through_what_is_left(catalog: Catalog, week: list[Drop]) -> None:
    replay = Replay(catalog, "/nowhere", week)
    half = len(week) // 2
    replay.dropped = list(week[:half])
    waits: list[float] = []

    class Patient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return True

    assert not replay.run(Patient(), clock=lambda: 1000.0)
    assert waits == [week[half].at_seconds - week[half - 1].at_seconds]


def test_rows_sent_are_the_sources_rows(replay: Replay) -> None:
    assert replay.rows_sent() == dict.fromkeys(replay.catalog.feeds, 0)
    replay.run(threading.Event())
    assert replay.rows_sent() == {"flights": 6994, "weather": 576, "planes": 3322, "airports": 1458, "airlines": 16}


def content(catalog: Catalog, drop: Drop) -> bytes:
    feed = catalog.feeds[drop.feed]
    return file_content(drop, feed.format, catalog.tables[feed.table].columns)


def test_the_formats_are_those_of_the_catalog(catalog: Catalog, week: list[Drop]) -> None:
    first = {drop.feed: drop for drop in reversed(week) if not drop.trouble}
    planes = pl.read_parquet(content(catalog, first["planes"]))
    assert planes.columns == list(catalog.tables["planes"].columns)
    assert planes.schema["year"] == pl.Int32
    airports = [json.loads(line) for line in content(catalog, first["airports"]).splitlines()]
    assert isinstance(airports[0]["lat"], float)
    flights = list(csv.DictReader(content(catalog, first["flights"]).decode().splitlines()))
    assert list(flights[0]) == list(catalog.tables["flights"].columns)
    assert len(flights) == first["flights"].rows.height


def test_what_is_missing_in_the_source_is_empty_and_never_na(catalog: Catalog, week: list[Drop]) -> None:
    for drop in week:
        if drop.feed in ("flights", "weather"):
            assert b",NA" not in content(catalog, drop)


def test_the_cut_line_is_one_more_line_and_costs_no_row(catalog: Catalog, week: list[Drop]) -> None:
    [cut] = [drop for drop in week if drop.trouble is Trouble.CUT_LINE]
    lines = content(catalog, cut).decode().splitlines()
    assert len(lines) == 1 + cut.rows.height + 1
    assert lines[-1].count(",") < lines[1].count(",")


def test_a_second_delivery_has_the_same_bytes(catalog: Catalog, week: list[Drop]) -> None:
    [again] = [drop for drop in week if drop.trouble is Trouble.TWICE]
    [first] = [drop for drop in week if drop.covers == again.covers and drop.feed == again.feed and not drop.trouble]
    assert content(catalog, again) == content(catalog, first)
