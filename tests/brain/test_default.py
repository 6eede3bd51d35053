"""What the default policy promises beyond every policy: nothing that can start is forgotten."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain import POLICIES, AccessChanged, CostLearnt, Table, UpdateArrived, View, Warehouse
from scheduler_plugin.simulator.drive import Drive
from tests.brain.test_policies import chosen, without_starts
from tests.brain.worlds import World, unhurried, warehouses


def oldest_lacking(naive, name):
    """When the earliest update arrived that the object does not hold."""
    lacking = [
        naive.arrived[table][number]
        for table in naive.tables_of(name)
        for number in range(len(naive.arrived[table]))
        if (table, number) not in naive.holds(name)
    ]
    return min(lacking, default=math.inf)


@unhurried
@given(objects=warehouses(), history=without_starts, slots=st.integers(1, 3))
def test_what_is_overdue_goes_first_and_the_oldest_before_all(objects, history, slots):
    world, policy = World(objects, slots), POLICIES["default"]()
    for step in history:
        world.play(step)
        limit = policy.overdue_after(world.warehouse)
        ready = [name for name in world.naive.names if world.naive.may_start(name)]
        waits = {name: oldest_lacking(world.naive, name) for name in ready}
        overdue = sorted((name for name in ready if world.now - waits[name] > limit), key=lambda name: waits[name])
        first = [choice.object for choice in chosen(world, policy, slots)][: len(overdue)]
        assert [waits[name] for name in first] == [waits[name] for name in overdue[: len(first)]]


@unhurried
@given(objects=warehouses(virtual=False), waits=st.lists(st.sampled_from((0.5, 1.0, 2.0)), min_size=30, max_size=60))
def test_an_overdue_object_waits_for_each_other_object_at_most_once(objects, waits):
    """Updates without end, one slot: count the starts that go before an object from when it is overdue and ready."""
    world, policy = World(objects, 1), POLICIES["default"]()
    tables = list(world.naive.arrived)
    passed: dict[str, list[str]] = {}
    for number, wait in enumerate(waits):
        world.wait(wait)
        for name in sorted(world.naive.running):
            world.finish(name)
        if number % 3 == 0:
            world.arrive(tables[number % len(tables)])
        limit = policy.overdue_after(world.warehouse)
        overdue = {
            name
            for name in world.naive.names
            if world.naive.may_start(name) and world.now - oldest_lacking(world.naive, name) > limit
        }
        passed = {name: passed.get(name, []) for name in overdue}
        started = [choice.object for choice in chosen(world, policy, 1)]
        for name in overdue - set(started):
            passed[name] += started
            assert len(set(passed[name])) == len(passed[name])


@unhurried
@given(objects=warehouses(virtual=False), load=st.integers(1, 6), picks=st.lists(st.integers(0, 2), min_size=1))
def test_what_may_start_waits_at_most_nine_full_passes(objects, load, picks):
    """One slot, updates `load` times as often as it can follow, costs that do not depend on the batch."""
    objects = [replace(each, per_update=0.0) if isinstance(each, Table) else each for each in objects]
    warehouse, policy = Warehouse(objects), POLICIES["default"]()
    one_pass = warehouse.work.one_pass
    tables = [each.name for each in objects if isinstance(each, Table)]
    gap = max(0.25, math.ceil(one_pass / load) / 4)
    arrivals = [UpdateArrived(table=tables[pick % len(tables)], at=gap * n) for n, pick in enumerate(picks * 10)]
    drive = Drive(warehouse, policy, arrivals)
    since: dict[int, float] = {}
    for quarter in range(int(4 * arrivals[-1].at) + 1):  # everything happens at quarters
        now = quarter / 4
        drive.advance(now)
        since = {each: since.get(each, now) for each in warehouse.ready}
        for each, ready_since in since.items():
            overdue_since = max(ready_since, warehouse.missing[each] + 8 * one_pass)
            assert now - overdue_since <= one_pass


def test_a_view_that_nobody_reads_is_refreshed_while_others_are_busy():
    """Hot views alone would fill the slot for good."""
    objects = [
        Table(name="hot", fixed=0.25),
        Table(name="quiet", fixed=0.25),
        *(View(name=f"hot{number}", parents=("hot",), cost=1, access=1.0) for number in range(4)),
        View(name="cold", parents=("quiet",), cost=4, access=0.0),
    ]
    world, policy = World(objects, 1), POLICIES["default"]()
    world.arrive("quiet")
    ends = 0.0
    for quarter in range(400):
        world.wait(0.25)
        if quarter % 16 == 0:
            world.arrive("hot")
        if world.naive.running and world.now >= ends:
            world.finish(next(iter(world.naive.running)))
        if not world.naive.running:
            for choice in chosen(world, policy, 1):
                ends = world.now + world.naive.cost(choice.object)
    assert world.naive.is_fresh("cold")


@unhurried
@given(objects=warehouses(), history=without_starts, changes=st.lists(st.integers(0, 8), min_size=1))
def test_a_policy_made_a_moment_ago_decides_like_one_that_was_always_there(objects, history, changes):
    world, policy = World(objects, 2), POLICIES["default"]()
    for number, step in enumerate(history):
        world.play(step)
        name, value = objects[step.pick % len(objects)].name, changes[number % len(changes)] / 3
        change = AccessChanged(object=name, at=world.now, access=value)
        world.warehouse.apply(change if number % 2 else CostLearnt(object=name, at=world.now, cost=value))
        new = POLICIES["default"]()
        for position in range(len(objects)):
            known, found = (each.ingredients(world.warehouse, position, world.now) for each in (policy, new))
            assert known == found
        free = list(range(len(world.warehouse.running), 2))
        assert policy.choose(world.warehouse, world.now, free) == new.choose(world.warehouse, world.now, free)
        chosen(world, policy, 2)
