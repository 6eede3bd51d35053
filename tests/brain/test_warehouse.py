"""The warehouse's state after any history, against a plain recount."""

import math

import pytest
from hypothesis import given

from scheduler_plugin.brain import (
    AccessChanged,
    CostLearnt,
    IllegalMove,
    JobFinished,
    JobStarted,
    Table,
    UpdateArrived,
    View,
    Warehouse,
)
from tests.brain.worlds import World, histories, unhurried, warehouses


@unhurried
@given(objects=warehouses(), history=histories)
def test_knows_what_is_fresh_and_what_may_start_after_any_history(objects, history):
    world = World(objects)
    for step in history:
        world.play(step)
        for name in world.naive.names:
            assert world.warehouse.is_fresh(name) == world.naive.is_fresh(name)
        may_start = {name for name in world.naive.names if world.naive.may_start(name)}
        assert {world.warehouse.graph.names[each] for each in world.warehouse.ready} == may_start


@unhurried
@given(objects=warehouses(), history=histories)
def test_the_dirty_counter_is_the_number_of_stale_ancestors(objects, history):
    world = World(objects)
    for step in history:
        world.play(step)
        for position, name in enumerate(world.naive.names):
            stale = world.naive.dirty_ancestors(name)
            assert set(world.warehouse.dirty_ancestors(name)) == stale
            assert world.warehouse.dirty(position) == len(stale)
            assert len(world.warehouse.dirty_ancestors(name)) == len(stale)


@unhurried
@given(objects=warehouses(), history=histories)
def test_staleness_and_the_measures_are_those_of_a_plain_integration(objects, history):
    world = World(objects)
    for step in history:
        world.play(step)
    world.wait(1.0)
    measures, naive = world.warehouse.measures, world.naive
    for position, name in enumerate(naive.names):
        assert world.warehouse.staleness(name, world.now) == pytest.approx(world.now - naive.current_to(name))
        assert measures.fresh_share(position, world.now) == pytest.approx(1 - naive.stale_time[name] / world.now)
        assert measures.staleness(position, world.now) == pytest.approx(naive.age_integral[name])
        assert measures.longest_spell(position, world.now) == pytest.approx(naive.longest_spell[name])


@unhurried
@given(objects=warehouses(), history=histories)
def test_knows_since_when_anything_derived_from_an_object_has_waited(objects, history):
    world = World(objects)
    for step in history:
        world.play(step)
        measures, number = world.warehouse.measures, world.warehouse.number
        for position, name in enumerate(world.naive.names):
            if world.naive.is_fresh(name):
                assert world.warehouse.behind[position] == math.inf
            else:
                below = {name, *world.naive.descendants(name)}
                assert world.warehouse.behind[position] == min(measures.stale_since(number(each)) for each in below)


@unhurried
@given(objects=warehouses(), history=histories)
def test_the_backlog_is_the_cost_of_everything_stale(objects, history):
    world = World(objects)
    for step in history:
        world.play(step)
        naive = world.naive
        stale = [name for name in naive.names if not naive.is_fresh(name) and not naive.is_virtual(name)]
        assert world.warehouse.work.backlog == pytest.approx(sum(map(naive.cost, stale)))


@unhurried
@given(objects=warehouses())
def test_popularity_counts_each_descendant_once(objects):
    world = World(objects)
    for position, name in enumerate(world.naive.names):
        assert world.warehouse.popularity(position) == world.naive.popularity(name)


def diamond() -> Warehouse:
    return Warehouse(
        [
            Table(name="flights", fixed=1),
            View(name="left", parents=("flights",), cost=2, access=0.25),
            View(name="right", parents=("flights",), cost=2, access=0.25),
            View(name="both", parents=("left", "right"), cost=2, access=0.5),
        ]
    )


def test_an_update_that_arrives_during_a_refresh_leaves_the_view_stale():
    warehouse = diamond()
    warehouse.apply(UpdateArrived(table="flights", at=1.0))
    warehouse.apply(JobStarted(object="flights", at=1.0))
    warehouse.apply(JobFinished(object="flights", at=2.0))
    warehouse.apply(JobStarted(object="left", at=2.0))
    warehouse.apply(UpdateArrived(table="flights", at=3.0))
    warehouse.apply(JobFinished(object="left", at=4.0))
    assert not warehouse.is_fresh("left")
    assert warehouse.staleness("left", now=4.0) == 3.0


def test_popularity_follows_a_change_of_access_up_to_the_tables():
    warehouse = diamond()
    assert warehouse.popularity(0) == 1.0
    warehouse.apply(AccessChanged(object="both", at=1.0, access=1.5))
    assert warehouse.popularity(0) == 2.0
    assert warehouse.popularity(1) == 1.75


def test_a_learnt_cost_counts_from_then_on():
    warehouse = diamond()
    warehouse.apply(UpdateArrived(table="flights", at=1.0))
    warehouse.apply(CostLearnt(object="flights", at=1.0, cost=5.0, per_update=0.5))
    warehouse.apply(CostLearnt(object="left", at=1.0, cost=4.0))
    assert warehouse.cost(0) == 5.5
    assert warehouse.work.backlog == 5.5 + 4 + 2 + 2
    assert warehouse.work.mean_refresh == 8 / 3


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (UpdateArrived(table="left", at=5.0), "it is a view"),
        (UpdateArrived(table="flihgts", at=5.0), "no object flihgts"),
        (JobStarted(object="flights", at=5.0), "nothing is pending"),
        (JobFinished(object="left", at=5.0), "none runs. left: current to 0, fresh"),
    ],
)
def test_refuses_what_cannot_follow_and_tells_the_story(event, words):
    with pytest.raises(IllegalMove, match=words):
        diamond().apply(event)


def test_an_object_cannot_run_twice_at_once():
    warehouse = diamond()
    warehouse.apply(UpdateArrived(table="flights", at=1.0))
    warehouse.apply(JobStarted(object="flights", at=1.0))
    with pytest.raises(IllegalMove, match="running since 1"):
        warehouse.apply(JobStarted(object="flights", at=2.0))


def test_a_late_event_counts_from_the_latest_time_known():
    warehouse = diamond()
    warehouse.apply(UpdateArrived(table="flights", at=5.0))
    warehouse.apply(JobStarted(object="flights", at=4.0))
    assert warehouse.now == 5.0
    assert warehouse.running[0].started == 5.0


def test_a_view_of_nothing_is_always_fresh():
    warehouse = Warehouse([View(name="constant", parents=(), cost=1)])
    assert warehouse.is_fresh("constant")
    assert warehouse.staleness("constant", now=7.0) == 0.0
    assert warehouse.current_to[0] == math.inf


def test_the_latest_sixteen_gaps_are_remembered():
    warehouse = Warehouse([Table(name="t")])
    for count in range(40):
        warehouse.apply(UpdateArrived(table="t", at=float(count * count)))
        known = [float(2 * each - 1) for each in range(1, count + 1)]
        assert list(warehouse.updates.gaps.get(0, ())) == known[-16:]
