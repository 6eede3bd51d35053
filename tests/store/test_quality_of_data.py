"""QoD from the freshness history, against a plain recount of the same spells."""

import random
from datetime import datetime, timedelta

import pytest
from sqlalchemy import func, insert, select

from scheduler_plugin.store import history, quality_of_data
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Access, Freshness

pytestmark = pytest.mark.services

Spell = tuple[datetime, datetime | None, bool]


def at_now(ledger: Database) -> datetime:
    with ledger.transaction() as connection:
        now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return now


def write_spells(ledger: Database, name: str, begin: datetime, end: datetime, dice: random.Random) -> list[Spell]:
    edges = sorted(begin + (end - begin) * dice.random() for _ in range(dice.randrange(1, 12)))
    ends: list[datetime | None] = [*edges[1:], None]
    spells = [(since, until, dice.random() < 0.5) for since, until in zip(edges, ends, strict=True)]
    with ledger.transaction() as connection:
        connection.execute(
            insert(Freshness),
            [
                {"object": name, "since": since, "until": until, "fresh": fresh, "current_to": since}
                for since, until, fresh in spells
            ],
        )
    return spells


def seconds(spells: list[Spell], begin: datetime, end: datetime, *, fresh: bool | None = None) -> float:
    return sum(
        max(0.0, (min(until or end, end) - max(since, begin)).total_seconds())
        for since, until, is_fresh in spells
        if fresh is None or is_fresh == fresh
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_picture_the_curve_and_a_recount_agree(ledger: Database, seed: int) -> None:
    dice = random.Random(seed)
    end = at_now(ledger) - timedelta(seconds=1)
    begin = end - timedelta(hours=1)
    known = {name: write_spells(ledger, name, begin - timedelta(minutes=30), end, dice) for name in ("t", "v")}
    reads = {"t": dice.randrange(1, 50), "v": dice.randrange(1, 50)} if seed % 2 else {"t": 1, "v": 1}
    if seed % 2:
        with ledger.transaction() as connection:
            connection.execute(
                insert(Access),
                [
                    {"object": o, "minute": begin + timedelta(minutes=1), "count": n, "met_fresh": 0}
                    for o, n in reads.items()
                ],
            )

    shares = {each.object: each for each in quality_of_data.picture(ledger, begin, end)}
    for name, spells in known.items():
        assert shares[name].seconds == pytest.approx(seconds(spells, begin, end), abs=1e-3)
        assert shares[name].stale_seconds == pytest.approx(seconds(spells, begin, end, fresh=False), abs=1e-3)
        assert shares[name].access == pytest.approx(reads[name] / sum(reads.values()))

    buckets = quality_of_data.over_time(ledger, begin, end, 7)
    assert len(buckets) == 7
    step = (end - begin) / 7
    for bucket in buckets:
        weighed = {
            fresh: sum(reads[o] * seconds(s, bucket.at, bucket.at + step, fresh=fresh) for o, s in known.items())
            for fresh in (True, None)
        }
        expected = weighed[True] / weighed[None] if weighed[None] else None
        assert bucket.qod == (None if expected is None else pytest.approx(expected, abs=1e-4))


def test_the_sawtooth_holds_exactly_the_spells_that_touch_the_window(ledger: Database) -> None:
    dice = random.Random(3)
    end = at_now(ledger)
    begin = end - timedelta(minutes=20)
    spells = write_spells(ledger, "v", begin - timedelta(minutes=20), end, dice)
    told = history.sawtooth(ledger, "v", begin, end)
    wanted = [(since, until, fresh) for since, until, fresh in spells if until is None or until > begin]
    assert [(each.since, each.until, each.fresh) for each in told.spells] == wanted
    assert not told.truncated
    newest = history.sawtooth(ledger, "v", begin, end, limit=1)
    assert newest.truncated
    assert [each.since for each in newest.spells] == [wanted[-1][0]]
