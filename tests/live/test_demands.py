"""Demanded objects go first, with what they need, and a demand ends however fast new updates pour in."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.live import memory
from scheduler_plugin.live.holds import PAUSED
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.store.models import EventKind
from tests.live.test_scheduler import START, Log, catalog, log, table, view


def demand(it: Log, name: str, number: int, *, run: bool = True, deadline: float | None = None, why: str = "") -> None:
    it.add(EventKind.DEMANDED, name, demand=number, by="ana", why=why, deadline=deadline, run=run)


def outcomes(it: Log) -> dict[int, str]:
    return {number: how for number, how, _ in it.scheduler.ended}


def test_a_demanded_view_goes_before_what_the_policy_prefers_its_stale_parents_first() -> None:
    rows = [table("hot"), table("t"), view("liked", "hot", access=99.0), view("v", "t", access=0.01)]
    by_reads = catalog(*rows, slots=1)
    by_reads = replace(by_reads, settings={**by_reads.settings, "policy": {"name": "qoda", "params": {}}})
    it = Log(Scheduler(by_reads, since=START.timestamp()))
    it.arrive("hot")
    it.arrive("t")
    it.run("hot")
    assert it.chosen() == ["liked"]
    demand(it, "v", 1, why="new tariffs")
    (first,) = it.scheduler.choose(it.now)
    assert (first.object, first.figures) == ("t", {"demand": 1})
    assert first.why == "v is demanded by ana (run now: new tariffs) and needs this first"
    it.run("t")
    (second,) = it.scheduler.choose(it.now)
    assert (second.object, second.why) == ("v", "demanded by ana (run now: new tariffs)")
    it.run("v")
    assert outcomes(it) == {1: "met"}
    assert it.chosen() == ["liked"]


def test_demands_are_served_earliest_deadline_first_and_others_fill_what_is_left() -> None:
    it = log(table("a"), table("b"), table("c"), table("d"), slots=3)
    for name in "abcd":
        it.arrive(name)
    demand(it, "d", 1, deadline=it.now + 50)
    demand(it, "c", 2, deadline=it.now + 9)
    chosen = it.scheduler.choose(it.now)
    assert [each.object for each in chosen[:2]] == ["c", "d"]
    assert len({each.slot for each in chosen}) == len(chosen)
    assert len({each.object for each in chosen}) == len(chosen)


def test_a_fresh_view_runs_once_more_when_somebody_says_so_and_a_query_asks_for_nothing() -> None:
    it = log(table("t"), view("v", "t"))
    demand(it, "v", 1, run=False)
    assert outcomes(it) == {1: "met"}
    demand(it, "v", 2)
    assert it.chosen() == ["v"]
    it.run("v")
    assert outcomes(it) == {1: "met", 2: "met"}
    demand(it, "t", 3)
    assert outcomes(it)[3] == "met"


def test_a_job_that_was_running_when_it_was_demanded_does_not_count() -> None:
    it = log(table("t"), view("v", "t"))
    it.arrive("t")
    it.run("t")
    it.start("v")
    demand(it, "v", 1)
    it.finish("v")
    assert outcomes(it) == {}
    assert it.chosen() == ["v"]
    it.run("v")
    assert outcomes(it) == {1: "met"}


def test_a_demand_to_run_ends_when_its_job_fails_and_is_worth_a_try_after_failures() -> None:
    it = log(table("t"))
    it.arrive("t")
    it.start("t")
    it.fail("t")
    assert it.chosen() == []
    demand(it, "t", 1, why="mended")
    assert it.chosen() == ["t"]
    it.start("t")
    it.fail("t")
    assert outcomes(it) == {1: "failed"}
    assert it.chosen() == []


def test_what_is_paused_waits_demanded_or_not_and_a_withdrawn_demand_is_forgotten() -> None:
    it = log(table("t"), view("v", "t"))
    it.add(EventKind.HELD, "v", by=PAUSED)
    demand(it, "v", 1)
    assert it.chosen() == []
    it.add(EventKind.RELEASED, "v", by=PAUSED)
    assert it.chosen() == ["v"]
    it.add(EventKind.DEMAND_ENDED, "v", demand=1)
    assert it.chosen() == []
    assert outcomes(it) == {}


def test_a_demand_with_a_deadline_is_overdue_after_it() -> None:
    it = log(table("t"), view("v", "t"))
    demand(it, "v", 1, deadline=it.now + 5)
    assert it.scheduler.demands.overdue(it.now + 1) == []
    assert it.scheduler.demands.overdue(it.now + 6) == [1]


NAMES = ("a", "b", "v", "thin", "w")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("arrive"), st.sampled_from("ab")),
            st.tuples(st.just("demand"), st.sampled_from(NAMES)),
            st.tuples(st.just("query"), st.sampled_from(NAMES)),
            st.tuples(st.just("job"), st.integers(0, 3)),
        ),
        max_size=25,
    )
)
def test_every_demand_is_met_although_updates_never_stop(steps: list[tuple[str, Any]]) -> None:
    it = log(table("a"), table("b"), view("v", "a", "b"), view("thin", "v", materialized=False), view("w", "thin", "a"))
    made = 0
    for step, what in [*steps, *[("job", 0)] * 4]:
        if step == "arrive":
            it.arrive(what)
        elif step == "job":
            running = sorted(it.scheduler.running)
            for each in it.scheduler.choose(it.now):
                it.start(each.object, slot=each.slot)
            if running:
                it.finish(running[what % len(running)])
        else:
            made += 1
            demand(it, what, made, run=step == "demand")
    for _ in range(30):  # a file for each table lands before every single job
        for name in "ab":
            it.arrive(name)
        for each in it.scheduler.choose(it.now):
            it.start(each.object, slot=each.slot)
        for name in sorted(it.scheduler.running):
            it.finish(name)
    assert outcomes(it) == dict.fromkeys(range(1, made + 1), "met")
    # A loop that replays the log comes to the same ends.
    again = Scheduler(catalog(*it.scheduler.rows.values()), since=START.timestamp())
    for event in it.events:
        again.apply(event)
    assert again.ended == it.scheduler.ended


def test_above_the_mark_the_steepest_path_goes_first_until_it_is_below_again() -> None:
    rows = [table("small"), table("large"), view("v", "large", access=0.0), view("w", "small", access=99.0)]
    row = catalog(*rows, slots=1)
    it = Log(Scheduler(replace(row, settings={**row.settings, "burst_bytes": 1000}), since=START.timestamp()))

    def land(name: str, size: int) -> None:
        it.add(EventKind.UPDATE_ARRIVED, name, update=len(it.events), start=it.now, release=it.now + 1, bytes=size)

    def job(name: str, seconds: float, bytes_out: int) -> None:
        it.start(name)
        it.add(EventKind.JOB_FINISHED, name, decision=it.decisions, slot_seconds=seconds, bytes_out=bytes_out)

    land("small", 100)
    land("large", 100)
    for name, seconds, written in (("small", 5.0, 90), ("large", 1.0, 10), ("w", 5.0, 1), ("v", 1.0, 1)):
        job(name, seconds, written)
    land("small", 400)
    assert it.scheduler.choose(it.now)[0].policy == "default"  # below the mark
    land("large", 700)
    (chosen,) = it.scheduler.choose(it.now)
    assert (chosen.object, chosen.policy) == ("large", "chain")
    assert chosen.why.startswith("burst: 1,100 bytes wait, more than 1,000; this path frees ")
    assert [each["object"] for each in chosen.figures["passed_over"]] == ["small"]
    job("large", 1.0, 70)
    assert it.scheduler.choose(it.now)[0].policy == "default"
    again = memory.restored(replace(row, settings=it.scheduler.settings), memory.dump(it.scheduler), len(it.events))
    assert again.burst is not None and it.scheduler.burst is not None
    assert (again.burst.backlog, again.burst.stages) == (it.scheduler.burst.backlog, it.scheduler.burst.stages)


def test_a_hot_view_that_is_put_off_is_kept_ready_in_idle_time_as_far_as_it_can_be() -> None:
    rows = [table("slow"), table("t"), view("v", "slow", "t"), view("thin", "v", materialized=False)]
    it = log(*rows, slots=2)
    for name in ("slow", "t", "v"):
        if name != "v":
            it.arrive(name)
        it.run(name)
    it.arrive("slow")
    it.add(EventKind.HELD, "slow", by=PAUSED)
    it.arrive("t")
    it.run("t")
    assert it.chosen() == []  # nobody reads it
    it.scheduler.hot = ("thin",)
    assert it.chosen() == []  # not newer: what it lacks of `slow` is older than what `t` brings
    it.add(EventKind.RELEASED, "slow", by=PAUSED)
    it.start("slow")
    it.arrive("slow")
    it.finish("slow")
    it.add(EventKind.HELD, "slow", by=PAUSED)
    demand(it, "slow", 1, run=False)
    assert it.chosen() == []  # somebody waits
    it.add(EventKind.DEMAND_ENDED, "slow", demand=1)
    (kept,) = it.scheduler.choose(it.now)
    assert (kept.object, kept.policy) == ("v", "idle")
    assert kept.why.startswith("kept ready in idle time: read lately, and ")
    held = it.scheduler.warehouse.current_to[it.scheduler.warehouse.number("v")]
    it.decisions += 1
    # What its parents have in common turns out to be no newer than what it holds.
    it.add(EventKind.JOB_STARTED, "v", decision=it.decisions, slot=0, current_to=held, lacks=held + 1)
    it.finish("v")
    assert it.chosen() == []  # as far as it can be, for now
    assert not it.scheduler.warehouse.is_fresh("v")


def test_nothing_is_kept_ready_that_a_running_job_may_soon_make_fresh() -> None:
    it = log(table("a"), table("b"), view("v", "a", "b"), slots=3)
    for name in ("a", "b", "v"):
        if name != "v":
            it.arrive(name)
        it.run(name)
    it.scheduler.hot = ("v",)
    for name in "ab":
        it.arrive(name)
    it.run("a")
    it.start("b")
    it.arrive("b")
    it.finish("b")
    it.start("b", slot=1)
    assert it.scheduler.choose(it.now) == []
