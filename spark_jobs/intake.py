"""Look at source files before Spark does, because Spark's readers are silent.

Spark shifts columns under a reordered header, takes a zero-byte Parquet file for zero rows, replaces bytes that are not
UTF-8, and leaves out files whose names begin with `_` or `.`. Here every file is opened first: what cannot be read
whole goes to quarantine with a reason, the rest is grouped by how it must be read.
"""

from __future__ import annotations

import codecs
import csv
import re
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.schema import Columns

FORMATS = ("csv", "json", "parquet")

_CHUNK = 1 << 20
#: What people put in the place of commas.
_OTHER_COMMAS = (";", "\t", "|")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file to load: an update's content."""

    update_id: int
    path: str
    #: Bytes when it was announced; None when not known, and then a change since is not noticed.
    size: int | None = None
    #: False: somebody has released it, and expectations are not asked.
    gated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """A file that passed, and the columns it has, in its order."""

    source: SourceFile
    size: int
    #: Column names for CSV, (name, Spark type) pairs for Parquet, nothing for JSON.
    layout: tuple[Any, ...]
    #: CSV: whether a quoted value holds a line break, so that Spark may not split the file by lines.
    multiline: bool = False


class Unfit(Exception):
    """Why a file goes to quarantine."""


def inspect(
    files: Sequence[SourceFile], *, format: str, columns: Columns
) -> tuple[list[Readable], list[tuple[int, str]]]:
    """The files that can be read, and (update id, reason) for those that cannot."""
    if format not in FORMATS:
        raise ValueError(f"format `{format}` is not one of {', '.join(FORMATS)}")
    last = {key(file.path): file for file in files}

    def look(file: SourceFile) -> Readable | tuple[int, str]:
        try:
            if last[key(file.path)] is not file:
                raise Unfit(f"replaced by update {last[key(file.path)].update_id} before it was loaded")
            return _look(file, format, [name for name, _ in columns])
        except Unfit as unfit:
            return file.update_id, f"{file.path}: {unfit}"

    if len(files) < 4:
        found = [look(file) for file in files]
    else:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(look, files))
    return [each for each in found if isinstance(each, Readable)], [each for each in found if isinstance(each, tuple)]


def key(path: str) -> str:
    """One spelling of a path, for ours and for the one Spark's `_metadata.file_path` reports."""
    scheme, _, rest = path.rpartition(":/")
    if scheme in ("", "file"):
        return "/" + rest.lstrip("/") if scheme else path
    return f"{scheme}://{rest.lstrip('/')}"


def key_of_spark(reported: str) -> str:
    """The key of a path as Spark reports it: percent-encoded."""
    return key(unquote(reported))


def literal(path: str) -> str:
    """The path with the characters escaped that Spark would take for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _look(file: SourceFile, format: str, names: Sequence[str]) -> Readable:
    if file.path.rsplit("/", 1)[-1].startswith(("_", ".")):
        raise Unfit("its name begins with _ or ., and Spark leaves such files out without a word; rename it")
    try:
        system, path = fsspec.core.url_to_fs(file.path)
        info = system.info(path)
        if info["type"] == "directory":
            raise Unfit("is a directory, not a file")
        size = int(info["size"])
        if size == 0:
            raise Unfit("is empty (0 bytes)")
        if file.size is not None and size != file.size:
            raise Unfit(
                f"had {file.size} bytes when it was announced and has {size} now; it was replaced or is still written"
            )
        layout: tuple[Any, ...] = ()
        multiline = False
        if format == "parquet":
            layout = _parquet_layout(system, path, names)
        else:
            first, multiline = _text_check(system, path)
            if format == "csv":
                layout = _header(first, names)
    except FileNotFoundError:
        raise Unfit("does not exist") from None
    except (OSError, EOFError, zlib.error) as error:
        raise Unfit(f"cannot be read: {error}") from error
    return Readable(source=file, size=size, layout=layout, multiline=multiline)


def _text_check(system: Any, path: str) -> tuple[str, bool]:
    """Decode the whole file; returns its first line that is not blank, and whether a line breaks within quotes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    first, done, offset = "", False, 0
    quotes, multiline = 0, False
    with system.open(path, "rb", compression="infer") as stream:
        while chunk := stream.read(_CHUNK):
            # Most chunks are ASCII, which is told far quicker than decoded.
            plain = done and chunk.isascii() and not decoder.getstate()[0]
            text = "" if plain else _decoded(decoder, chunk, offset)
            if not done:
                first = (first + text).lstrip("\ufeff\r\n")
                done = "\n" in first
            offset += len(chunk)
            if not multiline:
                multiline, quotes = _breaks_within_quotes(chunk, quotes)
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Unfit(f"ends in the middle of a character at byte {offset}; it is cut short") from error
    return first.split("\n", 1)[0].rstrip("\r"), multiline


def _decoded(decoder: codecs.IncrementalDecoder, chunk: bytes, offset: int) -> str:
    try:
        return decoder.decode(chunk)
    except UnicodeDecodeError as error:
        hint = " (it looks like UTF-16)" if offset == 0 and chunk[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise Unfit(f"is not UTF-8 near byte {offset + error.start}{hint}; save it as UTF-8") from error


def _breaks_within_quotes(chunk: bytes, open_quotes: int) -> tuple[bool, int]:
    """Whether a line of the chunk ends inside quotes, and how many quotes (0 or 1) are open after it."""
    if b'"' not in chunk:
        return bool(open_quotes and (b"\n" in chunk or b"\r" in chunk)), open_quotes
    letters = np.frombuffer(chunk, np.uint8)
    inside = np.bitwise_xor.accumulate(letters == ord('"')) ^ bool(open_quotes)
    ends = (letters == ord("\n")) | (letters == ord("\r"))
    return bool((inside & ends).any()), int(inside[-1])


def _header(line: str, names: Sequence[str]) -> tuple[str, ...]:
    row = next(csv.reader([line]), [])
    header = tuple(name.strip() for name in row)
    if len(header) == 1 < len(names) and (other := next((each for each in _OTHER_COMMAS if each in line), None)):
        raise Unfit(f"the header is separated by {other!r}, not by commas: {line[:200]}")
    _compare(header, names, "the header")
    return header


def _parquet_layout(system: Any, path: str, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        with system.open(path, "rb") as stream:
            schema = pq.read_schema(stream)
    except pa.ArrowInvalid as error:
        raise Unfit(f"is not a whole Parquet file: {error}") from error
    _compare(tuple(schema.names), names, "the file")
    layout = []
    for field in schema:
        if pa.types.is_nested(field.type):
            raise Unfit(f"column `{field.name}` has type {field.type}, where one value was expected")
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            raise Unfit(f"column `{field.name}` holds nanoseconds, which Spark cannot read; write microseconds")
        try:
            layout.append((field.name, from_arrow_type(field.type, prefer_timestamp_ntz=True).simpleString()))
        except Exception as error:
            raise Unfit(f"column `{field.name}` has type {field.type}, which Spark cannot read") from error
    return tuple(layout)


def _compare(have: Sequence[str], want: Sequence[str], where: str) -> None:
    """Refuse missing, extra and repeated columns by name; any order will do."""
    missing = [name for name in want if name not in have]
    extra = [name for name in have if name not in want]
    if missing and extra:
        raise Unfit(f"{where} has {_named(extra)} where {_named(missing)} was expected; renamed at the source?")
    if missing:
        raise Unfit(f"{where} lacks {_named(missing)}")
    if extra:
        raise Unfit(f"{where} has {_named(extra)}, which the table does not declare")
    if repeated := [name for name in want if list(have).count(name) > 1]:
        raise Unfit(f"{where} has {_named(repeated)} twice")


def _named(names: Sequence[str]) -> str:
    return ("column " if len(names) == 1 else "columns ") + ", ".join(f"`{name}`" for name in names)
