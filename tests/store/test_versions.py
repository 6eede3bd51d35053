"""Versions in the ledger: an interval says exactly when a version was the truth, and readers never mix instants."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from scheduler_plugin.store import arrivals, decisions, lease, objects, settling, versions
from scheduler_plugin.store.database import Database
from tests.store.conftest import SPEC

pytestmark = pytest.mark.services

HOUR = timedelta(hours=1)
BASES = {"a": {"a"}, "b": {"b"}, "v": {"a", "b"}, "w": {"a", "b"}}
READS = {"a": (), "b": (), "v": ("a", "b"), "w": ("v", "a")}


def rows(definition: str = "SELECT 1") -> list[objects.ObjectRow]:
    found = [
        objects.ObjectRow(
            name=name,
            kind="table",
            materialized=True,
            parents=(),
            spec={**SPEC, "period": 1.0, "columns": [["id", "long"]]},
        )
        for name in "ab"
    ]
    # w reads v through a virtual view.
    for name, parents, materialized in (("v", ("a", "b"), True), ("thin", ("v",), False), ("w", ("thin", "a"), True)):
        spec = {**SPEC, "sql": definition, "reads": list(READS.get(name, ())), "virtual": {}}
        found.append(objects.ObjectRow(name=name, kind="view", materialized=materialized, parents=parents, spec=spec))
    return found


@dataclass
class World:
    """Files arrive, loads and refreshes start and end; what each snapshot holds is kept here and nowhere else."""

    database: Database
    epoch: int
    #: Snapshot -> the updates it holds.
    holds: dict[int, frozenset[int]] = field(default_factory=lambda: {})
    open: dict[str, decisions.Claim] = field(default_factory=dict)
    #: Readers that have begun and not ended, with what they were given.
    readers: dict[str, versions.Chosen] = field(default_factory=dict)
    files: int = 0
    snapshots: int = 0

    def ask(self, sql: str, **values: Any) -> list[Any]:
        with self.database.transaction() as connection:
            return list(connection.execute(text(sql), values).all())

    def arrive(self, table: str, count: int = 1) -> None:
        files = []
        for _ in range(count):
            self.files += 1
            files.append(
                arrivals.Arrival(table=table, path=f"/{self.files}", size_bytes=1, content_hash=str(self.files))
            )
        arrivals.take_in(self.database, files)

    def start(self, name: str, upto: datetime | None = None) -> None:
        pending = self.ask("SELECT 1 FROM freshet.update WHERE table_name = :t AND state = 'pending'", t=name)
        if name in self.open or (not READS[name] and not pending):
            return
        new = decisions.NewDecision(
            object=name, policy="x", slot=0, impact=0.0, why="", figures={}, parents=READS[name], upto=upto
        )
        (identity,) = decisions.record(self.database, self.epoch, [new])
        claim = decisions.claim(self.database, identity, 1, "w")
        assert claim is not None
        self.open[name] = claim

    def finish(self, name: str) -> None:
        claim = self.open.pop(name, None)
        if claim is None:
            return
        self.snapshots += 1
        if READS[name]:
            held = frozenset().union(*(self.holds.get(claim.reads.get(each) or 0, frozenset()) for each in READS[name]))
        else:
            before = self.ask("SELECT snapshot_id FROM freshet.version WHERE object = :t ORDER BY committed_at", t=name)
            held = frozenset(each.id for each in claim.updates)
            held |= self.holds[before[-1].snapshot_id] if before else frozenset()
        self.holds[self.snapshots] = held
        outcome = settling.Outcome(snapshot_id=self.snapshots, rows=1, bytes_in=1, bytes_out=1, stages={})
        assert settling.finish(self.database, claim, outcome)

    def read(self, names: str) -> None:
        """Somebody begins to read some of the objects, and goes on until `leave`."""
        reader = f"r{len(self.readers)}"
        try:
            self.readers[reader] = versions.pin(self.database, reader, list(names))
        except versions.NoCommonInstantError:
            return

    def leave(self) -> None:
        if self.readers:
            reader, _ = self.readers.popitem()
            versions.unpin(self.database, reader)

    def truth(self, name: str, at: datetime) -> frozenset[int]:
        """What the object would hold, had everything been run the moment it arrived."""
        arrived = self.ask(
            "SELECT id FROM freshet.update WHERE table_name = ANY(:t) AND release <= :at", t=list(BASES[name]), at=at
        )
        return frozenset(each.id for each in arrived)

    def instants(self) -> list[datetime]:
        return [each.release for each in self.ask("SELECT DISTINCT release FROM freshet.update ORDER BY release")]


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    taken = lease.take(database, "the test's loop", HOUR)
    assert taken is not None
    objects.take_in(database, objects.CatalogRow(settings={"slots": 2}, objects=rows()))
    yield World(database=database, epoch=taken)


STEP = st.one_of(
    st.tuples(st.just("arrive"), st.sampled_from("ab"), st.integers(1, 2)),
    st.tuples(st.sampled_from(["start", "finish", "finish"]), st.sampled_from("abvw"), st.just(0)),
    st.tuples(st.just("demand"), st.sampled_from("abvw"), st.just(0)),
    st.tuples(st.just("prune"), st.just("a"), st.just(0)),
    st.tuples(st.just("read"), st.sampled_from(["a", "av", "bvw", "abvw"]), st.just(0)),
    st.tuples(st.just("leave"), st.just("a"), st.just(0)),
)


def test_an_interval_says_exactly_when_a_version_was_the_truth(world: World) -> None:
    @settings(
        max_examples=10,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking takes minutes on a database
    )
    @given(steps=st.lists(STEP, min_size=8, max_size=30))
    def holds(steps: list[tuple[str, str, int]]) -> None:
        with world.database.transaction() as connection:
            for table in ("pin", "cost", "job", "version", "update", "decision", "batch", "event"):
                connection.execute(text(f"TRUNCATE freshet.{table} CASCADE"))
        again = World(database=world.database, epoch=world.epoch)
        for number, (step, name, count) in enumerate(steps):
            match step:
                case "arrive":
                    again.arrive(name, count)
                case "start":
                    again.start(name)
                case "demand":
                    again.start(name, upto=datetime.now(UTC))
                case "finish":
                    again.finish(name)
                case "read":
                    again.read(name)
                case "leave":
                    again.leave()
                case "prune":
                    with again.database.transaction() as connection:
                        before = versions.choose(connection, list("abvw"))
                    versions.needed_snapshots(again.database)
                    with again.database.transaction() as connection:
                        assert versions.choose(connection, list("abvw")) == before
            if number % 4 == 3:
                check(again)
        check(again)

    holds()


def check(world: World) -> None:
    instants = world.instants()
    for name in BASES:
        for row in world.ask("SELECT * FROM freshet.version WHERE object = :o", o=name):
            for at in instants:
                valid = (row.valid_from is None or row.valid_from <= at) and (row.valid_to is None or at < row.valid_to)
                assert valid == (world.holds[row.snapshot_id] == world.truth(name, at)), (name, row.snapshot_id, at)
    readable = [name for name in BASES if world.ask("SELECT 1 FROM freshet.version WHERE object = :o", o=name)]
    if not readable:
        return
    try:
        chosen = versions.pin(world.database, "reader", readable)
    except versions.NoCommonInstantError:
        for at in instants:
            assert not all(
                any(
                    world.holds[each.snapshot_id] == world.truth(name, at)
                    for each in world.ask("SELECT snapshot_id FROM freshet.version WHERE object = :o", o=name)
                )
                for name in readable
            )
        return
    at = versions.instant(chosen)
    for name, snapshot in chosen.snapshots.items():
        assert world.holds[snapshot or 0] == world.truth(name, at), "what was read has a common instant"
    needed = versions.needed_snapshots(world.database)
    kept = {
        (row.object, row.snapshot_id) for row in world.ask("SELECT * FROM freshet.version WHERE expired_at IS NULL")
    }
    for each in [chosen, *world.readers.values()]:
        for name, snapshot in each.snapshots.items():
            if snapshot is not None:
                assert snapshot in needed[name], "nothing prunes what an active reader holds"
                assert (name, snapshot) in kept
    versions.unpin(world.database, "reader")


def test_a_demanded_chain_is_true_at_one_instant_although_files_keep_landing(world: World) -> None:
    for table in "ab":
        world.arrive(table)
    asked = datetime.now(UTC)
    for name in "abvw":
        world.arrive("a")
        world.arrive("b")
        world.start(name, upto=asked)
        world.finish(name)
    chosen = versions.pin(world.database, "reader", list("abvw"))
    assert all(chosen.snapshots.values())
    for name, snapshot in chosen.snapshots.items():
        assert world.holds[snapshot or 0] == world.truth(name, asked)


def test_old_versions_go_when_nobody_can_need_them_and_stay_while_a_reader_holds_them(world: World) -> None:
    for _ in range(3):
        world.arrive("a")
        world.start("a")
        world.finish("a")
    assert versions.needed_snapshots(world.database) == {"a": {3}}
    world.arrive("a")
    reader = versions.pin(world.database, "reader", ["a"])
    world.start("a")
    world.finish("a")
    assert reader.snapshots == {"a": 3}
    assert versions.needed_snapshots(world.database) == {"a": {3, 4}}
    with pytest.raises(LookupError, match="has no version 1"):
        versions.pin(world.database, "other", ["a"], fixed={"a": 1})
    versions.unpin(world.database, "reader")
    assert versions.needed_snapshots(world.database) == {"a": {4}}


def test_a_dead_readers_pins_are_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.arrive("a")
    world.start("a")
    world.finish("a")
    monkeypatch.setattr(versions, "PINNED_FOR", timedelta(0))
    versions.pin(world.database, "dead", ["a"])
    world.arrive("a")
    world.start("a")
    world.finish("a")
    assert versions.needed_snapshots(world.database) == {"a": {2}}


def test_time_travel_by_time_and_by_version(world: World) -> None:
    between = []
    for _ in range(3):
        world.arrive("a")
        world.start("a")
        world.finish("a")
        between.append(datetime.now(UTC))
    for number, at in enumerate(between, start=1):
        assert versions.pin(world.database, "r", ["a"], at=at).snapshots == {"a": number}
        assert versions.pin(world.database, "r", ["a"], fixed={"a": number}).snapshots == {"a": number}
    with pytest.raises(versions.NoCommonInstantError):
        versions.pin(world.database, "r", ["a"], at=between[0] - HOUR)
    newest, *_ = versions.history(world.database, "a")
    assert (newest.snapshot_id, newest.valid_to, newest.pinned_by) == (3, None, ["r", "r"])


def test_other_sql_ends_what_a_view_held_before(world: World) -> None:
    world.arrive("a")
    for name in "av":
        world.start(name)
        world.finish(name)
    objects.take_in(world.database, objects.CatalogRow(settings={"slots": 2}, objects=rows("SELECT 2")))
    (only,) = versions.history(world.database, "v")
    assert only.valid_to is not None


def test_tidied_files_take_the_place_of_the_newest_version_and_of_no_other(world: World) -> None:
    for _ in range(2):
        world.arrive("a")
        world.start("a")
        world.finish("a")
    versions.tidied(world.database, "a", 1, 91)
    versions.tidied(world.database, "a", 2, 92)
    world.holds[92] = world.holds[2]
    assert versions.pin(world.database, "r", ["a"]).snapshots == {"a": 92}
    newest, before, _ = versions.history(world.database, "a")
    assert (newest.valid_from, newest.valid_to) == (before.valid_from, None)
    versions.unpin(world.database, "r")
    assert versions.needed_snapshots(world.database)["a"] == {2, 92}
    world.arrive("a")
    world.start("a")
    world.finish("a")
    assert versions.needed_snapshots(world.database)["a"] == {3}


def test_what_was_read_lately_has_a_place_in_the_clock_cache(world: World) -> None:
    from scheduler_plugin.store import accesses

    assert accesses.hot(world.database, 2) == []
    accesses.count(world.database, {"a": 5, "v": 1, "w": 2})
    assert set(accesses.hot(world.database, 9)) == {"a", "v", "w"}
    assert len(accesses.hot(world.database, 2)) == 2
    assert "a" in accesses.hot(world.database, 2)
