"""Refreshed by difference or in full, a view holds the same rows; which way is possible follows from its SQL."""

import json
import math
import tempfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs import refresh
from spark_jobs.difference import NotByDifference, Way, way, ways
from spark_jobs.load import SourceFile, load_batch
from spark_jobs.query import run_query
from spark_jobs.refresh import refresh_view
from spark_jobs.upkeep import keep_up


@pytest.fixture(autouse=True, scope="module")
def _small_differences_count() -> Iterator[None]:
    """The tests' tables are small; the way to refresh them must not depend on that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refresh, "LEAST_SPARED_BYTES", 0)
        yield


APPENDED = Way(keys=None, merged_by={})

#: SQL over the tables t (which grows) and u, and how it follows.
FOLLOWS = [
    ("SELECT * FROM t WHERE x > 1", APPENDED),
    ("SELECT t.a, u.b FROM t LEFT JOIN u ON t.i = u.i", APPENDED),
    ("SELECT t.a, u.b FROM u JOIN t ON t.i = u.i", APPENDED),
    ("SELECT a FROM t LEFT ANTI JOIN u ON t.i = u.i", APPENDED),
    ("SELECT a FROM (SELECT * FROM t WHERE b) AS s WHERE c", APPENDED),
    ("WITH s AS (SELECT * FROM t) SELECT a FROM s", APPENDED),
    ("SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k", Way(keys=("k",), merged_by={"n": "sum", "s": "sum"})),
    ("SELECT k, count_if(b) AS n FROM t GROUP BY k", Way(keys=("k",), merged_by={"n": "sum"})),
    ("SELECT make_date(y, m, d) AS day FROM t", APPENDED),
    ("SELECT count(*) AS n, max(v) AS m FROM t", Way(keys=(), merged_by={"n": "sum", "m": "max"})),
    ("SELECT date_trunc('hour', w) AS h, min(v) AS m FROM t GROUP BY 1", Way(keys=("h",), merged_by={"m": "min"})),
    ("SELECT u.c, count(v) AS n FROM t JOIN u USING (i) GROUP BY u.c", Way(keys=("c",), merged_by={"n": "sum"})),
]

#: SQL that cannot follow, and what the reason must say.
DOES_NOT_FOLLOW = [
    ("SELECT DISTINCT a FROM t", "DISTINCT"),
    ("SELECT a FROM t LIMIT 5", "LIMIT"),
    ("SELECT a, row_number() OVER (ORDER BY a) AS n FROM t", "window"),
    ("SELECT k, count(DISTINCT v) AS n FROM t GROUP BY k", "COUNT(DISTINCT v)"),
    ("SELECT k, count(*) FROM t GROUP BY k", "has no name"),
    ("SELECT k, stddev(v) AS s FROM t GROUP BY k", "STDDEV(v) of two parts"),
    ("SELECT k, sum(v) / (SELECT count(*) FROM u) AS s FROM t GROUP BY k", "a query of its own"),
    ("SELECT k, sum(n) AS s FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS s GROUP BY k", "GROUP"),
    ("SELECT u.a FROM u LEFT JOIN t ON u.i = t.i", "older rows"),
    ("SELECT t.a FROM t FULL JOIN u ON u.i = t.i", "other parents"),
    ("SELECT a.x FROM t AS a JOIN t AS b ON a.i = b.i", "2 times"),
    ("SELECT a FROM u WHERE i IN (SELECT i FROM t)", "within an expression"),
    ("SELECT a FROM t UNION ALL SELECT a FROM u", "UNION"),
    ("SELECT rand() AS r FROM t", "something else each time"),
    ("SELECT current_timestamp() AS now FROM t", "something else each time"),
    ("SELECT unheard_of(a) AS a FROM t", "nothing is known here of the function unheard_of"),
]


@pytest.mark.parametrize(("sql", "expected"), FOLLOWS)
def test_the_way_a_view_follows_is_read_from_its_sql(sql: str, expected: Way) -> None:
    assert way(sql, {}, "t") == expected


#: SQL that follows from partial aggregates, and what merges them.
BY_PARTIALS = [
    ("SELECT k, avg(v) AS a FROM t GROUP BY k", {}),
    ("SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) > 1", {"a0": "sum"}),
    ("SELECT count(*) AS n FROM t GROUP BY k", {"a0": "sum"}),
    ("SELECT sum(v) + 1 AS s, sum(v) - max(w) AS d FROM t", {"a0": "sum", "a1": "max"}),
    ("SELECT upper(k) AS k, round(avg(v), 1) AS a, sum(v) FILTER (WHERE b) AS s FROM t GROUP BY k", {"a1": "sum"}),
]


@pytest.mark.parametrize(("sql", "merged_by"), BY_PARTIALS)
def test_columns_computed_from_several_aggregates_follow_from_partial_ones(sql: str, merged_by: dict[str, str]) -> None:
    found = way(sql, {}, "t")
    assert found.shown is not None
    assert found.merged_by == merged_by


COMPUTED = [
    "SELECT shop, avg(amount) AS mean, avg(count) FILTER (WHERE amount > 0) AS some FROM sales GROUP BY shop "
    "HAVING count(*) > 1",
    "SELECT coalesce(shop, '?') AS named, CAST(sum(amount) / count(*) AS decimal(12,3)) AS share FROM sales "
    "GROUP BY shop",
    "SELECT upper(s.shop) AS k, round(avg(s.amount), 1) AS a, sum(s.count) FILTER (WHERE s.amount > 0) AS x, p.city "
    "FROM sales s LEFT JOIN shops p ON s.shop = p.shop GROUP BY 1, p.city",
    "SELECT sum(amount) + 1 AS s, CASE WHEN count(*) > 2 THEN max(amount) ELSE min(amount) END AS d FROM sales",
]


@pytest.mark.parametrize("sql", COMPUTED)
@pytest.mark.parametrize("cut", [0, 17, 50])
def test_the_final_columns_follow_from_merged_partials_in_another_engine_too(sql: str, cut: int) -> None:
    """The SQL that is derived, without Spark: partials of two parts, merged by hand, give what the whole gives."""
    duck = duckdb.connect()
    duck.execute("CREATE TABLE shops AS SELECT * FROM (VALUES ('a', 'x'), ('b', 'y')) AS s(shop, city)")
    duck.execute(
        "CREATE TABLE everything AS SELECT i, CASE WHEN i % 4 > 0 THEN chr(CAST(97 + i % 3 AS int)) END AS shop, "
        "CASE WHEN i % 5 > 0 THEN i * 1.5 - 20 END AS amount, i % 7 AS count FROM range(50) AS r(i)"
    )

    def over(condition: str, text: str) -> str:
        duck.execute(f"CREATE OR REPLACE VIEW sales AS SELECT * FROM everything WHERE {condition}")
        return str(sqlglot.transpile(text, read="spark", write="duckdb")[0])

    whole = sorted(map(repr, duck.execute(over("true", sql)).fetchall()))
    found = way(sql, {}, "sales")
    duck.execute(f"CREATE TABLE partials AS {over(f'i < {cut}', found.partials(()))}")
    duck.execute(f"INSERT INTO partials {over(f'i >= {cut}', found.partials(()))}")
    sums = {f"{each.column}_{part}": "sum" for each in found.averages for part in ("sum", "count")}
    columns = [*(found.keys or ()), *(f"{by}({name}) AS {name}" for name, by in {**found.merged_by, **sums}.items())]
    averages = "".join(f", {each.column}_sum / {each.column}_count AS {each.column}" for each in found.averages)
    duck.execute(
        f"CREATE VIEW merged AS SELECT *{averages} FROM (SELECT {', '.join(columns)} FROM partials "
        f"{'GROUP BY ALL' if found.keys else ''})"
    )
    assert found.shown is not None
    shown = ", ".join(f"{value} AS `{name}`" for name, value in found.shown.items())
    final = sqlglot.transpile(
        f"SELECT {shown} FROM merged WHERE {found.having or 'true'}", read="spark", write="duckdb"
    )[0]
    assert sorted(map(repr, duck.execute(final).fetchall())) == whole


def test_which_way_each_view_can_go_is_told_with_the_reason_when_not() -> None:
    told = ways("SELECT t.k, avg(u.v) AS a FROM t LEFT JOIN u ON t.i = u.i GROUP BY t.k", {}, ["t", "u"])
    assert told["t"] == "by difference: merged by its keys"
    assert told["u"].startswith("in full: a new row of `u` may change")


@pytest.mark.parametrize(
    ("measured", "explore", "expected"),
    [
        ({}, False, True),
        ({"full": (9.0, 100.0)}, False, True),
        ({"full": (9.0, 100.0), "difference": (1.0, 10.0)}, False, True),
        ({"full": (1.0, 100.0), "difference": (9.0, 10.0)}, False, False),
        ({"full": (1.0, 100.0), "difference": (9.0, 10.0)}, True, True),
        ({"full": (9.0, 100.0), "difference": (1.0, 10.0)}, True, False),
    ],
)
def test_the_cheaper_way_is_chosen_by_what_both_were_measured_to_take(
    measured: dict[str, tuple[float, float]], explore: bool, expected: bool
) -> None:
    figures = {name: refresh.Measured(seconds=s, bytes_in=b) for name, (s, b) in measured.items()}
    try:
        refresh._require_worth(100, 10, 90, figures, explore)
        chosen = True
    except NotByDifference:
        chosen = False
    assert chosen == expected


@pytest.mark.parametrize(("sql", "reason"), DOES_NOT_FOLLOW)
def test_a_view_that_cannot_follow_says_why(sql: str, reason: str) -> None:
    with pytest.raises(NotByDifference) as refusal:
        way(sql, {}, "t")
    assert reason in str(refusal.value)


def test_virtual_views_are_looked_through() -> None:
    virtual = {"v": "SELECT * FROM w WHERE a", "w": "SELECT * FROM T"}
    assert way("SELECT b FROM v", virtual, "t") == APPENDED
    with pytest.raises(NotByDifference, match="GROUP"):
        way("SELECT b FROM v", {"v": "SELECT b, count(*) AS n FROM t GROUP BY b"}, "t")


SALES = [("shop", "string"), ("amount", "decimal(8,2)"), ("count", "int"), ("share", "double")]
SHOPS = [("shop", "string"), ("city", "string")]
SHAPES = [
    "SELECT shop, amount * 2 AS twice FROM {sales} WHERE amount > 0 OR shop IS NULL",
    "SELECT s.shop, s.amount, p.city FROM {sales} s LEFT JOIN {shops} p ON s.shop = p.shop",
    "SELECT shop, count(*) AS n, count(amount) AS some, CAST(sum(amount) AS decimal(18,2)) AS total FROM {sales} "
    "GROUP BY shop",
    "SELECT shop, count(*) AS n, count(amount) AS some, sum(amount) AS total, min(amount) AS low, max(count) AS high "
    "FROM {sales} GROUP BY shop",
    "SELECT p.city, sum(s.count) AS n FROM {sales} s JOIN {shops} p ON s.shop = p.shop GROUP BY p.city",
    "SELECT count(*) AS n, min(amount) AS low FROM {sales}",
    "SELECT shop FROM {sales} WHERE shop IS NOT NULL GROUP BY shop",
]
#: Divisions, which engines round differently: compared with Spark's own full answer.
DIVIDED = [
    "SELECT shop, avg(amount) AS mean, avg(count) AS mean_count, avg(count) FILTER (WHERE amount > 0) AS some "
    "FROM {sales} GROUP BY shop HAVING count(*) > 1",
    "SELECT coalesce(shop, '?') AS named, CAST(sum(amount) / count(*) AS decimal(12,3)) AS share, "
    "count(*) * 2 AS twice FROM {sales} GROUP BY shop",
]
#: Doubles: what is added in another order differs in the last digits, relative to what was added.
ROUNDED = "SELECT shop, sum(share) AS total, avg(share) AS mean, max(share) AS top FROM {sales} GROUP BY shop"
NEVER = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = st.one_of(st.none(), st.sampled_from(["a", "b", "c", ""]))
SALE = st.fixed_dictionaries(
    {
        "shop": NAMES,
        "amount": st.one_of(st.none(), st.decimals(-1000, 1000, places=2).map(float)),
        "count": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        "share": st.one_of(st.none(), st.floats(0.001, 1000.0)),
    }
)
SHOP = st.fixed_dictionaries({"shop": NAMES, "city": NAMES})
STEP = st.one_of(
    st.tuples(st.just("sales"), st.lists(SALE, max_size=8)),
    st.tuples(st.just("sales"), st.lists(SALE, max_size=8)),
    st.tuples(st.just("shops"), st.lists(SHOP, max_size=3)),
    st.tuples(st.just("upkeep"), st.just([])),
)


@pytest.mark.services
def test_by_difference_and_in_full_give_the_same_rows(
    spark_connect: Any, tables: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.refresh.WORTH_IT", float("inf"))
    monkeypatch.setattr("spark_jobs.upkeep.MERGED", 2)
    seen: set[tuple[bool, str]] = set()

    @settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(STEP, min_size=2, max_size=3))
    def holds(steps: list[tuple[str, list[dict[str, Any]]]]) -> None:
        prefix = f"d{uuid.uuid4().hex[:10]}"
        names = {"sales": f"{prefix}_sales", "shops": f"{prefix}_shops"}
        columns = {"sales": SALES, "shops": SHOPS}
        batches = 0
        with tempfile.TemporaryDirectory() as folder:
            first = [
                ("sales", [{"shop": "a", "amount": 1.5, "count": 1, "share": 0.1}]),
                ("shops", [{"shop": "a", "city": "b"}]),
            ]
            for decision, (what, rows) in enumerate([*first, *steps], start=1):
                if what == "upkeep":
                    for name in names.values():
                        keep_up(spark=spark_connect, tables=tables, name=name, needed=(), older_than=NEVER)
                    continue
                batches += 1
                path = Path(folder) / f"{batches}.json"
                path.write_text("".join(json.dumps(row) + "\n" for row in rows) or "\n")
                load_batch(
                    spark=spark_connect,
                    tables=tables,
                    table=names[what],
                    columns=columns[what],
                    format="json",
                    files=[SourceFile(update_id=1, path=str(path))],
                    marker=f"batch-{batches}",
                )
                if decision < len(first):
                    continue
                reads = {name: tables.current(name) for name in names.values()}
                for number, shape in enumerate([*SHAPES, *DIVIDED, ROUNDED]):
                    view = f"{prefix}_view{number}"
                    result = refresh_view(
                        spark=spark_connect,
                        tables=tables,
                        view=view,
                        sql=shape.format(**names),
                        reads=reads,
                        virtual={},
                        marker=f"refresh-{decision}",
                    )
                    seen.add((shape in DIVIDED, result.way))
                    found = run_query(spark_connect, tables, f"SELECT * FROM {view}", {view: result.snapshot_id}, {})
                    sql = shape.format(**names)
                    if shape == ROUNDED:
                        assert _close(found, run_query(spark_connect, tables, sql, reads, {})), result.how
                    elif shape in DIVIDED:
                        whole = run_query(spark_connect, tables, sql, reads, {})
                        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, whole.to_pylist())), sql
                    else:
                        assert _rows(found) == _by_duckdb(tables, sql, reads), f"{shape}, {result.how}"

    holds()
    assert seen == {(divided, way) for divided in (False, True) for way in ("difference", "full")}


def _close(found: Any, whole: Any) -> bool:
    """Equal, but for the last digits of doubles; all terms are positive, so nothing cancels out."""
    rows, others = ({row.pop("shop"): row for row in each.to_pylist()} for each in (found, whole))
    return rows.keys() == others.keys() and all(
        value == others[shop][name] or math.isclose(value, others[shop][name], rel_tol=1e-12)
        for shop, row in rows.items()
        for name, value in row.items()
    )


def _by_duckdb(tables: Any, sql: str, reads: dict[str, int]) -> list[str]:
    connection = duckdb.connect()
    for name, snapshot in reads.items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet({tables.files(name, snapshot)!r})")
    return _rows(connection.execute(sql).to_arrow_table())


def _rows(table: Any) -> list[str]:
    """Rows as text, in order; numbers by value, since the engines give sums different types."""

    def plain(value: Any) -> Any:
        return f"{value:.2f}" if isinstance(value, (int, Decimal)) else value

    return sorted(repr([plain(value) for value in row.values()]) for row in table.to_pylist())
