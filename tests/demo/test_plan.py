"""The plan of the replay: the same each time, every row once, in order of event time, with the storm as a surge."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.catalog import Catalog, PatternInterval
from scheduler_plugin.demo.plan import STORM, STORM_WEEK, YEAR, Drop, Trouble, Window, choose_window, plan
from scheduler_plugin.demo.source import EVENTS

Source = dict[str, pl.DataFrame]


def new_rows(drops: list[Drop], feed: str) -> pl.DataFrame:
    """What a feed's files bring, leaving out what is lost or comes a second time."""
    return pl.concat([drop.rows for drop in drops if drop.feed == feed and drop.adds_rows])


def inside(rows: pl.DataFrame, window: Window) -> pl.DataFrame:
    hour = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_zone="UTC")
    return rows.filter((hour >= window.start) & (hour < window.end))


def same_rows(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    return one.sort(one.columns).equals(other.sort(one.columns))


def test_the_same_input_gives_the_same_plan(source: Source, week: list[Drop]) -> None:
    again = plan(source, *choose_window(minutes=4))
    assert len(again) == len(week)
    for one, other in zip(week, again, strict=True):
        assert (one.at_seconds, one.feed, one.filename, one.covers, one.trouble) == (
            other.at_seconds,
            other.feed,
            other.filename,
            other.covers,
            other.trouble,
        )
        assert one.rows.equals(other.rows)


def test_the_year_lands_whole_and_every_row_once(source: Source) -> None:
    drops = plan(source, YEAR, YEAR.seconds / 600)
    for feed, rows in source.items():
        assert same_rows(new_rows(drops, feed), rows), feed
    assert new_rows(drops, "flights").height == 336_776


@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_every_row_of_any_window_lands_once_at_any_speed(source: Source, data: st.DataObject) -> None:
    start = STORM_WEEK.start + timedelta(hours=data.draw(st.integers(0, 150), label="first hour"))
    window = Window(start=start, end=start + timedelta(hours=data.draw(st.integers(1, 100), label="hours")))
    speed = data.draw(st.floats(600, 400_000), label="speed")
    drops = plan(source, window, speed)
    for feed in EVENTS:
        expected = inside(source[feed], window)
        if expected.height:
            assert same_rows(new_rows(drops, feed), expected)
    assert all(0 <= drop.at_seconds <= window.seconds / speed * 1.000001 for drop in drops)
    assert [drop.at_seconds for drop in drops] == sorted(drop.at_seconds for drop in drops)


@pytest.mark.parametrize("feed", EVENTS)
def test_files_come_in_order_of_event_time_but_for_what_is_delivered_late(week: list[Drop], feed: str) -> None:
    spans = [
        drop.covers
        for drop in week
        if drop.feed == feed and drop.covers and not drop.filename.endswith(("resent.csv", "again.csv"))
    ]
    assert spans[0].start == STORM_WEEK.start
    for one, following in pairwise(spans):
        assert one.end == following.start


def test_the_storm_is_a_surge(week: list[Drop]) -> None:
    files = Counter(STORM.start < drop.covers.end <= STORM.end for drop in week if drop.covers)
    stormy = (STORM.end - STORM.start) / timedelta(hours=1)
    calm = (STORM_WEEK.end - STORM_WEEK.start) / timedelta(hours=1) - stormy
    assert files[True] / stormy > 2 * files[False] / calm


def test_half_of_the_storms_flights_are_cancelled(week: list[Drop]) -> None:
    flights = inside(new_rows(week, "flights"), STORM)
    assert flights["dep_time"].null_count() > 0.4 * flights.height


def test_file_names_say_what_the_files_cover_as_the_catalog_reads_them(catalog: Catalog, week: list[Drop]) -> None:
    rule = catalog.feeds["flights"].interval
    assert isinstance(rule, PatternInterval)
    for drop in week:
        if drop.feed == "flights":
            assert drop.covers is not None
            assert rule.covered(drop.filename) == (drop.covers.start, drop.covers.end)


def test_file_names_are_never_used_twice(week: list[Drop]) -> None:
    assert len({(drop.feed, drop.filename) for drop in week}) == len(week)


def test_no_file_is_without_rows(week: list[Drop]) -> None:
    assert all(drop.rows.height for drop in week)


def test_each_kind_of_trouble_happens_once(week: list[Drop]) -> None:
    assert sorted(drop.trouble for drop in week if drop.trouble) == sorted(Trouble)


def test_what_an_error_page_hid_comes_later(week: list[Drop]) -> None:
    [lost] = [drop for drop in week if drop.trouble is Trouble.ERROR_PAGE]
    [late] = [drop for drop in week if drop.filename.endswith("resent.csv")]
    assert late.at_seconds > lost.at_seconds
    assert late.covers == lost.covers


@given(minutes=st.floats(0.01, 60), speed=st.floats(1, 1e6))
def test_a_window_is_whole_hours_of_2013_that_fit_the_time(minutes: float, speed: float) -> None:
    window, _ = choose_window(minutes, speed)
    hours = window.seconds / 3600
    assert YEAR.start <= window.start < window.end <= YEAR.end
    assert hours == round(hours)
    assert hours <= max(1, minutes * 60 * speed / 3600 + 0.5)


@pytest.mark.parametrize(("minutes", "speed"), [(0, None), (-1, 5), (1, 0)])
def test_no_time_and_no_speed_are_refused(minutes: float, speed: float | None) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        choose_window(minutes, speed)
