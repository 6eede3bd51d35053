"""What to start in the free slots, as rows for the ledger: what is demanded, a burst's paths or the policy's choice,
and what can be kept ready in idle time.

Each decision carries what it was made of and who was passed over, for whoever asks later.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from scheduler_plugin.brain.burst import Burst
from scheduler_plugin.brain.demands import Demand
from scheduler_plugin.brain.idle import newer_by, put_off, reach
from scheduler_plugin.brain.policy import figure
from scheduler_plugin.live.holds import FAILING
from scheduler_plugin.store.decisions import NewDecision

if TYPE_CHECKING:
    from scheduler_plugin.live.scheduler import Scheduler

#: How many of the candidates that were passed over go into a decision's row.
PASSED_OVER = 8


def decide(scheduler: "Scheduler", now: float) -> list[NewDecision]:
    warehouse, policy = scheduler.warehouse, scheduler.policy
    taken = {job.slot for job in scheduler.running.values()}
    free = [slot for slot in range(warehouse.slots) if slot not in taken]
    demanded = _demanded(scheduler, free)
    taken.update(each.slot for each in demanded)
    free = [slot for slot in free if slot not in taken]
    if not free:
        return demanded
    if not (warehouse.ready or policy.runs_dirty):
        return demanded + _kept_ready(scheduler, free, now)
    first = {each.object for each in demanded}
    if scheduler.burst is not None and scheduler.burst.on:
        return demanded + _in_a_burst(scheduler, scheduler.burst, free, first)
    chosen = [each for each in policy.choose(warehouse, now, free) if each.object not in first]
    names = {choice.object for choice in chosen}
    # The best of those that stay behind: for "what went first, and by how much".
    others = [
        asdict(each)
        for each in policy.candidates(warehouse, now, len(names) + len(first) + PASSED_OVER)
        if each.object not in names and each.object not in first
    ]
    decided = demanded + [
        NewDecision(
            object=choice.object,
            policy=scheduler.policy_name,
            slot=choice.slot,
            impact=choice.impact if math.isfinite(choice.impact) else 0.0,
            why=choice.why,
            figures={
                "ingredients": policy.ingredients(warehouse, warehouse.number(choice.object), now),
                "candidates": len(warehouse.ready),
                "passed_over": others[:PASSED_OVER],
            },
            parents=scheduler.rows[choice.object].spec.get("reads", ()),
            updates=choice.updates,
            time_limit=scheduler.time_limit(choice.object),
        )
        for choice in chosen
    ]
    idle = sorted(set(free) - {choice.slot for choice in chosen})
    return decided + _kept_ready(scheduler, idle, now)


def _demanded(scheduler: "Scheduler", free: list[int]) -> list[NewDecision]:
    """What is demanded goes before all that the policy would choose."""
    turns = scheduler.demands.turns(scheduler.warehouse, may_start(scheduler))
    return [
        NewDecision(
            object=turn.object,
            policy="demand",
            slot=slot,
            impact=0.0,
            why=turn.why,
            figures={"demand": turn.demand.number},
            parents=scheduler.rows[turn.object].spec.get("reads", ()),
            upto=datetime.fromtimestamp(turn.demand.at, UTC),
            time_limit=scheduler.time_limit(turn.object),
        )
        for slot, turn in zip(free, turns, strict=False)
    ]


def may_start(scheduler: "Scheduler") -> Callable[[str, Demand], bool]:
    """What is held waits, demanded or not; but a demand made since the last failure is worth a try at once."""

    def may(name: str, demand: Demand) -> bool:
        reasons = scheduler.holds.reasons.get(name, {})
        trouble = scheduler.troubles.get(name)
        return not reasons or (reasons.keys() == {FAILING} and trouble is not None and trouble.at < demand.at)

    return may


def _in_a_burst(scheduler: "Scheduler", burst: Burst, free: list[int], first: Collection[str]) -> list[NewDecision]:
    """Too much waits: by how many bytes a second each frees, until it is less again."""
    ready = [scheduler.warehouse.graph.names[each] for each in scheduler.warehouse.ready]
    order = burst.order([name for name in ready if name in burst.waiting and name not in first])
    return [
        NewDecision(
            object=name,
            policy="chain",
            slot=slot,
            impact=burst.freed(name),
            why=(
                f"burst: {burst.backlog:,} bytes wait, more than {burst.mark:,}; "
                f"this path frees {burst.freed(name):,.0f} of them a second"
            ),
            figures={
                "ingredients": {"waiting_bytes": burst.waiting[name], "backlog_bytes": burst.backlog},
                "candidates": len(order),
                "passed_over": [
                    {"object": each, "impact": burst.freed(each), "why": "frees fewer bytes a second"}
                    for each in order[len(free) :][:PASSED_OVER]
                ],
            },
            parents=scheduler.rows[name].spec.get("reads", ()),
            time_limit=scheduler.time_limit(name),
        )
        for slot, name in zip(free, order, strict=False)
    ]


def _kept_ready(scheduler: "Scheduler", idle: list[int], now: float) -> list[NewDecision]:
    """Nobody waits and slots are left: hot views that are put off are brought as far as they can be."""
    if not idle or not scheduler.hot or scheduler.demands.open:
        return []
    warehouse = scheduler.warehouse
    found = []
    for slot, position in zip(idle, put_off(warehouse, scheduler.hot, now, scheduler.kept_ready), strict=False):
        name, newer = warehouse.graph.names[position], newer_by(warehouse, position)
        scheduler.kept_ready[name] = reach(warehouse, position)
        found.append(
            NewDecision(
                object=name,
                policy="idle",
                slot=slot,
                impact=0.0,
                why=f"kept ready in idle time: read lately, and {figure(newer)} s newer, if not all there is",
                figures={"ingredients": {"newer_by": newer}},
                parents=scheduler.rows[name].spec.get("reads", ()),
                time_limit=scheduler.time_limit(name),
            )
        )
    return found
