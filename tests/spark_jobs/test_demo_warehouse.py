"""The demo's week through the real jobs: what Spark loads and refreshes is what DuckDB works out from the source."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.catalog import Catalog, load_catalog
from scheduler_plugin.catalog.load import DEFAULT
from scheduler_plugin.catalog.rows import catalog_row
from scheduler_plugin.demo.outside import Outside, actual_counts
from scheduler_plugin.demo.plan import Trouble
from scheduler_plugin.demo.reader import Reader
from scheduler_plugin.demo.replay import Replay
from spark_jobs.intake import SourceFile
from spark_jobs.load import LoadResult, load_batch
from spark_jobs.refresh import refresh_view
from spark_jobs.tables import Tables

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(DEFAULT)


@pytest.fixture(scope="module")
def replay(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    replay = Replay.prepare(catalog, str(tmp_path_factory.mktemp("landing")))
    for drop in replay.drops:
        replay.write(drop)
    return replay


def number_of(replay: Replay, filename: str) -> int:
    """An update's id: its place in the replay."""
    return [drop.filename for drop in replay.drops].index(filename)


@pytest.fixture(scope="module")
def results(catalog: Catalog, replay: Replay, spark_connect: Any, tables: Tables) -> dict[str, list[LoadResult]]:
    """Every table loaded, flights in two batches, then every materialized view refreshed once."""
    found: dict[str, list[LoadResult]] = {}
    for item in catalog_row(catalog).objects:
        if item.kind == "table":
            files = sorted(Path(replay.landing, item.spec["landing"]).iterdir())
            batches = 2 if item.name == "flights" else 1
            # The same content twice is one update.
            once = list({hashlib.sha256(file.read_bytes()).digest(): file for file in files}.values())
            found[item.name] = [
                load_batch(
                    spark=spark_connect,
                    tables=tables,
                    table=item.name,
                    columns=[tuple(column) for column in item.spec["columns"]],
                    format=item.spec["format"],
                    files=[
                        SourceFile(update_id=number_of(replay, file.name), path=str(file))
                        for file in once[batch::batches]
                    ],
                    marker=f"{item.name}-{batch}",
                    key=item.spec["key"],
                    expectations=item.spec["expectations"],
                )
                for batch in range(batches)
            ]
    specs = {item.name: item.spec for item in catalog_row(catalog).objects}
    for name in catalog.order:
        if name in catalog.views and catalog.views[name].materialized:
            refresh_view(
                spark=spark_connect,
                tables=tables,
                view=name,
                sql=specs[name]["sql"],
                reads={parent: tables.current(parent) for parent in specs[name]["reads"]},
                virtual=specs[name]["virtual"],
                marker=f"{name}-1",
            )
    return found


@pytest.fixture(scope="module")
def locations(results: Any, catalog: Catalog, tables: Tables) -> dict[str, str]:
    return {name: tables.metadata_location(name) for name in catalog.order if tables.current(name) is not None}


def test_every_table_and_view_holds_what_duckdb_works_out_from_the_source(
    catalog: Catalog, replay: Replay, locations: dict[str, str]
) -> None:
    compared = Outside(catalog, replay.dropped).compare(locations)
    assert [each for each in compared if not each.same] == []
    assert {each.object: each.actual_rows for each in compared} == actual_counts(locations)


def test_the_error_page_the_cut_line_and_the_impossible_wind_are_in_quarantine(
    replay: Replay, results: dict[str, list[LoadResult]]
) -> None:
    files = [file for batches in results.values() for batch in batches for file, _ in batch.quarantined_files]
    rows = [row for batches in results.values() for batch in batches for row in batch.quarantined_rows]
    assert [replay.drops[file].filename for file in files] == [
        drop.filename for drop in replay.drops if drop.trouble is Trouble.ERROR_PAGE
    ]
    reasons = " ".join(reason for _, _, reason, _ in rows)
    assert len(rows) == 2
    assert "wind_speed" in reasons
    [cut] = [drop.filename for drop in replay.drops if drop.trouble is Trouble.CUT_LINE]
    assert cut in [replay.drops[update].filename for update, *_ in rows]


def test_readers_find_every_object(catalog: Catalog, locations: dict[str, str]) -> None:
    reader = Reader(catalog, locations.get, lambda reads: None)
    for name in catalog.order:
        assert reader.read(name), name


def test_the_ledger_learns_from_a_column_what_time_a_file_covers(
    catalog: Catalog, replay: Replay, ledger: Any, jobs: Any, name: str
) -> None:
    spec = next(item.spec for item in catalog_row(catalog).objects if item.name == "weather")
    drop = next(drop for drop in replay.drops if drop.feed == "weather")
    ledger.declare(name, "table", **spec)
    [update] = ledger.arrive(name, Path(replay.landing, "weather", drop.filename))
    assert jobs.run(ledger.decide(name), 1) == "done"
    [row] = ledger.ask("SELECT covers_from, covers_to FROM freshet.update WHERE id = :update", update=update)
    assert drop.covers is not None
    assert (row["covers_from"], row["covers_to"]) == (drop.covers.start, drop.covers.end)
