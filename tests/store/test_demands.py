"""Demands in the ledger: a row for people and an event for the loop."""

from datetime import UTC, datetime, timedelta

import pytest

from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.store import arrivals, decisions, demands, freshness, objects, settling
from scheduler_plugin.store.database import Database

pytestmark = pytest.mark.services


def follow(database: Database) -> Scheduler:
    catalog = objects.in_force(database)
    assert catalog is not None
    settings = {"slots": 2, "groups": [], "policy": {"name": "default", "params": {}}, **catalog.settings}
    first, *_ = events = freshness.events_after(database, 0)
    scheduler = Scheduler(objects.CatalogRow(settings=settings, objects=catalog.objects), first.at.timestamp())
    for event in events:
        scheduler.apply(event)
    return scheduler


def now() -> float:
    return datetime.now(UTC).timestamp()


def test_a_demand_is_run_recorded_and_ended(ledger: Database, epoch: int) -> None:
    arrivals.take_in(ledger, [arrivals.Arrival(table="t", path="/f", size_bytes=1, content_hash="x")])
    asked = demands.demand(ledger, "v", by="ana", why="look")
    outcome = settling.Outcome(snapshot_id=1, rows=1, bytes_in=1, bytes_out=1, stages={})
    for expected in ("t", "v"):
        chosen = follow(ledger).choose(now())
        assert [each.object for each in chosen] == [expected]
        assert "demanded by ana (run now: look)" in chosen[0].why
        (identity,) = decisions.record(ledger, epoch, chosen)
        claim = decisions.claim(ledger, identity, 1, "w")
        assert claim is not None
        assert settling.finish(ledger, claim, outcome)
    scheduler = follow(ledger)
    for _ in range(2):
        demands.end(ledger, epoch, scheduler.ended)
    (told,) = demands.reports(ledger)
    assert (told.id, told.object, told.by, told.outcome) == (asked, "v", "ana", "met")
    assert scheduler.choose(now()) == []


def test_an_unknown_object_is_refused_by_name(ledger: Database) -> None:
    with pytest.raises(LookupError, match="nowhere"):
        demands.demand(ledger, "nowhere", by="ana", why="")


def test_a_withdrawn_demand_is_forgotten_by_the_loop(ledger: Database) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=1)
    asked = demands.demand(ledger, "v", by="ana", why="", deadline=soon)
    assert [each.object for each in follow(ledger).choose(now())] == ["v"]
    assert follow(ledger).demands.overdue(soon.timestamp() + 1) == [asked]
    demands.withdraw(ledger, [asked], "missed")
    assert follow(ledger).choose(now()) == []
    assert [each.outcome for each in demands.reports(ledger)] == ["missed"]
