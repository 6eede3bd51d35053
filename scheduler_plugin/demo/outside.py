"""The outside check: what the warehouse must hold after a replay, worked out by DuckDB straight from the source.

Nothing of Freshet's loading or refreshing is used: tables come from the package's files, views from their SQL in
another engine, and what is really there from the Iceberg tables as DuckDB reads them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler_plugin.catalog import Catalog
from scheduler_plugin.demo import duck
from scheduler_plugin.demo.plan import Drop, Trouble
from scheduler_plugin.demo.source import read

#: Rows of the source that the quality gate must keep out (include/expectations).
IMPOSSIBLE = {"weather": "wind_speed > 200"}
TYPES = {"int": "INTEGER", "double": "DOUBLE", "string": "VARCHAR", "timestamp": "TIMESTAMPTZ"}
#: Two engines add floats in different orders.
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One object as it should be and as it is."""

    object: str
    expected_rows: int
    #: None when there is no such table to read.
    actual_rows: int | None
    #: Rows that one side has and the other has not, or with other values; counted on both sides.
    different: int

    @property
    def same(self) -> bool:
        return self.actual_rows is not None and not self.different


class Outside:
    """A DuckDB with everything as it should be, in its schema `expected`."""

    def __init__(self, catalog: Catalog, sent: Sequence[Drop]) -> None:
        """Works out what the tables and views hold once the `sent` files have been dealt with."""
        self.catalog = catalog
        self.duck = duck.connect()
        self.duck.execute("CREATE SCHEMA expected")
        self.duck.execute("SET search_path = 'expected'")
        for name in catalog.order:
            if name in catalog.views:
                self.duck.execute(f"CREATE TABLE {name} AS {duck.in_duckdb(catalog.views[name].sql)}")
            else:
                self._table(name, [drop for drop in sent if drop.feed == catalog.tables[name].feed])

    def _table(self, name: str, drops: Iterable[Drop]) -> None:
        table = self.catalog.tables[name]
        self.duck.register("source", read(table.feed).to_arrow())
        columns = ", ".join(f"CAST({column} AS {TYPES[kind]}) AS {column}" for column, kind in table.columns.items())
        whole = [drop for drop in drops if drop.trouble is not Trouble.ERROR_PAGE]
        # The source's times are text that compares as time does.
        spans = [
            f"('{drop.covers.start:%Y-%m-%dT%H:%M:%SZ}', '{drop.covers.end:%Y-%m-%dT%H:%M:%SZ}')"
            for drop in whole
            if drop.covers
        ]
        which = (
            f"WHERE EXISTS (FROM (VALUES {', '.join(spans)}) AS sent(since, until) "
            "WHERE source.time_hour >= since AND source.time_hour < until)"
            if spans
            else f"LIMIT {sum(drop.rows.height for drop in whole)}"
        )
        self.duck.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM source {which}")
        if name in IMPOSSIBLE:
            self.duck.execute(f"DELETE FROM {name} WHERE {IMPOSSIBLE[name]}")
        self.duck.unregister("source")

    def expected_counts(self) -> dict[str, int]:
        """Object -> rows it must have."""
        return {name: self._count(f"expected.{name}") for name in self.catalog.order}

    def compare(self, locations: Mapping[str, str]) -> list[Comparison]:
        """Every table and materialized view against the Iceberg table at `locations` (object -> metadata file)."""
        return [self._compare(name, locations.get(name)) for name in self.catalog.order if not self._virtual(name)]

    def _compare(self, name: str, location: str | None) -> Comparison:
        rows = self._count(f"expected.{name}")
        if location is None:
            return Comparison(object=name, expected_rows=rows, actual_rows=None, different=rows)
        # Columns by name: their order is the writer's business. Instants as numbers, which Python makes much faster.
        described = self.duck.execute(f"DESCRIBE expected.{name}").fetchall()
        listed = ", ".join(
            f"epoch_us({column})" if kind == "TIMESTAMP WITH TIME ZONE" else column for column, kind, *_ in described
        )
        expected, actual = (
            self.duck.execute(f"SELECT {listed} FROM {source}").fetchall()
            for source in (f"expected.{name}", duck.scan(location))
        )
        return Comparison(
            object=name, expected_rows=rows, actual_rows=len(actual), different=differences(expected, actual)
        )

    def _count(self, source: str) -> int:
        return int(self.duck.execute(f"SELECT count(*) FROM {source}").fetchone()[0])

    def _virtual(self, name: str) -> bool:
        return name in self.catalog.views and not self.catalog.views[name].materialized


def actual_counts(locations: Mapping[str, str]) -> dict[str, int]:
    """Object -> rows that its Iceberg table has, as DuckDB reads it (see `duck.newest_metadata`)."""
    with duck.connect() as connection:
        return {
            name: int(connection.execute(f"SELECT count(*) FROM {duck.scan(location)}").fetchone()[0])
            for name, location in sorted(locations.items())
        }


def differences(one: Sequence[tuple[Any, ...]], other: Sequence[tuple[Any, ...]]) -> int:
    """How many rows of either side have no equal on the other, in any order; floats equal within the tolerance."""
    groups: dict[tuple[str, ...], tuple[list[list[float]], list[list[float]]]] = {}
    for side, rows in enumerate((one, other)):
        for row in rows:
            exact = tuple(_text(value) for value in row)
            groups.setdefault(exact, ([], []))[side].append([value for value in row if isinstance(value, float)])
    return sum(_unlike(sorted(left), sorted(right)) for left, right in groups.values())


def _text(value: Any) -> str:
    """A value as two engines agree on it; of a float only that it is one."""
    return "float" if isinstance(value, float) else str(value)


def _unlike(left: list[list[float]], right: list[list[float]]) -> int:
    unlike = abs(len(left) - len(right))
    for one, other in zip(left, right, strict=False):
        if not all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in zip(one, other, strict=True)):
            unlike += 2
    return unlike
