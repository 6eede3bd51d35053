"""The outside check: expected content from the source, and an eye for what is missing, extra or changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.catalog import Catalog
from scheduler_plugin.demo import duck
from scheduler_plugin.demo.outside import Outside, actual_counts, differences
from scheduler_plugin.demo.plan import Drop

Iceberg = Callable[..., dict[str, str]]


@pytest.fixture
def iceberg(outside: Outside, tmp_path: Path) -> Iceberg:
    """Writes expected content as Iceberg tables, perhaps bent by SQL, and gives their metadata files."""
    from pyiceberg.catalog.sql import SqlCatalog

    def write(**select: str) -> dict[str, str]:
        catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "warehouse"))
        catalog.create_namespace("w")
        for name, sql in select.items():
            rows = outside.duck.execute(sql).to_arrow_table()
            catalog.create_table(f"w.{name}", schema=rows.schema).append(rows)
        return duck.newest_metadata(tmp_path / "warehouse")

    return write


def test_every_table_and_view_has_the_rows_it_must_have(outside: Outside) -> None:
    counts = outside.expected_counts()
    # All that was sent, but for the impossible wind.
    assert {name: counts[name] for name in outside.catalog.tables} == {
        "flights": 6994,
        "weather": 575,
        "planes": 3322,
        "airports": 1458,
        "airlines": 16,
    }
    assert all(counts.values())


def test_what_was_not_sent_is_not_expected(catalog: Catalog, week: list[Drop]) -> None:
    counts = Outside(catalog, [drop for drop in week if drop.feed == "flights"][:5]).expected_counts()
    assert counts["flights"] == counts["flights_weather"] > 0
    assert counts["weather"] == counts["planes"] == 0


def test_equal_tables_compare_equal_whatever_the_order_of_rows_and_columns(outside: Outside, iceberg: Iceberg) -> None:
    found = iceberg(
        carrier_ranking="SELECT * FROM carrier_ranking ORDER BY random()",
        weather_clean="SELECT conditions, * EXCLUDE conditions FROM weather_clean",
    )
    same = {each.object for each in outside.compare(found) if each.same}
    assert same == {"carrier_ranking", "weather_clean"}
    assert actual_counts(found) == {"carrier_ranking": 15, "weather_clean": 575}


@pytest.mark.parametrize(
    ("sql", "rows", "different"),
    [
        ("SELECT * FROM delays_by_carrier WHERE carrier <> 'UA'", 14, 1),
        ("SELECT * FROM delays_by_carrier UNION ALL SELECT * FROM delays_by_carrier WHERE carrier = 'UA'", 16, 1),
        ("SELECT * REPLACE (flights + (carrier = 'UA')::INT AS flights) FROM delays_by_carrier", 15, 2),
        ("SELECT * REPLACE (mean_dep_delay * (1 + 1e-6) AS mean_dep_delay) FROM delays_by_carrier", 15, 30),
        ("SELECT * REPLACE (mean_dep_delay * (1 + 1e-12) AS mean_dep_delay) FROM delays_by_carrier", 15, 0),
    ],
)
def test_a_missing_extra_or_changed_row_is_seen(
    outside: Outside, iceberg: Iceberg, sql: str, rows: int, different: int
) -> None:
    [found] = [each for each in outside.compare(iceberg(delays_by_carrier=sql)) if each.object == "delays_by_carrier"]
    assert (found.expected_rows, found.actual_rows, found.different) == (15, rows, different)
    assert found.same == (different == 0)


def test_a_table_that_is_not_there_is_not_the_same(outside: Outside) -> None:
    compared = outside.compare({})
    assert len(compared) == 17
    assert not any(each.same for each in compared)


VALUES = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.5, 1.25, -2.0]), st.text(max_size=2))
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=8)


@given(rows=ROWS, dice=st.randoms())
def test_shuffled_rows_are_no_difference(rows: list[tuple[Any, ...]], dice: Any) -> None:
    shuffled = list(rows)
    dice.shuffle(shuffled)
    assert differences(rows, shuffled) == 0


@given(rows=ROWS, extra=st.tuples(VALUES, VALUES))
def test_one_more_row_is_a_difference_on_either_side(rows: list[tuple[Any, ...]], extra: tuple[Any, ...]) -> None:
    assert differences(rows, [*rows, extra]) > 0
    assert differences([*rows, extra], rows) > 0
