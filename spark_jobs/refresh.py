"""Refresh a view: run its SQL over pinned parent snapshots, commit the result as one snapshot.

The parents' snapshots are pinned by the decision, so a refresh that is repeated, or late, computes the same rows. Where
only one parent changed, by growing, and the SQL allows it, just the added files are read and their result is appended
to the view or merged with it; otherwise the whole content is computed and replaced. The view's columns are the query's:
when they change, schema and content change in the same commit, with new field ids, since no old content stays.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.manifest import DataFile

from spark_jobs import files, schema, snapshots
from spark_jobs.difference import NotByDifference, Way, way
from spark_jobs.merging import collected, from_partials, merged
from spark_jobs.query import TINY_BYTES, prepared
from spark_jobs.schema import SchemaError
from spark_jobs.tables import Moved, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

#: Bytes of input up to which the result is written as one file.
SMALL_BYTES = 64 << 20
#: By difference only when it reads less than this share of what the full way reads, and spares at least so many bytes:
#: below that, merging costs Spark more than reading would.
WORTH_IT = 0.8
LEAST_SPARED_BYTES = 8 << 20
#: In a snapshot's summary: what the refresh read, the definition it ran, how many bytes, and which way.
READS, DEFINITION, BYTES_IN, HOW = "freshet.reads", "freshet.definition", "freshet.bytes-in", "freshet.how"
#: And where the partial aggregates lie, for a view that is computed from them.
PARTIALS = "freshet.partials"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshResult:
    """What a refresh made."""

    snapshot_id: int
    rows: int
    bytes_in: int
    bytes_out: int
    #: For a person: "by difference: 3 files added to flights", "in full: it has HAVING".
    how: str
    #: Seconds spent in plan, write, commit; empty for a refresh that was already there.
    stages: dict[str, float]

    @property
    def way(self) -> str:
        """ "difference" or "full"."""
        return "difference" if self.how.startswith("by difference") else "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What refreshes of one way have taken lately, on average."""

    seconds: float
    bytes_in: float

    def expected(self, bytes_in: float) -> float:
        """Seconds for so many bytes: in proportion, but no less than half, since starting costs something too."""
        return self.seconds * max(0.5, bytes_in / max(self.bytes_in, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is to be refreshed, from what."""

    name: str
    sql: str
    reads: Mapping[str, int | None]
    virtual: Mapping[str, str]
    marker: str

    @property
    def definition(self) -> str:
        return hashlib.sha256(json.dumps([self.sql, sorted(self.virtual.items())]).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a view follows from its present snapshot."""

    base: int
    grown: str
    added: Sequence[DataFile]
    way: Way
    #: Where the partial aggregates of the base lie, for a view that has them.
    partials: str | None


def refresh_view(
    *,
    spark: SparkSession,
    tables: Tables,
    view: str,
    sql: str,
    reads: Mapping[str, int | None],
    virtual: Mapping[str, str],
    marker: str,
    measured: Mapping[str, Measured] | None = None,
    explore: bool = False,
    full: bool = False,
    progress: Callable[[str], None] = log.info,
) -> RefreshResult:
    """Make the view's content what its SQL gives over the pinned snapshots, once however often it is called.

    `measured` tells what "full" and "difference" have taken lately: the cheaper one is used, where both are possible.
    With `explore` the other one, so that its figures do not grow old. With `full`, not from what the view holds.
    """
    found = tables.find(view, marker)
    if found is not None:
        progress(f"{view}: already refreshed as snapshot {found}")
        return _result(tables, view, found, {})
    wanted = View(name=view, sql=sql, reads=reads, virtual=virtual, marker=marker)
    try:
        if full:
            raise NotByDifference("that was asked for")
        difference = _difference(tables, wanted, measured or {}, explore)
        return _refresh(spark, tables, wanted, difference, f"by difference: {_added(difference)}", progress)
    except (NotByDifference, Moved) as reason:
        return _refresh(spark, tables, wanted, None, f"in full: {reason}", progress)


def _difference(tables: Tables, view: View, measured: Mapping[str, Measured], explore: bool) -> Difference:
    """What to do instead of the whole; NotByDifference says why there is nothing better."""
    base = tables.current(view.name)
    said = {} if base is None else tables.summary(view.name, base)
    if base is None or DEFINITION not in said:
        raise NotByDifference("it has not been refreshed before")
    if said[DEFINITION] != view.definition:
        raise NotByDifference("its SQL has changed, or what it reads holds something for the first time")
    before: dict[str, int | None] = json.loads(said[READS])
    grown = [name for name in view.reads if view.reads[name] != before.get(name)]
    if len(grown) != 1:
        raise NotByDifference(f"{len(grown)} parents have changed")
    old, new = before.get(grown[0]), view.reads[grown[0]]
    if old is None or new is None:
        raise NotByDifference(f"{grown[0]} had nothing before")
    added = snapshots.added(tables.open(grown[0]), old, new)
    if added is None:
        raise NotByDifference(f"{grown[0]} has not only grown")
    chosen = way(view.sql, view.virtual, grown[0])
    partials = said.get(PARTIALS)
    if chosen.shown is not None and (partials is None or not files.exists(partials)):
        raise NotByDifference("the last refresh left no partial aggregates to go on from")
    whole = sum(tables.size(name, snapshot) for name, snapshot in view.reads.items())
    spared = tables.size(grown[0], new) - sum(int(file.file_size_in_bytes) for file in added)
    again = 0 if chosen.keys is None else tables.size(view.name, base)
    _require_worth(whole, whole - spared + again, spared, measured, explore)
    return Difference(base=base, grown=grown[0], added=added, way=chosen, partials=partials)


def _require_worth(whole: int, less: int, spared: int, measured: Mapping[str, Measured], explore: bool) -> None:
    """By what both ways have been measured to take; before that, by how much there is to read."""
    if {"full", "difference"} <= measured.keys():
        full, difference = measured["full"].expected(whole), measured["difference"].expected(less)
        if (full < difference) != explore:
            raise NotByDifference(
                f"that is expected to take {full:.2f} s, and by difference {difference:.2f} s"
                + (" (tried anyway, now and then)" if explore else "")
            )
    elif (spared < LEAST_SPARED_BYTES or less >= WORTH_IT * whole) != explore:
        raise NotByDifference(f"reading only what was added spares {spared} of {whole} bytes, too little")


def _refresh(
    spark: SparkSession,
    tables: Tables,
    view: View,
    difference: Difference | None,
    how: str,
    progress: Callable[[str], None],
) -> RefreshResult:
    progress(f"{view.name}: {how}")
    stages: dict[str, float] = {}
    start = time.monotonic()
    only = None if difference is None else {difference.grown: difference.added}
    result, bytes_in = prepared(spark, tables, view.sql, view.reads, view.virtual, only)
    planned = tables.plan_schema(view.name, _columns(view.name, result))
    way_to = difference.way if difference is not None else _partials_way(view, bytes_in)
    if difference is not None and difference.way.keys is not None and difference.way.shown is None:
        held, size = tables.read(spark, view.name, difference.base)
        bytes_in += size
        result = merged(difference.way, held, result, tiny=bytes_in <= TINY_BYTES)
    before = difference.partials if difference is not None else None
    if before is not None:
        bytes_in += files.folder_size(before)
    tiny = bytes_in <= TINY_BYTES
    stages["plan"] = time.monotonic() - start
    with tables.attempt(view.name, view.marker) as folder:
        extra = {
            BYTES_IN: str(bytes_in),
            HOW: how,
            DEFINITION: view.definition,
            READS: json.dumps(dict(view.reads)),
        }
        start = time.monotonic()
        if way_to is not None and way_to.shown is not None:
            extra[PARTIALS] = f"{folder}/partials"
            made = from_partials(spark, way_to, before, extra[PARTIALS], planned, tiny=tiny)
        else:
            made = schema.cast(result, planned)
            made = collected(made) if tiny else made
        if isinstance(made, pa.Table):
            written = files.write_rows(made, folder, planned) if made.num_rows else []
        else:
            written = files.write_frame(made.coalesce(1) if bytes_in <= SMALL_BYTES else made, folder)
        stages["write"] = time.monotonic() - start
        start = time.monotonic()
        if difference is not None and difference.way.keys is None:
            snapshot = tables.append(view.name, written, view.marker, folder, base=difference.base, extra=extra)
        else:
            snapshot = tables.replace(view.name, written, view.marker, folder, schema=planned, extra=extra)
        stages["commit"] = time.monotonic() - start
    return _result(tables, view.name, snapshot, stages)


def _partials_way(view: View, bytes_in: int) -> Way | None:
    """How a full refresh leaves partial aggregates for the next: only where that may spare it something."""
    if bytes_in < LEAST_SPARED_BYTES:
        return None
    for name in view.reads:
        try:
            return way(view.sql, view.virtual, name)
        except NotByDifference:
            continue
    return None


def _result(tables: Tables, view: str, snapshot_id: int, stages: dict[str, float]) -> RefreshResult:
    summary = tables.summary(view, snapshot_id)
    return RefreshResult(
        snapshot_id=snapshot_id,
        rows=int(summary.get("total-records", 0)),
        bytes_in=int(summary[BYTES_IN]),
        bytes_out=int(summary.get("added-files-size", 0)),
        how=summary[HOW],
        stages=stages,
    )


def _added(difference: Difference) -> str:
    return f"{len(difference.added)} files added to {difference.grown}"


def _columns(view: str, result: DataFrame) -> list[tuple[str, str]]:
    columns = [(field.name, field.dataType.simpleString()) for field in result.schema.fields]
    try:
        schema.build(columns)
    except SchemaError as error:
        raise SchemaError(f"view {view}: {error}") from error
    return columns
