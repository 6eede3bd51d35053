"""What was kept out is listed, and leaves quarantine by somebody's word, once, with the word kept."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import text

from scheduler_plugin.live.quarantine import act
from scheduler_plugin.store import arrivals, decisions, objects, quarantine, reports, retention, settling
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import UpdateState

pytestmark = pytest.mark.services

COLUMNS = [["id", "long"], ["at", "timestamp"], ["price", "decimal(6,2)"]]
LOAD = decisions.NewDecision(object="t", policy="fifo", slot=0, impact=1.0, why="", figures={})
VALUES = '{"id": 7, "at": "2024-01-01 10:00:00+00:00", "price": "1.50"}'


class Kept:
    """A table of which file 1 was loaded without some rows, and file 2 was kept out."""

    def __init__(self, ledger: Database, epoch: int, folder: Path, format: str, raws: Sequence[str]) -> None:
        self.ledger, self.epoch, self.archive = ledger, epoch, str(folder / "archive")
        spec = {"feed": "f", "format": format, "columns": COLUMNS, "interval": None}
        row = objects.ObjectRow(name="t", kind="table", materialized=True, parents=(), spec=spec)
        objects.take_in(ledger, objects.CatalogRow(settings={}, objects=[row]))
        (folder / "1").write_text("price,id,at\n")
        self.path = str(folder / "2")
        self.arrive("one", str(folder / "1"))
        self.arrive("two", self.path)
        rows = [(1, number, "no", raw) for number, raw in enumerate(raws, start=1)]
        self.settle(quarantined_files=[(2, "bad header")], quarantined_rows=rows)

    def arrive(self, content: str, path: str) -> list[int]:
        return arrivals.take_in(
            self.ledger, [arrivals.Arrival(table="t", path=path, size_bytes=3, content_hash=content)]
        )

    def settle(self, **kept_out: Any) -> decisions.Claim:
        """Loads what is pending."""
        (identity,) = decisions.record(self.ledger, self.epoch, [LOAD])
        claim = decisions.claim(self.ledger, identity, 1, "w")
        assert claim is not None
        self.finish(claim, **kept_out)
        return claim

    def finish(self, claim: decisions.Claim, **kept_out: Any) -> None:
        settling.finish(
            self.ledger,
            claim,
            settling.Outcome(snapshot_id=claim.decision, rows=1, bytes_in=1, bytes_out=1, stages={}, **kept_out),
        )

    def act(self, what: quarantine.What, *ids: str) -> dict[str, int]:
        return act(self.ledger, what, ids, who="ann", why="because", archive=self.archive)

    def ids(self) -> list[str]:
        return sorted(each.id for each in quarantine.items(self.ledger))

    def states(self) -> dict[int, str]:
        with self.ledger.transaction() as connection:
            return dict(connection.execute(text("SELECT id, state FROM freshet.update")).all())


@pytest.fixture
def kept(ledger: Database, epoch: int, tmp_path: Path) -> Kept:
    return Kept(ledger, epoch, tmp_path, "csv", [VALUES, "x,8,2024-01-01"])


@pytest.mark.parametrize(("what", "ungated"), [("release", True), ("retry", False)])
def test_a_file_that_is_let_out_is_loaded_with_the_next_batch(kept: Kept, what: quarantine.What, ungated: bool) -> None:
    assert kept.ids() == ["f2", "r1", "r2"]
    assert kept.act(what, "f2") == {"files": 1, "rows": 0}
    assert kept.ids() == ["r1", "r2"]
    claim = kept.settle()
    assert [(each.id, each.ungated) for each in claim.updates] == [(2, ungated)]
    assert kept.states() == {1: "loaded", 2: "loaded"}
    _, past = quarantine.show(kept.ledger, "f2")
    assert [(each.who, each.what, each.why) for each in past] == [("ann", f"quarantine {what}", "because")]


def test_rows_that_are_let_out_come_in_a_file_of_their_own(kept: Kept) -> None:
    assert kept.act("release", "f1") == {"files": 0, "rows": 2}
    claim = kept.settle()
    (source,) = claim.updates
    assert (source.id, source.ungated) == (3, True)
    # The malformed one has its file's columns, so the others are put into that order too.
    assert Path(source.path).read_text() == "price,id,at\n1.50,7,2024-01-01 10:00:00+00:00\nx,8,2024-01-01\n"
    assert kept.ids() == ["f2"]


@pytest.mark.parametrize("format", ["json", "parquet"])
def test_rows_are_written_in_their_feeds_format(ledger: Database, epoch: int, tmp_path: Path, format: str) -> None:
    kept = Kept(ledger, epoch, tmp_path, format, [VALUES])
    kept.act("retry", "r1")
    (source,) = kept.settle().updates
    if format == "json":
        assert json.loads(Path(source.path).read_text()) == json.loads(VALUES)
    else:
        found = {name: str(value) for name, value in pq.read_table(source.path).to_pylist()[0].items()}
        assert found == {"id": "7", "at": "2024-01-01 10:00:00+00:00", "price": "1.50"}


def test_what_is_dropped_is_accounted_for_and_does_not_come_back(kept: Kept) -> None:
    assert kept.act("drop", "f2", "r1") == {"files": 1, "rows": 1}
    assert kept.ids() == ["r2"]
    assert kept.arrive("two", kept.path) == []
    (counts,) = reports.files(kept.ledger)
    assert (counts.loaded, counts.quarantined, counts.dropped, counts.rows_quarantined) == (1, 0, 1, 1)
    with pytest.raises(quarantine.QuarantineError, match="f2 is not in quarantine"):
        kept.act("release", "f2")


def test_a_mended_file_takes_the_place_of_its_quarantined_version(kept: Kept) -> None:
    assert kept.arrive("two, mended", kept.path) == [3]
    assert kept.states() == {1: "loaded", 2: "replaced", 3: "pending"}
    assert "f2" not in kept.ids()


def test_a_file_overwritten_before_it_was_loaded_waits_for_nobody(kept: Kept) -> None:
    kept.arrive("early", "/f")
    kept.arrive("late", "/f")
    kept.settle(quarantined_files=[(3, "replaced by update 4 before it was loaded")])
    assert kept.states() == {1: "loaded", 2: "quarantined", 3: "replaced", 4: "loaded"}


@pytest.mark.parametrize("ids", [["f99"], ["r99"], ["x"], ["f2", "r99"]])
def test_all_or_nothing_is_done(kept: Kept, ids: list[str]) -> None:
    with pytest.raises(quarantine.QuarantineError):
        kept.act("drop", *ids)
    assert kept.ids() == ["f2", "r1", "r2"]


def test_every_file_ever_delivered_is_accounted_for_whatever_became_of_it(kept: Kept) -> None:
    def told() -> dict[str, int]:
        (counts,) = reports.files(kept.ledger)
        states = {state: getattr(counts, state) for state in UpdateState}
        assert sum(states.values()) == counts.announced + counts.let_out
        assert (counts.announced, counts.repeated) == (len(delivered), len(again))
        return {name: count for name, count in asdict(counts).items() if count and name in interesting}

    interesting = {*UpdateState, "let_out", "archived", "forgotten"}
    delivered, again = ["one", "two"], ["one, elsewhere"]
    kept.arrive("one", "/elsewhere")
    assert told() == {"loaded": 1, "quarantined": 1}
    for content in ("three", "four"):
        kept.arrive(content, f"/{content}")
        delivered.append(content)
    kept.act("drop", "f2")
    kept.act("release", "r1")
    assert told() == {"loaded": 1, "dropped": 1, "pending": 3, "let_out": 1}
    (decision,) = decisions.record(kept.ledger, kept.epoch, [LOAD])
    kept.arrive("three, mended", "/three")
    delivered.append("three, mended")
    assert told() == {"loaded": 1, "dropped": 1, "pending": 1, "loading": 3, "let_out": 1}
    claim = decisions.claim(kept.ledger, decision, 1, "w")
    assert claim is not None
    early, other, _ = (each.id for each in claim.updates)
    kept.finish(claim, quarantined_files=[(early, "replaced by a later one before it was loaded")])
    kept.settle()
    assert told() == {"loaded": 4, "replaced": 1, "dropped": 1, "let_out": 1}
    retention.archived(kept.ledger, [(1, "/archive/1"), (other, "/archive/4")])
    retention.forget(kept.ledger, [1])
    assert told() == {"loaded": 4, "replaced": 1, "dropped": 1, "let_out": 1, "archived": 1, "forgotten": 1}
