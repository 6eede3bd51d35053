"""The refresh model against the paper's example, a plain reading of its rules, brute force, and the brain itself."""

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain import POLICIES as BRAIN
from scheduler_plugin.brain import Table, UpdateArrived, View, Warehouse
from scheduler_plugin.simulator import optimal
from scheduler_plugin.simulator.drive import Drive
from scheduler_plugin.simulator.refresh import POLICIES, simulate
from scheduler_plugin.simulator.workload import WorkloadError

ONLINE = ("fifo", "fifo_pop", "qoda")
ORDERS = ("arrival", "any")


def relation(name, cost=1):
    return {"id": name, "kind": "relation", "cost": cost}


def view(name, parents, cost=1, access=0.0, materialized=True):
    kept = {"id": name, "kind": "view", "access": access, "parents": parents.split(), "materialized": materialized}
    return {**kept, "cost": cost} if materialized else kept


def update(t, name):
    return {"t": t, "relation": name}


#: Section 4.1: two relations, six materialized views and two virtual ones, updates at 0 and 3.
EXAMPLE = {
    "model": "refresh",
    "horizon": 16,
    "objects": [
        relation("r1"),
        relation("r2"),
        view("v1", "r1", access=0.12),
        view("v2", "r1", cost=2, access=0.37),
        view("v3", "r1 r2", cost=3, access=0.19),
        view("v4", "r2", access=0.09),
        view("v5", "v3 v4", access=0.07),
        view("v6", "v5", access=0.06),
        view("v7", "r1", access=0.05, materialized=False),
        view("v8", "v4", access=0.05, materialized=False),
    ],
    "updates": [update(0, "r1"), update(3, "r2")],
}


def order(found):
    return " ".join(ran["object"] for ran in found["schedule"])


@pytest.mark.parametrize(
    ("policy", "qod", "schedule"),
    [
        ("fifo", 0.513125, "r1 v1 v2 v3 v5 v6 r2 v3 v4 v5 v6"),
        ("fifo_pop", 0.49875, "r1 v2 v3 v1 v5 v6 r2 v3 v4 v5 v6"),
        ("qoda", 0.673125, "r1 v2 r2 v4 v1 v3 v5 v6"),
        ("optimal", 0.679375, "r1 v2 v1 r2 v4 v3 v5 v6"),
    ],
)
def test_the_papers_example(policy, qod, schedule):
    found = simulate(EXAMPLE, policy, {})
    assert found["metrics"]["qod"] == pytest.approx(qod, abs=1e-12)
    assert order(found) == schedule


class Plain:
    """The rules as they read: each object holds a number of updates of each relation, and nothing is kept in flags."""

    def __init__(self, workload):
        self.objects = {each["id"]: each for each in workload["objects"]}
        self.names = list(self.objects)
        self.updates = sorted(workload["updates"], key=lambda each: each["t"])
        self.horizon = workload["horizon"]
        self.slots = workload.get("slots", 1)
        self.holds = {name: dict.fromkeys(self.ancestors(name), 0) for name in self.names}
        self.running = {}  # slot -> (end, object, what it will hold)
        self.arrived = self.begun = ()
        self.now = self.gained = 0

    def parents(self, name):
        return self.objects[name].get("parents", [])

    def ancestor_objects(self, name):
        return {each for parent in self.parents(name) for each in {parent} | self.ancestor_objects(parent)}

    def ancestors(self, name):
        """The relations behind an object; a relation is its own."""
        return {each for each in {name} | self.ancestor_objects(name) if self.objects[each]["kind"] == "relation"}

    def is_virtual(self, name):
        return not self.objects[name].get("materialized", True)

    def content(self, name):
        if not self.is_virtual(name):
            return self.holds[name]
        return {r: min(self.content(p).get(r, math.inf) for p in self.parents(name)) for r in self.ancestors(name)}

    def fresh(self, name):
        return all(held == self.arrived.count(r) for r, held in self.content(name).items())

    def busy(self, name):
        return any(each == name for _, each, _ in self.running.values())

    def start(self, name, slot):
        if self.objects[name]["kind"] == "relation":
            self.begun += (name,)
            will = {name: self.begun.count(name)}
        else:
            read = [self.content(parent) for parent in self.parents(name)]
            will = {r: min(each.get(r, math.inf) for each in read) for r in self.ancestors(name)}
        self.running[slot] = (self.now + self.objects[name]["cost"], name, will)

    def next_instant(self):
        ends = [end for end, _, _ in self.running.values()]
        return min([*ends, *(each["t"] for each in self.updates[len(self.arrived) :])], default=None)

    def move_to(self, then):
        """Lets time pass, then ends what ends and takes in what arrives; answers with what ended."""
        views = [each for each in self.objects.values() if each["kind"] == "view" and self.fresh(each["id"])]
        self.gained += sum(each["access"] for each in views) * max(0, min(then, self.horizon) - min(self.now, then))
        self.now = then
        ended = [slot for slot, (end, _, _) in sorted(self.running.items()) if end == then]
        done = []
        for slot in ended:
            _, name, will = self.running.pop(slot)
            self.holds[name] = will
            done.append(name)
        while len(self.arrived) < len(self.updates) and self.updates[len(self.arrived)]["t"] == then:
            self.arrived += (self.updates[len(self.arrived)]["relation"],)
        return done

    def may_load(self, name, relation_order):
        """Whether the relation has an update to start, and its turn has come."""
        if self.begun.count(name) >= self.arrived.count(name):
            return False
        return relation_order == "any" or self.arrived[len(self.begun)] == name


def plain_qoda(world, relation_order):
    def pop(name):
        below = [each for each in world.names if name == each or name in world.ancestor_objects(each)]
        return math.fsum(world.objects[each].get("access", 0) for each in below)

    def rank(name):
        cost = world.objects[name]["cost"]
        return -(pop(name) / cost if cost else math.inf), world.names.index(name)

    may = [
        name
        for name in world.names
        if not world.is_virtual(name)
        and not world.fresh(name)
        and not world.busy(name)
        and all(map(world.fresh, world.ancestor_objects(name)))
        and (world.objects[name]["kind"] == "view" or world.may_load(name, relation_order))
    ]
    return min(may, key=rank, default=None)


class PlainFifo:
    def __init__(self, world, by_access):
        self.world, self.by_access, self.queue, self.under_way = world, by_access, [], []

    def level(self, name, first):
        """Longest path from `first`; None where there is none."""
        if name == first:
            return 0
        above = [self.level(parent, first) for parent in self.world.parents(name)]
        return max((1 + each for each in above if each is not None), default=None)

    def enqueue(self, number, first):
        world = self.world
        below = [each for each in world.names if first in world.ancestor_objects(each) and not world.is_virtual(each)]
        if self.by_access:
            below.sort(key=lambda each: (-world.objects[each]["access"], world.names.index(each)))
        else:
            below.sort(key=lambda each: (self.level(each, first), world.names.index(each)))
        self.queue += [(number, each) for each in [first, *below]]

    def take(self, relation_order):
        world = self.world
        for place, (number, name) in enumerate(self.queue):
            earlier = self.queue[:place]
            mine = {each for other, each in earlier + self.queue[place + 1 :] if other == number}
            mine |= {each for other, each in self.under_way if other == number}
            if world.busy(name) or any(each == name for _, each in earlier) or mine & world.ancestor_objects(name):
                continue
            if world.objects[name]["kind"] == "relation" and not world.may_load(name, relation_order):
                continue
            self.under_way.append(self.queue.pop(place))
            return name
        return None

    def finished(self, name):
        self.under_way = [each for each in self.under_way if each[1] != name]


def plain(workload, policy, relation_order):
    """(schedule, QoD)"""
    world = Plain(workload)
    fifo = PlainFifo(world, policy == "fifo_pop")
    schedule = []
    while (then := world.next_instant()) is not None:
        seen = len(world.arrived)
        for name in world.move_to(then):
            if policy != "qoda":
                fifo.finished(name)
        for number in range(seen, len(world.arrived)):
            fifo.enqueue(number, world.arrived[number])
        for slot in range(world.slots):
            if slot in world.running:
                continue
            name = plain_qoda(world, relation_order) if policy == "qoda" else fifo.take(relation_order)
            if name is None:
                break
            world.start(name, slot)
            schedule.append((then, world.running[slot][0], name, slot))
    world.move_to(max(world.now, world.horizon))
    return schedule, world.gained / world.horizon


@st.composite
def workloads(draw, most_views=6, most_updates=6, most_slots=3, costs=(0, 4), most_time=30):
    cost = st.integers(*costs)
    relations = [relation(f"r{number}", draw(cost)) for number in range(draw(st.integers(1, 3)))]
    objects = list(relations)
    for number in range(draw(st.integers(0, most_views))):
        parents = draw(st.lists(st.sampled_from([each["id"] for each in objects]), max_size=3, unique=True))
        materialized = draw(st.integers(0, 3)) > 0
        access = draw(st.integers(0, 4)) / 8
        objects.append(view(f"v{number}", " ".join(parents), draw(cost), access, materialized))
    names = st.sampled_from([each["id"] for each in relations])
    updates = draw(st.lists(st.builds(update, st.integers(0, 12), names), max_size=most_updates))
    shuffled = draw(st.permutations(objects))  # a view may be declared before what it reads
    return {
        "objects": shuffled,
        "updates": updates,
        "horizon": draw(st.integers(1, most_time)),
        "slots": draw(st.integers(1, most_slots)),
    }


def jobs(found):
    return [(ran["start"], ran["end"], ran["object"], ran["slot"]) for ran in found["schedule"]]


@pytest.mark.parametrize("relation_order", ORDERS)
@pytest.mark.parametrize("policy", ONLINE)
@settings(max_examples=80)
@given(workload=workloads())
def test_schedule_and_qod_are_those_of_the_plain_rules(policy, relation_order, workload):
    schedule, qod = plain(workload, policy, relation_order)
    found = simulate(workload, policy, {"relation_order": relation_order})
    assert jobs(found) == schedule
    assert found["metrics"]["qod"] == pytest.approx(qod, abs=1e-9)


def one_update_at_a_time(policy):
    choose = policy.choose
    policy.choose = lambda *given: [dataclasses.replace(each, updates=1) for each in choose(*given)]
    return policy


@pytest.mark.parametrize("policy", ["fifo", "qoda"])
@settings(max_examples=80)
@given(workload=workloads())
def test_the_brain_does_the_same(policy, workload):
    """The warehouse and the policies of the live scheduler, one update at a time, take the very same decisions."""
    declared = [
        Table(name=each["id"], fixed=each["cost"])
        if each["kind"] == "relation"
        else View(
            name=each["id"],
            parents=tuple(each["parents"]),
            cost=each.get("cost", 0),
            access=each["access"],
            materialized=each["materialized"],
        )
        for each in workload["objects"]
    ]
    warehouse = Warehouse(declared, slots=workload["slots"], until=workload["horizon"])
    updates = sorted(workload["updates"], key=lambda each: each["t"])
    brain = one_update_at_a_time(BRAIN[policy]())
    brain.choose(warehouse, 0.0, [])  # it follows from the start, and so knows the order within the first instant
    drive = Drive(warehouse, brain, (UpdateArrived(table=each["relation"], at=each["t"]) for each in updates))
    drive.advance()
    found = simulate(workload, policy, {"relation_order": "any"})
    assert jobs(found) == jobs({"schedule": drive.schedule})
    views = [(position, warehouse.access[position]) for position, each in enumerate(declared) if isinstance(each, View)]
    qod = warehouse.measures.qod(views, workload["horizon"])
    assert found["metrics"]["qod"] == pytest.approx(qod, abs=1e-9)


def brute_force(workload, relation_order):
    """The best QoD over every way to start anything, or nothing, at every whole instant."""
    best = 0.0

    def explore(world):
        nonlocal best
        if world.now >= world.horizon:
            best = max(best, world.gained / world.horizon)
            return
        free = [slot for slot in range(world.slots) if slot not in world.running]
        if free:
            for name in world.names:
                is_view = world.objects[name]["kind"] == "view"
                if world.busy(name) or world.is_virtual(name):
                    continue
                if is_view or world.may_load(name, relation_order):
                    after = copy_of(world)
                    after.start(name, free[0])
                    explore(after)
        idle = copy_of(world)
        idle.move_to(world.now + 1)
        explore(idle)

    first = Plain(workload)
    first.move_to(0)
    explore(first)
    return best


def copy_of(world):
    new = object.__new__(Plain)
    new.__dict__ = {**world.__dict__, "holds": dict(world.holds), "running": dict(world.running)}
    return new


@pytest.mark.parametrize("relation_order", ORDERS)
@settings(max_examples=40, deadline=None)
@given(
    workload=workloads(most_views=2, most_updates=3, most_slots=2, costs=(1, 3), most_time=6).filter(
        lambda workload: len(workload["objects"]) <= 4
    )
)
def test_optimal_is_what_brute_force_finds(relation_order, workload):
    found = simulate(workload, "optimal", {"relation_order": relation_order})
    assert found["metrics"]["qod"] == pytest.approx(brute_force(workload, relation_order), abs=1e-9)


@pytest.mark.parametrize("relation_order", ORDERS)
@pytest.mark.parametrize("policy", ONLINE)
@settings(max_examples=40, deadline=None)
@given(workload=workloads(most_views=4, most_updates=4))
def test_no_policy_beats_the_optimum(policy, relation_order, workload):
    params = {"relation_order": relation_order}
    best = simulate(workload, "optimal", params)["metrics"]["qod"]
    assert simulate(workload, policy, params)["metrics"]["qod"] <= best + 1e-9


def test_optimal_says_when_the_input_is_too_large_for_it(monkeypatch):
    monkeypatch.setattr(optimal, "MOST_STATES", 1000)
    views = [view(f"v{number}", "r", access=1 + number % 7, cost=1 + number % 5) for number in range(40)]
    updates = [update(3 * number, "r") for number in range(40)]
    workload = {"horizon": 500, "objects": [relation("r"), *views], "updates": updates}
    with pytest.raises(WorkloadError, match="small inputs"):
        simulate(workload, "optimal", {})


def test_an_update_that_arrives_during_a_refresh_leaves_the_view_stale():
    objects = [relation("r"), view("v", "r", cost=4, access=1)]
    found = simulate({"horizon": 20, "objects": objects, "updates": [update(0, "r"), update(3, "r")]}, "qoda", {})
    # r 0-1, v 1-5 and stale after it, r 5-6, v 6-10.
    assert order(found) == "r v r v"
    assert found["metrics"]["per_view"] == {"v": 0.5}


def test_every_update_of_a_relation_is_an_operation_of_its_own():
    objects = [relation("r", cost=2), view("v", "r", access=1)]
    updates = [update(0, "r"), update(0, "r"), update(1, "r")]
    assert order(simulate({"horizon": 9, "objects": objects, "updates": updates}, "qoda", {})) == "r r r v"
    assert order(simulate({"horizon": 9, "objects": objects, "updates": updates}, "fifo", {})) == "r v r v r v"


def test_relation_order_decides_whether_a_hot_relation_may_overtake_a_cold_one():
    objects = [relation("cold"), relation("hot"), view("a", "cold", access=0.1), view("b", "hot", access=0.9)]
    workload = {"horizon": 9, "objects": objects, "updates": [update(0, "cold"), update(0, "hot")]}
    assert order(simulate(workload, "qoda", {})) == "cold hot b a"
    assert order(simulate(workload, "qoda", {"relation_order": "any"})) == "hot b cold a"


def test_a_virtual_view_may_stand_between_materialized_ones():
    objects = [relation("r"), view("w", "r", access=0.5, materialized=False), view("v", "w", access=0.5)]
    found = simulate({"horizon": 4, "objects": objects, "updates": [update(0, "r")]}, "fifo", {})
    assert order(found) == "r v"
    assert found["metrics"] == {"qod": 0.625, "per_view": {"w": 0.75, "v": 0.5}}


def test_qod_by_step_averages_to_the_qod():
    found = simulate(EXAMPLE, "qoda", {"every": "2"})
    assert found["series"]["t"] == [2, 4, 6, 8, 10, 12, 14, 16]
    assert sum(found["series"]["qod"]) / 8 == pytest.approx(found["metrics"]["qod"])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"horizon": None}, "horizon"),
        ({"horizon": 0}, "horizon"),
        ({"slots": 0}, "slots"),
        ({"objects": {}}, "objects"),
        ({"objects": [relation("r", cost=-1)]}, r"objects\[0\].cost"),
        ({"objects": [relation("r", cost=math.nan)]}, r"objects\[0\].cost"),
        ({"objects": [{"id": "r", "kind": "relatoin", "cost": 1}]}, r"objects\[0\].kind .* Did you mean relation"),
        ({"objects": [relation("r"), view("v", "r", access=-1)]}, r"objects\[1\].access"),
        ({"objects": [relation("r"), view("v", "q")]}, r"objects\[1\].parents\[0\] is q"),
        ({"objects": [relation("r"), view("v", "w"), view("w", "v")]}, "objects: .* circle"),
        ({"objects": [relation("r"), relation("r")]}, "objects: the id r is declared twice"),
        ({"updates": [update(-1, "r")]}, r"updates\[0\].t"),
        ({"updates": [update(0, "v")]}, r"updates\[0\].relation"),
        ({"updates": [update(0, "x")]}, r"updates\[0\].relation"),
        ({"updates": [{"relation": "r"}]}, r"updates\[0\].t is missing"),
        ({"objects": [relation("r", 1e308)], "updates": [update(1e308, "r")]}, "largest number"),
    ],
)
def test_a_malformed_workload_is_refused_by_field(change, field):
    workload = {"horizon": 9, "objects": [relation("r"), view("v", "r")], "updates": [], **change}
    with pytest.raises(WorkloadError, match=field):
        simulate(workload, "qoda", {})


def test_every_policy_answers_an_empty_world():
    for policy in POLICIES:
        found = simulate({"horizon": 1, "objects": [], "updates": []}, policy, {})
        assert found["metrics"] == {"qod": 0.0, "per_view": {}}
