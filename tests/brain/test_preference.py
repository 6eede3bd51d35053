"""Which updates run before which query: never more waiting than accepted, and more waiting never buys less."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain import preference
from scheduler_plugin.brain.preference import Work


@st.composite
def works(draw: st.DrawFn) -> tuple[list[Work], int]:
    queries = draw(st.integers(1, 4))
    made = [
        Work(
            cost=draw(st.integers(1, 9)),
            profit=draw(st.integers(1, 9)),
            dependents=sorted(draw(st.sets(st.integers(1, queries), min_size=1))),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    return made, queries


@settings(max_examples=60, deadline=None)
@given(works(), st.floats(0, 1))
def test_waiting_stays_within_the_bound_and_buys_what_it_can(made: tuple[list[Work], int], prefer: float) -> None:
    work, queries = made
    bound = preference.bound(work, [prefer] * queries)
    taken = preference.point(work, bound)
    assert taken.waiting <= bound <= preference.longest_wait(work, queries)
    curve = preference.curve(work, queries)
    assert [each.waiting for each in curve] == sorted(each.waiting for each in curve)
    assert [each.help for each in curve] == sorted(each.help for each in curve)
    everything = sum(each.profit * len(each.dependents) for each in work)
    assert curve[-1].help == everything
    assert preference.point(work, preference.bound(work, [1.0] * queries)).help == everything
    assert preference.point(work, 0).help == 0


def test_the_time_work_takes_is_the_longest_chain_or_the_work_over_the_slots() -> None:
    parents = {"a": (), "b": (), "v": ("a", "thin"), "thin": ("b",)}
    cost = {"a": 1.0, "b": 2.0, "v": 4.0, "thin": 9.0}
    assert preference.seconds_to_run(["a", "b", "v"], parents, cost, slots=2) == 6.0
    assert preference.seconds_to_run(["a", "b"], parents, cost, slots=1) == 3.0
    assert preference.seconds_to_run([], parents, cost, slots=1) == 0.0
