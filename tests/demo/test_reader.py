"""The readers: a skewed, repeatable plan, and reads of what is really there."""

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.catalog import Catalog
from scheduler_plugin.demo import duck
from scheduler_plugin.demo.outside import Outside
from scheduler_plugin.demo.reader import Access, Reader, plan_accesses


@given(seconds=st.floats(0, 300), per_second=st.floats(0.01, 20), seed=st.integers())
def test_reads_come_in_order_within_the_time_and_the_same_for_the_same_seed(
    seconds: float, per_second: float, seed: int
) -> None:
    popularity = {"board": 60.0, "routes": 6.0, "never": 0.0}
    reads = plan_accesses(popularity, seconds, per_second=per_second, seed=seed)
    times = [read.at_seconds for read in reads]
    assert times == sorted(times)
    assert all(0 <= at < seconds for at in times)
    assert "never" not in {read.object for read in reads}
    assert reads == plan_accesses(popularity, seconds, per_second=per_second, seed=seed)


def test_a_few_views_get_most_of_the_demos_reads(catalog: Catalog) -> None:
    popularity = {name: item.access for name, item in {**catalog.tables, **catalog.views}.items()}
    reads = Counter(read.object for read in plan_accesses(popularity, 600))
    assert sum(count for _, count in reads.most_common(3)) > reads.total() / 2
    assert set(reads) == set(popularity)


@pytest.fixture(scope="module")
def routes(outside: Outside, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metadata file of delays_by_route."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder = tmp_path_factory.mktemp("iceberg")
    catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace("w")
    rows = outside.duck.execute("SELECT * FROM delays_by_route").to_arrow_table()
    catalog.create_table("w.delays_by_route", schema=rows.schema).append(rows)
    return duck.newest_metadata(Path(folder))["delays_by_route"]


def test_a_view_is_read_where_its_table_lies(catalog: Catalog, routes: str) -> None:
    reader = Reader(catalog, {"delays_by_route": routes}.get, lambda reads: None)
    assert len(reader.read("delays_by_route")) == 50
    assert reader.empty == 0


def test_a_virtual_view_is_worked_out_when_it_is_read(catalog: Catalog, routes: str, outside: Outside) -> None:
    reader = Reader(catalog, {"delays_by_route": routes}.get, lambda reads: None)
    assert reader.read("worst_routes") == outside.duck.execute("SELECT * FROM worst_routes").fetchall()


@pytest.mark.parametrize("name", ["airport_board", "worst_routes"])
def test_an_object_that_was_never_written_is_read_as_empty(catalog: Catalog, name: str) -> None:
    reader = Reader(catalog, lambda name: None, lambda reads: None)
    assert reader.read(name) == []
    assert (reader.empty, reader.reads[name]) == (1, 1)


def test_reads_before_the_catalog_is_known_are_counted_when_it_is(catalog: Catalog) -> None:
    counted: Counter[str] = Counter()
    refusals = iter([True, True])

    def count(reads: Mapping[str, int]) -> None:
        if next(refusals, False):
            raise LookupError("no object of the catalog is called flights")
        counted.update(reads)

    planned = [Access(at_seconds=at, object="flights") for at in (0.0, 0.1, 1.2)]
    Reader(catalog, lambda name: None, count).run(planned, threading.Event())
    assert counted == {"flights": 3}
