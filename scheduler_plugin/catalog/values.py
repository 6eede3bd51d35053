"""The plain values of a catalog: names, numbers, durations, column types. A parser's ValueError says the way out."""

import json
import math
import re
from collections.abc import Callable, Collection
from typing import Any

from scheduler_plugin.catalog.problems import kind

NAME = re.compile(r"[a-z][a-z0-9_]*")
COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
BYTES = re.compile(r"(\d+(?:\.\d+)?)(kB|MB|GB|TB)")
SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

#: Scalar types that Spark and Iceberg both have, by Spark's name (decimal is checked apart).
TYPES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal(p,s)",
    "date",
    "timestamp",
    "timestamp_ntz",
    "string",
    "binary",
)
DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
#: What people write out of habit.
OTHER_NAMES = {
    "bool": "boolean",
    "integer": "int",
    "smallint": "int",
    "short": "int",
    "bigint": "long",
    "real": "float",
    "number": "double",
    "numeric": "decimal(p,s)",
    "decimal": "decimal(p,s)",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "timestamp_ltz": "timestamp",
    "text": "string",
    "str": "string",
    "varchar": "string",
    "char": "string",
    "bytes": "binary",
}


def name(value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        quoting = " YAML reads unquoted yes, no, on and off as booleans." if isinstance(value, bool) else ""
        raise ValueError(
            f"{kind(value)} is not a plain name. Use lower-case letters, digits and _, a letter first.{quoting}"
        )
    return value


def column_name(value: Any) -> str:
    if not isinstance(value, str) or not COLUMN.fullmatch(value):
        raise ValueError(f"{kind(value)} is not a column name. Use letters, digits and _, a letter first.")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{kind(value)} is not text. Put it in quotes if it should be.")
    return value


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{kind(value)} is neither true nor false.")
    return value


def plain(value: Any) -> Any:
    """A value as it is, if JSON can hold it: catalogs are kept as JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(f"{kind(value)} is not plain text, a number, or a list of these. Put it in quotes.") from None
    return value


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{kind(value)} is not a whole number of at least 1.")
    return value


def positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{kind(value)} is not a number above 0.")
    return float(value)


def not_negative(value: Any) -> float:
    if not isinstance(value, bool) and value == 0:
        return 0.0
    return positive(value)


def share(value: Any) -> float:
    if positive(value) > 1:
        raise ValueError(f"{kind(value)} is not a share. Write a number above 0 and up to 1, such as 0.25.")
    return float(value)


def duration(value: Any) -> float:
    """`90s` -> 90.0"""
    match = DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{kind(value)} is not a duration. Write a number and a unit: 500ms, 90s, 5m, 1h or 2d.")
    return float(match[1]) * SECONDS[match[2]]


def size(value: Any) -> int:
    """`250MB` -> 250_000_000"""
    match = BYTES.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{kind(value)} is not a size. Write a number and a unit: 500kB, 250MB, 1GB or 2TB.")
    return int(float(match[1]) * SIZES[match[2]])


def names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{kind(value)} is not a list of names. Write it like [one, other].")
    twice = sorted({each for each in value if value.count(each) > 1})
    if twice:
        raise ValueError(f"`{twice[0]}` is listed twice. Keep one.")
    return tuple(value)


def one_of(known: Collection[str]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in known:
            raise ValueError(f"{kind(value)} is not known. Use one of {', '.join(known)}.")
        return str(value)

    return parse


def column_type(value: Any, hint: Callable[[object, Collection[str]], str]) -> str:
    """The type as Spark names it, or ValueError."""
    if isinstance(value, str):
        plain = value.strip().lower()
        if plain in TYPES and "(" not in plain:
            return plain
        if match := DECIMAL.fullmatch(plain):
            precision, scale = int(match[1]), int(match[2])
            if not (1 <= precision <= 38 and scale <= precision):
                raise ValueError(f"{kind(value)} does not exist: decimal(p,s) needs 1 <= p <= 38 and s <= p.")
            return f"decimal({precision},{scale})"
        if usual := OTHER_NAMES.get(plain.split("(")[0]):
            raise ValueError(f"type {kind(value)} does not exist here. Did you mean `{usual}`?")
    raise ValueError(f"type {kind(value)} does not exist.{hint(value, TYPES)}")
