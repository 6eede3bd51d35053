"""DuckDB as an outsider: reads the Iceberg tables on its own, and runs the views' SQL in its own dialect.

Its Iceberg extension comes from wheels, so nothing is downloaded.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: In the order in which they are needed: the manifests of an Iceberg table are Avro files.
EXTENSIONS = ("httpfs", "avro", "iceberg")
#: What Spark has and DuckDB has not.
MACROS = (
    "CREATE OR REPLACE MACRO make_dt_interval(days, hours, minutes, seconds) AS "
    "to_days(days) + to_hours(hours) + to_minutes(minutes) + to_seconds(seconds)",
)


def connect(*, iceberg: bool = True, threads: int = 1) -> Any:
    """A DuckDB of one's own, in memory, in UTC."""
    import duckdb

    connection = duckdb.connect(
        config={"threads": threads, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    )
    connection.execute("SET TimeZone = 'UTC'")
    for macro in MACROS:
        connection.execute(macro)
    for name in EXTENSIONS if iceberg else ():
        connection.execute(f"LOAD '{_extension(name)}'")
    return connection


def in_duckdb(sql: str) -> str:
    """A view's SQL, which is Spark's, in DuckDB's dialect, with the same meaning where that differs."""
    import sqlglot
    from sqlglot import exp

    def translated(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.ApproxQuantile):  # exact, since Spark's is exact for a few thousand rows
            return exp.Anonymous(this="quantile_disc", expressions=[node.this, node.args["quantile"]])
        if isinstance(node, exp.CountIf):  # DuckDB's own is NULL where it never was true or false
            return exp.Count(this=exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))]))
        return node

    return str(sqlglot.parse_one(sql, read="spark").transform(translated).sql(dialect="duckdb", comments=False))


def scan(metadata_location: str) -> str:
    """What to write after FROM for an Iceberg table."""
    path = metadata_location.removeprefix("file://").replace("'", "''")
    return f"iceberg_scan('{path}')"


def newest_metadata(warehouse: Path) -> dict[str, str]:
    """Table -> its newest metadata file below a warehouse folder, for when no catalog is at hand to ask."""
    files = sorted(warehouse.glob("**/metadata/*.metadata.json"), key=lambda file: (file.name, file.stat().st_mtime))
    return {file.parent.parent.name: str(file) for file in files}


def _extension(name: str) -> Path:
    spec = find_spec(f"duckdb_extension_{name}")
    places = (spec.submodule_search_locations if spec else None) or []
    files = [file for place in places for file in Path(place).glob(f"extensions/*/{name}.duckdb_extension")]
    if not files:
        raise FileNotFoundError(
            f"DuckDB's extension {name} is missing: install duckdb-extension-{name} (requirements.txt)"
        )
    return max(files)
