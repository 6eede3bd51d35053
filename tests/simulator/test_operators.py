"""The operators model against a naive reading, every possible schedule of small inputs, and examples by hand."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.simulator.operators import POLICIES, simulate
from scheduler_plugin.simulator.workload import WorkloadError
from tests.simulator import naive_operators

every_policy = pytest.mark.parametrize("policy", POLICIES)


@st.composite
def charts(draw, sizes=(0, 0.1, 0.25, 0.3, 0.5, 0.7, 0.9, 1, 1.5), most_operators=4, longest=3):
    points = [[0, 1]]
    for size in [*draw(st.lists(st.sampled_from(sizes), max_size=most_operators - 1)), 0]:
        points.append([points[-1][0] + draw(st.integers(1, longest)), size])
    return points


@st.composite
def workloads(draw, chart, most_paths=3, most_arrivals=7, latest=10):
    paths = [{"id": f"p{number}", "points": draw(chart)} for number in range(draw(st.integers(1, most_paths)))]
    some_path = st.sampled_from([path["id"] for path in paths])
    arrival = st.fixed_dictionaries({"t": st.integers(0, latest), "path": some_path}, optional={"n": st.integers(0, 2)})
    workload = {"paths": paths, "arrivals": draw(st.lists(arrival, max_size=most_arrivals))}
    if draw(st.booleans()):
        workload["horizon"] = draw(st.integers(0, 40))
    return workload


@every_policy
@settings(max_examples=60, deadline=None)
@given(workload=workloads(charts()))
def test_memory_and_schedule_are_those_of_the_naive_reading(policy, workload):
    expected = naive_operators.simulate(workload, policy)
    found = simulate(workload, policy, {})
    assert found["series"]["memory"] == pytest.approx(expected["memory"], abs=1e-9)
    assert [(ran["start"], ran["object"]) for ran in found["schedule"]] == expected["schedule"]
    assert all(ran["end"] == ran["start"] + 1 and ran["slot"] == 0 for ran in found["schedule"])
    measured = {"peak": expected["peak"], "integral": expected["integral"]}
    assert found["metrics"] == pytest.approx(measured, abs=1e-9)


def least(workload, until):
    """The least memory that any schedule could have at each instant, each instant on its own."""
    points = {path["id"]: path["points"] for path in workload["paths"]}
    states, found = {()}, []  # a state: (path, progress) of every tuple
    for now in range(until + 1):
        new = [a["path"] for a in workload["arrivals"] if a["t"] == now for _ in range(a.get("n", 1))]
        states = {tuple(sorted([*state, *((path, 0) for path in new)])) for state in states}
        size = {(path, t): s for path in points for t, s in steps(points[path])}
        found.append(min(sum(size[each] for each in state) for state in states))
        states = {after for state in states for after in followers(state, points)}
    return found


def steps(points):
    """(progress, size) at every whole progress before the end."""
    return [(t, [s for at, s in points if at <= t][-1]) for t in range(points[-1][0])]


def followers(state, points):
    yield state
    for place, (path, progress) in enumerate(state):
        rest = state[:place] + state[place + 1 :]
        gone = progress + 1 == points[path][-1][0]
        yield rest if gone else tuple(sorted((*rest, (path, progress + 1))))


falling = charts(sizes=(0.75, 0.5, 0.25, 0.125), most_operators=3, longest=2).filter(
    lambda points: all(a[1] >= b[1] for a, b in pairwise(points))
)


@settings(max_examples=40, deadline=None)
@given(workload=workloads(falling, most_paths=2, most_arrivals=4, latest=4))
def test_chain_is_within_one_unit_a_path_of_any_schedule_at_every_instant(workload):
    """Theorem 2 of the paper, for operators that never enlarge a tuple; schedules that know the future included."""
    memory = simulate({**workload, "horizon": 12}, "chain", {})["series"]["memory"]
    best = least(workload, 12)
    assert all(low <= used <= low + len(workload["paths"]) for low, used in zip(best, memory, strict=True))


@settings(max_examples=40, deadline=None)
@given(drops=st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3), min_size=1, max_size=2), data=st.data())
def test_chain_is_the_best_at_every_instant_when_charts_are_their_own_envelopes(drops, data):
    """Theorem 1: operators of one unit, each dropping no more than the one before it."""
    paths = []
    for number, path in enumerate(drops):
        ordered = sorted(path, reverse=True)
        sizes = [1 - sum(ordered[:place]) / sum(ordered) for place in range(len(ordered))] + [0]
        paths.append({"id": f"p{number}", "points": [list(point) for point in enumerate(sizes)]})
    arrivals = data.draw(workloads(st.just(paths[0]["points"]), most_paths=1, most_arrivals=5, latest=4))["arrivals"]
    arrivals += [{"t": 1, "path": paths[-1]["id"]}]
    workload = {"paths": paths, "arrivals": arrivals}
    memory = simulate({**workload, "horizon": 10}, "chain", {})["series"]["memory"]
    assert memory == pytest.approx(least(workload, 10), abs=1e-9)


#: Section 2 of the paper: an operator that keeps a fifth of a tuple, then one that ends it, a unit of time each.
FIFTH = {"id": "p", "points": [[0, 1], [1, 0.2], [2, 0]]}


def memory(policy, paths, arrivals, **more):
    return simulate({"paths": paths, "arrivals": arrivals, **more}, policy, {})["series"]["memory"]


def test_the_papers_example():
    """A tuple at each instant up to 6: greedy keeps the backlog where tuples are small."""
    arrivals = [{"t": t, "path": "p"} for t in range(7)]
    first = [1, 1.2, 1.4, 1.6, 1.8]
    assert memory("greedy", [FIFTH], arrivals)[:5] == pytest.approx(first)
    assert memory("chain", [FIFTH], arrivals)[:5] == pytest.approx(first)
    assert memory("fifo", [FIFTH], arrivals)[:5] == pytest.approx([1, 1.2, 2, 2.2, 3])
    for policy in POLICIES:
        assert memory(policy, [FIFTH], arrivals)[13:] == [0.2, 0]


def test_greedy_divides_by_the_time_per_unit_of_input():
    """A tuple of size 1/2 that one unit of work ends: half a tuple per unit, and not a whole one."""
    late = {"id": "late", "points": [[0, 1], [1, 0.5], [2, 0]]}
    early = {"id": "early", "points": [[0, 1], [1, 0.4], [9, 0]]}
    arrivals = [{"t": 0, "path": "late"}, {"t": 1, "path": "early"}]
    found = simulate({"paths": [late, early], "arrivals": arrivals}, "greedy", {})["schedule"]
    assert [ran["object"] for ran in found[:3]] == ["late", "early", "late"]


def test_chain_runs_a_slow_operator_for_the_sake_of_the_drop_behind_it():
    slow = {"id": "slow", "points": [[0, 1], [1, 0.9], [2, 0]]}
    even = {"id": "even", "points": [[0, 1], [5, 0]]}
    arrivals = [{"t": 0, "path": "even"}, {"t": 0, "path": "slow"}]
    assert memory("chain", [even, slow], arrivals)[:3] == [2, 1.9, 1]
    assert memory("greedy", [even, slow], arrivals)[:3] == [2, 2, 2]


def test_round_robin_gives_each_operator_one_unit_in_turn():
    two = {"id": "two", "points": [[0, 1], [2, 0.5], [3, 0]]}
    arrivals = [{"t": 0, "path": "two", "n": 2}, {"t": 0, "path": "p"}]
    found = simulate({"paths": [two, FIFTH], "arrivals": arrivals}, "round_robin", {})
    # Operators: two/1, two/2, p/1, p/2. What cannot work is passed over.
    assert [ran["object"] for ran in found["schedule"]] == ["two", "p", "p", "two", "two", "two", "two", "two"]


def test_of_equally_urgent_tuples_the_oldest_goes_first_and_of_one_instant_the_first_declared():
    paths = [{"id": name, "points": [[0, 1], [2, 0]]} for name in "ab"]
    arrivals = [{"t": 1, "path": "a"}, {"t": 0, "path": "b"}, {"t": 0, "path": "a"}]
    for policy in ("chain", "greedy", "fifo"):
        found = simulate({"paths": paths, "arrivals": arrivals}, policy, {})["schedule"]
        assert "".join(ran["object"] for ran in found) == "bbaaaa"


def joined(policy, arrivals, **more):
    """Streams r and s meet in a join after one unit of work each; then comes one more operator."""
    paths = [{"id": name, "points": [[0, 1], [1, 0.5], [2, 0.25], [3, 0]]} for name in "rs"]
    join = {"left": {"path": "r", "operator": 1}, "right": {"path": "s", "operator": 1}}
    found = simulate({"paths": paths, "joins": [join], "arrivals": arrivals, **more}, policy, {})
    return "".join(ran["object"] for ran in found["schedule"]), found["series"]["memory"]


@every_policy
def test_a_join_takes_both_streams_in_order_of_arrival(policy):
    arrivals = [{"t": 0, "path": "r"}, {"t": 4, "path": "s"}, {"t": 5, "path": "r"}]
    schedule, used = joined(policy, arrivals)
    # r waits before the join from 1 on, for s might have had an older tuple.
    assert used[:5] == [1, 0.5, 0.5, 0.5, 1.5]
    assert sorted(schedule) == list("rrrrrrsss")
    assert used[-1] == 0


def decimal(draw, low, high):
    return draw(st.integers(low, high)) / 4


@st.composite
def joined_streams(draw):
    """(workload operator by operator, the same with its points worked out, the join's two places)"""
    spoken, worked_out, places = [], [], []
    streams = []
    for name in "rs":
        before = [
            {"time": draw(st.integers(1, 2)), "selectivity": decimal(draw, 1, 4)}
            for _ in range(draw(st.integers(0, 2)))
        ]
        after = [
            {"time": draw(st.integers(1, 2)), "selectivity": decimal(draw, 0, 4)}
            for _ in range(draw(st.integers(0, 2)))
        ]
        join = {"join": "both", "time": draw(st.integers(1, 3)), "matches": decimal(draw, 0, 6)}
        spoken.append({"id": name, "rate": decimal(draw, 1, 8), "operators": [*before, join, *after]})
        places.append((name, len(before)))
        streams.append(spoken[-1]["rate"] * math.prod(each["selectivity"] for each in before))
    # What the join does in an interval with so many tuples of each stream.
    joins = [next(each for each in path["operators"] if "join" in each) for path in spoken]
    work = sum(count * each["time"] for count, each in zip(streams, joins, strict=True))
    results = sum(count * each["matches"] for count, each in zip(streams, joins, strict=True))
    for path in spoken:
        points = [[0, 1]]
        for each in path["operators"]:
            is_join = "join" in each
            time = work / sum(streams) if is_join else each["time"]
            size = points[-1][1] * (results / sum(streams) if is_join else each["selectivity"])
            points.append([points[-1][0] + time, size])
        points[-1][1] = 0
        worked_out.append({"id": path["id"], "points": points})
    arrival = st.fixed_dictionaries({"t": st.integers(0, 8), "path": st.sampled_from("rs")}, optional={"n": st.just(2)})
    more = {"arrivals": draw(st.lists(arrival, max_size=6))}
    if draw(st.booleans()):
        more["horizon"] = draw(st.integers(0, 30))
    return {"paths": spoken, **more}, {"paths": worked_out, **more}, tuple(places)


@every_policy
@settings(max_examples=80, deadline=None)
@given(streams=joined_streams())
def test_a_join_of_two_streams_does_what_its_streams_add_up_to_in_order_of_arrival(policy, streams):
    spoken, worked_out, places = streams
    if not worked_out["paths"][0]["points"][places[0][1] + 1][0].is_integer():
        with pytest.raises(WorkloadError, match="whole number"):
            simulate(spoken, policy, {})
        return
    found = simulate(spoken, policy, {})
    expected = naive_operators.simulate(worked_out, policy, joins=[places])
    assert found["series"]["memory"] == pytest.approx(expected["memory"], abs=1e-9)
    assert [(ran["start"], ran["object"]) for ran in found["schedule"]] == expected["schedule"]


def test_a_join_does_not_wait_for_a_side_that_has_no_more_to_come():
    schedule, used = joined("chain", [{"t": 0, "path": "r", "n": 2}])
    assert (schedule, used) == ("rrrrrr", [2, 1.5, 1, 0.75, 0.5, 0.25, 0])


#: One side of a join.
MEET = {"join": "both", "time": 3, "matches": 1}


def stepwise(*operators, name="p"):
    return {"id": name, "rate": 1, "operators": list(operators)}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"paths": None}, "paths is missing"),
        ({"paths": [{"id": "p"}]}, r"paths\[0\].points"),
        ({"paths": [{"id": "p", "points": []}]}, r"paths\[0\].points must lead from \[0, 1\]"),
        ({"paths": [{"id": "p", "points": [[0, 1], [1, 0.5]]}]}, r"paths\[0\].points"),
        ({"paths": [{"id": "p", "points": [[0, 1], [1.5, 0]]}]}, r"paths\[0\].points\[1\]\[0\]"),
        ({"paths": [{"id": "p", "points": [[0, 1], [0, 0]]}]}, r"paths\[0\].points\[1\]\[0\]"),
        ({"paths": [{"id": "p", "points": [[0, 1], [1, -1], [2, 0]]}]}, r"paths\[0\].points\[1\]\[1\]"),
        ({"paths": [{"id": "p", "points": [0, 1]}]}, r"paths\[0\].points\[0\]"),
        ({"paths": [FIFTH, FIFTH]}, "the id p is declared twice"),
        ({"arrivals": [{"t": 0, "path": "q"}]}, r"arrivals\[0\].path"),
        ({"arrivals": [{"t": -1, "path": "p"}]}, r"arrivals\[0\].t"),
        ({"arrivals": [{"t": 0, "path": "p", "n": -1}]}, r"arrivals\[0\].n"),
        ({"arrivals": [{"t": 0, "path": "p", "n": 2**40}], "horizon": None}, "horizon"),
        ({"horizon": "long"}, "horizon"),
        ({"paths": [{"id": "p"}]}, r"paths\[0\].points is missing; give points or operators"),
        ({"paths": [{**FIFTH, "operators": []}]}, r"paths\[0\] must have points or operators, not both"),
        ({"paths": [stepwise()]}, r"paths\[0\].operators must have at least one"),
        ({"paths": [stepwise({"time": 1.5})]}, r"paths\[0\].operators\[0\].time"),
        ({"paths": [stepwise({"time": 1}, {"time": 1})]}, r"paths\[0\].operators\[0\].selectivity is missing"),
        ({"paths": [stepwise(MEET)]}, r"operators\[0\].join: both must be named on two paths, not on 1"),
        ({"paths": [stepwise(MEET, MEET)]}, r"operators\[1\].join: a path goes through one join"),
        ({"paths": [stepwise(MEET), {"id": "q", "operators": [MEET]}]}, r"paths\[1\].rate is missing"),
        ({"paths": [stepwise(MEET), stepwise({**MEET, "matches": -1}, name="q")]}, r"\[1\].operators\[0\].matches"),
        ({"paths": [stepwise(MEET), stepwise({**MEET, "time": 4}, name="q")]}, "takes 7/2 units .* 2 times as small"),
        ({"joins": [{"left": {"path": "p", "operator": 0}}]}, r"joins\[0\].right"),
        ({"joins": [{"left": {"path": "p", "operator": 7}}]}, r"joins\[0\].left.operator"),
    ],
)
def test_a_malformed_workload_is_refused_by_field(change, field):
    workload = {"paths": [FIFTH], "arrivals": [], "horizon": 3, **change}
    with pytest.raises(WorkloadError, match=field):
        simulate(workload, "chain", {})
