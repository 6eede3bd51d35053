"""The ledger on a real Postgres: one order of events, one update per content, one job per decision."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from alembic import command
from sqlalchemy import text

from scheduler_plugin.store import accesses, arrivals, decisions, freshness, lease, migrate, objects, reports, settling
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import EventKind

pytestmark = pytest.mark.services

HOUR = timedelta(hours=1)
NEVER = {"unclaimed_after": HOUR, "dead_after": HOUR}
OUTCOME = settling.Outcome(snapshot_id=7, rows=3, bytes_in=10, bytes_out=5, stages={"read": 0.1})


def arrival(content: str, path: str = "/landing/f.csv") -> arrivals.Arrival:
    return arrivals.Arrival(table="t", path=path, size_bytes=10, content_hash=content)


def wanted(name: str) -> decisions.NewDecision:
    parents = ("t",) if name == "v" else ()
    return decisions.NewDecision(object=name, policy="fifo", slot=0, impact=1.0, why="", figures={}, parents=parents)


def kinds(ledger: Database) -> list[str]:
    return [event.kind.value for event in freshness.events_after(ledger, 0)]


def ask(ledger: Database, sql: str) -> Any:
    with ledger.transaction() as connection:
        return connection.execute(text(sql)).scalar_one()


def test_the_migrations_make_what_the_models_say(database: Database) -> None:
    config = migrate.configuration(database.url)
    with database.transaction() as connection:
        # The user has the schema's name, which makes it the default one, and Alembic calls that one None.
        connection.execute(text("SET LOCAL search_path TO public"))
        connection.dialect.default_schema_name = "public"
        config.attributes["connection"] = connection
        command.check(config)


def test_the_same_content_is_one_update_under_any_name(ledger: Database) -> None:
    assert len(arrivals.take_in(ledger, [arrival("a"), arrival("b"), arrival("a", "/landing/again.csv")])) == 2
    assert arrivals.take_in(ledger, [arrival("b", "/landing/once-more.csv")]) == []
    assert kinds(ledger) == ["catalog_changed", "update_arrived", "update_arrived"]


def test_files_for_a_table_nobody_declared_are_refused_by_name(ledger: Database) -> None:
    with pytest.raises(LookupError, match="nowhere"):
        arrivals.take_in(ledger, [arrivals.Arrival(table="nowhere", path="/f", size_bytes=1, content_hash="x")])


def test_a_reader_that_has_seen_an_event_has_seen_all_before_it(ledger: Database) -> None:
    """Many write at once while one follows: it never has to look back."""
    followed: list[int] = []
    with ThreadPoolExecutor(6) as pool:
        writers = [
            pool.submit(lambda n=n: [arrivals.take_in(ledger, [arrival(f"{n}-{each}")]) for each in range(15)])
            for n in range(5)
        ]
        while not all(writer.done() for writer in writers):
            followed += [event.id for event in freshness.events_after(ledger, followed[-1] if followed else 0)]
    followed += [event.id for event in freshness.events_after(ledger, followed[-1])]
    everything = freshness.events_after(ledger, 0)
    assert followed == [event.id for event in everything]
    assert [event.at for event in everything] == sorted(event.at for event in everything)


def test_a_batch_is_all_that_is_pending_and_later_files_wait_for_the_next(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrival("a"), arrival("b")])
    (first,) = decisions.record(ledger, epoch, [wanted("t")])
    arrivals.take_in(ledger, [arrival("c")])
    claim = decisions.claim(ledger, first, 1, "w")
    assert claim is not None
    assert [update.id for update in claim.updates] == [1, 2]
    assert [(each.pending, each.loading) for each in reports.files(ledger)] == [(1, 2)]


def test_a_batch_has_a_largest_size_and_drains_oldest_first(ledger: Database, epoch: int) -> None:
    table = objects.ObjectRow(name="t", kind="table", materialized=True, parents=(), spec={"max_batch": 25})
    objects.take_in(ledger, objects.CatalogRow(settings={}, objects=[table]))
    arrivals.take_in(ledger, [arrival(str(each)) for each in range(5)])
    (identity,) = decisions.record(ledger, epoch, [wanted("t")])
    claim = decisions.claim(ledger, identity, 1, "w")
    assert claim is not None
    assert [update.id for update in claim.updates] == [1, 2]


def test_a_file_that_no_batch_has_room_for_is_a_batch_of_its_own(ledger: Database, epoch: int) -> None:
    table = objects.ObjectRow(name="t", kind="table", materialized=True, parents=(), spec={"max_batch": 25})
    objects.take_in(ledger, objects.CatalogRow(settings={}, objects=[table]))
    arrivals.take_in(ledger, [arrival("a"), replace(arrival("b"), size_bytes=1000), arrival("c")])
    for alone in (1, 2, 3):
        (identity,) = decisions.record(ledger, epoch, [wanted("t")])
        claim = decisions.claim(ledger, identity, 1, "w")
        assert claim is not None
        assert [update.id for update in claim.updates] == [alone]
        settling.finish(ledger, claim, replace(OUTCOME, snapshot_id=alone))


def test_of_many_that_claim_a_decision_one_gets_it(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrival("a")])
    (identity,) = decisions.record(ledger, epoch, [wanted("t")])
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda n: decisions.claim(ledger, identity, 1, f"w{n}"), range(8)))
    assert sum(claim is not None for claim in claims) == 1


def test_an_object_has_one_open_decision(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrival("a")])
    decisions.record(ledger, epoch, [wanted("t")])
    with pytest.raises(Exception, match="uq_decision_open_object"):
        decisions.record(ledger, epoch, [wanted("t")])


@pytest.mark.parametrize("how", ["unclaimed", "dead"])
def test_a_lost_job_gets_a_new_attempt_under_a_new_run_id(ledger: Database, epoch: int, how: str) -> None:
    arrivals.take_in(ledger, [arrival("a")])
    (identity,) = decisions.record(ledger, epoch, [wanted("t")])
    (sent,) = decisions.unsent(ledger, **NEVER)
    decisions.mark_dispatched(ledger, sent)
    assert decisions.unsent(ledger, **NEVER) == []
    old = decisions.claim(ledger, identity, 1, "w1") if how == "dead" else None
    (again,) = decisions.unsent(ledger, unclaimed_after=timedelta(0), dead_after=timedelta(0))
    assert (sent.run_id, again.run_id) == (f"decision-{identity}", f"decision-{identity}-try-2")
    assert decisions.claim(ledger, identity, 1, "late") is None
    if old is not None:
        assert not decisions.beat(ledger, old)


def test_jobs_that_keep_dying_end_the_decision_and_the_brain_hears_of_it(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrival("a")])
    (identity,) = decisions.record(ledger, epoch, [wanted("t")])
    for attempt in range(1, decisions.MOST_ATTEMPTS + 1):
        assert decisions.claim(ledger, identity, attempt, "w") is not None
        decisions.unsent(ledger, unclaimed_after=HOUR, dead_after=timedelta(0))
    (report,) = reports.latest_decisions(ledger, 5)
    assert report.state == "failed"
    assert report.error is not None
    assert "died" in report.error
    assert kinds(ledger)[-1] == "job_failed"


def test_a_failed_batch_keeps_its_files_and_its_mark_for_the_next_decision(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrival("a")])
    (first,) = decisions.record(ledger, epoch, [wanted("t")])
    claim = decisions.claim(ledger, first, 1, "w")
    assert claim is not None
    assert settling.fail(ledger, claim, "disk full")
    arrivals.take_in(ledger, [arrival("b")])
    (second,) = decisions.record(ledger, epoch, [wanted("t")])
    again = decisions.claim(ledger, second, 1, "w")
    assert again is not None
    assert again.marker == claim.marker
    assert again.updates == claim.updates


def test_a_decision_is_settled_once_whoever_comes_back(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrival("a"), arrival("b")])
    (identity,) = decisions.record(ledger, epoch, [wanted("t")])
    old = decisions.claim(ledger, identity, 1, "w1")
    decisions.unsent(ledger, unclaimed_after=HOUR, dead_after=timedelta(0))
    new = decisions.claim(ledger, identity, 2, "w2")
    assert old is not None
    assert new is not None
    outcome = settling.Outcome(
        snapshot_id=7,
        rows=2,
        bytes_in=1,
        bytes_out=1,
        stages={},
        rows_by_update={1: 2},
        quarantined_files=[(2, "no header")],
        quarantined_rows=[(1, 3, "3 fields where 4 were expected", "a,b,c")],
        quality=[("expect_x", "warn", True, {"rows": 2})],
    )
    assert settling.finish(ledger, old, outcome)
    assert not settling.finish(ledger, new, outcome)
    assert not settling.fail(ledger, new, "too late")
    (files,) = reports.files(ledger)
    assert (files.loaded, files.quarantined, files.rows_loaded, files.rows_quarantined) == (1, 1, 2, 1)
    assert reports.quarantined_files(ledger) == [("t", "/landing/f.csv", "no header")]
    assert kinds(ledger)[-2:] == ["job_started", "job_finished"]


def test_a_refresh_reads_the_snapshots_its_parents_had_when_it_was_decided(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrival("a")])
    (load,) = decisions.record(ledger, epoch, [wanted("t")])
    claim = decisions.claim(ledger, load, 1, "w")
    assert claim is not None
    settling.finish(ledger, claim, OUTCOME)
    (refresh,) = decisions.record(ledger, epoch, [wanted("v")])
    reading = decisions.claim(ledger, refresh, 1, "w")
    assert reading is not None
    assert reading.reads == {"t": 7}


# The lease -------------------------------------------------------------------------------------------------------


def test_one_loop_holds_the_lease_and_a_frozen_one_finds_its_writes_refused(ledger: Database) -> None:
    first = lease.take(ledger, "one", HOUR)
    assert lease.take(ledger, "two", HOUR) is None
    assert lease.take(ledger, "one", timedelta(0)) == first
    second = lease.take(ledger, "two", HOUR)
    assert first is not None
    assert second == first + 1
    arrivals.take_in(ledger, [arrival("a")])
    with pytest.raises(lease.LeaseLostError):
        decisions.record(ledger, first, [wanted("t")])
    with pytest.raises(lease.LeaseLostError):
        freshness.note(ledger, first, [], event_seen=0, last_tick={})
    assert ask(ledger, "SELECT count(*) FROM freshet.decision") == 0


def test_of_many_loops_that_start_at_once_one_gets_the_lease(ledger: Database) -> None:
    with ThreadPoolExecutor(8) as pool:
        epochs = list(pool.map(lambda n: lease.take(ledger, f"loop {n}", HOUR), range(8)))
    assert sum(epoch is not None for epoch in epochs) == 1


# Freshness and popularity ----------------------------------------------------------------------------------------


def test_the_history_of_freshness_has_no_holes_and_no_overlaps(ledger: Database, epoch: int) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for minute, fresh in enumerate([True, False, False, True, False]):
        at = start + timedelta(minutes=minute)
        twice = [freshness.Change(object="t", at=at, fresh=state, current_to=at) for state in (not fresh, fresh)]
        freshness.note(ledger, epoch, twice, event_seen=minute, last_tick={})
    with ledger.transaction() as connection:
        spells = connection.execute(text("SELECT since, until, fresh FROM freshet.freshness ORDER BY since")).all()
    assert [spell.fresh for spell in spells] == [True, False, False, True, False]
    assert [spell.until for spell in spells[:-1]] == [spell.since for spell in spells[1:]]
    assert spells[-1].until is None


def test_reads_are_counted_with_whether_they_met_the_object_fresh(ledger: Database, epoch: int) -> None:
    now = datetime.now(UTC)
    freshness.note(
        ledger, epoch, [freshness.Change(object="t", at=now, fresh=True, current_to=now)], event_seen=0, last_tick={}
    )
    accesses.count(ledger, {"t": 3, "v": 1})
    board = reports.board(ledger)
    assert board.qod == 0.75
    assert accesses.per_minute(ledger, HOUR).keys() == {"t", "v"}
    with pytest.raises(LookupError, match="nothing_like_it"):
        accesses.count(ledger, {"nothing_like_it": 1})


# The catalog -----------------------------------------------------------------------------------------------------


def changed(ledger: Database, change: Callable[[list[objects.ObjectRow]], list[objects.ObjectRow]]) -> bool:
    now = objects.in_force(ledger)
    assert now is not None
    return objects.take_in(ledger, objects.CatalogRow(settings=now.settings, objects=change(list(now.objects))))


def test_the_same_catalog_again_changes_nothing(ledger: Database) -> None:
    assert not changed(ledger, lambda rows: rows)
    assert kinds(ledger) == [EventKind.CATALOG_CHANGED.value]


def test_a_removed_object_keeps_its_history_and_its_spell_ends(ledger: Database, epoch: int) -> None:
    now = datetime.now(UTC)
    freshness.note(
        ledger, epoch, [freshness.Change(object="v", at=now, fresh=True, current_to=now)], event_seen=0, last_tick={}
    )
    assert changed(ledger, lambda rows: [row for row in rows if row.name != "v"])
    assert [row.name for row in reports.board(ledger).objects] == ["t"]
    assert ask(ledger, "SELECT count(*) FROM freshet.freshness WHERE object = 'v' AND until IS NOT NULL") == 1


def test_a_view_with_other_sql_is_defined_anew_and_one_with_another_weight_is_not(ledger: Database) -> None:
    def with_spec(rows: list[objects.ObjectRow], **spec: Any) -> list[objects.ObjectRow]:
        from dataclasses import replace

        return [replace(row, spec={**row.spec, **spec}) if row.name == "v" else row for row in rows]

    def defined_at() -> int:
        now = objects.in_force(ledger)
        assert now is not None
        return next(row.defined_at_event for row in now.objects if row.name == "v")

    before = defined_at()
    assert changed(ledger, lambda rows: with_spec(rows, weight=9.0))
    assert defined_at() == before
    assert changed(ledger, lambda rows: with_spec(rows, sql="SELECT 2"))
    assert defined_at() > before
