"""Queries that wait and updates they would like are weighed together: within the bound, in the queries' order."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain import CostLearnt, JobFinished, JobStarted, Table, UpdateArrived, View, Warehouse
from scheduler_plugin.brain.demands import Demand, Demands
from scheduler_plugin.brain.weighing import Weighed, weigh

NAMES = ("a", "b", "c", "v", "w")


class World(NamedTuple):
    """Three stale tables and two views, each with its cost."""

    warehouse: Warehouse
    demands: Demands

    def wish(self, query: int, prefer: float, names: str, deadline: float = 1e6) -> None:
        for name in names:
            number = 100 * query + NAMES.index(name)
            demand = Demand(number=number, object=name, at=9.0, deadline=deadline, query=query, prefer=prefer)
            self.demands.add(demand)

    def weigh(self, now: float = 10.0) -> Weighed:
        return weigh(self.demands, self.warehouse, now)

    def decline(self, weighed: Weighed) -> set[int]:
        for number in weighed.declined:
            self.demands.decline(number)
        return set(weighed.declined)


def world(costs: dict[str, float] | None = None) -> World:
    tables = [Table(name=name) for name in "abc"]
    warehouse = Warehouse([*tables, View(name="v", parents=("a", "b")), View(name="w", parents=("c",))], slots=1)
    for name in "abc":
        warehouse.apply(UpdateArrived(table=name, at=1.0))
    for name in NAMES:
        warehouse.apply(CostLearnt(object=name, at=1.0, cost=(costs or {}).get(name, 1.0)))
    return World(warehouse, Demands())


def test_one_that_wants_it_fresh_waits_for_everything_and_one_that_wants_it_fast_for_nothing() -> None:
    it = world()
    it.wish(1, 1.0, "v")
    assert it.weigh().declined == ()
    it = world()
    it.wish(1, 0.0, "v")
    weighed = it.weigh()
    assert len(it.decline(weighed)) == 1
    assert (weighed.taken.waiting, it.demands.open) == (0, {})


def test_two_queries_share_what_they_accept_and_the_shorter_work_goes_before_the_first_deadline() -> None:
    it = world({"a": 1.0, "b": 5.0})
    it.wish(1, 0.5, "b", deadline=90)
    it.wish(2, 0.5, "a", deadline=50)
    weighed = it.weigh()
    assert (weighed.queries, weighed.objects) == ((2, 1), ("a", "b"))
    # 12 s if all of it goes before both, half of that is accepted: a before both, b not before the second.
    assert (weighed.bound, weighed.taken.waiting, weighed.declined) == (6, 2000, (101,))
    it.decline(weighed)
    assert [turn.object for turn in it.demands.turns(it.warehouse)] == ["a"]


def test_a_newcomer_in_a_hurry_makes_those_before_it_wait_for_less() -> None:
    it = world({"a": 4.0, "b": 4.0})
    it.wish(1, 0.8, "ab", deadline=50)
    assert len(it.decline(it.weigh())) == 1
    it.wish(2, 0.0, "c", deadline=90)
    weighed = it.weigh()
    # Half of 0.8 of twice 9 s: 4 s before both are too much by now, 1 s before the last is not.
    assert (weighed.bound, weighed.taken.waiting) == (7.2, 1000)
    it.decline(weighed)
    assert it.demands.waiting == {2}
    assert list(it.demands.open) == [202]


def test_a_job_that_runs_is_waited_for_whoever_comes() -> None:
    it = world()
    it.wish(1, 1.0, "a")
    assert it.weigh().declined == ()
    it.warehouse.apply(JobStarted(object="a", at=10.0))
    it.demands.job_started("a")
    it.wish(2, 0.0, "b")
    assert it.weigh().declined == (201,)
    it.warehouse.apply(JobFinished(object="a", at=11.0))
    it.demands.job_ended("a")
    assert [each.demand for each in it.demands.met(it.warehouse)] == [100]


def test_nobody_waits_for_what_may_not_start() -> None:
    it = world()
    it.wish(1, 1.0, "vw")
    weighed = weigh(it.demands, it.warehouse, 10.0, may_start=lambda name, _: name != "b")
    assert (weighed.declined, weighed.objects) == ((103,), ("w",))


@given(
    st.lists(st.tuples(st.floats(0, 1), st.sets(st.sampled_from(NAMES), min_size=1), st.integers(1, 9)), max_size=5),
    st.fixed_dictionaries({name: st.integers(1, 20).map(float) for name in NAMES}),
)
def test_no_more_waiting_than_accepted_and_every_wish_is_answered(
    wishes: list[tuple[float, set[str], int]], costs: dict[str, float]
) -> None:
    it = world(costs)
    for number, (prefer, names, deadline) in enumerate(wishes, start=1):
        it.wish(number, prefer, "".join(sorted(names)), deadline=1e6 + deadline)
    weighed = it.weigh()
    assert weighed.taken.waiting <= 1000 * weighed.bound
    assert list(weighed.queries) == sorted(
        range(1, len(wishes) + 1), key=lambda number: (wishes[number - 1][2], number)
    )
    curve = [(each.waiting, each.help) for each in weighed.curve]
    assert curve == sorted(curve)
    granted = {number: each for number, each in it.demands.open.items() if number not in weighed.declined}
    # What goes before a query is run for all behind it that want it: the wait is at least each granted work, once.
    longest = {}
    for each in granted.values():
        place = len(weighed.queries) - weighed.queries.index(each.query or 0)
        longest[each.object] = max(place, longest.get(each.object, 0))
    assert sum(longest.values()) <= 1000 * weighed.bound + 1
    for number, each in it.demands.open.items():
        behind = len(weighed.queries) - weighed.queries.index(each.query or 0)
        assert (number in weighed.declined) == (behind > longest.get(each.object, 0))
    if all(prefer == 1 for prefer, _, _ in wishes):
        assert not weighed.declined
    it.decline(weighed)
    assert all(not each.declined or each.query in it.demands.waiting for each in it.demands.open.values())
    # Weighed again with nothing new, nobody is told otherwise who was told to go on.
    assert not set(it.weigh().declined) & set(weighed.declined)
