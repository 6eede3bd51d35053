"""A refresh gives what DuckDB gives over the same snapshots, all of it or nothing, and never an older state again."""

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from spark_jobs.load import SourceFile, load_batch
from spark_jobs.query import run_query
from spark_jobs.refresh import RefreshResult, refresh_view
from spark_jobs.snapshots import Superseded
from spark_jobs.tables import Tables

pytestmark = pytest.mark.services

SALES = [("id", "long"), ("shop", "string"), ("amount", "decimal(8,2)"), ("sold", "timestamp")]
SHOPS = [("shop", "string"), ("city", "string")]


class Warehouse:
    """Two tables of a test's own, filled batch by batch."""

    def __init__(self, spark: Any, tables: Tables, name: str, folder: Path) -> None:
        self.spark, self.tables, self._folder = spark, tables, folder
        self.sales, self.shops, self.view = f"{name}_sales", f"{name}_shops", f"{name}_view"
        self._batches = 0

    def load(self, table: str, columns: Sequence[tuple[str, str]], rows: str) -> int:
        self._batches += 1
        path = self._folder / f"{self._batches}.csv"
        path.write_text(",".join(name for name, _ in columns) + "\n" + rows)
        return load_batch(
            spark=self.spark,
            tables=self.tables,
            table=table,
            columns=columns,
            format="csv",
            files=[SourceFile(update_id=1, path=str(path))],
            marker=f"batch-{self._batches}",
        ).snapshot_id

    def sell(self, start: int, count: int) -> int:
        rows = (
            f"{each},s{each % 7},{'' if each % 11 == 0 else each * 1.25:},2024-01-01 00:{each % 60:02}:00\n"
            for each in range(start, start + count)
        )
        return self.load(self.sales, SALES, "".join(rows))

    def open_shops(self) -> int:
        return self.load(self.shops, SHOPS, "s0,Rome\ns1,Rome\ns2,Oslo\ns3,\ns9,Bern\n")

    def refresh(
        self, sql: str, reads: dict[str, int | None], decision: int, virtual: dict[str, str] | None = None
    ) -> RefreshResult:
        return refresh_view(
            spark=self.spark,
            tables=self.tables,
            view=self.view,
            sql=sql,
            reads=reads,
            virtual=virtual or {},
            marker=f"refresh-{decision}",
        )

    def content(self, name: str, snapshot: int | None) -> list[tuple[Any, ...]]:
        return rows_of(run_query(self.spark, self.tables, f"SELECT * FROM {name}", {name: snapshot}, {}))

    def by_duckdb(self, sql: str, reads: dict[str, int]) -> list[tuple[Any, ...]]:
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for name, snapshot in reads.items():
            files = self.tables.files(name, snapshot)
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({files!r})")
        return rows_of(connection.execute(sql).to_arrow_table())


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


@pytest.fixture
def warehouse(spark_connect: Any, tables: Tables, name: str, tmp_path: Path) -> Warehouse:
    return Warehouse(spark_connect, tables, name, tmp_path)


SHAPES = [
    "SELECT id, shop, amount FROM {sales} WHERE amount > 100 AND shop <> 's3'",
    "SELECT shop, count(*) AS n, count(amount) AS paid, CAST(sum(amount) AS decimal(18,2)) AS total, "
    "min(amount) AS low, max(sold) AS last FROM {sales} GROUP BY shop",
    "SELECT s.id, p.city FROM {sales} s LEFT JOIN {shops} p ON s.shop = p.shop",
    "SELECT p.city, CAST(sum(s.amount) AS decimal(18,2)) AS total FROM {sales} s JOIN {shops} p ON s.shop = p.shop "
    "GROUP BY p.city HAVING count(*) > 3",
    "SELECT * FROM (SELECT id, shop, row_number() OVER (PARTITION BY shop ORDER BY id DESC) AS nth FROM {sales}) AS t "
    "WHERE nth <= 2",
    "SELECT DISTINCT shop FROM {sales} UNION ALL SELECT city FROM {shops}",
    "SELECT id FROM {sales} WHERE id < 0",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_refresh_equals_duckdb_over_the_same_snapshots(warehouse: Warehouse, shape: str) -> None:
    sql = shape.format(sales=warehouse.sales, shops=warehouse.shops)
    first = {warehouse.sales: warehouse.sell(0, 100), warehouse.shops: warehouse.open_shops()}
    then = {**first, warehouse.sales: warehouse.sell(100, 50)}
    # The first refresh comes when the table has grown already: it must read what it was told to.
    for decision, reads in enumerate((first, then), start=1):
        result = warehouse.refresh(sql, dict(reads), decision)
        expected = warehouse.by_duckdb(sql, reads)
        assert warehouse.content(warehouse.view, result.snapshot_id) == expected
        assert result.rows == len(expected)


def test_virtual_views_are_expanded_in_any_order(warehouse: Warehouse) -> None:
    reads = {warehouse.sales: warehouse.sell(0, 30)}
    virtual = {
        "best": "SELECT * FROM dear WHERE amount > 30",
        "dear": f"SELECT * FROM {warehouse.sales} WHERE amount > 9",
    }
    result = warehouse.refresh("SELECT id FROM best", dict(reads), 1, virtual)
    expected = warehouse.by_duckdb(f"SELECT id FROM {warehouse.sales} WHERE amount > 30", reads)
    assert warehouse.content(warehouse.view, result.snapshot_id) == expected


def test_a_view_whose_columns_change_keeps_its_old_version_readable(warehouse: Warehouse) -> None:
    reads: dict[str, int | None] = {warehouse.sales: warehouse.sell(0, 3)}
    old = warehouse.refresh(f"SELECT id, shop FROM {warehouse.sales}", reads, 1)
    new = warehouse.refresh(f"SELECT id AS shop, 'x' AS id FROM {warehouse.sales}", reads, 2)
    assert warehouse.content(warehouse.view, old.snapshot_id) == [(0, "s0"), (1, "s1"), (2, "s2")]
    assert warehouse.content(warehouse.view, new.snapshot_id) == [(0, "x"), (1, "x"), (2, "x")]


def test_a_refresh_that_comes_after_a_newer_one_is_refused(warehouse: Warehouse, tables: Tables) -> None:
    sql = f"SELECT count(*) AS n FROM {warehouse.sales}"
    old: dict[str, int | None] = {warehouse.sales: warehouse.sell(0, 3)}
    new: dict[str, int | None] = {warehouse.sales: warehouse.sell(3, 3)}
    newer = warehouse.refresh(sql, new, 2)
    with pytest.raises(Superseded, match="refresh-1 comes too late, refresh-2 is there already"):
        warehouse.refresh(sql, old, 1)
    assert tables.current(warehouse.view) == newer.snapshot_id


def test_a_refresh_frozen_before_its_commit_cannot_undo_a_newer_decision(
    warehouse: Warehouse, ledger: Any, jobs: Any
) -> None:
    sql = f"SELECT count(*) AS n FROM {warehouse.sales}"
    ledger.declare(warehouse.sales, "table", columns=SALES, format="csv", key=[], expectations=[])
    ledger.declare(warehouse.view, "view", [warehouse.sales], sql=sql, virtual={})
    first = warehouse.sell(0, 3)
    decided = ledger.decide(warehouse.view, ())
    ledger.ask(
        "UPDATE freshet.decision SET reads = jsonb_build_object(:t, :s) WHERE id = :d RETURNING id",
        t=warehouse.sales,
        s=first,
        d=decided,
    )
    sleeper = jobs.start(decided, 1, at="before spark_jobs.tables:Tables.replace", sent=signal.SIGSTOP)
    assert jobs.wait(sleeper) == "stopped"
    newer = warehouse.refresh(sql, {warehouse.sales: warehouse.sell(3, 3)}, decided + 1)
    assert jobs.go_on(sleeper) == "failed"
    assert warehouse.tables.current(warehouse.view) == newer.snapshot_id
    assert warehouse.content(warehouse.view, newer.snapshot_id) == [(6,)]


@pytest.mark.parametrize(
    "step",
    [
        "after spark_jobs.refresh:prepared",
        "after spark_jobs.files:write_rows",
        "before pyiceberg.catalog.sql:SqlCatalog.commit_table",
        "after pyiceberg.catalog.sql:SqlCatalog.commit_table",
        "before scheduler_plugin.store.settling:finish",
    ],
)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_refresh_killed_or_frozen_at_any_step_is_done_once_by_the_next_attempt(
    warehouse: Warehouse, ledger: Any, jobs: Any, step: str, frozen: bool
) -> None:
    sql = f"SELECT shop, count(*) AS n FROM {warehouse.sales} GROUP BY shop"
    ledger.declare(warehouse.sales, "table", columns=SALES, format="csv", key=[], expectations=[])
    ledger.declare(warehouse.view, "view", [warehouse.sales], sql=sql, virtual={})
    reads = {warehouse.sales: warehouse.sell(0, 20)}
    decided = ledger.decide(warehouse.view, ())
    ledger.ask(
        "UPDATE freshet.decision SET reads = jsonb_build_object(:t, :s) WHERE id = :d RETURNING id",
        t=warehouse.sales,
        s=reads[warehouse.sales],
        d=decided,
    )
    hurt = jobs.start(decided, 1, at=step, sent=signal.SIGSTOP if frozen else signal.SIGKILL)
    assert jobs.wait(hurt) == ("stopped" if frozen else "killed")
    ledger.give_up_on_jobs()
    assert jobs.run(decided, 2) == "done"
    if frozen:
        assert jobs.go_on(hurt) == "done"
    versions = ledger.ask("SELECT snapshot_id FROM freshet.version WHERE object = :v", v=warehouse.view)
    assert [row["snapshot_id"] for row in versions] == [warehouse.tables.current(warehouse.view)]
    assert warehouse.content(warehouse.view, versions[0]["snapshot_id"]) == warehouse.by_duckdb(sql, reads)


def test_what_has_never_held_anything_is_read_as_empty(
    warehouse: Warehouse, ledger: Any, jobs: Any, tmp_path: Path
) -> None:
    """A view can be refreshed before all of its tables' files have come, and its parents been refreshed."""
    sales, shops, view = warehouse.sales, warehouse.shops, warehouse.view
    between, counted = f"{view}_between", f"{view}_counted"
    for table, columns in ((sales, SALES), (shops, SHOPS)):
        ledger.declare(table, "table", columns=columns, format="csv", key=[], expectations=[])
    names = {between: f"SELECT DISTINCT shop FROM {shops}"}
    ledger.declare(
        counted, "view", [shops], sql=f"SELECT count(*) AS shops FROM {between}", reads=[shops], virtual=names
    )
    sql = f"SELECT id, city, shops FROM {sales} LEFT JOIN {shops} USING (shop) CROSS JOIN {counted}"
    ledger.declare(view, "view", [sales, shops, counted], sql=sql, reads=[sales, shops, counted], virtual={})

    def fill(table: str, text: str) -> None:
        path = tmp_path / f"{table}.csv"
        path.write_text(text)
        ledger.arrive(table, path)
        assert jobs.run(ledger.decide(table), 1) == "done"

    def refreshed(name: str, *parents: str) -> list[tuple[Any, ...]]:
        assert jobs.run(ledger.decide(name, parents), 1) == "done"
        return warehouse.content(name, warehouse.tables.current(name))

    fill(sales, "id,shop,amount,sold\n1,s1,1.25,\n2,s2,2.50,\n")
    assert refreshed(view, sales, shops, counted) == [(1, None, 0), (2, None, 0)]
    fill(shops, "shop,city\ns1,Rome\ns2,Oslo\n")
    assert refreshed(counted, shops) == [(2,)]
    assert refreshed(view, sales, shops, counted) == [(1, "Rome", 2), (2, "Oslo", 2)]
