"""Which versions are true together: the newest common instant, and what no reader can want any more."""

import math
from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain.versions import Version, floor, together


@st.composite
def histories(draw: st.DrawFn) -> list[list[Version]]:
    """Up to four objects with versions that do not overlap and may leave gaps, the last one open or closed."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        cuts = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=8)))
        versions = [Version(ltb=begin, utb=end) for begin, end in pairwise(cuts) if draw(st.booleans())]
        if draw(st.booleans()) or not versions:
            versions.append(Version(ltb=cuts[-1]))
        found.append(versions)
    return found


def newest_by_looking(histories: list[list[Version]], before: float) -> float | None:
    """The newest instant on a fine grid at which every object has a version."""
    for half in range(int(min(before, 14) * 2) - 1, -1, -1):
        if all(any(each.ltb <= half / 2 < each.utb for each in history) for history in histories):
            return half / 2
    return None


@given(histories(), st.sampled_from([math.inf, 13, 9, 5, 2]))
def test_the_newest_versions_that_were_true_together_are_found(found: list[list[Version]], before: float) -> None:
    chosen = together(found, before)
    instant = newest_by_looking(found, before)
    if chosen is None:
        assert instant is None
        return
    assert instant is not None
    assert chosen.since <= instant < chosen.until
    for history, place in zip(found, chosen.places, strict=True):
        assert place is not None
        assert history[place].ltb <= chosen.since < chosen.until <= history[place].utb


@settings(max_examples=200)
@given(histories())
def test_what_ended_below_the_floor_changes_no_readers_answer(found: list[list[Version]]) -> None:
    lowest = floor(found)
    kept = [[each for each in history if each.utb >= lowest or each is history[-1]] for history in found]
    for size in range(1, len(found) + 1):
        for some in combinations(range(len(found)), size):
            before = together([found[each] for each in some])
            after = together([kept[each] for each in some])
            assert (before is None) == (after is None)
            if before is not None and after is not None:
                assert (before.since, before.until) == (after.since, after.until)
