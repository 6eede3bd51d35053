"""Staleness limits: kept where they can be, given up by worth where they cannot, of no effect where there are none."""

import math
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain import POLICIES, LimitChanged, Table, UpdateArrived, View, Warehouse
from scheduler_plugin.simulator.drive import Drive
from tests.brain.test_policies import without_starts
from tests.brain.worlds import World, unhurried, warehouses

whole = st.integers(1, 4)


def played(objects, arrivals, slots=1):
    """The finished drive, and by how much each object with a limit ever passed it after its first data."""
    warehouse = Warehouse(objects, slots=slots)
    drive = Drive(warehouse, POLICIES["default"](), iter(sorted(arrivals, key=lambda each: each.at)))
    passed = dict.fromkeys(warehouse.limits, -math.inf)
    for quarter in range(int(4 * max(each.at for each in arrivals)) + 1):
        drive.advance(quarter / 4)
        for each, limit in warehouse.limits.items():
            if warehouse.current_to[each] > 0:
                passed[each] = max(passed[each], quarter / 4 - warehouse.current_to[each] - limit)
    return drive, {warehouse.graph.names[each]: by for each, by in passed.items()}


def every(period, table, until=120):
    return [UpdateArrived(table=table, at=float(at)) for at in range(period, until, period)]


@unhurried
@given(costs=st.lists(st.tuples(whole, whole), min_size=1, max_size=3), reads=st.integers(0, 1000), busy=whole)
def test_limits_that_earliest_due_first_could_keep_are_kept(costs, reads, busy):
    """One slot. Each period asks for all the chains, a job that is in the way, and whatever else fits in a tenth."""
    objects = [Table(name="loud", fixed=0.25), View(name="read", parents=("loud",), cost=float(busy), access=reads)]
    work = sum(map(sum, costs)) + busy + 0.25
    period = math.ceil(1.5 * work)
    for number, (load, refresh) in enumerate(costs):
        limit = period + work + max(busy, *(max(each) for each in costs))
        objects += [
            Table(name=f"t{number}", fixed=float(load)),
            View(name=f"v{number}", parents=(f"t{number}",), cost=float(refresh), limit=float(limit)),
        ]
    tables = [each.name for each in objects if isinstance(each, Table)]
    _, passed = played(objects, [update for table in tables for update in every(period, table, 12 * period)])
    assert all(by <= 0 for by in passed.values())


def two_marts(limit):
    """A view that all read and one that nobody reads but for a report; together more than the slot can do."""
    return [
        Table(name="hot", fixed=0.5),
        *(View(name=f"hot{number}", parents=("hot",), cost=2, access=10.0) for number in range(3)),
        Table(name="quiet", fixed=0.5),
        View(name="report", parents=("quiet",), cost=1, access=0.001, limit=limit),
    ]


def test_a_limit_brings_an_object_forward_that_its_readers_would_not():
    arrivals = [*every(4, "hot"), *every(10, "quiet")]
    _, kept = played(two_marts(limit=15.0), arrivals)
    without, _ = played(two_marts(limit=None), arrivals)
    assert kept["report"] <= 0
    refreshed = [ran["end"] for ran in without.schedule if ran["object"] == "report"]
    assert max(later - earlier for earlier, later in pairwise(refreshed)) > 15


def test_urgency_comes_before_the_breach_and_says_so():
    warehouse, policy = Warehouse(two_marts(limit=15.0)), POLICIES["default"]()
    for table in ("hot", "quiet"):
        warehouse.apply(UpdateArrived(table=table, at=10.0))
    assert policy.choose(warehouse, 10.0, [0])[0].object == "hot"
    (choice,) = policy.choose(warehouse, 13.4, [0])
    assert choice.object == "quiet"
    assert choice.why == "limit: the limit of report (15 s) is to be kept for 1.6 s more"
    told = policy.ingredients(warehouse, warehouse.number("quiet"), 13.0)
    assert (told["limit_passed_in"], told["limit_work"], told["limit_given_up"]) == (2.0, 1.5, 0.0)


def test_where_not_all_limits_can_be_kept_the_one_least_worth_is_given_up_and_named():
    objects = [
        Table(name="a"),
        Table(name="b"),
        Table(name="c"),
        View(name="much_read", parents=("a",), cost=3, access=5.0, limit=9.0),
        View(name="little_read", parents=("b",), cost=3, access=1.0, limit=9.0),
        View(name="hardly_read", parents=("c",), cost=3, access=0.5, limit=9.0),
    ]
    warehouse, policy = Warehouse(objects), POLICIES["default"]()
    for table in ("a", "b", "c"):
        warehouse.apply(UpdateArrived(table=table, at=2.0))
    assert policy.given_up(warehouse, 0.0) == []
    assert [each.object for each in policy.given_up(warehouse, 2.0)] == ["hardly_read"]
    assert [each.object for each in policy.given_up(warehouse, 5.0)] == ["hardly_read", "little_read"]
    told = policy.explain(warehouse, 5.0, "c").why
    assert "the limit of hardly_read (9 s) is given up: not all limits can be kept" in told
    assert policy.choose(warehouse, 5.0, [0])[0].object == "a"


def test_limits_that_nothing_can_keep_take_half_of_the_slots_at_most():
    """Two slots; what has limits no slot could keep must not drive out what is read."""
    objects = [
        *(Table(name=f"t{number}") for number in range(9)),
        *(View(name=f"v{number}", parents=(f"t{number}",), cost=4, limit=1.0) for number in range(8)),
        View(name="read", parents=("t8",), cost=4, access=1.0),
    ]
    arrivals = [update for number in range(9) for update in every(4, f"t{number}", 80)]
    drive, _ = played(objects, arrivals, slots=2)
    assert sum(ran["object"] == "read" for ran in drive.schedule) >= 12


def test_a_silent_table_makes_no_haste_for_what_cannot_become_newer():
    """The view is past its limit for as long as one of its tables is silent, whatever is run."""
    objects = [
        Table(name="silent"),
        Table(name="loud", fixed=1),
        View(name="both", parents=("silent", "loud"), cost=1, limit=30.0),
    ]
    warehouse, policy = Warehouse(objects), POLICIES["default"]()
    warehouse.apply(UpdateArrived(table="loud", at=28.0))
    assert "limit" not in policy.choose(warehouse, 28.0, [0])[0].why
    warehouse.apply(UpdateArrived(table="silent", at=28.0))
    assert policy.choose(warehouse, 28.0, [0])[0].why == "limit: the limit of both (30 s) is to be kept for 2 s more"


@unhurried
@given(objects=warehouses(), history=without_starts)
def test_limits_far_away_change_nothing(objects, history):
    free = [replace(each, limit=None) for each in objects]
    far = [replace(each, limit=1e6) for each in objects]
    worlds, policies = [World(free), World(far)], [POLICIES["default"](), POLICIES["default"]()]
    for step in history:
        chosen = []
        for world, policy in zip(worlds, policies, strict=True):
            world.play(step)
            chosen.append(policy.choose(world.warehouse, world.now, range(len(world.warehouse.running), 2)))
            for choice in chosen[-1]:
                world.start(choice.object)
        assert chosen[0] == chosen[1]


@unhurried
@given(objects=warehouses(), history=without_starts, picks=st.lists(st.integers(0, 40), min_size=1))
def test_limits_that_change_count_as_if_they_had_always_been_so(objects, history, picks):
    world, policy = World(objects), POLICIES["default"]()
    for number, step in enumerate(history):
        world.play(step)
        pick = picks[number % len(picks)]
        limit = pick / 4 if pick else None
        world.warehouse.apply(LimitChanged(object=objects[pick % len(objects)].name, at=world.now, limit=limit))
        new, free = POLICIES["default"](), range(len(world.warehouse.running), 2)
        choices = policy.choose(world.warehouse, world.now, free)
        assert choices == new.choose(world.warehouse, world.now, free)
        for choice in choices:
            world.start(choice.object)
