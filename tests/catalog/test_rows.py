"""The catalog as rows: plain JSON, whole, and enough for a job, the landing watcher and the brain."""

import json
from collections.abc import Callable
from operator import setitem
from typing import Any

import pytest

from scheduler_plugin.brain.graph import Graph
from scheduler_plugin.brain.objects import Table
from scheduler_plugin.catalog import Catalog, catalog_path, load_catalog
from scheduler_plugin.catalog.rows import catalog_row, declared, interval_rule
from scheduler_plugin.store.objects import CatalogRow, ObjectRow, definition


def by_name(row: CatalogRow) -> dict[str, ObjectRow]:
    return {item.name: item for item in row.objects}


def test_objects_stand_in_the_order_of_the_file_with_tables_first(bent: Callable[..., Catalog]) -> None:
    row = catalog_row(bent())
    assert [item.name for item in row.objects] == ["flights", "weather", "by_hour", "by_carrier", "board"]
    assert [item.kind for item in row.objects] == ["table", "table", "view", "view", "view"]
    assert by_name(row)["board"].parents == ("by_carrier", "by_hour")


def test_a_row_of_the_demo_survives_json_unchanged() -> None:
    row = catalog_row(load_catalog(catalog_path()))
    for item in row.objects:
        assert json.loads(json.dumps(item.spec, allow_nan=False)) == item.spec
    assert json.loads(json.dumps(row.settings)) == row.settings


def test_settings_carry_slots_groups_policy_and_alerts(bent: Callable[..., Catalog]) -> None:
    def change(content: dict[str, Any]) -> None:
        content["groups"] = {"fast": {"slots": 1, "objects": ["board"]}}
        content["policy"] = {"name": "qoda"}
        content["alerts"] = {"me": {"notifier": "some.Notifier", "arguments": {"to": "ana"}, "kinds": ["breach"]}}

    assert catalog_row(bent(change)).settings == {
        "slots": 4,
        "groups": [{"name": "fast", "slots": 1, "objects": ["board"]}],
        "policy": {"name": "qoda", "params": {}},
        "tick_seconds": 5.0,
        "burst_bytes": None,
        "alerts": [
            {"name": "me", "notifier": "some.Notifier", "arguments": {"to": "ana"}, "kinds": ["breach"]},
        ],
    }


def test_a_tables_spec_keeps_its_columns_in_order_and_its_expectations(bent: Callable[..., Catalog]) -> None:
    text = "- {expect: expect_column_values_to_be_between, column: delay, min_value: -60, on_fail: warn}"
    spec = by_name(catalog_row(bent(files={"expectations/flights.yml": text})))["flights"].spec
    assert spec["columns"] == [["time_hour", "timestamp"], ["carrier", "string"], ["delay", "int"]]
    assert spec["expectations"] == [
        {
            "expect": "expect_column_values_to_be_between",
            "on_fail": "warn",
            "arguments": {"column": "delay", "min_value": -60},
        }
    ]


@pytest.mark.parametrize(
    "interval", [None, {"column": "time_hour"}, {"pattern": r"f_(?P<start>\d+)\.csv", "format": "%Y%m%d"}]
)
def test_the_rule_for_covered_time_comes_back_from_the_row(bent: Callable[..., Catalog], interval: Any) -> None:
    catalog = bent(lambda content: setitem(content["feeds"]["flights"], "interval", interval))
    spec = json.loads(json.dumps(by_name(catalog_row(catalog))["flights"].spec))
    assert interval_rule(spec) == catalog.feeds["flights"].interval


def test_a_view_over_virtual_views_reads_what_lies_behind_them(bent: Callable[..., Catalog]) -> None:
    def change(content: dict[str, Any]) -> None:
        content["views"]["by_hour"]["materialized"] = False
        content["views"]["calm"] = {"materialized": False}

    files = {"views/calm.sql": "SELECT * FROM by_hour", "views/board.sql": "SELECT * FROM calm CROSS JOIN by_carrier"}
    row = by_name(catalog_row(bent(change, files=files)))["board"]
    assert row.parents == ("by_carrier", "calm")
    assert row.spec["reads"] == ["by_carrier", "flights", "weather"]
    assert set(row.spec["virtual"]) == {"calm", "by_hour"}


def test_a_change_in_a_virtual_view_redefines_the_views_that_read_it(bent: Callable[..., Catalog]) -> None:
    def spec(sql: str) -> Any:
        change = lambda content: setitem(content["views"]["by_hour"], "materialized", False)  # noqa: E731
        return by_name(catalog_row(bent(change, files={"views/by_hour.sql": sql})))

    before, after = spec("SELECT * FROM flights"), spec("SELECT * FROM weather")
    assert definition(before["board"].spec) != definition(after["board"].spec)
    assert definition(before["by_carrier"].spec) == definition(after["by_carrier"].spec)


def test_the_brain_sees_the_catalogs_graph(bent: Callable[..., Catalog]) -> None:
    catalog = bent(lambda content: setitem(content["views"]["by_hour"], "materialized", False))
    graph = Graph(declared(catalog_row(catalog)))
    levels: dict[str, int] = dict(zip(graph.names, graph.level, strict=True))
    assert levels == {name: number for number, level in enumerate(catalog.levels) for name in level}
    assert [name for name, virtual in zip(graph.names, graph.virtual, strict=True) if virtual] == ["by_hour"]


def test_the_brain_takes_weighted_reads_and_periods_from_the_catalog(bent: Callable[..., Catalog]) -> None:
    def change(content: dict[str, Any]) -> None:
        content["feeds"]["flights"] |= {"weight": 3, "access": 4}
        content["views"]["board"] = {"access": 60, "weight": 0.5}

    found = {each.name: each for each in declared(catalog_row(bent(change)))}
    flights, board = found["flights"], found["board"]
    assert isinstance(flights, Table)
    assert (flights.weight, flights.access, flights.period) == (3, 12, 3600)
    assert board.access == 30
