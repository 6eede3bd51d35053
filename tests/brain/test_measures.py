"""The measures, asked in two ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain.measures import Measures

#: Object, and how long after the one before something happens to it.
changes = st.lists(st.tuples(st.integers(0, 3), st.floats(0, 10)), max_size=20)


@given(changes=changes, later=st.floats(0, 50), until=st.floats(0, 60))
def test_the_fresh_shares_of_all_objects_are_those_of_each(changes, later, until):
    measures = Measures(current_to=[0.0] * 4, tables=[1, 0, 0, 0], until=until)
    at = 0.0
    for position, gap in changes:
        at += gap
        turn = measures.turned_stale if measures.stale_since(position) is None else measures.turned_fresh
        turn(position, at)
    now = at + later
    assert measures.fresh_shares(now).tolist() == [measures.fresh_share(each, now) for each in range(4)]


def test_before_any_time_has_passed_everything_counts_as_fresh():
    measures = Measures(current_to=[0.0], tables=[0])
    measures.turned_stale(0, 0.0)
    assert measures.fresh_shares(0.0).tolist() == [measures.fresh_share(0, 0.0)] == [pytest.approx(1.0)]
