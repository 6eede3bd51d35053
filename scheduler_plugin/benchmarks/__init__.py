"""Measurements, for people: `freshet bench NAME`. Figures of one run stand beside each other and are never compared
with a limit: machines differ and are shared.

A benchmark is a module with `arguments(parser)` and `run(options)`, which returns an object with `as_json()` and
`as_text()`. Adding one touches the table below and one file.
"""

from collections.abc import Mapping
from types import MappingProxyType

#: Benchmark -> one line for `freshet bench --help`. The module has the benchmark's name.
BENCHMARKS: Mapping[str, str] = MappingProxyType(
    {
        "brain": "time and memory of arrivals and decisions, by size of the warehouse",
        "freshness": "default policy beside FIFO at half, full and double load, and in a surge, on the real services",
        "views": "refresh by difference against in full, what a query adds, choosing versions",
        "load": "a large batch and many small files, beside bare Spark, DuckDB and pyarrow",
        "scale": "ticks and DAG files of large catalogs",
        "huge": "one file larger than a batch, and a hundred thousand tiny ones",
        "latency": "from a landing file to a fresh view, beside the plain ways",
    }
)
