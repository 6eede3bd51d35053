"""Promises: what is foreseen, what is told, and that it is told once."""

from dataclasses import replace

from scheduler_plugin.live.outlook import breaches, expected_run, silent_feeds
from scheduler_plugin.live.scheduler import AWAY_PAUSE, Scheduler
from scheduler_plugin.live.watch import Watch, conditions
from scheduler_plugin.store.models import EventKind
from scheduler_plugin.store.objects import ObjectRow
from tests.live.test_scheduler import START, Log, catalog, table, view


def limited(row: ObjectRow, limit: float) -> ObjectRow:
    return replace(row, spec={**row.spec, "staleness_limit": limit})


def warehouse(*, slots: int = 1, limit: float = 30.0) -> Log:
    """Two tables with a feed every 10 s, and a view over both that promises something."""
    rows = (table("a"), table("b"), limited(view("v", "a", "b"), limit))
    return Log(Scheduler(catalog(*rows, slots=slots), since=START.timestamp()))


def freshen(it: Log) -> None:
    for name in ("a", "b"):
        it.arrive(name)
        it.run(name)
    it.run("v")


def kinds(it: Log, now: float) -> dict[tuple[str, str | None], str]:
    return {each.key: each.summary for each in conditions(it.scheduler, now)}


def test_all_is_well_while_feeds_come_in_time_and_the_slots_suffice() -> None:
    it = warehouse()
    freshen(it)
    freshen(it)
    assert kinds(it, it.now + 1) == {}


def test_a_silent_feed_is_late_and_the_breach_it_leads_to_is_foreseen() -> None:
    it = warehouse(limit=100.0)
    freshen(it)
    freshen(it)
    now = it.now + 45  # its feeds should have come four times since
    told = kinds(it, now)
    assert set(silent_feeds(it.scheduler, now)) == {"a", "b"}
    assert "Nothing has arrived for a since 2026-01-01 00:00:09 UTC" in told["silent_feed", "a"]
    assert "will breach its limit of 100 s in" in told["predicted_breach", "v"]
    assert "nothing arrives for a, b" in told["predicted_breach", "v"]
    assert "v passed its limit of 100 s at 2026-01-01" in kinds(it, now + 60)["breach", "v"]


def test_a_limit_shorter_than_the_time_between_files_is_no_matter_of_load() -> None:
    it = warehouse(limit=8.0)
    freshen(it)
    freshen(it)
    due = it.scheduler.warehouse.current_to[it.scheduler.warehouse.number("v")] + 8
    told = kinds(it, due - 1)
    assert set(told) == {("predicted_breach", "v")}
    assert "files of b come about every 10 s, and no run helps" in told["predicted_breach", "v"]
    assert set(kinds(it, due + 1)) == {("breach", "v")}


def test_a_load_that_no_order_can_carry_is_foreseen_and_said_with_who_is_given_up() -> None:
    it = warehouse(limit=25.0)
    for name, seconds in (("a", 20.0), ("b", 20.0), ("v", 20.0)) * 3:
        if name != "v":
            it.arrive(name)
        it.start(name)
        it.add(EventKind.JOB_FINISHED, name, after=seconds, decision=it.decisions, slot_seconds=seconds)
    it.arrive("a")
    it.arrive("b")
    told = kinds(it, it.now)
    assert "breach" in {kind for kind, _ in told} or "predicted_breach" in {kind for kind, _ in told}
    assert "impossible to keep all limits" in told["overload", None]
    assert "v (impact" in told["overload", None]
    watch = Watch(())
    assert [watch.look(it.scheduler, it.now) for _ in range(2)][1][0]
    assert watch.other_overload is not None
    assert watch.other_overload.body["given_up"] == ["v"]
    watch.look(it.scheduler, it.now)
    assert watch.other_overload is None  # nothing new


def test_who_is_given_up_is_what_the_policy_says() -> None:
    """Both views could be kept, but not one after the other in the one slot."""
    rows = (table("a"), limited(view("much_read", "a", access=50.0), 40.0), limited(view("little_read", "a"), 40.0))
    it = Log(Scheduler(catalog(*rows, slots=1), since=START.timestamp()))
    for _ in range(4):
        it.arrive("a")
        for name, seconds in (("a", 1.0), ("much_read", 10.0), ("little_read", 10.0)):
            it.start(name)
            it.add(EventKind.JOB_FINISHED, name, after=seconds, decision=it.decisions, slot_seconds=seconds)
    it.arrive("a")
    it.start("a")
    it.finish("a")
    due = min(it.scheduler.warehouse.current_to[1:]) + 40.0
    told = {each.key: each for each in conditions(it.scheduler, due - 15.0)}
    assert told["overload", None].body["given_up"] == ["little_read"]
    assert it.scheduler.policy.given_up(it.scheduler.warehouse, due - 15.0)


def test_a_paused_object_and_a_failing_one_are_told_as_such() -> None:
    it = warehouse()
    freshen(it)
    it.arrive("a")
    it.add(EventKind.HELD, "a", by="it is paused", who="ana")
    (breach,) = [each for each in breaches(it.scheduler, it.now) if each.object == "v"]
    assert (breach.cause, breach.at > it.now) == ("held", True)
    it.add(EventKind.RELEASED, "a", by="it is paused")
    for _ in range(3):
        it.start("a")
        it.fail("a")
    told = kinds(it, it.now)
    assert "The last 3 jobs on a failed" in told["failing", "a"]


def test_that_spark_is_away_is_told_once_and_is_no_objects_fault() -> None:
    it = warehouse()
    freshen(it)
    for name in ("a", "b", "a", "b", "a", "b"):
        it.arrive(name)
        it.start(name)
        it.add(EventKind.JOB_FAILED, name, decision=it.decisions, away=True)
    told = kinds(it, it.now)
    assert {name for kind, name in told if kind == "failing"} == {None}
    assert it.scheduler.choose(it.now) == []
    assert len(it.scheduler.choose(it.now + AWAY_PAUSE)) == 1
    it.run("b")
    assert ("failing", None) not in kinds(it, it.now)


def test_an_incident_begins_once_and_ends_once() -> None:
    it = warehouse(limit=100.0)
    freshen(it)
    freshen(it)
    watch = Watch(())
    told = [watch.look(it.scheduler, it.now + seconds) for seconds in (45, 46, 47, 48)]
    begun = [each.key for now_begun, _ in told for each in now_begun]
    assert sorted(begun) == [("predicted_breach", "v"), ("silent_feed", "a"), ("silent_feed", "b")]
    it.add(EventKind.UPDATE_ARRIVED, "a", after=49, update=99, start=it.now, release=it.now + 49)
    it.run("a")
    it.add(EventKind.UPDATE_ARRIVED, "b", update=98, start=it.now, release=it.now)
    it.run("b")
    it.run("v")
    later = [watch.look(it.scheduler, it.now + seconds) for seconds in (0.1, 0.2, 0.3)]
    assert sorted(key for _, over in later for key in over) == sorted(begun)
    assert not watch.open
    # A loop that starts anew goes on with the incidents that are open.
    assert Watch([("silent_feed", "a")]).look(it.scheduler, it.now) == ([], [])


def test_the_expected_start_is_when_the_ones_ahead_are_done() -> None:
    it = warehouse()
    freshen(it)
    for name in ("a", "b"):
        it.arrive(name)
    first = it.scheduler.choose(it.now)[0].object
    (other,) = {"a", "b"} - {first}
    cost = it.scheduler.warehouse.cost(it.scheduler.warehouse.number(first))
    assert expected_run(it.scheduler, first, it.now) == it.now
    assert expected_run(it.scheduler, other, it.now) == it.now + cost
    assert expected_run(it.scheduler, "v", it.now) > it.now + cost
