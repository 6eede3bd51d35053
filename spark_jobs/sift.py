"""Which rows of a batch may go into the table, and why the others may not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.batch import Batch, Row
from spark_jobs.gate import Quality
from spark_jobs.intake import Readable
from spark_jobs.reading import explain
from spark_jobs.schema import Columns

#: Bytes up to which Spark reads a file in one piece, so that rows can be numbered.
ONE_PIECE = 4 << 20
#: A file with more malformed rows than this goes to quarantine whole: it is not a file with some bad rows.
MOST_BAD_ROWS = 1000

#: Update, row number in its file or None, reason, the row's text.
RowOut = tuple[int, int | None, str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """What may go into the table, and what may not."""

    batch: Batch
    files: list[tuple[int, str]]
    rows: list[RowOut]
    quality: list[Quality]


def sift(
    batch: Batch,
    readable: Mapping[str, Readable],
    columns: Columns,
    expectations: Sequence[Mapping[str, Any]],
    key: Sequence[str],
) -> Sifted:
    """Malformed rows go first, then the gate speaks; a file with too many of them goes whole."""
    files: dict[str, str] = {}
    rows: list[RowOut] = []

    def kept_out(row: Row, reason: str) -> RowOut:
        file = readable[row.file]
        return file.source.update_id, row.number if file.size <= ONE_PIECE else None, reason, row.raw

    def why(row: Row) -> str:
        layout = readable[row.file].layout
        return row.reason or explain(row.raw or "", row.values, layout=layout, columns=columns)

    counts = batch.counts()
    spoilt = {file: (all_, bad) for file, (all_, bad) in counts.items() if bad > MOST_BAD_ROWS or (bad and bad == all_)}
    some_bad = [file for file, (_, bad) in counts.items() if bad and file not in spoilt]
    rows += [kept_out(row, why(row)) for row in batch.malformed(some_bad)]
    for file, (all_, bad) in spoilt.items():
        files[file] = f"{bad} of {all_} rows are malformed"
        if bad <= MOST_BAD_ROWS:
            files[file] += f"; first: {why(batch.malformed([file])[0])}"
    batch = batch.without(files=spoilt)

    released = {file for file, each in readable.items() if not each.source.gated}
    verdict = batch.without(files=released).judge(expectations if len(released) < len(readable) else ())
    quality = list(verdict.quality)
    if key and (repeated := batch.repeated(key)):
        words = f"{repeated} rows repeat a key ({', '.join(key)}) within the batch"
        quality.append(("unique key", "warn", False, {"words": words, "unexpected": repeated}))
    if verdict.blocked:
        files |= {file: "; ".join(verdict.blocked) for file in readable if file not in files and file not in released}
        rows = [row for row in rows if row[0] in {readable[file].source.update_id for file in released}]
    else:
        blamed = {row.file: verdict.block_rows[row.id] for row in batch.rows(verdict.block_rows)}
        files |= blamed
        rows += [
            kept_out(row, verdict.drop_rows[row.id]) for row in batch.rows(verdict.drop_rows) if row.file not in blamed
        ]
        rows = [row for row in rows if row[0] not in {readable[file].source.update_id for file in blamed}]
    return Sifted(
        batch=batch.without(files=files, ids=verdict.drop_rows),
        files=[
            (readable[file].source.update_id, f"{readable[file].source.path}: {reason}")
            for file, reason in files.items()
        ],
        rows=rows,
        quality=quality,
    )
