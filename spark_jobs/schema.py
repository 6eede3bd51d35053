"""Column types: Spark's names in the catalog, Iceberg's in the table, one table of pairs between them.

Only scalars: what every reader of the tables (Spark, DuckDB, Polars) agrees on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: (name, Spark type) pairs, in order.
Columns = Sequence[tuple[str, str]]

#: Spark's name for each Iceberg type we use; the first name is the one we write back.
NAMES: tuple[tuple[IcebergType, tuple[str, ...]], ...] = (
    (BooleanType(), ("boolean", "bool")),
    # Iceberg has no smaller integer: a tinyint is kept as an int.
    (IntegerType(), ("int", "integer", "smallint", "short", "tinyint", "byte")),
    (LongType(), ("bigint", "long")),
    (FloatType(), ("float", "real")),
    (DoubleType(), ("double",)),
    (StringType(), ("string",)),
    (BinaryType(), ("binary",)),
    (DateType(), ("date",)),
    (TimestamptzType(), ("timestamp", "timestamp_ltz")),
    (TimestampType(), ("timestamp_ntz",)),
)
_ICEBERG = {name: iceberg for iceberg, names in NAMES for name in names}
_SPARK = {iceberg: names[0] for iceberg, names in NAMES}
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_TEXT = re.compile(r"(?:varchar|char)\s*\(\s*\d+\s*\)")

#: The column that a table's files have and the table does not show: which update a row came with. Its id is out of the
#: way of declared columns, and below the ids that Iceberg keeps for itself.
LINEAGE = "_update"
LINEAGE_FIELD = NestedField(field_id=2_000_000_000, name=LINEAGE, field_type=LongType(), required=False)

#: The column metadata key under which Spark reads and writes a Parquet field id.
FIELD_ID = "parquet.field.id"


class SchemaError(Exception):
    """A column's type is not one the tables hold, or a table cannot be changed as declared."""


def iceberg_type(spark_type: str) -> IcebergType:
    """The Iceberg type that holds a Spark scalar type."""
    name = spark_type.strip().lower()
    if name in _ICEBERG:
        return _ICEBERG[name]
    if match := _DECIMAL.fullmatch(name):
        return DecimalType(int(match[1] or 10), int(match[2] or 0))
    if _TEXT.fullmatch(name):
        return StringType()
    known = ", ".join(_SPARK.values())
    raise SchemaError(f"type `{spark_type}` is not a scalar that tables hold; use one of {known}, decimal(p,s)")


def spark_type(iceberg: IcebergType) -> str:
    """Spark's name for an Iceberg scalar type."""
    if isinstance(iceberg, DecimalType):
        return f"decimal({iceberg.precision},{iceberg.scale})"
    return _SPARK[iceberg]


def build(columns: Columns, first_id: int = 1) -> Schema:
    """The Iceberg schema of declared columns, with ids from `first_id` on. Every column may be null."""
    seen: set[str] = set()
    fields = []
    for position, (name, declared) in enumerate(columns):
        if name.lower() in seen:
            raise SchemaError(f"column `{name}` appears twice (names differ in more than case); rename one of them")
        seen.add(name.lower())
        try:
            kind = iceberg_type(declared)
        except SchemaError as error:
            raise SchemaError(f"column `{name}`: {error}") from error
        fields.append(NestedField(field_id=first_id + position, name=name, field_type=kind, required=False))
    if not fields:
        raise SchemaError("a table needs at least one column")
    return Schema(*fields)


def with_lineage(schema: Schema) -> Schema:
    """The schema of a table's files: they know of each row which update it came with, which the table does not show."""
    return Schema(*schema.fields, LINEAGE_FIELD, schema_id=schema.schema_id)


def columns_of(schema: Schema) -> list[tuple[str, str]]:
    """The declared form of an Iceberg schema."""
    return [(field.name, spark_type(field.field_type)) for field in schema.fields]


def spark_schema(schema: Schema) -> StructType:
    """Spark's schema of an Iceberg schema, each column carrying its field id."""
    from pyspark.sql.types import StructType

    fields = []
    for field in schema.fields:
        name = spark_type(field.field_type)
        # By its names in JSON, which are read here; those of SQL are read by the server, with a call for each.
        kind = {"int": "integer", "bigint": "long"}.get(name, name)
        fields.append({"name": field.name, "type": kind, "nullable": True, "metadata": {FIELD_ID: field.field_id}})
    return StructType.fromJson({"type": "struct", "fields": fields})


def cast(frame: Any, schema: Schema) -> Any:
    """A Spark frame with exactly the table's columns, types and field ids: what `add_files` would not check."""
    from pyspark.sql import functions as F  # noqa: N812 - the name every Spark program uses

    return frame.select(*(column(F.col(f"`{field.name}`"), field) for field in schema.fields))


def column(value: Any, field: NestedField) -> Any:
    """A Spark expression as that column: its name, type and field id."""
    return value.cast(spark_type(field.field_type)).alias(field.name, metadata={FIELD_ID: field.field_id})


def growth(name: str, schema: Schema, columns: Columns) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Columns to add and to widen, or a refusal that names the column and the way out."""
    have = dict(columns_of(schema))
    want = dict(columns_of(build(columns)))
    for column in have:
        if column not in want:
            raise SchemaError(
                f"{name}: column `{column}` is in the table and no longer declared; declare it or use a new table"
            )
    added = [(column, kind) for column, kind in want.items() if column not in have]
    widened = [(column, kind) for column, kind in want.items() if column in have and have[column] != kind]
    for column, kind in widened:
        if not _widens(iceberg_type(have[column]), iceberg_type(kind)):
            raise SchemaError(
                f"{name}: column `{column}` is {have[column]} in the table and declared {kind}; only int to bigint, "
                "float to double and a longer decimal of the same scale keep the rows there are: use a new column"
            )
    return added, widened


def _widens(have: IcebergType, want: IcebergType) -> bool:
    if isinstance(have, DecimalType) and isinstance(want, DecimalType):
        return bool(have.scale == want.scale and have.precision <= want.precision)
    return (have, want) in ((IntegerType(), LongType()), (FloatType(), DoubleType()))
