"""A Scheduler from a checkpoint and the rest of the log is the Scheduler of the whole log."""

import json
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.brain import POLICIES
from scheduler_plugin.live import memory
from scheduler_plugin.live.scheduler import Scheduler
from tests.live.test_scheduler import START, STEPS, Log, catalog, play, view


def followed(scheduler: Scheduler, it: Log, after: int = 0) -> Scheduler:
    for event in it.events[after:]:
        scheduler.apply(event)
    return scheduler


def alike(one: Scheduler, other: Scheduler, now: float) -> None:
    assert one.standing(START) == other.standing(START)
    assert one.running == other.running
    assert one.holds == other.holds
    assert one.troubles == other.troubles
    assert one.costs == other.costs
    assert [(each.object, each.slot, each.why) for each in one.choose(now)] == [
        (each.object, each.slot, each.why) for each in other.choose(now)
    ]


@given(STEPS, st.integers(0, 60), st.sampled_from([name for name in POLICIES if name != "fifo"]))
@settings(max_examples=60)
def test_a_checkpoint_and_the_rest_of_the_log_are_the_whole_log(
    steps: Sequence[tuple[str, int]], cut: int, policy: str
) -> None:
    it, _, _ = play(steps)
    rows = catalog(*it.scheduler.rows.values(), policy=policy)
    whole = followed(Scheduler(rows, since=START.timestamp()), it)
    before = Scheduler(rows, since=START.timestamp())
    for event in it.events[:cut]:
        before.apply(event)
    state = json.loads(json.dumps(memory.dump(before), allow_nan=False))
    alike(followed(memory.restored(rows, state, cut), it, cut), whole, it.now + 1)


@given(STEPS, st.integers(0, 60))
@settings(max_examples=60)
def test_a_checkpoint_serves_a_catalog_in_which_a_view_is_new_and_another_was_defined_anew(
    steps: Sequence[tuple[str, int]], cut: int
) -> None:
    it, _, _ = play(steps)
    old = list(it.scheduler.rows.values())
    changed = len(it.events) + 1
    new = [replace(row, defined_at_event=changed) if row.name == "w" else row for row in old]
    new.append(view("fresh", "w", "b", defined_at=changed))
    whole = followed(Scheduler(catalog(*new), since=START.timestamp()), it)
    before = Scheduler(catalog(*old), since=START.timestamp())
    for event in it.events[:cut]:
        before.apply(event)
    state = json.loads(json.dumps(memory.dump(before), allow_nan=False))
    anew = followed(memory.restored(catalog(*new), state, min(cut, len(it.events))), it, cut)
    assert anew.standing(START) == whole.standing(START)
    assert anew.running == whole.running
    assert {each.object for each in anew.choose(it.now)} == {each.object for each in whole.choose(it.now)}
