"""What became of everything that landed, and how fresh it was kept; the rows are counted by DuckDB on its own."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from scheduler_plugin.catalog import Catalog
from scheduler_plugin.cli.table import table
from scheduler_plugin.demo.outside import Comparison, Outside
from scheduler_plugin.demo.plan import Trouble
from scheduler_plugin.demo.replay import Replay
from scheduler_plugin.live.whatif import what_if
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import reports
from scheduler_plugin.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    interrupted: bool
    #: Files put into the landing folders, and those of them whose content had landed before.
    landed: int
    landed_twice: int
    files: Sequence[reports.FileCounts]
    #: (table, file, reason)
    quarantined_files: Sequence[tuple[str, str, str]]
    #: (table, reason, rows)
    quarantined_rows: Sequence[tuple[str, str, int]]
    #: Empty when it was interrupted: then what is there is not all there will be.
    comparisons: Sequence[Comparison]
    objects: Sequence[reports.ObjectReport]
    #: Object -> share of the time in which it was fresh.
    fresh_shares: dict[str, float]
    qod: float | None
    #: What it would have been with FIFO deciding, by a replay; None when it was interrupted.
    fifo_qod: float | None
    jobs: int

    @property
    def all_right(self) -> bool:
        """Every file accounted for, every view refreshed, every row where it belongs."""
        if self.interrupted:
            return True
        settled = sum(each.loaded + each.quarantined for each in self.files)
        waiting = sum(each.pending + each.loading for each in self.files)
        refreshed = all(each.runs or not each.materialized for each in self.objects)
        return (
            settled == self.landed - self.landed_twice
            and not waiting
            and refreshed
            and all(each.same for each in self.comparisons)
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "all_right": self.all_right,
            "interrupted": self.interrupted,
            "landed": self.landed,
            "landed_twice": self.landed_twice,
            "files": [asdict(each) for each in self.files],
            "quarantined_files": [
                dict(zip(("table", "file", "reason"), each, strict=True)) for each in self.quarantined_files
            ],
            "quarantined_rows": [
                dict(zip(("table", "reason", "rows"), each, strict=True)) for each in self.quarantined_rows
            ],
            "comparisons": [{**asdict(each), "same": each.same} for each in self.comparisons],
            "objects": [
                {
                    "object": each.name,
                    "kind": each.kind,
                    "materialized": each.materialized,
                    "jobs": each.runs,
                    "mean_slot_seconds": each.mean_slot_seconds,
                    "rows": each.rows,
                    "fresh_share": self.fresh_shares.get(each.name),
                    "reads": each.reads,
                    "reads_met_fresh": each.reads_met_fresh,
                }
                for each in self.objects
            ],
            "qod": self.qod,
            "fifo_qod": self.fifo_qod,
            "jobs": self.jobs,
        }


def summarize(
    settings: Settings, catalog: Catalog, database: Database, replay: Replay, *, since: datetime, interrupted: bool
) -> Summary:
    board = reports.board(database)
    return Summary(
        interrupted=interrupted,
        landed=len(replay.dropped),
        landed_twice=sum(drop.trouble is Trouble.TWICE for drop in replay.dropped),
        files=reports.files(database),
        quarantined_files=[(name, Path(path).name, why) for name, path, why in reports.quarantined_files(database)],
        quarantined_rows=reports.quarantined_rows(database),
        comparisons=[] if interrupted else _compared(settings, catalog, replay),
        objects=board.objects,
        fresh_shares=reports.fresh_shares(database, since),
        qod=board.qod,
        fifo_qod=None if interrupted else what_if(database, policy="fifo", start=since).replayed.qod,
        jobs=sum(each.runs for each in board.objects),
    )


def _compared(settings: Settings, catalog: Catalog, replay: Replay) -> list[Comparison]:
    from spark_jobs.tables import Tables

    with Tables(settings.database_url, settings.warehouse) as tables:
        places = {name: tables.metadata_location(name) for name in catalog.order if tables.current(name) is not None}
    return Outside(catalog, replay.dropped).compare(places)


def as_text(summary: Summary) -> str:
    """The summary for people."""
    parts = [_files(summary), _objects(summary)]
    kept_out = [f"  {name}: {file}: {why}" for name, file, why in summary.quarantined_files]
    kept_out += [
        f"  {name}: {rows} row{'s' if rows > 1 else ''}: {why}" for name, why, rows in summary.quarantined_rows
    ]
    if kept_out:
        parts.append("In quarantine, with the reason:\n" + "\n".join(kept_out))
    parts.append(_verdict(summary))
    return "\n\n".join(parts)


def _files(summary: Summary) -> str:
    rows = [
        (
            each.table,
            each.loaded,
            each.quarantined,
            each.pending + each.loading,
            f"{each.rows_loaded:,}",
            each.rows_quarantined,
        )
        for each in summary.files
    ]
    columns = ("table", "files loaded", "in quarantine", "waiting", "rows loaded", "rows in quarantine")
    return table(columns, rows, right=columns[1:])


def _objects(summary: Summary) -> str:
    checked = {each.object: each for each in summary.comparisons}
    rows = []
    for each in summary.objects:
        comparison = checked.get(each.name)
        rows.append(
            (
                each.name,
                each.runs if each.materialized else "virtual",
                f"{each.mean_slot_seconds:.1f} s" if each.mean_slot_seconds is not None else "-",
                f"{summary.fresh_shares[each.name]:.0%}" if each.name in summary.fresh_shares else "-",
                each.reads,
                f"{each.reads_met_fresh / each.reads:.0%}" if each.reads else "-",
                "-" if comparison is None or comparison.actual_rows is None else f"{comparison.actual_rows:,}",
                "-"
                if comparison is None
                else "as in the source"
                if comparison.same
                else f"{comparison.different} differ",
            )
        )
    columns = ("object", "jobs", "a job", "time fresh", "reads", "met fresh", "rows by DuckDB", "content")
    return table(columns, rows, right=columns[1:-1])


def _verdict(summary: Summary) -> str:
    kept = f"{summary.jobs} jobs; QoD {summary.qod:.2f}" if summary.qod is not None else f"{summary.jobs} jobs"
    if summary.interrupted:
        return f"Interrupted after {summary.landed} files. {kept}: the share of reads that met a fresh object."
    landed = f"{summary.landed} files landed, {summary.landed_twice} of them for the second time"
    if summary.all_right:
        return (
            f"{landed}; every one is loaded or in quarantine, every view is refreshed, and DuckDB finds every "
            f"table and view as the source has it.\n{kept}: the share of reads that met a fresh object. "
            f"With FIFO deciding it would have been {summary.fifo_qod:.2f}, a replay says (`freshet whatif`)."
        )
    return f"{landed}. Something is missing: see what waits or differs above.\n{kept}."
