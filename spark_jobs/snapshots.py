"""What snapshots say of themselves, and what files they hold.

Each carries a marker, `batch-<id>` or `refresh-<decision>`, which is the same for every attempt at the same work, and
the folder of the attempt that made it.
"""

from collections.abc import Mapping

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from spark_jobs.schema import SchemaError

MARKER = "freshet.marker"
#: The attempt's own folder: tells a lost race from our own commit whose answer was lost.
FOLDER = "freshet.folder"
#: Says that a snapshot holds the rows of the one before it, in other files.
UPKEEP = "freshet.upkeep"
#: The backfill that put rows anew in the place of others. Like upkeep it carries on the marker before it.
BACKFILL = "freshet.backfill"
#: Looking for what was added over more snapshots than this takes longer than it saves.
MOST_STEPS = 50


class Superseded(Exception):
    """Newer work than this is in the table already: whoever asks has been given up for dead and must leave."""


def marked(table: Table, marker: str) -> Snapshot | None:
    """The snapshot of this batch or refresh. Ids only grow, so a newer one in front means that this one's is past.

    A batch is settled before the next begins and every one of them leaves a snapshot: with a newer batch in front, this
    one is in the table and its snapshot has expired. A refresh with a newer one in front would bring old rows back.
    Upkeep and backfills carry the marker of what they tidied on, so the rule holds when that snapshot has expired too.
    """
    for snapshot in reversed(table.metadata.snapshots):
        if said(snapshot).get(MARKER) == marker and not {UPKEEP, BACKFILL} & said(snapshot).keys():
            return snapshot
    head = table.current_snapshot()
    newest = "" if head is None else said(head).get(MARKER, "")
    if newest and number(newest) >= number(marker):
        raise Superseded(f"{table.name()[-1]}: {marker} comes too late, {newest} is there already")
    return None


def number(marker: str) -> int:
    """A marker's id."""
    return int(marker.rpartition("-")[2])


def said(snapshot: Snapshot) -> dict[str, str]:
    """What a snapshot says of itself."""
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)


def rows_of(summary: Mapping[str, str]) -> int:
    """How many rows there are with a snapshot, from what it says of itself."""
    return int(summary.get("total-records", 0))


def snapshot_of(table: Table, snapshot_id: int) -> Snapshot:
    """The snapshot of this id, or a refusal that tells why there is none."""
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise LookupError(f"{table.name()[-1]} has no snapshot {snapshot_id}; it has expired, pin a newer one")
    return snapshot


#: The files of the snapshots that were asked for last; what a snapshot holds never changes.
_remembered: dict[str, list[DataFile]] = {}
REMEMBERED = 16


def data_files(table: Table, snapshot: Snapshot) -> list[DataFile]:
    """The live data files of a snapshot, oldest first."""
    found = _remembered.get(snapshot.manifest_list)
    if found is None:
        found = _data_files(table, snapshot)
        while len(_remembered) >= REMEMBERED:
            _remembered.pop(next(iter(_remembered)), None)
        _remembered[snapshot.manifest_list] = found
    return list(found)


def _data_files(table: Table, snapshot: Snapshot) -> list[DataFile]:
    files = []
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content != DataFileContent.DATA:
                raise SchemaError(
                    f"{table.name()[-1]} holds delete files, which only another engine writes; compact it there first"
                )
            files.append((entry.sequence_number or 0, entry.data_file.file_path, entry.data_file))
    return [file for _, _, file in sorted(files, key=lambda each: each[:2])]


def added(table: Table, old: int, new: int) -> list[DataFile] | None:
    """The files that were added from one snapshot to a later one; None when more took place, or it is forgotten.

    Where all files of the old one are still there, the others were added, whatever has been forgotten in between.
    Otherwise each step is looked at: upkeep changes files and no rows, and is stepped over.
    """
    after = snapshot_of(table, new)
    old_snapshot = table.snapshot_by_id(old)
    if old_snapshot is None:
        return None
    there = {file.file_path for file in data_files(table, old_snapshot)}
    now = data_files(table, after)
    if there <= {file.file_path for file in now}:
        return [file for file in now if file.file_path not in there]
    files: list[DataFile] = []
    for _ in range(MOST_STEPS):
        if after.snapshot_id == old:
            return files
        before = None if after.parent_snapshot_id is None else table.snapshot_by_id(after.parent_snapshot_id)
        if before is None or after.summary is None:
            return None
        if UPKEEP not in said(after):
            if after.summary.operation != Operation.APPEND:
                return None
            there = {file.file_path for file in data_files(table, before)}
            files += [file for file in data_files(table, after) if file.file_path not in there]
        after = before
    return None
