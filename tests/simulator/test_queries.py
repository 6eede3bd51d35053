"""The queries model against all placements of small inputs, the paper's figures, and the paper's own table."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain import knapsack
from scheduler_plugin.simulator.queries import POLICIES, simulate
from scheduler_plugin.simulator.workload import WorkloadError

every_policy = pytest.mark.parametrize("policy", POLICIES)

parts = st.lists(st.integers(0, 3), max_size=3)


@st.composite
def workloads(draw, most_queries=4, most_updates=3, largest=9):
    number = st.integers(1, largest)
    # Quarters, so that the bound has no rounding to argue about.
    qos = st.integers(0, 4).map(lambda quarters: quarters / 4)
    queries = draw(
        st.lists(st.fixed_dictionaries({"e": number, "qos": qos, "parts": parts}), min_size=1, max_size=most_queries)
    )
    updates = draw(st.lists(st.fixed_dictionaries({"c": number, "p": number, "parts": parts}), max_size=most_updates))
    return {
        "queries": [{"id": f"q{place}", **query} for place, query in enumerate(queries)],
        "updates": [{"id": f"u{place}", **update} for place, update in enumerate(updates)],
    }


def judged(workload, order):
    """(QoS, QoD) of an order of ids, by running through it."""
    queries = {each["id"]: each for each in workload["queries"]}
    updates = {each["id"]: each for each in workload["updates"]}
    now = qos = qod = 0
    applied = []
    for name in order:
        if name in updates:
            now += updates[name]["c"]
            applied.append(updates[name])
        else:
            now += queries[name]["e"]
            qos += now
            qod += sum(update["p"] for update in applied if set(update["parts"]) & set(queries[name]["parts"]))
    return qos, qod


def placed(workload, positions):
    """The order in which each update runs before the k-th query from the end."""
    order = []
    for place, query in enumerate([*workload["queries"], None]):
        from_end = len(workload["queries"]) - place
        order += [u["id"] for u, at in zip(workload["updates"], positions, strict=True) if at == from_end]
        order += [query["id"]] if query else []
    return order


def every_placement(workload):
    """(QoS, QoD) of all placements."""
    choices = product(range(len(workload["queries"]) + 1), repeat=len(workload["updates"]))
    return [judged(workload, placed(workload, positions)) for positions in choices]


def bound(workload):
    none, everything = (
        judged(workload, placed(workload, [at] * len(workload["updates"])))[0] for at in (0, len(workload["queries"]))
    )
    wish = [1 - query["qos"] for query in workload["queries"]]
    return (everything - none) * sum(wish) / len(wish) // 1


@settings(max_examples=80, deadline=None)
@given(workload=workloads(), override=st.none() | st.integers(0, 60))
def test_pareto_has_the_most_qod_that_any_placement_has_within_the_bound(workload, override):
    found = simulate(workload, "pareto", {} if override is None else {"B": str(override)})["metrics"]
    allowed = bound(workload) if override is None else override
    fastest = judged(workload, placed(workload, [0] * len(workload["updates"])))[0]
    within = [(qod, -qos) for qos, qod in every_placement(workload) if qos - fastest <= allowed]
    assert (found["qod"], -found["qos"]) == max(within)
    assert found["cost"] == found["qos"] - fastest <= allowed


@every_policy
@settings(max_examples=60, deadline=None)
@given(workload=workloads(most_queries=6, most_updates=6))
def test_measures_positions_and_schedule_tell_one_story(policy, workload):
    found = simulate(workload, policy, {})
    measured, schedule = found["metrics"], found["schedule"]
    assert list(measured["positions"]) == [update["id"] for update in workload["updates"]]
    assert [ran["object"] for ran in schedule] == placed(workload, measured["positions"].values())
    assert judged(workload, [ran["object"] for ran in schedule]) == (measured["qos"], measured["qod"])
    length = {each["id"]: each.get("e") or each.get("c") for each in workload["queries"] + workload["updates"]}
    now = 0
    for ran in schedule:
        assert (ran["start"], ran["end"], ran["slot"]) == (now, now + length[ran["object"]], 0)
        now = ran["end"]


@settings(max_examples=60, deadline=None)
@given(workload=workloads())
def test_queries_first_and_updates_first_are_the_two_ends(workload):
    ends = every_placement(workload)
    assert simulate(workload, "qf", {})["metrics"]["qos"] == min(qos for qos, _ in ends)
    assert simulate(workload, "uf", {})["metrics"]["qod"] == max(qod for _, qod in ends)
    assert set(simulate(workload, "qf", {})["metrics"]["positions"].values()) <= {0}
    assert set(simulate(workload, "uf", {})["metrics"]["positions"].values()) <= {len(workload["queries"])}


def table_of_the_paper(classes, capacity):
    """Algorithm 1 of paper 001, with the profit of an item that does not fit put right."""
    best = np.zeros(capacity + 1, dtype=np.int64)
    for costs, profits in classes:
        before = best.copy()
        for cost, profit in zip(costs, profits, strict=True):
            if cost <= capacity:
                best[cost:] = np.maximum(best[cost:], before[: capacity + 1 - cost] + profit)
    return int(best[capacity])


@settings(max_examples=60, deadline=None)
@given(
    classes=st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=5), min_size=1, max_size=12
    ),
    capacity=st.integers(0, 200),
)
def test_the_knapsack_is_that_of_the_papers_table(classes, capacity):
    pairs = [([cost for cost, _ in items], [profit for _, profit in items]) for items in classes]
    chosen = knapsack.choose(pairs, capacity)
    taken = [
        (costs[item], profits[item]) for (costs, profits), item in zip(pairs, chosen, strict=True) if item is not None
    ]
    assert sum(cost for cost, _ in taken) <= capacity
    assert sum(profit for _, profit in taken) == table_of_the_paper(pairs, capacity)


@pytest.mark.parametrize("dependency", [0.1, 0.9])
def test_scores_of_transactions_are_solved_exactly(dependency):
    dice = np.random.default_rng(7)
    classes = []
    for _ in range(40):
        positions = np.flatnonzero(dice.random(40) < dependency) + 1
        cost, profit = dice.integers(5, 100), dice.integers(1, 100)
        classes.append((cost * positions, profit * np.arange(1, len(positions) + 1)))
    capacity = sum(int(costs.max(initial=0)) for costs, _ in classes) // 3
    chosen = knapsack.choose(classes, capacity)
    got = sum(int(profits[item]) for (_, profits), item in zip(classes, chosen, strict=True) if item is not None)
    assert got == table_of_the_paper(classes, capacity)


def query(name, e=1, parts=("x",), qos=0.5):
    return {"id": name, "e": e, "qos": qos, "parts": list(parts)}


def test_figure_5_of_the_paper():
    """An update with c = 5 and p = 10 costs 5 a position and gains 10 at each query that depends on it."""
    queries = [query("q4"), query("q3", parts="y"), query("q2"), query("q1", parts="y")]
    workload = {"queries": queries, "updates": [{"id": "u", "c": 5, "p": 10, "parts": ["x"]}]}
    found = [simulate(workload, "pareto", {"B": str(limit)})["metrics"] for limit in (4, 5, 9, 10, 19, 20)]
    assert [(each["positions"]["u"], each["cost"], each["qod"]) for each in found] == [
        (0, 0, 0),
        (0, 0, 0),  # the last query has nothing of it
        (0, 0, 0),
        (2, 10, 10),
        (2, 10, 10),
        (4, 20, 20),
    ]


def test_the_printed_algorithm_would_miss_this():
    """With the stale profit of an item that does not fit, the second item seems as good without room for it."""
    assert knapsack.choose([([3], [4]), ([5], [6])], capacity=5) == [None, 0]


def test_the_bound_follows_the_preferences_and_is_rounded_down():
    queries = [query("a", qos=1), query("b", qos=0.75), query("c", qos=0.5)]
    updates = [{"id": "u", "c": 1, "p": 1, "parts": ["x"]}, {"id": "v", "c": 1, "p": 1, "parts": ["x"]}]
    # BT = 3 * 2 and the mean of 0, 1/4, 1/2 is 1/4: room for 1.5, so for one step.
    found = simulate({"queries": queries, "updates": updates}, "pareto", {})["metrics"]
    assert (found["cost"], found["qod"], found["qos"]) == (1, 1, 1 + 2 + 3 + 1)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"queries": None}, "queries is missing"),
        ({"queries": [query("a", e=0)]}, r"queries\[0\].e"),
        ({"queries": [query("a", e=1.5)]}, r"queries\[0\].e"),
        ({"queries": [query("a", qos=2)]}, r"queries\[0\].qos"),
        ({"queries": [query("a", qos=True)]}, r"queries\[0\].qos"),
        ({"queries": [query("a", qos=None)]}, r"queries\[0\].qos is missing"),
        ({"queries": [query("a", parts=[[1]])]}, r"queries\[0\].parts\[0\]"),
        ({"queries": [query("a"), query("a")]}, "the id a is declared twice"),
        ({"updates": [{"id": "u", "c": 0, "p": 1, "parts": []}]}, r"updates\[0\].c"),
        ({"updates": [{"id": "u", "c": 1, "p": -1, "parts": []}]}, r"updates\[0\].p"),
        ({"updates": [{"id": "u", "c": "1", "p": 1, "parts": []}]}, r"updates\[0\].c"),
        ({"updates": [{"id": "u", "c": 1, "p": 1}]}, r"updates\[0\].parts is missing"),
        ({"updates": [{"id": "u", "c": 2**60, "p": 1, "parts": ["x"]}]}, r"updates\[0\]: c or p"),
    ],
)
def test_a_malformed_workload_is_refused_by_field(change, field):
    with pytest.raises(WorkloadError, match=field):
        simulate({"queries": [query("a")], "updates": [], **change}, "pareto", {})
