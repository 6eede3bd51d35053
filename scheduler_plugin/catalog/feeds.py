"""Reads one entry of `feeds:`, which describes a feed and the table it feeds."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from scheduler_plugin.catalog import values
from scheduler_plugin.catalog.model import DEFAULT_OWNER, ColumnInterval, Feed, PatternInterval, Table
from scheduler_plugin.catalog.problems import Fields, mapping

FORMATS = ("csv", "json", "parquet")
TIME_TYPES = ("date", "timestamp", "timestamp_ntz")
DEFAULT_MAX_BATCH = 10**9
DEFAULT_TIME_FORMAT = "%Y%m%dT%H%M%SZ"


def read_feed(name: str, fields: Fields) -> tuple[Feed, Table]:
    """Both, possibly with None in fields that had a problem: whoever reads raises before anyone else sees them."""
    columns = _columns(fields)
    period = fields.take("period", values.duration)
    table_name = fields.take("table", values.name, name) or name
    feed = Feed(
        name=name,
        table=table_name,
        landing=fields.take("landing", values.text, name),
        format=fields.take("format", values.one_of(FORMATS)),
        interval=_interval(fields, columns, period),
        period=period,
        settle=fields.take("settle", values.duration, None),
        done=fields.take("done", _suffix, None),
        max_batch=fields.take("max_batch", values.size, DEFAULT_MAX_BATCH),
    )
    key = fields.take("key", values.names, ()) or ()
    for column in key:
        _known(fields, "key", column, columns)
    table = Table(
        name=table_name,
        feed=name,
        columns=MappingProxyType(columns),
        key=key,
        expectations=(),
        weight=fields.take("weight", values.positive, 1.0),
        staleness_limit=fields.take("staleness_limit", values.duration, None),
        access=fields.take("access", values.not_negative, 1.0),
        owner=fields.take("owner", values.text, DEFAULT_OWNER),
    )
    fields.done()
    return feed, table


def _suffix(value: Any) -> str:
    if not values.text(value).startswith(".") or "/" in value:
        raise ValueError(f"`{value}` is not a suffix. Write it with its dot, like `.done`.")
    return str(value)


def _columns(fields: Fields) -> dict[str, str]:
    written = fields.take("columns", mapping)
    found: dict[str, str] = {}
    seen: dict[str, str] = {}
    for column, kind in (written or {}).items():
        try:
            values.column_name(column)
            if column.lower() in seen:
                raise ValueError(
                    f"differs from `{seen[column.lower()]}` only in case, which Spark ignores. Rename one."
                )
            seen[column.lower()] = column
            found[column] = values.column_type(kind, fields.problems.hint)
        except ValueError as error:
            fields.problems.add(fields.where, f", column {column}: {error}")
    if written is not None and not written:
        fields.problems.add(fields.where, ", `columns`: is empty. Name the columns and their types.")
    return found if len(found) == len(written or {}) else {}


def _known(fields: Fields, key: str, column: Any, columns: Mapping[str, str]) -> bool:
    """Whether the column exists; also when the columns are wrong themselves, and have been reported."""
    if not columns or column in columns:
        return True
    hint = fields.problems.hint(column, columns)
    fields.problems.add(fields.where, f", `{key}`: the table has no column `{column}`.{hint}")
    return False


def _interval(
    owner: Fields, columns: Mapping[str, str], period: float | None
) -> ColumnInterval | PatternInterval | None:
    written = owner.take("interval", mapping, None)
    if written is None:
        return None
    fields = Fields(owner.problems, f"{owner.where}, interval", written)
    if ("column" in written) == ("pattern" in written):
        owner.problems.add(fields.where, " needs either `column` or `pattern`. Write one.")
    length = fields.take("length", values.duration, period)
    column = fields.take("column", values.text, None)
    pattern = fields.take("pattern", _pattern, None)
    if column is not None and _known(fields, "column", column, columns) and columns:
        kind = columns[column]
        if kind not in TIME_TYPES:
            owner.problems.add(
                fields.where, f", `column`: `{column}` is a {kind}. Name a column of type {', '.join(TIME_TYPES)}."
            )
    if column is not None:
        fields.done()
        return ColumnInterval(column=column, length=length)
    time_format = fields.take("format", _time_format, DEFAULT_TIME_FORMAT)
    fields.done()
    return PatternInterval(pattern=pattern, format=time_format, length=length)


def _pattern(value: Any) -> re.Pattern[str]:
    try:
        pattern = re.compile(values.text(value))
    except re.error as error:
        raise ValueError(f"`{value}` is not a regular expression: {error}.") from None
    if "start" not in pattern.groupindex:
        raise ValueError(f"`{value}` has no group `start`. Write (?P<start>...) where the covered time begins.")
    return pattern


def _time_format(value: Any) -> str:
    moment = datetime(2013, 2, 8, 15, tzinfo=UTC)
    try:
        read = datetime.strptime(moment.strftime(values.text(value)), value)  # noqa: DTZ007 - the zone may be in it
    except ValueError:
        read = None
    if read is None or read.replace(tzinfo=UTC).date() != moment.date():
        raise ValueError(f"`{value}` is not a format of a time. Write one for strptime, like {DEFAULT_TIME_FORMAT}.")
    return str(value)
