"""Breaches, read off the spells: where staleness is above the limit, and nowhere else."""

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.store.history import Spell, breaches

START = 1_700_000_000


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(START + seconds, UTC)


@st.composite
def spells(draw: st.DrawFn) -> list[Spell]:
    edges = draw(st.lists(st.integers(0, 300), min_size=2, max_size=8, unique=True).map(sorted))
    found = []
    for number, (since, until) in enumerate(pairwise(edges)):
        last = number == len(edges) - 2
        current_to = since - draw(st.integers(0, 60))
        found.append(Spell(since=at(since), until=None if last else at(until), fresh=False, current_to=at(current_to)))
    return found


@given(spells=spells(), limit=st.integers(1, 100), moment=st.integers(0, 400))
def test_a_moment_is_in_a_breach_when_its_staleness_is_above_the_limit(
    spells: list[Spell], limit: int, moment: int
) -> None:
    now = START + 400.0
    told = breaches(spells, limit, now)
    instant = START + moment + 0.5
    here = [
        each
        for each in spells
        if each.since.timestamp() <= instant and (each.until is None or instant < each.until.timestamp())
    ]
    stale = any(each.current_to is not None and instant - each.current_to.timestamp() > limit for each in here)
    inside = any(since < instant and (until is None or instant < until) for since, until in told)
    assert inside == stale
    # None touches the next: what is one stretch is one breach.
    assert all(a[1] is not None and a[1] < b[0] for a, b in pairwise(told))


def test_without_a_limit_nothing_is_a_breach() -> None:
    spell = Spell(since=at(0), until=None, fresh=False, current_to=at(-1000))
    assert breaches([spell], None, START + 10.0) == []
