"""A replay of what really ran, with the policy that ran, says what was recorded; another policy, something else."""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain import POLICIES
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.live.whatif import MARGIN, WhatIf, played
from scheduler_plugin.store.freshness import LoggedEvent
from scheduler_plugin.store.models import EventKind
from tests.live.test_scheduler import START, catalog, table, view

ROWS = (
    table("a"),
    table("b"),
    table("c"),
    view("v", "a", "b", access=20.0),
    view("w", "v", access=5.0),
    view("x", "c", access=2.0),
    view("thin", "x", materialized=False, access=1.0),
)
MINUTES = 4
BEGIN = START.timestamp()


def history(policy: str, slots: int, seed: int, *, latency: float, period: float = 8.0) -> list[LoggedEvent]:
    """What a live loop would have logged: jobs of uneven length, and a little time between an end and a decision."""
    dice = random.Random(seed)
    scheduler = Scheduler(catalog(*ROWS, slots=slots, policy=policy), since=BEGIN)
    arrivals = sorted(
        (number * period * dice.uniform(0.8, 1.2) + offset, name)
        for offset, name in enumerate("abc")
        for number in range(1, int(MINUTES * 60 / period))
    )
    events: list[LoggedEvent] = []
    ends: dict[str, float] = {}

    def log(at: float, kind: EventKind, name: str, **body: object) -> None:
        when = datetime.fromtimestamp(BEGIN + at, UTC)
        events.append(LoggedEvent(id=len(events) + 1, at=when, kind=kind, object=name, body=dict(body)))
        scheduler.apply(events[-1])

    now = 0.0
    while now < MINUTES * 60:
        for choice in scheduler.choose(BEGIN + now):
            waiting = scheduler.warehouse.updates.pending.get(scheduler.warehouse.number(choice.object), ())
            taken = len(waiting) if choice.updates is None else choice.updates
            log(now, EventKind.JOB_STARTED, choice.object, decision=1, slot=choice.slot, updates=list(range(taken)))
            ends[choice.object] = now + dice.uniform(1.0, 3.0)
        ahead = [(at, name) for name, at in ends.items()]
        at, name = min([*ahead, arrivals[0]] if arrivals else ahead, default=(MINUTES * 60.0, ""))
        if not name:
            break
        if ends.get(name) == at:
            began = next(each for each in reversed(events) if each.object == name)
            took = BEGIN + at - began.at.timestamp()
            log(at, EventKind.JOB_FINISHED, name, decision=1, slot_seconds=took)
            del ends[name]
            now = at + latency
        else:
            log(
                at,
                EventKind.UPDATE_ARRIVED,
                name,
                update=len(events),
                start=BEGIN + max(at - period, 0),
                release=BEGIN + at,
            )
            arrivals.pop(0)
            now = at
        while arrivals and arrivals[0][0] < now:
            at, name = arrivals.pop(0)
            log(
                now,
                EventKind.UPDATE_ARRIVED,
                name,
                update=len(events),
                start=BEGIN + max(at - period, 0),
                release=BEGIN + at,
            )
    return events


def replay(
    events: list[LoggedEvent], ran: str, slots: int, *, policy: str | None = None, other: int | None = None
) -> WhatIf:
    real, again = (Scheduler(catalog(*ROWS, slots=slots, policy=ran), since=BEGIN) for _ in range(2))
    return played(real, again, events, BEGIN, BEGIN + MINUTES * 60, policy=policy, slots=other)


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=st.integers(0, 10_000), slots=st.sampled_from((3, 4)))
@settings(max_examples=3, deadline=None)
def test_the_replay_of_what_ran_agrees_with_what_was_recorded(policy: str, seed: int, slots: int) -> None:
    found = replay(history(policy, slots, seed, latency=0.1), policy, slots)
    assert abs(found.real.qod - found.replayed.qod) <= MARGIN
    assert found.replayed.slot_hours == pytest.approx(found.real.slot_hours, rel=0.15)
    assert len(found.real.curve) == len(found.replayed.curve) > 100


def test_more_slots_help_and_fifo_does_not() -> None:
    events = history("default", 2, 1, latency=0.1, period=5.0)
    asit = replay(events, "default", 2).replayed
    more = replay(events, "default", 2, other=6).replayed
    fifo = replay(events, "default", 2, policy="fifo").replayed
    assert more.qod > asit.qod > fifo.qod
    assert more.weighted_staleness < asit.weighted_staleness < fifo.weighted_staleness
