"""The loop on a real Postgres, tick by tick; the test plays the jobs, so no Airflow is needed."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from scheduler_plugin.brain import POLICIES
from scheduler_plugin.live import explain, memory
from scheduler_plugin.live import loop as loop_module
from scheduler_plugin.live.loop import LEASE, Loop
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import arrivals, checkpoints, controls, decisions, freshness, lease, reports, settling
from scheduler_plugin.store.database import Database

pytestmark = pytest.mark.services

CATALOG = """
slots: {slots}
policy: {{name: {policy}}}
feeds:
  a: {{format: csv, period: 10s, columns: {{id: int}}}}
  b: {{format: csv, period: 60s, columns: {{id: int}}}}
views:
  ab: {{access: 5}}
  top: {{access: 9, staleness_limit: 30s}}
{groups}
"""


class Driver:
    """A loop whose jobs the test runs itself."""

    def __init__(self, settings: Settings, database: Database, write: Callable[..., None]) -> None:
        self.database = database
        self.write = write
        self._settings = settings
        self._files = 0
        self.loop: Any = None
        self.take_over()

    def close(self) -> None:
        if self.loop is not None:
            self.loop._stop_landing()

    def take_over(self, holder: str = "test") -> None:
        self.close()
        epoch = lease.take(self.database, holder, LEASE)
        assert epoch is not None
        self.loop = Loop(self._settings, self.database, holder, epoch)
        self.loop._courier.paused = frozenset()

    def arrive(self, table: str, files: int = 1) -> None:
        for _ in range(files):
            self._files += 1
            arrival = arrivals.Arrival(table=table, path=f"/{self._files}", size_bytes=1, content_hash=f"{self._files}")
            arrivals.take_in(self.database, [arrival])

    def tick(self) -> list[str]:
        """What is open after one tick."""
        self.loop._look_next = 0.0  # the test may just have written it
        self.loop._tick()
        return controls.running(self.database, None)

    def work(self) -> list[str]:
        """Ends every open decision; returns their objects in the order decided."""
        done = []
        for decision in reversed(reports.latest_decisions(self.database, 50)):
            if decision.state == "decided":
                claim = decisions.claim(self.database, decision.id, decision.attempt, "test")
                assert claim is not None
                outcome = settling.Outcome(snapshot_id=decision.id, rows=1, bytes_in=1, bytes_out=1, stages={})
                assert settling.finish(self.database, claim, outcome)
                done.append(decision.object)
        return done

    def settle(self) -> list[str]:
        """Ticks and works until there is nothing left to do."""
        done = []
        for _ in range(60):
            self.tick()
            worked = self.work()
            done += worked
            if not worked:
                assert freshness.flaws(self.database) == []
                return done
        raise AssertionError("there is always something left to do")

    def fresh(self) -> bool:
        return all(each.fresh for each in reports.board(self.database).objects)


@pytest.fixture
def driver(database: Database, postgres: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "ab.sql").write_text("SELECT a.id FROM a JOIN b ON a.id = b.id\n")
    (tmp_path / "views" / "top.sql").write_text("SELECT id FROM ab\n")
    path = tmp_path / "warehouse.yml"

    def write(policy: str = "default", slots: int = 2, groups: str = "") -> None:
        path.write_text(CATALOG.format(policy=policy, slots=slots, groups=groups))

    write()
    monkeypatch.setenv("FRESHET_CATALOG", str(path))
    # Nobody answers there: nothing is sent, the test does the jobs.
    nowhere = {**postgres.environment, "FRESHET_API_URL": "http://127.0.0.1:9"}
    driver = Driver(replace(postgres, environment=nowhere), database, write)
    yield driver
    driver.close()


def test_every_policy_runs_and_is_changed_without_a_restart(driver: Driver) -> None:
    for policy in POLICIES:
        driver.write(policy=policy, slots=4)
        driver.tick()
        driver.arrive("a", files=3)
        driver.arrive("b")
        done = driver.settle()
        newest = reports.latest_decisions(driver.database, 1)[0]
        assert newest.policy == policy
        assert driver.fresh(), policy
        # FIFO loads each update by itself, all others load what waits together.
        assert done.count("a") == (3 if policy == "fifo" else 1), policy
    assert all(each.pending == each.loading == 0 for each in reports.files(driver.database))


def test_fifo_begins_with_what_waits_when_it_is_chosen(driver: Driver) -> None:
    """It runs each update's jobs by themselves; what another policy did together before is done."""
    for _ in range(3):
        driver.arrive("a", files=3)
        driver.arrive("b")
        driver.settle()
    driver.write(policy="fifo")
    assert driver.settle() == []
    driver.arrive("a", files=2)
    driver.take_over()  # and a loop that starts anew knows it, too
    assert sorted(driver.settle()) == ["a", "a", "ab", "ab", "top", "top"]


def test_a_group_keeps_its_slot_and_lends_it_while_idle(driver: Driver) -> None:
    driver.write(slots=2, groups="groups:\n  team: {slots: 1, objects: [b]}\n")
    driver.tick()
    driver.arrive("a")
    driver.arrive("b")
    assert driver.tick() == ["a", "b"]
    driver.settle()
    slots = {each.object: each.slot for each in reports.latest_decisions(driver.database, 10)}
    assert (slots["b"], slots["a"]) == (0, 1)
    driver.write(slots=1, groups="groups:\n  team: {slots: 1, objects: [a, b, ab, top]}\n")
    driver.tick()
    driver.arrive("a")
    assert driver.tick() == ["a"]
    driver.settle()
    # With the rest's slot taken, the rest may borrow the team's.
    driver.write(slots=2, groups="groups:\n  team: {slots: 1, objects: [top]}\n")
    driver.tick()
    driver.arrive("a")
    driver.arrive("b")
    assert driver.tick() == ["a", "b"]
    lent = {each.slot: each for each in reports.latest_decisions(driver.database, 2)}
    assert "lent by team" in lent[0].why


def test_a_paused_object_a_paused_whole_and_a_drain(driver: Driver) -> None:
    driver.arrive("a")
    assert driver.tick() == ["a"]
    controls.pause(driver.database, ["b"], who="ana", why="the source is being mended")
    driver.arrive("b")
    assert driver.tick() == ["a"]
    told = explain.explain(driver.database, "b")
    assert told.state == "held"
    assert "by ana: the source is being mended" in told.summary
    controls.pause(driver.database, None, who="ana")
    assert controls.running(driver.database, None) == ["a"]
    driver.work()
    assert driver.tick() == []
    assert "everything is paused by ana" in explain.explain(driver.database, "ab").summary
    controls.resume(driver.database, None, who="ana")
    driver.settle()
    assert driver.fresh()
    assert [each.what for each in controls.history(driver.database)] == ["released", "released", "held", "held"]


def test_a_limit_for_a_while_holds_and_ends_and_a_new_loop_knows_it(driver: Driver) -> None:
    now = datetime.now(UTC)
    controls.override(driver.database, "top", "limit", 5.0, until=now + timedelta(hours=1), who="ana")
    controls.override(driver.database, "top", "weight", 7.0, until=now + timedelta(hours=1), who="ana")
    driver.tick()
    driver.take_over()
    scheduler = driver.loop._scheduler
    assert (scheduler.limit("top"), scheduler.weight("top")) == (5.0, 7.0)
    # A view without one of its own has the tightest that the catalog gives to what depends on it.
    assert (scheduler.limit("a"), scheduler.limit("ab")) == (None, 30.0)
    scheduler.pass_time((now + timedelta(hours=2)).timestamp())
    assert (scheduler.limit("top"), scheduler.weight("top")) == (30.0, 1.0)


def test_the_past_is_explained_as_it_was(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CHECKPOINT_EVENTS", 3)
    driver.tick()
    driver.arrive("a")
    driver.arrive("b")
    then = datetime.now(UTC)
    before = explain.explain(driver.database, "top", then)
    driver.settle()
    driver.write(policy="myopic")
    driver.tick()
    driver.arrive("a")
    driver.settle()
    assert checkpoints.last_id(driver.database) > 0
    again = explain.explain(driver.database, "top", then)
    assert again == before
    assert (again.policy, again.state, again.dirty_ancestors) == ("default", "waits", ("a", "b", "ab"))
    assert again.expected_at is not None
    assert explain.explain(driver.database, "top").state == "fresh"
    assert explain.explain(driver.database, "top").policy == "myopic"


def test_a_log_that_was_shortened_still_says_how_things_stand(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "CHECKPOINT_EVENTS", 3)
    for _ in range(4):
        driver.arrive("a", files=2)
        driver.arrive("b")
        driver.settle()
    driver.arrive("a")
    driver.tick()
    whole = memory.dump(driver.loop._scheduler)
    assert checkpoints.forget_before(driver.database, datetime.now(UTC)) > 0
    driver.take_over()
    shortened = memory.dump(driver.loop._scheduler)
    assert shortened["running"] == whole["running"]
    assert shortened["costs"] == whole["costs"]
    assert shortened["warehouse"]["objects"] == whole["warehouse"]["objects"]
    driver.settle()
    assert driver.fresh()


def test_a_view_may_become_virtual_and_material_again(driver: Driver, tmp_path: Path) -> None:
    driver.arrive("a")
    driver.arrive("b")
    driver.settle()
    path = tmp_path / "warehouse.yml"
    whole = path.read_text()
    path.write_text(whole.replace("ab: {access: 5}", "ab: {access: 5, materialized: false}"))
    driver.arrive("a")
    assert driver.settle() == ["a", "top"]
    path.write_text(whole + "\n")
    driver.tick()
    assert "ab" in driver.settle()
    assert driver.fresh()


def test_a_hung_job_is_given_to_a_new_attempt_and_in_the_end_given_up(driver: Driver) -> None:
    driver.arrive("a")
    driver.tick()
    (decision,) = reports.latest_decisions(driver.database, 1)
    patience = timedelta(seconds=60)
    for attempt in range(1, decisions.MOST_ATTEMPTS + 1):
        assert decisions.claim(driver.database, decision.id, attempt, "test") is not None
        assert decisions.unsent(driver.database, unclaimed_after=patience, dead_after=patience) == []
        with driver.database.transaction() as connection:
            # It gives signs of life, but has been at it for longer than any such job.
            connection.execute(
                text("UPDATE freshet.decision SET claimed_at = claimed_at - 2 * time_limit * interval '1 s'")
            )
        decisions.unsent(driver.database, unclaimed_after=patience, dead_after=patience)
    assert reports.latest_decisions(driver.database, 1)[0].state == "failed"
    driver.tick()
    assert explain.explain(driver.database, "a").failures == 1


def test_runs_that_nobody_takes_up_are_given_up_in_the_end_and_free_their_slot(driver: Driver) -> None:
    driver.arrive("a")
    driver.tick()
    (decision,) = reports.latest_decisions(driver.database, 1)
    for _ in range(decisions.MOST_ATTEMPTS):
        for outgoing in decisions.unsent(driver.database, unclaimed_after=timedelta(0), dead_after=timedelta(0)):
            decisions.mark_dispatched(driver.database, outgoing)
    decisions.unsent(driver.database, unclaimed_after=timedelta(0), dead_after=timedelta(0))
    assert reports.latest_decisions(driver.database, 1)[0].state == "failed"
    driver.tick()
    assert decision.object not in driver.loop._scheduler.running


def test_a_lease_and_a_sign_of_life_from_before_the_clock_was_put_back_count_for_nothing(driver: Driver) -> None:
    driver.arrive("a")
    driver.tick()
    (decision,) = reports.latest_decisions(driver.database, 1)
    assert decisions.claim(driver.database, decision.id, 1, "test") is not None
    with driver.database.transaction() as connection:
        connection.execute(text("UPDATE freshet.lease SET expires_at = now() + interval '1 day'"))
        connection.execute(text("UPDATE freshet.decision SET heartbeat_at = now() + interval '1 day'"))
    patience = timedelta(seconds=60)
    (outgoing,) = decisions.unsent(driver.database, unclaimed_after=patience, dead_after=patience)
    assert outgoing.attempt == 2
    with pytest.raises(lease.LeaseLostError):
        driver.take_over("another")
        driver.loop._epoch -= 1
        driver.arrive("b")
        driver.tick()


def test_a_clock_that_jumps_an_hour_ahead_and_back_leaves_nothing_undone(driver: Driver) -> None:
    driver.arrive("a")
    driver.arrive("b")
    with driver.database.transaction() as connection:
        connection.execute(text("UPDATE freshet.event SET at = at + interval '1 hour' WHERE kind = 'update_arrived'"))
    assert "top" in driver.settle()
    assert driver.fresh()
    driver.arrive("a", files=2)
    assert driver.settle() == ["a", "ab", "top"]
    driver.take_over()
    driver.arrive("b")
    driver.settle()
    assert driver.fresh()
    assert all(each.pending == each.loading == 0 for each in reports.files(driver.database))


def test_the_commands_say_and_do_the_same(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from scheduler_plugin.cli.main import main

    def told(*words: str, exit_code: int = 0) -> str:
        assert main(words) == exit_code
        captured = capsys.readouterr()
        return captured.out or captured.err

    monkeypatch.setenv("FRESHET_DATABASE_URL", driver.database.url)
    driver.arrive("a")
    driver.arrive("b")
    driver.settle()
    assert "holds every update" in told("explain", "top")
    assert json.loads(told("explain", "a", "--json"))["state"] == "fresh"
    assert "no object of the catalog is called nowhere" in told("explain", "nowhere", exit_code=1)
    assert "does not reach back" in told("explain", "top", "--at", "2001-01-01T00:00:00Z", exit_code=1)
    listed = json.loads(told("decisions", "--object", "top", "--json"))
    assert [(each["object"], each["state"]) for each in listed] == [("top", "done")]
    assert listed[0]["slot_seconds"] > 0
    assert "say until when" in told("set", "top", "--weight", "3", exit_code=1)
    assert "top: weight is 3 until" in told("set", "top", "--weight", "3", "--until", "2h")
    assert "Paused: everything" in told("pause", "--all", "--drain", "--why", "a look")
    driver.arrive("a")
    assert driver.tick() == []
    assert driver.loop._scheduler.weight("top") == 3.0
    assert "everything is paused by" in told("explain", "a")
    told("resume", "--all")
    assert "has no group none" in told("pause", "--group", "none", exit_code=1)
    driver.settle()
    compared = json.loads(told("whatif", "--slots", "1", "--policy", "fifo", "--json"))
    assert (compared["real"]["policy"], compared["replayed"]["policy"]) == ("default", "fifo")
    assert compared["replayed"]["slots"] == 1
    assert "there is no policy lifo" in told("whatif", "--policy", "lifo", exit_code=1)
