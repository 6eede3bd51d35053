"""Learnt costs come near what jobs really take, and never below the least."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain.costs import LEAST, CostHistory

SIZES = st.lists(st.integers(1, 50), min_size=30, max_size=60).filter(lambda sizes: len(set(sizes[-10:])) > 3)


def learnt(observed: Sequence[tuple[float, int]]) -> CostHistory:
    history = CostHistory(fixed=1.0, per_update=0.01)
    for seconds, updates in observed:
        history.observe(seconds, updates)
    return history


@given(SIZES, st.floats(0.2, 20), st.floats(0, 1))
@settings(max_examples=50)
def test_what_a_batch_costs_is_learnt_for_any_size_near_those_seen(
    sizes: list[int], fixed: float, per_update: float
) -> None:
    history = learnt([(fixed + per_update * size, size) for size in sizes])
    for size in sizes[-5:]:
        true = fixed + per_update * size
        assert abs(history.fixed + history.per_update * size - true) <= 0.1 * true + 0.1


@given(st.lists(st.tuples(st.floats(0, 1e4), st.integers(0, 1000)), max_size=40))
@settings(max_examples=50)
def test_no_cost_is_below_the_least_and_no_limit_below_a_minute(observed: list[tuple[float, int]]) -> None:
    history = learnt(observed)
    assert history.fixed >= LEAST
    assert history.per_update >= 0
    assert history.spread >= 0
    assert history.time_limit(1) >= 60


def test_the_spread_is_how_far_jobs_stray() -> None:
    steady = learnt([(5.0, 1)] * 30)
    uneven = learnt([(5.0 + 3.0 * (-1) ** number, 1) for number in range(30)])
    assert steady.spread < 0.2
    assert 2.0 < uneven.spread < 4.5
    assert uneven.time_limit(1) > steady.time_limit(1)
