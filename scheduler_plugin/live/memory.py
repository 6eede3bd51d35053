"""What a Scheduler knows, as plain JSON and back; and a Scheduler as it was at any time of the log.

The log is the truth: a Scheduler is a function of the catalog and the log. A checkpoint is only a later place to begin.
"""

import math
from dataclasses import asdict
from datetime import datetime
from typing import Any

from scheduler_plugin.brain import checkpoint
from scheduler_plugin.brain.costs import CostHistory
from scheduler_plugin.brain.demands import Demand
from scheduler_plugin.live.holds import OLDER, Override, Trouble
from scheduler_plugin.live.scheduler import Running, Scheduler
from scheduler_plugin.store import checkpoints, freshness, objects
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.objects import CatalogRow


def dump(scheduler: Scheduler) -> dict[str, Any]:
    return {
        "warehouse": checkpoint.dump(scheduler.warehouse),
        "running": {name: asdict(each) for name, each in scheduler.running.items()},
        "troubles": {name: asdict(each) for name, each in scheduler.troubles.items()},
        "holds": scheduler.holds.reasons,
        "stopped": scheduler.stopped,
        "spark_away": scheduler.spark_away,
        "policy_told": scheduler.policy_told,
        "costs": {name: each.as_json() for name, each in scheduler.costs.items()},
        "overrides": {
            name: {what: asdict(each) for what, each in kept.items()} for name, kept in scheduler.overrides.items()
        },
        "first_arrivals": scheduler.first_arrivals,
        "blocked": scheduler.blocked,
        "burst": None if scheduler.burst is None else scheduler.burst.as_json(),
        "demands": [
            {**asdict(each), "deadline": None if math.isinf(each.deadline) else each.deadline}
            for each in scheduler.demands.open.values()
        ],
    }


def restored(catalog: CatalogRow, state: dict[str, Any], event_id: int) -> Scheduler:
    """A Scheduler of this catalog that knows what the one knew that wrote `state` after event `event_id`."""
    scheduler = Scheduler(catalog, since=state["warehouse"]["since"])
    rows, warehouse = scheduler.rows, scheduler.warehouse
    anew = {name for name, row in rows.items() if row.kind == "view" and row.defined_at_event > event_id}
    scheduler.first_arrivals = {name: at for name, at in state["first_arrivals"].items() if name in rows}
    checkpoint.load(warehouse, state["warehouse"], anew=anew, first_arrivals=state["first_arrivals"])
    now = warehouse.now
    scheduler.costs = {name: CostHistory(**each) for name, each in state["costs"].items() if name in rows}
    scheduler.troubles = {
        name: Trouble(**each) for name, each in state["troubles"].items() if name in rows and name not in anew
    }
    scheduler.overrides = {
        name: {what: Override(**each) for what, each in kept.items()}
        for name, kept in state["overrides"].items()
        if name in rows
    }
    for name in scheduler.overrides:
        scheduler.tell_limit(name, now)
    scheduler.blocked = {name: files for name, files in state["blocked"].items() if name in rows}
    if scheduler.burst is not None and state.get("burst"):
        scheduler.burst.restore(state["burst"])
    for each in state["demands"]:
        if each["object"] in rows:
            deadline = math.inf if each["deadline"] is None else each["deadline"]
            scheduler.demands.add(Demand(**{**each, "deadline": deadline}))
    scheduler.stopped = state["stopped"]
    scheduler.spark_away = state.get("spark_away", False)
    scheduler.policy_told = state.get("policy_told")
    for name, reasons in state["holds"].items():
        for reason, told in reasons.items() if name in rows else ():
            scheduler.hold(name, reason, now, told)
    for name, each in state["running"].items():
        if name in rows:
            counts = each["counts"] and name not in anew
            scheduler.running[name] = Running(**{**each, "counts": counts})
            if not counts:
                scheduler.hold(name, OLDER, now)
    scheduler.policy.follow(warehouse, now)
    return scheduler


class NoLogError(LookupError):
    """There is nothing in the log yet, or nothing as old as was asked for."""


def at_event(database: Database, event_id: int, *, catalog: CatalogRow | None = None) -> Scheduler:
    """The Scheduler as it was after an event, under the catalog of that time or another one."""
    catalog = catalog or objects.in_force(database, at_event=event_id)
    if catalog is None:
        raise NoLogError("no catalog had been taken in by then")
    found = checkpoints.newest(database, upto=event_id)
    if found is not None:
        scheduler, seen = restored(catalog, found.state, found.event_id), found.event_id
    else:
        first = freshness.events_after(database, 0, limit=1)
        if not first:
            raise NoLogError("the log is empty")
        scheduler, seen = Scheduler(catalog, since=first[0].at.timestamp()), 0
    while events := freshness.events_after(database, seen, upto=event_id):
        for event in events:
            scheduler.apply(event)
        scheduler.policy.follow(scheduler.warehouse, scheduler.warehouse.now)
        seen = events[-1].id
    return scheduler


def at_time(database: Database, when: datetime | None) -> Scheduler:
    """The Scheduler as it was at a time; None: as it is, as far as the log is written."""
    last = checkpoints.last_event_at(database, when)
    if last is None:
        told = (
            "Nothing has happened yet."
            if when is None
            else f"The log does not reach back to {when:%Y-%m-%d %H:%M:%S %Z}."
        )
        raise NoLogError(told)
    return at_event(database, last[0])
