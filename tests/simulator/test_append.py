"""The append model against a plain reading of its rules, and against worlds small enough to work out by hand."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.simulator.append import POLICIES, simulate
from scheduler_plugin.simulator.workload import WorkloadError

every_policy = pytest.mark.parametrize("policy", POLICIES)

#: Quarters add up exactly, so that equal times are equal and ties are ties.
quarters = st.integers(1, 12).map(lambda number: number / 4)


@st.composite
def workloads(draw):
    tables = []
    for number in range(draw(st.integers(1, 5))):
        gaps = draw(st.lists(quarters, max_size=5))
        table = {"id": f"t{number}", "alpha": draw(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]))}
        table["releases"] = [sum(gaps[: position + 1]) for position in range(len(gaps))]
        if draw(st.booleans()):
            table["period"] = draw(quarters)
        if draw(st.booleans()):
            table["weight"] = draw(st.integers(0, 3))
        tables.append(table)
    workload = {"model": "append", "slots": draw(st.integers(1, 6)), "tables": tables}
    if draw(st.booleans()):
        workload["horizon"] = draw(st.integers(0, 20))
    return workload


def slot_groups(tables, slots):
    """Table -> the slots it may use under group_and_run."""
    lengths = [[b - a for a, b in zip([0, *t["releases"]], t["releases"], strict=False)] for t in tables]
    period = [t.get("period", max(found, default=0)) for t, found in zip(tables, lengths, strict=True)]
    groups = []
    for table in sorted(range(len(tables)), key=lambda each: period[each]):
        if groups and period[table] <= 2 * period[groups[-1][0]]:
            groups[-1].append(table)
        else:
            groups.append([table])
    allowed, first = {}, 0
    for group in groups:
        share = max(0, math.ceil((slots - len(groups)) * len(group) / len(tables)))
        for table in group:
            allowed[table] = range(first, first + share)
        first += share
    return allowed


def plain(workload, policy):
    """The rules as they read: at every instant ends, then arrivals, then starts; every table looked at every time."""
    tables, slots = workload["tables"], workload["slots"]
    start = [[0, *table["releases"]] for table in tables]  # start[i][j] is where update j of table i begins
    arrived, begun, done = ([0] * len(tables) for _ in range(3))
    running, schedule, steps = {}, [], [[(0, 0)] for _ in tables]  # steps: (time, current up to) of each table
    stretches, penalty = [], 0
    allowed = slot_groups(tables, slots) if policy == "group_and_run" else None

    def rank(i, now):
        first, last = begun[i], arrived[i]
        length = sum(start[i][j + 1] - start[i][j] for j in range(first, last))
        alpha, weight = tables[i]["alpha"], tables[i].get("weight", 1)
        return {
            "myopic": start[i][first + 1],
            "group_and_run": start[i][first + 1],
            "longest_batch": -length,
            "shortest_batch": alpha * length,
            "weighted": -(weight / alpha) if alpha else -math.inf,
            "weighted_staleness": -weight * (now - start[i][first]),
            "lifo": -start[i][last],
        }[policy]

    instants = {release for table in tables for release in table["releases"]}
    while instants:
        now = min(instants)
        instants.remove(now)
        for slot in [slot for slot, (end, _) in running.items() if end == now]:
            _, i = running.pop(slot)
            penalty += (now - start[i][done[i]]) ** 2
            stretches += [(now - a) / (b - a) for a, b in pairwise(start[i][done[i] : begun[i] + 1])]
            done[i] = begun[i]
            steps[i].append((now, start[i][done[i]]))
        for i, table in enumerate(tables):
            arrived[i] = sum(release <= now for release in table["releases"])
        for slot in range(slots):
            busy = [i for _, i in running.values()]
            may = [i for i in range(len(tables)) if begun[i] < arrived[i] and i not in busy]
            may = [i for i in may if allowed is None or slot in allowed[i]]
            if slot in running or not may:
                continue
            i = min(may, key=lambda i: (rank(i, now), i))
            end = now + tables[i]["alpha"] * (start[i][arrived[i]] - start[i][begun[i]])
            entry = {"start": now, "end": end, "object": tables[i]["id"], "slot": slot}
            schedule.append({**entry, "updates": arrived[i] - begun[i]})
            begun[i] = arrived[i]
            running[slot] = (end, i)
            instants.add(end)

    staleness = []
    for i in range(len(tables)):
        until = workload.get("horizon", steps[i][-1][0])
        bounds = [min(when, until) for when, _ in steps[i]] + [until]
        pieces = zip(bounds, bounds[1:], [to for _, to in steps[i]], strict=False)
        staleness.append(sum(((b - to) ** 2 - (a - to) ** 2) / 2 for a, b, to in pieces))
    weights = [table.get("weight", 1) for table in tables]
    lengths = [b - a for begins in start for a, b in pairwise(begins)]
    metrics = {
        "staleness": sum(staleness),
        "weighted_staleness": sum(w * s for w, s in zip(weights, staleness, strict=True)),
        "low": sum(length**2 for length in lengths),
        "penalty": penalty,
        "max_stretch": max(stretches, default=0),
        "mean_stretch": sum(stretches) / len(stretches) if stretches else 0,
        "batches": len(schedule),
    }
    return schedule, metrics


@every_policy
@settings(max_examples=50)
@given(workload=workloads())
def test_schedule_and_measures_are_those_of_the_plain_rules(policy, workload):
    schedule, metrics = plain(workload, policy)
    found = simulate(workload, policy, {})
    assert found["schedule"] == schedule
    assert found["metrics"] == pytest.approx(metrics, rel=1e-9, abs=1e-9)


@every_policy
@settings(max_examples=50)
@given(workload=workloads())
def test_half_of_low_and_half_of_penalty_enclose_the_staleness(policy, workload):
    """Section 2.2 of the paper, for runs in which every update is loaded."""
    found = simulate({**workload, "horizon": None, "slots": 12}, policy, {})["metrics"]
    assert found["low"] / 2 - 1e-9 <= found["staleness"] <= found["penalty"] / 2 + 1e-9
    assert found["max_stretch"] == 0 or found["max_stretch"] >= 1


def table(name, releases, alpha=1.0, **more):
    return {"id": name, "alpha": alpha, "releases": releases, **more}


def order(policy, *tables, slots=1):
    found = simulate({"slots": slots, "tables": list(tables)}, policy, {})
    return " ".join(ran["object"] for ran in found["schedule"])


def test_figure_1_of_the_paper():
    """The second and third updates arrive while the first is loaded, and are loaded together."""
    found = simulate({"tables": [table("i", [2, 3, 4])]}, "myopic", {})
    assert [(ran["start"], ran["end"], ran["updates"]) for ran in found["schedule"]] == [(2, 4, 1), (4, 6, 2)]
    # 8 up to 4, then from age 2 to age 4; low = 4 + 1 + 1; penalty = 4**2 + (6 - 2)**2.
    assert found["metrics"]["staleness"] == 8 + 6
    assert (found["metrics"]["low"], found["metrics"]["penalty"]) == (6, 32)
    assert found["metrics"]["max_stretch"] == 4


def test_what_each_policy_takes_first():
    busy = table("busy", [1], alpha=9.0)  # keeps the slot until 10, while the others wait
    old = table("old", [2, 3], alpha=1.0)
    long = table("long", [7, 9.5], alpha=0.5)
    short = table("short", [4, 4.5], alpha=0.25, weight=3)
    rest = (busy, old, long, short)
    assert order("myopic", *rest) == "busy old short long"
    assert order("longest_batch", *rest) == "busy long short old"
    assert order("shortest_batch", *rest) == "busy short old long"
    assert order("weighted", *rest) == "busy short long old"
    assert order("weighted_staleness", *rest) == "busy short old long"
    assert order("lifo", *rest) == "busy long short old"


@pytest.mark.parametrize(("alpha", "expected"), [(0.375, "light heavy"), (0.625, "heavy light")])
def test_weighted_staleness_changes_its_order_as_time_passes(alpha, expected):
    """At time t light counts t and heavy 3 * (t - 8): light leads when the block ends at 11, heavy at 13."""
    block = table("block", [8], alpha=alpha)
    light = table("light", [9.5], alpha=0.0)
    heavy = table("heavy", [8, 9.75], alpha=0.0, weight=3)
    assert order("weighted_staleness", block, light, heavy) == f"heavy block {expected}"


def test_without_a_weight_no_staleness_counts_and_the_first_declared_goes_first():
    block = table("block", [2], alpha=5.0)
    # When the block ends, what waits of `again` begins at 1 and what waits of `old` at 0.
    again, old = table("again", [1, 3], weight=0), table("old", [4], weight=0)
    assert order("weighted_staleness", block, again, old) == "again block again old"
    assert order("weighted_staleness", block, old, again) == "again block old again"


def test_group_and_run_gives_each_group_slots_of_its_own_and_leaves_the_rest_idle():
    tables = [table("hourly", [60], period=60), table("a", [1], period=1), table("b", [1], period=2)]
    found = simulate({"slots": 5, "tables": tables}, "group_and_run", {})["schedule"]
    # Groups {a, b} and {hourly}: ceil(3 * 2/3) = 2 slots and ceil(3 * 1/3) = 1; slots 3 and 4 serve nobody.
    assert {ran["object"]: ran["slot"] for ran in found} == {"a": 0, "b": 1, "hourly": 2}


def test_a_period_of_exactly_twice_the_smallest_stays_in_the_group():
    tables = [table("a", [1], period=1), table("b", [2], period=2), table("c", [2.5], period=2.5)]
    found = simulate({"slots": 4, "tables": tables}, "group_and_run", {})["schedule"]
    assert {ran["object"]: ran["slot"] for ran in found} == {"a": 0, "b": 0, "c": 2}


def test_group_and_run_loads_nothing_without_more_slots_than_groups():
    found = simulate({"slots": 1, "tables": [table("a", [1])], "horizon": 4}, "group_and_run", {})
    assert found["schedule"] == []
    assert found["metrics"]["staleness"] == 8


def test_a_table_that_is_never_updated_only_grows_old():
    tables = [table("quiet", []), table("a", [1])]
    assert simulate({"tables": tables}, "myopic", {})["metrics"]["staleness"] == 2
    assert simulate({"tables": tables, "horizon": 3}, "myopic", {})["metrics"]["staleness"] == 2 + 1.5 + 4.5


def test_work_runs_on_past_the_horizon_and_its_staleness_is_not_counted_there():
    found = simulate({"tables": [table("a", [4])], "horizon": 5}, "myopic", {})
    assert found["schedule"][0]["end"] == 8
    assert found["metrics"]["staleness"] == 12.5
    assert found["metrics"]["max_stretch"] == 2


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tables": None}, "tables"),
        ({"slots": 0}, "slots"),
        ({"slots": 1.5}, "slots"),
        ({"horizon": -1}, "horizon"),
        ({"tables": [table("a", [1], alpha=-1)]}, r"tables\[0\].alpha"),
        ({"tables": [{"id": "a", "releases": []}]}, r"tables\[0\].alpha"),
        ({"tables": [{"id": "a", "alpha": 1}]}, r"tables\[0\].releases is missing"),
        ({"tables": [table("a", [1], weight=-1)]}, r"tables\[0\].weight"),
        ({"tables": [table("a", [1], period=0)]}, r"tables\[0\].period"),
        ({"tables": [table("a", [1]), table("a", [1])]}, "declared twice"),
        ({"tables": [table("a", [2, 1])]}, r"tables\[0\].releases\[1\] must be above 2"),
        ({"tables": [table("a", [1, 1])]}, r"tables\[0\].releases\[1\]"),
        ({"tables": [table("a", [0])]}, r"tables\[0\].releases\[0\]"),
        ({"tables": [table("a", [1, math.nan])]}, r"tables\[0\].releases\[1\]"),
        ({"tables": [table("a", ["soon"])]}, r"tables\[0\].releases\[0\]"),
        ({"tables": [table("a", [1e150], alpha=1e200)]}, "largest number"),
        ({"tables": [table("a", [1e200])]}, "too large"),
        ({"tables": ["a"]}, r"tables\[0\]"),
    ],
)
def test_a_malformed_workload_is_refused_by_field(change, field):
    with pytest.raises(WorkloadError, match=field):
        simulate({"tables": [table("a", [1])], **change}, "myopic", {})


def test_the_schedule_can_be_left_out():
    assert "schedule" not in simulate({"tables": [table("a", [1])]}, "myopic", {"schedule": "0"})
