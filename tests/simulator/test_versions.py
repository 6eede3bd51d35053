"""The versions model against a naive reading of the contract, and against worlds small enough to work out by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.simulator.versions import POLICIES, simulate
from scheduler_plugin.simulator.workload import WorkloadError
from tests.simulator import naive_versions

every_policy = pytest.mark.parametrize("policy", POLICIES)

#: Eighths of a second add up exactly, as do operations of 125 ms, so that equal times are equal.
eighths = st.integers(0, 64).map(lambda number: number / 8)


@st.composite
def workloads(draw):
    base = draw(st.integers(1, 4))
    some_base = st.lists(st.integers(0, base - 1), min_size=1, max_size=3)
    views = draw(st.lists(some_base, max_size=3))
    objects = st.lists(st.integers(0, base + len(views) - 1), min_size=1, max_size=5)
    transactions = [
        [arrival, arrival + slack, read]
        for arrival, slack, read in draw(st.lists(st.tuples(eighths, eighths, objects), max_size=7))
    ]
    updates = draw(st.lists(st.tuples(eighths, st.integers(0, base - 1)).map(list), max_size=16))
    params = {
        "servers": draw(st.integers(1, 3)),
        "tio": draw(st.sampled_from([0, 125, 500])),
        "tcpu": draw(st.sampled_from([0, 125])),
        "tver": draw(st.sampled_from([0, 125, 250])),
        "recompute": draw(st.sampled_from(["full", "incremental"])),
        "delta": draw(st.sampled_from([0, 0.5, 2, 10])),
        "nmax": draw(st.integers(0, 4)),
    }
    workload = {"base": base, "views": views, "updates": updates, "transactions": transactions, "params": params}
    if draw(st.booleans()):
        workload["horizon"] = draw(st.integers(0, 16))
    return workload


@every_policy
@settings(max_examples=60, deadline=None)
@given(workload=workloads())
def test_schedule_and_measures_are_those_of_the_naive_reading(policy, workload):
    expected = naive_versions.simulate(workload, policy)
    found = simulate(workload, policy, {})
    assert found["schedule"] == expected["schedule"]
    assert found["metrics"] == pytest.approx(expected["metrics"], abs=1e-9)


def world(updates=(), transactions=(), base=2, views=(), horizon=None, **params):
    """A read takes one second, and looking at a version one more, unless said otherwise."""
    return {
        "base": base,
        "views": list(views),
        "updates": [list(each) for each in updates],
        "transactions": [list(each) for each in transactions],
        "params": {"servers": 1, "tio": 1000, "tcpu": 0, "tver": 1000, "delta": 10, "nmax": 4, **params},
        "horizon": horizon,
    }


def jobs(found):
    return [(ran["start"], ran["end"], ran["object"]) for ran in found["schedule"]]


def run(policy, *world_words, **more):
    found = simulate(world(*world_words, **more), policy, {})
    return jobs(found), found["metrics"]


@every_policy
def test_a_read_costs_an_operation_and_the_versions_looked_at(policy):
    schedule, measured = run(policy, [], [(5, 100, [0, 1])])
    assert schedule == [(5, 7, 0), (7, 9, 1)]
    assert measured["p_success"] == 1
    assert measured["scans_per_read"] == 1
    assert measured["n_avg"] == 1


def test_a_pending_version_is_applied_on_demand():
    # The update arrives while the first read runs. Two versions of object 1: orad looks at one of them.
    schedule, measured = run("orad", [(6, 1)], [(5, 100, [0, 1])])
    assert schedule == [(5, 7, 0), (7, 10, 1)]
    assert measured["od_updates_per_txn"] == 1
    # odrtb looks at both and keeps to the old one, valid on [0, 6), which has more of [-5, now).
    schedule, measured = run("odrtb", [(6, 1)], [(5, 100, [0, 1])])
    assert schedule == [(5, 7, 0), (7, 10, 1), (10, 11, 1)]  # the last is maintenance
    assert (measured["od_updates_per_txn"], measured["scans_per_read"]) == (0, 1.5)
    # What it read was still true when it started.
    assert measured["p_success"] == 1


def test_odrtb_may_read_what_was_out_of_date_at_the_start_and_that_is_no_success():
    # A long read of object 0 holds the only server; meanwhile object 1 is updated, then the second transaction starts.
    transactions = [(0, 100, [0]), (1, 100, [1])]
    _, measured = run("odrtb", [(1, 1)], transactions)
    assert (measured["p_MD"], measured["p_success"]) == (0, 0.5)
    _, measured = run("orad", [(1, 1)], transactions)
    assert (measured["p_MD"], measured["p_success"]) == (0, 1)


def test_of_equally_wide_overlaps_odrtb_takes_the_oldest():
    # At 8 the versions of object 0 are valid on [0, 4) and [4, now): both have four seconds of [-2, 8).
    _, measured = run("odrtb", [(4, 0)], [(0, 100, [1, 1, 1, 1, 0])])
    assert measured["od_updates_per_txn"] == 0
    _, measured = run("odrtb", [(3, 0)], [(0, 100, [1, 1, 1, 1, 0])])
    assert measured["od_updates_per_txn"] == 1


def test_a_later_update_closes_what_a_transaction_has_read():
    # Having read object 0 of [0, 1), it must not read object 1 of [3, inf): it takes the one of [0, 3).
    schedule, measured = run("orad", [(1, 0), (3, 1)], [(0, 100, [0, 1, 1])])
    assert schedule[:3] == [(0, 2, 0), (2, 4, 1), (4, 7, 1)]
    assert measured["od_updates_per_txn"] == 0


@pytest.mark.parametrize(
    ("recompute", "ends"),
    [
        # The view's version is closed: one look at it, one operation to read, one to compute anew. In full, both
        # parents are read as well, one of them loaded first; incrementally only the loading is added.
        ("full", 2 + 1 + (2 + 1) + 2),
        ("incremental", 2 + 1 + 1),
    ],
)
def test_a_view_is_computed_anew_when_no_version_will_do(recompute, ends):
    updates, transactions = [(1, 0)], [(1, 100, [2])]
    schedule, measured = run("orad", updates, transactions, views=[[0, 1]], recompute=recompute)
    assert schedule == [(1, 1 + ends, 2)]
    assert (measured["od_recoms_per_txn"], measured["od_updates_per_txn"]) == (1, 1)
    assert measured["scans_per_read"] == 1
    # A transaction of odrtb that starts at 1 is content with what was true ten seconds before.
    schedule, measured = run("odrtb", updates, transactions, views=[[0, 1]], recompute=recompute)
    assert schedule[0] == (1, 3, 2)
    assert measured["p_success"] == 0


@every_policy
def test_the_earliest_deadline_goes_first_at_every_read(policy):
    transactions = [(0, 50, [0, 0]), (1, 20, [1, 1]), (1, 20, [0])]
    schedule, _ = run(policy, [], transactions)
    assert [name for *_, name in schedule] == [0, 1, 1, 0, 0]


@every_policy
def test_what_ends_at_its_deadline_is_in_time_and_what_ends_later_is_aborted(policy):
    _, measured = run(policy, [], [(0, 4, [0, 1])])
    assert (measured["p_MD"], measured["p_success"]) == (0, 1)
    schedule, measured = run(policy, [], [(0, 3, [0, 1, 1])])
    assert len(schedule) == 2  # the third read is not begun
    assert (measured["p_MD"], measured["p_success"]) == (1, 0)


@every_policy
def test_what_waits_past_its_deadline_is_never_started(policy):
    schedule, measured = run(policy, [], [(0, 1.5, [0]), (0, 1.75, [1])])
    assert schedule == [(0, 2, 0)]
    assert measured["p_MD"] == 1


@every_policy
def test_the_horizon_ends_the_run(policy):
    transactions = [(0, 3, [0, 0]), (0, 100, [1])]
    schedule, measured = run(policy, [], transactions, horizon=3.5)
    assert schedule == [(0, 2, 0), (2, 4, 0)]
    # The first is past its deadline and unfinished; the second may still make it.
    assert (measured["p_MD"], measured["p_success"]) == (0.5, 0)


def test_maintenance_loads_in_order_of_arrival_and_then_refreshes_views():
    updates = [(1, 1), (1.25, 0), (1.5, 1)]
    views = [[0, 1]]
    schedule, _ = run("odrtb", updates, views=views)
    assert schedule == [(1, 2, 1), (2, 3, 0), (3, 4, 1), (4, 7, 2)]
    schedule, _ = run("odrtb", updates, views=views, recompute="incremental")
    assert schedule[-1] == (4, 5, 2)
    # orad keeps the newest only: with two updates pending, one load does.
    updates = [(1, 0), (1.25, 1), (1.5, 1)]
    schedule, _ = run("orad", updates, views=views)
    assert schedule == [(1, 2, 0), (2, 3, 1), (3, 6, 2)]


def test_orad_maintains_the_objects_in_its_cache_first():
    reads, updates = [(0, 100, [1, 2])], [(5, 0), (5, 2), (5, 1)]
    schedule, _ = run("orad", updates, reads, base=3)
    assert [name for *_, name in schedule] == [1, 2, 1, 2, 0]
    schedule, _ = run("orad", updates, reads, base=3, nmax=1)  # 2 took the place of 1
    assert [name for *_, name in schedule] == [1, 2, 2, 0, 1]
    schedule, _ = run("odrtb", updates, reads, base=3)
    assert [name for *_, name in schedule] == [1, 2, 0, 2, 1]


@every_policy
def test_no_maintenance_begins_while_a_transaction_is_active(policy):
    schedule, _ = run(policy, [(1, 0), (1, 1)], [(1.5, 100, [0])], servers=2)
    # The load of object 0 is under way when the transaction comes; that of object 1 waits for it to end.
    assert [(start, name) for start, _, name in schedule] == [(1, 0), (1.5, 0), (schedule[1][1], 1)]


def test_versions_are_counted_at_each_start_commit_and_abort():
    # Started at 0, 3 versions of 2 objects when it ends at 4; then none is read any more.
    _, measured = run("odrtb", [(1, 0)], [(0, 100, [1, 1])], delta=2)
    assert measured["n_avg"] == (2 / 2 + 2 / 2) / 2
    _, measured = run("odrtb", [(3, 0)], [(0, 100, [1, 1])], delta=2)
    assert measured["n_avg"] == (2 / 2 + 3 / 2) / 2
    _, measured = run("orad", [(3, 0)], [(0, 100, [1, 1])])
    assert measured["n_avg"] == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"base": -1}, "base"),
        ({"base": None}, "base is missing"),
        ({"updates": None}, "updates is missing"),
        ({"transactions": None}, "transactions is missing"),
        ({"views": [[2]]}, r"views\[0\]\[0\]"),
        ({"views": [0]}, r"views\[0\]"),
        ({"updates": [[1]]}, r"updates\[0\]"),
        ({"updates": [[1, 2]]}, r"updates\[0\]\[1\]"),
        ({"updates": [[-1, 0]]}, r"updates\[0\]\[0\]"),
        ({"updates": [[True, 0]]}, r"updates\[0\]\[0\]"),
        ({"transactions": [[0, 1]]}, r"transactions\[0\] must be a list of 3"),
        ({"transactions": [[0, 1, [7]]]}, r"transactions\[0\]\[2\]\[0\]"),
        ({"params": []}, "params"),
        ({"params": {"tio": "5"}}, "params.tio"),
        ({"params": {"servers": 0}}, "params.servers"),
        ({"params": {"recompute": "partial"}}, "params.recompute"),
        ({"params": {"nmax": -1}}, "params.nmax"),
        ({"params": {"delta": -1}}, "params.delta"),
    ],
)
def test_a_malformed_workload_is_refused_by_field(change, field):
    with pytest.raises(WorkloadError, match=field):
        simulate({**world(), **change}, "orad", {})
