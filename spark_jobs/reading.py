"""Source files as one Spark frame in which no bad value is silent.

The frame has the declared columns, already of the declared types, and four more: `_file` (the file a row came from),
`_bad` (whether the row is malformed), `_raw` (then its text, else null) and `_reason` (why, where Spark itself can
tell). Spark would make a value that does not parse NULL, round a decimal that does not fit, and cut a double to an int.
What is not asked for is not computed.

A strict frame has the columns, and `_file` where there is more than one, and fails at the first malformed row. Where it
does not fail its rows are those of the other one, for about what a reading costs that looks at nothing.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spark_jobs.intake import Readable, literal
from spark_jobs.schema import Columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FILE, BAD, RAW, REASON = "_file", "_bad", "_raw", "_reason"
_CORRUPT = "_corrupt_record"
_LINE = "_line"
_TIMES = ("date", "timestamp", "timestamp_ntz")
_TEXT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


def frame_of(
    spark: SparkSession, files: Sequence[Readable], *, format: str, columns: Columns, strict: bool = False
) -> DataFrame:
    """All files in as few reads as their layouts allow."""
    read = {"csv": _csv, "json": _json, "parquet": _parquet}[format]

    def kind(file: Readable) -> tuple[Any, ...]:
        return file.layout, file.multiline

    # For a path Spark puts together, for each row, all that it knows of a file: a twentieth of the whole work.
    origin = [] if strict and len(files) == 1 else [_col("_metadata.file_path").alias(FILE)]
    frames = [
        read(spark, [literal(file.source.path) for file in group], layout, columns, multiline, strict, origin)
        for (layout, multiline), group in groupby(sorted(files, key=kind), key=kind)
    ]
    frame = reduce(lambda left, right: left.union(right), frames)
    return _failing(frame, columns) if strict else frame


def _csv(
    spark: Any,
    paths: list[str],
    layout: Sequence[str],
    columns: Columns,
    multiline: bool,
    strict: bool,
    origin: Sequence[Any],
) -> Any:
    types = dict(columns)
    # Quotes as RFC 4180 has them; Spark's own escape is a backslash.
    reader = spark.read.options(quote='"', escape='"', header="true", multiLine=str(multiline).lower())
    if strict:
        fields = ", ".join(f"`{name}` {'string' if _is_decimal(types[name]) else types[name]}" for name in layout)
        return _exact(reader.options(mode="FAILFAST").schema(fields).csv(paths), columns, origin)
    fields = ", ".join(f"`{name}` {_roomy(types[name])}" for name in layout)
    frame = reader.options(**_TEXT).schema(f"{fields}, {_CORRUPT} string").csv(paths)
    return _fitted(frame, columns, origin, raw=_col(_CORRUPT))


def _exact(frame: Any, columns: Columns, origin: Sequence[Any]) -> Any:
    """Decimals, read as text, and times are good when they are plain; a row of which one is not must be looked at."""
    from pyspark.sql import functions as F  # noqa: N812

    def plain(name: str, kind: str) -> Any:
        if _is_decimal(kind):
            # As the type itself writes it, which is quickly told, or else in another plain way.
            written = _col(name).cast(kind).cast("string").eqNullSafe(_col(name))
            return written | _col(name).rlike(_plain_decimal(kind))
        return _col(name).isNull() | _col(name).between(*_ends(kind))

    looked_at = [plain(name, kind) for name, kind in columns if _is_decimal(kind) or kind in _TIMES]
    good = reduce(lambda left, right: left & right, looked_at, F.lit(True))
    return frame.select(*(_col(name).cast(kind).alias(name) for name, kind in columns), *origin, (~good).alias(BAD))


def _failing(frame: Any, columns: Columns) -> Any:
    """A frame that fails at a malformed row.

    There is one check for all columns: with one for each, Spark's code outgrows what Java optimises.
    """
    from pyspark.sql import functions as F  # noqa: N812

    first, _ = columns[0]
    wrong = F.raise_error(F.lit("a row is malformed"))
    return frame.withColumn(first, F.when(_col(BAD), wrong).otherwise(_col(first))).drop(BAD, RAW, REASON)


def _json(
    spark: Any,
    paths: list[str],
    layout: Sequence[Any],
    columns: Columns,
    multiline: bool,
    strict: bool,
    origin: Sequence[Any],
) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    fields = ", ".join(f"`{name}` {_roomy(kind)}" for name, kind in columns)
    lines = spark.read.text(paths).where(F.length(F.trim("value")) > 0)
    # Spark calls a line `value`, as one of the columns may be called.
    parsed = lines.select(
        _col("value").alias(_LINE),
        "_metadata",
        F.from_json("value", f"{fields}, {_CORRUPT} string", _TEXT).alias("_parsed"),
    )
    frame = parsed.select(_LINE, "_metadata", "_parsed.*")
    declared = F.array(*(F.lit(name) for name, _ in columns))
    # A key may be left out (it is null); a key nobody declared may not.
    strange = F.size(F.array_except(F.coalesce(F.json_object_keys(_LINE), F.array()), declared)) > 0
    return _fitted(frame, columns, origin, raw=F.when(_col(_CORRUPT).isNotNull() | strange, _col(_LINE)))


def _parquet(
    spark: Any,
    paths: list[str],
    layout: Sequence[tuple[str, str]],
    columns: Columns,
    multiline: bool,
    strict: bool,
    origin: Sequence[Any],
) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    fields = ", ".join(f"`{name}` {kind}" for name, kind in layout)
    # By name: the ids another writer left in its files are not ours.
    frame = spark.read.schema(fields).parquet(*paths)
    return _fitted(frame, columns, origin, raw=F.lit(None).cast("string"), source=dict(layout))


def _fitted(
    frame: Any, columns: Columns, origin: Sequence[Any], *, raw: Any, source: Mapping[str, str] | None = None
) -> Any:
    """Cast to the declared types; a value that does not survive the way there and back makes its row malformed."""
    from pyspark.sql import functions as F  # noqa: N812

    cast = []
    #: What is wrong with a row -> how to say so.
    misfits: list[tuple[Any, Any]] = []
    for name, kind in columns:
        have = source[name] if source is not None else _roomy(kind)
        if kind in _TIMES and have == kind:
            # Spark knows years that hardly anybody else does; what reads the tables must not break on one.
            beyond = ~_col(name).between(*_ends(kind))
            said = F.concat(F.lit(f"column `{name}`: year "), F.year(_col(name)), F.lit(" is not from 1 to 9999"))
            misfits.append((beyond, said))
            cast.append(F.when(~beyond, _col(name)).alias(name))
            continue
        if have == kind:
            cast.append(_col(name))
            continue
        fitted = _col(name).try_cast(kind)
        misfit = _col(name).isNotNull() & ~fitted.try_cast(have).eqNullSafe(_col(name))
        shown = F.concat(
            F.lit(f"column `{name}`: "), _col(name).cast("string"), F.lit(f" does not fit {kind} unchanged")
        )
        misfits.append((misfit, shown))
        cast.append(fitted.alias(name))
    bad = reduce(
        lambda left, right: left | right, (F.coalesce(wrong, F.lit(False)) for wrong, _ in misfits), raw.isNotNull()
    )
    if not misfits:
        return frame.select(*cast, *origin, bad.alias(BAD), raw.alias(RAW), F.lit(None).cast("string").alias(REASON))
    reason = F.concat_ws("; ", *(F.when(wrong, said) for wrong, said in misfits))
    reason = F.when(F.length(reason) > 0, reason)
    whole = F.to_json(F.struct(*(_col(name) for name, _ in columns)))
    return frame.select(
        *cast,
        *origin,
        bad.alias(BAD),
        F.coalesce(raw, F.when(reason.isNotNull(), whole)).alias(RAW),
        reason.alias(REASON),
    )


def explain(raw: str, values: Mapping[str, Any], *, layout: Sequence[Any], columns: Columns) -> str:
    """Why Spark could not parse a row, from its text and what was parsed of it; a CSV row has its file's layout."""
    if not layout:
        try:
            record = json.loads(raw)
        except ValueError as error:
            return f"not JSON: {error}"
        if not isinstance(record, dict):
            return "not a JSON object"
        if strange := [name for name in record if name not in dict(columns)]:
            return f"column `{strange[0]}` is not declared"
        given = {name: record.get(name) for name, _ in columns}
    else:
        tokens = next(csv.reader(io.StringIO(raw)), [])
        if len(tokens) != len(columns):
            return f"{len(tokens)} fields where {len(columns)} were expected"
        given = dict(zip(layout, tokens, strict=True))
    types = dict(columns)
    wrong = [
        f"column `{name}`: {value!r} is not {types[name]}"
        for name, value in given.items()
        if value not in ("", None) and values.get(name) is None
    ]
    return "; ".join(wrong) or "does not parse"


def _roomy(kind: str) -> str:
    """Read a decimal with as many digits after the point as there are, so that one too many is seen."""
    if not _is_decimal(kind):
        return kind
    precision, scale = _digits(kind)
    return f"decimal(38,{38 - precision + scale})"


def _plain_decimal(kind: str) -> str:
    """What fits a decimal type unchanged, written in the plainest way."""
    precision, scale = _digits(kind)
    whole = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
    return rf"^-?{whole}(\.[0-9]{{1,{scale}}})?\z" if scale else rf"^-?{whole}\z"


def _is_decimal(kind: str) -> bool:
    return kind.startswith("decimal(")


def _digits(kind: str) -> tuple[int, int]:
    """In all, and after the point."""
    precision, _, scale = kind[len("decimal(") : -1].partition(",")
    return int(precision), int(scale or 0)


def _ends(kind: str) -> tuple[Column, Column]:
    """The first and the last instant, or day, that everybody can read."""
    from pyspark.sql import functions as F  # noqa: N812

    first, last = (
        ("0001-01-01", "9999-12-31") if kind == "date" else ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
    )
    return F.lit(first).cast(kind), F.lit(last).cast(kind)


def _col(name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(name if "." in name else f"`{name}`")
