"""A lane against a plain dictionary that is sorted whenever it is asked."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain.lane import AT_HAND, Lane
from tests.brain.worlds import unhurried

objects = st.integers(0, 3 * AT_HAND)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("put"), objects, st.integers(0, 4).map(float)),
        st.tuples(st.just("stop"), objects, st.just(0.0)),
        st.tuples(st.just("first"), objects, st.just(0.0)),
        st.tuples(st.just("take"), st.integers(0, 5), st.just(0.0)),
    ),
    max_size=200,
)


@unhurried
@given(moves=moves)
def test_the_first_are_those_of_the_largest_keys_each_once(moves):
    lane, keys = Lane(), {}
    for move, number, key in moves:
        if move == "put":
            keys[number] = key
            lane.put(number, key)
        elif move == "stop":
            keys.pop(number, None)
            lane.first(keys.keys(), 3 * AT_HAND)  # what may not start is forgotten once it has been met
        ranked = sorted((-key, each) for each, key in keys.items())
        if move == "first":
            assert lane.first(keys.keys(), number) == ranked[:number]
        if move == "take":
            taken = [lane.take(keys.keys()) for _ in range(number)]
            assert taken == [*ranked, *[None] * number][:number]
            for entry in taken:
                if entry is not None:
                    lane.put_back(entry)
        assert lane.peek(keys.keys()) == (ranked[0] if ranked else None)


def test_an_object_whose_key_comes_back_is_there_once():
    lane = Lane()
    for key in (1.0, 2.0, 1.0):
        lane.put(7, key)
        lane.put(8, 3.0)
    assert lane.first({7, 8}, 3) == [(-3.0, 8), (-1.0, 7)]
