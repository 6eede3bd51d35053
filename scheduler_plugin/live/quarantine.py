"""Lets files and rows out of quarantine. Rows are written into a file of their own, in their feed's format.

No Airflow in here: the command line and the page act by the same function.
"""

import csv
import hashlib
import io
import json
import uuid
from collections.abc import Collection, Mapping
from typing import Any

import fsspec

from scheduler_plugin.store import quarantine
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.quarantine import QuarantineError, RowFile, RowsOf, What


def act(
    database: Database, what: What, identities: Collection[str], *, who: str, why: str, archive: str
) -> dict[str, int]:
    """Does it to all of these items, or to none. `archive` is where files of rows are kept."""
    rows = [] if what == "drop" else quarantine.rows_to_load(database, identities)
    made = [_file_of(some, archive) for some in rows]
    return quarantine.settle(database, what, identities, who=who, why=why, made=made)


def _file_of(rows: RowsOf, archive: str) -> RowFile:
    form = {"csv": _csv, "json": _json, "parquet": _parquet}[rows.spec["format"]]
    content = form(rows)
    name = f"rows-of-{rows.update}-{uuid.uuid4().hex[:8]}.{rows.spec['format']}"
    path = f"{archive.rstrip('/')}/{rows.table}/{name}"
    system, bare = fsspec.core.url_to_fs(path)
    system.makedirs(bare.rsplit("/", 1)[0], exist_ok=True)
    system.pipe_file(bare, content)
    # The same row may have come with two files: what makes this content one of its kind is which rows it holds.
    digest = hashlib.sha256(f"rows {list(rows.ids)} ".encode() + content).hexdigest()
    return RowFile(rows=rows, path=path, size_bytes=len(content), content_hash=digest)


def _values(rows: RowsOf) -> list[Mapping[str, Any] | str]:
    """Each row as its values, where it was well-formed, or else as its text."""
    names = {name for name, _ in rows.spec["columns"]}
    found: list[Mapping[str, Any] | str] = []
    for raw in rows.raws:
        try:
            values = json.loads(raw)
        except ValueError:
            values = None
        found.append(values if isinstance(values, dict) and values.keys() <= names else raw)
    return found


def _csv(rows: RowsOf) -> bytes:
    header = [name for name, _ in rows.spec["columns"]]
    found = _values(rows)
    if any(isinstance(row, str) for row in found):
        header = _header(rows)
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(header)
    for row in found:
        if isinstance(row, str):
            sink.write(row.rstrip("\r\n") + "\n")
        else:
            writer.writerow(["" if row.get(name) is None else row[name] for name in header])
    return sink.getvalue().encode()


def _header(rows: RowsOf) -> list[str]:
    """A malformed row has its file's columns in its file's order."""
    try:
        with fsspec.open(rows.path, "rt", compression="infer", encoding="utf-8-sig", newline="") as file:
            first = next(line for line in file if line.strip())
    except (OSError, StopIteration) as error:
        raise QuarantineError(
            f"{rows.path}, which says what the columns of its malformed rows are, cannot be read: {error}"
        ) from error
    return [name.strip() for name in next(csv.reader([first]))]


def _json(rows: RowsOf) -> bytes:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in _values(rows)]
    return "".join(line.rstrip("\r\n") + "\n" for line in lines).encode()


def _parquet(rows: RowsOf) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    from spark_jobs.schema import build

    found = _values(rows)
    schema = schema_to_pyarrow(build([tuple(each) for each in rows.spec["columns"]]), include_field_ids=False)
    try:
        columns = [
            _column([row[field.name] for row in found if not isinstance(row, str)], field.type) for field in schema
        ]
    except (pa.ArrowInvalid, pa.ArrowTypeError, KeyError) as error:
        raise QuarantineError(f"rows of {rows.path} cannot be written as Parquet again: {error}") from error
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=schema), sink)
    return sink.getvalue().to_pybytes()


def _column(values: list[Any], kind: Any) -> Any:
    """JSON keeps numbers and truth as they are and everything else as text."""
    import pyarrow as pa

    plain = any(isinstance(value, str) for value in values) and not pa.types.is_large_string(kind)
    return pa.array(values, pa.string()).cast(kind) if plain else pa.array(values, kind)
