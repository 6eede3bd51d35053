"""A follower that went along knows what one that starts now knows, whatever happened on the way."""

import random
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from scheduler_plugin.live.follower import Figures, Follower, dirty_counters, popularities
from scheduler_plugin.store import arrivals, controls, decisions, lease, objects, settling
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.settling import Outcome

pytestmark = pytest.mark.services

SETTINGS = {"slots": 2, "groups": [], "policy": {"name": "default", "params": {}}, "tick_seconds": 1}
SPEC = {"weight": 1.0, "access": 1.0, "staleness_limit": 60.0}


def table(name: str) -> objects.ObjectRow:
    own = {"period": 10.0, "feed": name, "landing": name, "max_batch": 10**9}
    return objects.ObjectRow(name=name, kind="table", materialized=True, parents=(), spec={**SPEC, **own})


def view(name: str, *parents: str, sql: str = "SELECT 1") -> objects.ObjectRow:
    own = {"sql": sql, "reads": list(parents), "virtual": {}, "when_parent_blocked": "refresh"}
    return objects.ObjectRow(name=name, kind="view", materialized=True, parents=parents, spec={**SPEC, **own})


CATALOG = objects.CatalogRow(settings=SETTINGS, objects=[table("r"), table("s"), view("a", "r"), view("b", "a", "s")])
CHANGED = replace(CATALOG, objects=[*CATALOG.objects[:3], view("b", "a", "s", sql="SELECT 2"), view("c", "b")])


def figures(follower: Follower, now: float) -> dict[str, Figures]:
    # Predictions are kept for some seconds; what they are made from is compared with the rest.
    return {name: replace(each, starts_at=None, fresh_at=None) for name, each in follower.look(now).objects.items()}


@pytest.mark.parametrize("seed", range(3))
def test_a_follower_that_went_along_agrees_with_one_that_starts_now(database: Database, seed: int) -> None:
    dice = random.Random(seed)
    objects.take_in(database, CATALOG)
    epoch = lease.take(database, "the test's loop", timedelta(minutes=5))
    assert epoch is not None
    along = Follower(database)
    for step in range(25):
        happening = dice.choice(["arrive", "arrive", "run", "run", "pause", "resume", "weigh", "change"])
        name = dice.choice(["r", "s"])
        if happening == "arrive":
            arrivals.take_in(
                database, [arrivals.Arrival(table=name, path=f"/{step}", size_bytes=1, content_hash=str(step))]
            )
        elif happening == "run":
            with along.caught_up(time.time()) as scheduler:
                assert scheduler is not None
                wanted = scheduler.choose(time.time())[:1]
            for number in decisions.record(database, epoch, wanted):
                claim = decisions.claim(database, number, 1, "w")
                assert claim is not None
                if dice.random() < 0.7:
                    done = Outcome(snapshot_id=step + 1, rows=1, bytes_in=1, bytes_out=1, stages={})
                    settling.finish(database, claim, done)
                else:
                    settling.fail(database, claim, "on purpose")
        elif happening == "pause":
            controls.pause(database, [name], who="somebody")
        elif happening == "resume":
            controls.resume(database, [name], who="somebody")
        elif happening == "weigh":
            controls.override(database, name, "weight", 3.0, until=None, who="somebody")
        elif dice.random() < 0.5:
            objects.take_in(database, CHANGED)
        now = time.time()
        with along.caught_up(now) as scheduler:
            assert scheduler is not None
            warehouse = scheduler.warehouse
            everything = range(len(warehouse.graph))
            assert dirty_counters(warehouse) == [warehouse.dirty(each) for each in everything]
            assert popularities(warehouse) == pytest.approx([warehouse.popularity(each) for each in everything])
        assert figures(along, now) == figures(Follower(database), now), happening
