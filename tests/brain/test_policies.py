"""What every policy promises, whatever happened before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain import POLICIES, PolicyError, Table, UpdateArrived, View, Warehouse
from tests.brain.worlds import World, histories, quarters, unhurried, warehouses

every_policy = pytest.mark.parametrize("name", POLICIES)

#: What happens without the policy: never a start.
without_starts = histories.map(lambda history: [step for step in history if step.kind != "start"])


def chosen(world, policy, slots):
    """Asks the policy, starts what it chose, and returns the choices."""
    free = list(range(len(world.warehouse.running), slots))
    choices = policy.choose(world.warehouse, world.now, free)
    assert [choice.slot for choice in choices] == sorted({choice.slot for choice in choices} & set(free))
    for choice in choices:
        world.start(choice.object, choice.updates)
    return choices


@every_policy
@unhurried
@given(objects=warehouses(), history=without_starts, slots=st.integers(0, 4))
def test_fills_the_free_slots_with_idle_objects_and_leaves_none_without_need(name, objects, history, slots):
    world, policy = World(objects, slots), POLICIES[name]()
    for step in history:
        world.play(step)
        busy, may_start = set(world.naive.running), {each for each in world.naive.names if world.naive.may_start(each)}
        stale = {each for each in world.naive.names if world.naive.dirty_ancestors(each)}
        choices = chosen(world, policy, slots)
        objects_chosen = [choice.object for choice in choices]
        assert len(world.naive.running) <= max(slots, len(busy))
        assert len(set(objects_chosen)) == len(objects_chosen)
        assert not busy & set(objects_chosen)
        assert not world.naive.held & set(objects_chosen)
        if not policy.runs_dirty:
            assert not stale & set(objects_chosen)
        if not policy.idles:
            left = may_start - set(objects_chosen)
            blocked = policy.runs_dirty and world.naive.held  # FIFO waits behind what is held
            assert not left or len(world.naive.running) >= slots or blocked


@every_policy
@unhurried
@given(objects=warehouses(), history=without_starts, slots=st.integers(1, 3))
def test_equal_worlds_get_equal_answers(name, objects, history, slots):
    worlds, policies = [World(objects, slots), World(objects, slots)], [POLICIES[name](), POLICIES[name]()]
    for step in history:
        for world in worlds:
            world.play(step)
        first, second = (chosen(world, policy, slots) for world, policy in zip(worlds, policies, strict=True))
        assert first == second


@every_policy
@unhurried
@given(objects=warehouses(), history=without_starts, slots=st.integers(1, 3))
def test_asking_twice_changes_nothing(name, objects, history, slots):
    world, policy = World(objects, slots), POLICIES[name]()
    for step in history:
        world.play(step)
        free = list(range(len(world.warehouse.running), slots))
        first = policy.choose(world.warehouse, world.now, free)
        assert policy.choose(world.warehouse, world.now, free) == first
        chosen(world, policy, slots)


@every_policy
@unhurried
@given(objects=warehouses(), history=without_starts)
def test_the_explanation_agrees_with_the_choice(name, objects, history):
    world, policy = World(objects, 2), POLICIES[name]()
    for step in history:
        world.play(step)
        choices = policy.choose(world.warehouse, world.now, [0])
        for choice in choices:
            told = policy.explain(world.warehouse, world.now, choice.object)
            assert (told.rank, told.ahead, told.impact, told.why) == (1, (), choice.impact, choice.why)
        for each in world.naive.names:
            told = policy.explain(world.warehouse, world.now, each)
            assert set(told.dirty_ancestors) == world.naive.dirty_ancestors(each)
            if told.rank is not None:
                assert len(told.ahead) == told.rank - 1
                assert each not in {other.object for other in told.ahead}
                assert told.ingredients
        chosen(world, policy, 2)


@every_policy
@unhurried
@given(objects=warehouses(), history=without_starts, split=st.sets(st.integers(0, 9)))
def test_groups_of_slots_share_the_work_and_keep_apart(name, objects, history, split):
    groups = [
        [each.name for position, each in enumerate(objects) if (position in split) is side] for side in (True, False)
    ]
    world = World(objects, 2)
    policies = [POLICIES[name](members=group, slots=1) for group in groups]
    for step in history:
        world.play(step)
        for group, policy in zip(groups, policies, strict=True):
            if not set(group) & set(world.naive.running):
                choices = policy.choose(world.warehouse, world.now, [0])
                assert {choice.object for choice in choices} <= set(group)
                for choice in choices:
                    world.start(choice.object, choice.updates)
                could = {each for each in group if world.naive.may_start(each)}
                assert choices or not could or policy.idles or policy.runs_dirty


@every_policy
@unhurried
@given(objects=warehouses(virtual=False), arrivals=st.lists(st.integers(0, 2), max_size=12))
def test_everything_is_fresh_in_the_end(name, objects, arrivals):
    world, policy = World(objects, slots=12), POLICIES[name]()
    tables = list(world.naive.arrived)
    for pick in arrivals:
        world.wait(1.0)
        world.arrive(tables[pick % len(tables)])
    for _ in range(len(arrivals) * len(objects) + 1):
        world.wait(1.0)
        for each in sorted(world.naive.running):
            world.finish(each)
        chosen(world, policy, 12)
    assert all(map(world.naive.is_fresh, world.naive.names))
    assert not world.naive.running


@every_policy
@unhurried
@given(objects=warehouses(), history=without_starts, limit=st.integers(0, 4))
def test_the_best_few_are_the_first_of_all(name, objects, history, limit):
    world, policy = World(objects, 2), POLICIES[name]()
    for step in history:
        world.play(step)
        everything = policy.candidates(world.warehouse, world.now)
        assert policy.candidates(world.warehouse, world.now, limit) == everything[:limit]
        chosen(world, policy, 2)


def has_ties(world, policy):
    """Whether any two candidates are equal in what the policy compares, or in what it makes of them."""
    found = policy.candidates(world.warehouse, world.now)
    orders = [policy.order(world.warehouse, world.warehouse.number(each.object), world.now) for each in found]
    return len({each.impact for each in found}) < len(found) or len(set(orders)) < len(found)


@every_policy
@unhurried
@given(objects=warehouses(), history=without_starts, order=st.randoms(use_true_random=False))
def test_the_order_of_declaration_settles_nothing_but_ties(name, objects, history, order):
    shuffled = list(objects)
    order.shuffle(shuffled)
    first, second = World(objects, 1), World(shuffled, 1)
    policy, other = POLICIES[name](), POLICIES[name]()
    for step in history:
        first.play(step)
        second.play(step)
        if has_ties(first, policy):
            return  # from here on the two may part
        assert chosen(first, policy, 1) == chosen(second, other, 1)


def test_a_parameter_that_is_not_known_is_refused():
    with pytest.raises(PolicyError, match="no parameter speed"):
        POLICIES["qoda"]({"speed": "3"})


def chain():
    return Warehouse(
        [
            Table(name="flights", fixed=1, per_update=0.5, period=10),
            Table(name="weather", fixed=1, per_update=0.5, period=60),
            View(name="delays", parents=("flights",), cost=2, access=0.5),
            View(name="board", parents=("delays", "weather"), cost=1, access=0.5, materialized=False),
        ],
        slots=4,
    )


def test_qoda_counts_descendants_behind_virtual_views():
    warehouse = chain()
    warehouse.apply(UpdateArrived(table="flights", at=10.0))
    warehouse.apply(UpdateArrived(table="weather", at=10.0))
    told = POLICIES["qoda"]().explain(warehouse, 10.0, "weather")
    assert told.ingredients == {"popularity": 0.5, "cost": 1.5}
    assert [each.object for each in told.ahead] == ["flights"]
    assert POLICIES["qoda"]().explain(warehouse, 10.0, "board").state == "virtual: fresh when its parents are"


def test_group_and_run_keeps_rhythms_apart():
    warehouse = chain()
    warehouse.apply(UpdateArrived(table="weather", at=10.0))
    warehouse.apply(UpdateArrived(table="flights", at=11.0))
    choices = POLICIES["group_and_run"]().choose(warehouse, 11.0, [0, 1, 2, 3])
    # Two groups of one table each, so one slot each, and two slots stay idle.
    assert [(choice.object, choice.slot) for choice in choices] == [("flights", 0), ("weather", 1)]


def test_fifo_gives_every_update_its_own_load():
    warehouse = chain()
    for at in (10.0, 11.0):
        warehouse.apply(UpdateArrived(table="flights", at=at))
    [choice] = POLICIES["fifo"]().choose(warehouse, 11.0, [0, 1])
    assert (choice.object, choice.updates, choice.why) == ("flights", 1, "queued 1 s ago")


def test_a_reason_is_written_for_people_also_when_figures_are_large():
    warehouse = chain()
    warehouse.apply(UpdateArrived(table="flights", at=10.0))
    [choice] = POLICIES["fifo"]().choose(warehouse, 12_355.4, [0])
    assert choice.why == "queued 12,345 s ago"


@given(wait=quarters)
def test_myopic_looks_at_the_oldest_pending_release(wait):
    warehouse = chain()
    warehouse.apply(UpdateArrived(table="weather", at=10.0))
    warehouse.apply(UpdateArrived(table="flights", at=10.0 + wait))
    [choice] = POLICIES["myopic"]().choose(warehouse, 20.0, [0])
    assert choice.object == ("weather" if wait > 0 else "flights")
