"""What a sound catalog says: defaults, levels, fingerprint, covered intervals; and what holds for every catalog."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from operator import setitem
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler_plugin.catalog import (
    Catalog,
    CatalogError,
    ColumnInterval,
    PatternInterval,
    catalog_path,
    landing_path,
    load_catalog,
)
from scheduler_plugin.catalog.graph import cycles, levels
from scheduler_plugin.catalog.parents import parents_of


def test_defaults_are_filled_in(bent: Callable[..., Catalog]) -> None:
    catalog = bent()
    feed, table, view = catalog.feeds["flights"], catalog.tables["flights"], catalog.views["by_hour"]
    assert (feed.table, feed.landing, feed.interval, feed.period) == ("flights", "flights", None, 3600)
    assert (table.feed, table.key, table.expectations, table.staleness_limit) == ("flights", (), (), None)
    assert (table.weight, table.access, view.weight, view.access) == (1, 1, 1, 1)
    assert view.materialized
    assert (catalog.policy.name, dict(catalog.policy.params), dict(catalog.groups)) == ("default", {}, {})


def test_levels_put_every_object_above_its_parents(bent: Callable[..., Catalog]) -> None:
    catalog = bent()
    assert catalog.levels == (("flights", "weather"), ("by_carrier", "by_hour"), ("board",))
    assert catalog.order == ("flights", "weather", "by_carrier", "by_hour", "board")
    assert catalog.parents("board") == ("by_carrier", "by_hour")


def test_a_groups_share_is_rounded_down_to_whole_slots(bent: Callable[..., Catalog]) -> None:
    catalog = bent(lambda content: setitem(content, "groups", {"fast": {"share": 0.6, "objects": ["board"]}}))
    assert catalog.groups["fast"].slots == 2


def test_expectations_are_read_for_the_table_they_are_named_after(bent: Callable[..., Catalog]) -> None:
    text = "- {expect: expect_column_values_to_be_between, column: delay, min_value: -60, on_fail: warn}"
    [expectation] = bent(files={"expectations/flights.yml": text}).tables["flights"].expectations
    assert (expectation.expect, expectation.on_fail) == ("expect_column_values_to_be_between", "warn")
    assert dict(expectation.arguments) == {"column": "delay", "min_value": -60}


def test_an_interval_column_stands_for_its_length_or_else_one_period(bent: Callable[..., Catalog]) -> None:
    def interval(written: dict[str, str]) -> Any:
        return bent(lambda content: setitem(content["feeds"]["flights"], "interval", written)).feeds["flights"].interval

    assert interval({"column": "time_hour"}) == ColumnInterval(column="time_hour", length=3600)
    assert interval({"column": "time_hour", "length": "5m"}) == ColumnInterval(column="time_hour", length=300)


@pytest.fixture
def by_name(bent: Callable[..., Catalog]) -> PatternInterval:
    written = {"pattern": r"f_(?P<start>\d+T\d+Z)(_(?P<end>\d+T\d+Z))?\.csv"}
    found = bent(lambda content: setitem(content["feeds"]["flights"], "interval", written)).feeds["flights"].interval
    assert isinstance(found, PatternInterval)
    return found


def test_a_file_name_tells_the_interval_it_covers(by_name: PatternInterval) -> None:
    start = datetime(2013, 2, 8, 15, tzinfo=UTC)
    assert by_name.covered("f_20130208T150000Z_20130208T180000Z.csv") == (start, start.replace(hour=18))
    assert by_name.covered("f_20130208T150000Z.csv") == (start, start.replace(hour=16))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("g_20130208T150000Z.csv", "the file name `g_20130208T150000Z.csv` does not match the feed's pattern"),
        ("f_20131308T150000Z.csv", "`20131308T150000Z` in the file name .* is not a time like `%Y%m%dT%H%M%SZ`"),
        ("f_20130208T150000Z_20130208T150000Z.csv", "covers no time"),
    ],
)
def test_a_file_name_that_tells_no_interval_is_refused(by_name: PatternInterval, name: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        by_name.covered(name)


@pytest.mark.parametrize(
    ("landing", "base", "path"),
    [
        ("flights", "/home/x/landing", "/home/x/landing/flights"),
        ("flights", "s3://bucket/in/", "s3://bucket/in/flights"),
        ("/drop", "/home/x/landing", "/drop"),
        ("s3://bucket/flights", "/home/x/landing", "s3://bucket/flights"),
    ],
)
def test_relative_landing_paths_are_below_the_installations_landing_folder(landing: str, base: str, path: str) -> None:
    assert landing_path(landing, base) == path


EXPECTATION = "- {expect: expect_column_values_to_not_be_null, column: delay, on_fail: drop}"


@pytest.mark.parametrize("file", ["views/by_hour.sql", "expectations/flights.yml", "warehouse.yml"])
def test_a_change_in_any_file_changes_the_fingerprint(bent: Callable[..., Catalog], file: str) -> None:
    before = bent(files={"expectations/flights.yml": EXPECTATION})
    assert before.unchanged_on_disk()
    path = before.path.parent / file
    path.write_text(path.read_text() + "\n")
    os.utime(path, ns=(1, 1))
    assert not before.unchanged_on_disk()
    assert load_catalog(before.path).fingerprint != before.fingerprint


def test_new_expectations_are_noticed(bent: Callable[..., Catalog]) -> None:
    before = bent()
    (before.path.parent / "expectations").mkdir()
    (before.path.parent / "expectations" / "flights.yml").write_text(EXPECTATION)
    assert not before.unchanged_on_disk()
    assert load_catalog(before.path).fingerprint != before.fingerprint


def test_the_fingerprint_does_not_depend_on_where_the_catalog_lies(bent: Callable[..., Catalog]) -> None:
    catalog = bent()
    moved = catalog.path.parent.rename(catalog.path.parent.with_name("elsewhere"))
    assert load_catalog(moved / "warehouse.yml").fingerprint == catalog.fingerprint


def test_the_environment_names_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FRESHET_CATALOG", raising=False)
    assert catalog_path().parts[-2:] == ("include", "warehouse.yml")
    monkeypatch.setenv("FRESHET_CATALOG", "/etc/freshet/warehouse.yml")
    assert catalog_path() == Path("/etc/freshet/warehouse.yml")


@pytest.mark.parametrize(
    ("sql", "parents"),
    [
        ("WITH c AS (SELECT * FROM a) SELECT * FROM c", ("a",)),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ("a",)),
        ("WITH c AS (SELECT 1 FROM a), d AS (SELECT * FROM c, b) SELECT * FROM d", ("a", "b")),
        ("SELECT * FROM (WITH c AS (SELECT * FROM a) SELECT * FROM c) JOIN c", ("a", "c")),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r, a", ("a",)),
        ("SELECT * FROM a WHERE x IN (SELECT x FROM b) AND EXISTS (SELECT 1 FROM c)", ("a", "b", "c")),
        ("SELECT (SELECT max(x) FROM b) FROM a UNION ALL SELECT x FROM c", ("a", "b", "c")),
        ("SELECT x.y, y FROM A x LATERAL VIEW explode(x.z) e AS y", ("a",)),
        ("SELECT * FROM `a`, range(3), VALUES (1) AS v(n);", ("a",)),
        ("FROM a SELECT x", ("a",)),
        ("SELECT * FROM a PIVOT (sum(x) FOR y IN (1, 2))", ("a",)),
    ],
)
def test_parents_are_the_tables_the_sql_really_reads(sql: str, parents: tuple[str, ...]) -> None:
    assert parents_of(sql) == parents


#: Ways to read some names in one SELECT, each with its own traps for whoever looks for names by pattern.
SHAPES: dict[str, Callable[[list[str]], str]] = {
    "join": lambda names: "SELECT 1 FROM " + " CROSS JOIN ".join(names),
    "union": lambda names: " UNION ALL ".join(f"SELECT x FROM {name}" for name in names),
    "with": lambda names: (
        "WITH " + ", ".join(f"c{i} AS (SELECT * FROM {name})" for i, name in enumerate(names)) + " SELECT * FROM c0"
    ),
    "hiding": lambda names: (
        "WITH " + ", ".join(f"{name} AS (SELECT 'FROM nowhere' AS s FROM {name})" for name in names) + " SELECT 1"
    ),
    "inside": lambda names: (
        f"SELECT * FROM {names[0]} WHERE " + " AND ".join(f"EXISTS (SELECT 1 FROM {name} /* x */)" for name in names)
    ),
}


@st.composite
def warehouses(draw: st.DrawFn) -> dict[str, tuple[list[str], str]]:
    """View -> (parents, SQL): each view reads tables t0..t2 and views named before it."""
    found: dict[str, tuple[list[str], str]] = {}
    for number in range(draw(st.integers(1, 8))):
        above = ["t0", "t1", "t2", *found]
        parents = draw(st.lists(st.sampled_from(above), min_size=1, max_size=4, unique=True))
        found[f"v{number}"] = (parents, SHAPES[draw(st.sampled_from(sorted(SHAPES)))](parents))
    return found


def write(folder: Path, views: dict[str, str]) -> Path:
    (folder / "views").mkdir(exist_ok=True)
    for name, sql in views.items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    feed = {"format": "csv", "columns": {"x": "int"}, "period": "1h"}
    content = {"slots": 1, "feeds": {f"t{i}": dict(feed) for i in range(3)}, "views": {name: {} for name in views}}
    (folder / "warehouse.yml").write_text(yaml.safe_dump(content))
    return folder / "warehouse.yml"


#: The folder is written anew for every example, so sharing it between examples does no harm.
SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@SHARED_FOLDER
@given(views=warehouses())
def test_parents_come_back_from_any_warehouse(tmp_path: Path, views: dict[str, tuple[list[str], str]]) -> None:
    catalog = load_catalog(write(tmp_path, {name: sql for name, (_, sql) in views.items()}))
    place = {name: number for number, name in enumerate(catalog.order)}
    for name, (parents, _) in views.items():
        assert catalog.parents(name) == tuple(sorted(parents))
        assert all(place[parent] < place[name] for parent in parents)
    assert sorted(place) == sorted([*catalog.tables, *catalog.views])


@SHARED_FOLDER
@given(views=warehouses(), data=st.data())
def test_a_name_that_is_changed_into_an_unknown_one_is_reported_with_it(
    tmp_path: Path, views: dict[str, tuple[list[str], str]], data: st.DataObject
) -> None:
    victim = data.draw(st.sampled_from(sorted(views)))
    parents, _ = views[victim]
    wrong = data.draw(st.sampled_from(parents)) + data.draw(st.sampled_from(["s", "_old", "0x"]))
    text = {name: sql for name, (_, sql) in views.items()}
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    text[victim] = SHAPES[shape]([wrong, *parents])
    with pytest.raises(CatalogError) as caught:
        load_catalog(write(tmp_path, text))
    [problem] = caught.value.problems
    assert f"view {victim} reads `{wrong}`, which no feed or view provides." in problem


@given(
    parents=st.dictionaries(st.sampled_from("abcdefg"), st.lists(st.sampled_from("abcdefg"), max_size=3, unique=True))
)
def test_cycles_are_cycles_and_without_one_every_name_has_a_level(parents: dict[str, list[str]]) -> None:
    known = {name: [each for each in above if each in parents] for name, above in parents.items()}
    found = cycles(known)
    for cycle in found:
        for name, read in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert read in known[name]
    placed = [name for level in levels(known) for name in level]
    assert bool(found) == (len(placed) < len(known))
