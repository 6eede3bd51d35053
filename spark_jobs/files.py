"""Parquet files of one attempt: written into a folder of their own, listed, removed.

Every attempt at a batch or refresh has its own folder, so what a lost race or a crash leaves behind is never mixed with
what a table refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

#: Read by whoever finds the batch already committed.
OUTCOME = "outcome.json"


def write_rows(rows: pa.Table, folder: str, schema: Schema) -> list[str]:
    """Write a small batch from this process; its types and field ids are the table's, or this raises."""
    target = schema_to_pyarrow(schema)
    return [write_table(rows.select(target.names).cast(target), folder)]


def write_table(rows: pa.Table, folder: str) -> str:
    """Write rows as they are, as one file; returns its path."""
    path = f"{folder}/part-0.parquet"
    with _open(path, "wb") as stream:
        pq.write_table(rows, stream, compression="zstd")
    return path


def write_frame(frame: Any, folder: str) -> list[str]:
    """Let Spark write a frame that is already cast to the table's schema; the files with rows that are there then."""
    # The folder is this attempt's own; partial sums may lie in it already.
    frame.write.mode("append").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").option(
        "mapreduce.fileoutputcommitter.algorithm.version", "2"
    ).option("compression", "zstd").parquet(folder)
    return written_in(folder)


def written_in(folder: str) -> list[str]:
    """The Parquet files of a folder that hold rows."""
    system, path = fsspec.core.url_to_fs(folder)
    scheme = folder[: len(folder) - len(path)] if folder.endswith(path) else ""
    written = sorted(each for each in system.ls(path, detail=False) if each.endswith(".parquet"))
    return [scheme + each for each in written if rows_in(scheme + each)]


def write_text(text: str, path: str) -> None:
    """Write a small text file."""
    with _open(path, "wb") as stream:
        stream.write(text.encode())


def read_text(path: str) -> str:
    """Read a small text file."""
    system, bare = fsspec.core.url_to_fs(path)
    return str(system.cat_file(bare).decode())


def size(files: Sequence[str]) -> int:
    """How many bytes the files take."""
    total = 0
    for file in files:
        system, path = fsspec.core.url_to_fs(file)
        total += int(system.size(path))
    return total


def remove(files: Sequence[str]) -> None:
    """Delete files."""
    for file in files:
        system, path = fsspec.core.url_to_fs(file)
        system.rm_file(path)


def folder_size(folder: str) -> int:
    """How many bytes the files of a folder take."""
    system, path = fsspec.core.url_to_fs(folder)
    return sum(int(each["size"] or 0) for each in system.ls(path, detail=True) if each["type"] == "file")


def exists(folder: str) -> bool:
    """Whether anything lies there."""
    system, path = fsspec.core.url_to_fs(folder)
    return bool(system.exists(path))


def remove_folder(folder: str) -> None:
    """Delete an attempt's folder, if it was ever written."""
    system, path = fsspec.core.url_to_fs(folder)
    if system.exists(path):
        system.rm(path, recursive=True)


def _open(path: str, mode: str) -> Any:
    system, bare = fsspec.core.url_to_fs(path)
    if mode == "wb":
        system.makedirs(bare.rsplit("/", 1)[0], exist_ok=True)
    return system.open(bare, mode)


def rows_in(file: str) -> int:
    """Spark writes a file without rows for an empty result, so that the schema is kept; the table keeps it already."""
    with _open(file, "rb") as stream:
        return int(pq.read_metadata(stream).num_rows)
