"""What the default policy promises beyond every policy: nothing that can start is forgotten."""

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain import POLICIES, AccessChanged, Table, View, Warehouse
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
@given(objects=warehouses(), changes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 8)), max_size=6))
def test_a_policy_made_a_moment_ago_knows_what_one_that_was_always_there_knows(objects, changes):
    changed, policy = Warehouse(objects), POLICIES["default"]()
    for position in range(len(objects)):
        policy.ingredients(changed, position, 0.0)
    for pick, access in changes:
        changed.apply(AccessChanged(object=objects[pick % len(objects)].name, at=1.0, access=access / 4))
    counted_anew = POLICIES["default"]()
    for position in range(len(objects)):
        assert policy.ingredients(changed, position, 1.0) == counted_anew.ingredients(changed, position, 1.0)
