"""A warehouse's state as plain JSON, and back: a replay of the log can begin there instead of at its beginning.

Only what differs from a warehouse in which nothing has happened is kept. The state may be put into a warehouse of other
objects: what is gone is left out; a view that is new, or was defined anew, lacks everything that ever arrived for the
tables behind it, just as if the whole log had been replayed. Limits are no state: they are declared, or told again.
"""

import math
from array import array
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from scheduler_plugin.brain.events import CostLearnt, JobStarted, UpdateArrived
from scheduler_plugin.brain.exact import ExactSum
from scheduler_plugin.brain.measures import Measures
from scheduler_plugin.brain.updates import Update
from scheduler_plugin.brain.warehouse import Warehouse

#: Measures that are shared with the warehouse or given to it; the others are state.
_NOT_STATE = ("_current_to", "_tables", "since", "until")
_LEARNT = ("fixed", "per_update", "per_length")


def dump(warehouse: Warehouse) -> dict[str, Any]:
    """The state of every object by name, and of the whole. Infinity and NaN are written as null."""
    measures = warehouse.measures
    columns = list(_columns(measures).values())
    objects: dict[str, dict[str, Any]] = {}
    for position, name in enumerate(warehouse.graph.names):
        kept: dict[str, Any] = {each: getattr(warehouse.work, each)[position] for each in _LEARNT}
        kept["access"] = warehouse.access[position]
        kept["missing"] = _plain(warehouse.missing[position])
        kept["current_to"] = _plain(warehouse.current_to[position])
        if position in warehouse.updates.pending:
            kept["pending"] = [list(update) for update in warehouse.updates.pending[position]]
        if position in warehouse.updates.newest:
            kept["newest"] = warehouse.updates.newest[position]
        if position in warehouse.updates.gaps:
            kept["gaps"] = list(warehouse.updates.gaps[position])
        job = warehouse.running.get(position)
        if job is not None:
            kept["job"] = {
                "started": job.started,
                "missing": _plain(job.missing),
                "current_to": _plain(job.current_to),
                "batch": [list(update) for update in job.batch],
            }
        kept["measures"] = [_plain(column[position]) for column in columns]
        objects[name] = kept
    return {
        "now": warehouse.now,
        "since": measures.since,
        "objects": objects,
        "totals": {name: _total(getattr(measures, name)) for name in _totals(measures)},
    }


def load(
    warehouse: Warehouse, state: Mapping[str, Any], *, anew: Collection[str], first_arrivals: Mapping[str, float]
) -> None:
    """Puts a state into a warehouse in which nothing has happened yet.

    `anew` names views defined anew since; `first_arrivals` says when the first update ever arrived for each table.
    """
    graph = warehouse.graph
    known = {
        graph.index[name]: kept
        for name, kept in state["objects"].items()
        if name in graph.index and (name not in anew or graph.tables[graph.index[name]])
    }
    for position, kept in known.items():
        warehouse.access[position] = kept["access"]
        warehouse.apply(
            CostLearnt(
                object=graph.names[position],
                at=warehouse.now,
                cost=kept["fixed"],
                per_update=kept["per_update"] if graph.tables[position] else None,
                per_length=kept["per_length"] if graph.tables[position] else None,
            )
        )
        if graph.tables[position]:
            warehouse.current_to[position] = _number(kept["current_to"], math.inf)
    for event in _events(warehouse, known):
        warehouse.apply(event)
    for position in graph.order:
        if graph.virtual[position]:
            parents = graph.parents[position]
            warehouse.current_to[position] = min((warehouse.current_to[each] for each in parents), default=math.inf)
            missing = min((warehouse.missing[each] for each in parents), default=math.inf)
        elif graph.tables[position]:
            continue
        elif position in known:
            warehouse.current_to[position] = _number(known[position]["current_to"], math.inf)
            missing = _number(known[position]["missing"], math.inf)
        else:
            tables = graph.ancestor_tables(position)
            missing = min((first_arrivals.get(graph.names[each], math.inf) for each in tables), default=math.inf)
        if missing != math.inf:
            if warehouse.missing[position] == math.inf:
                warehouse._turn_stale(position, missing)
            warehouse.missing[position] = missing
    columns = list(_columns(warehouse.measures).values())
    for position, kept in known.items():
        _restore_rest(warehouse, position, kept, columns)
    for name, value in state["totals"].items():
        setattr(warehouse.measures, name, ExactSum.of(value["units"]) if isinstance(value, dict) else value)
    warehouse.now = state["now"]
    for position in range(len(graph)):
        warehouse._settle(position)


def _events(warehouse: Warehouse, known: Mapping[int, Mapping[str, Any]]) -> list[UpdateArrived | JobStarted]:
    """The arrivals that wait or are being loaded, and the jobs under way, in order of time."""
    found: list[UpdateArrived | JobStarted] = []
    for position, kept in known.items():
        name = warehouse.graph.names[position]
        job = kept.get("job")
        batch = job["batch"] if job else []
        found += [
            UpdateArrived(table=name, start=start, release=release, at=at, update=identity)
            for start, release, at, identity in [*batch, *kept.get("pending", ())]
        ]
        if job:
            found.append(JobStarted(object=name, at=job["started"], updates=len(batch) or None))
    return sorted(found, key=lambda event: event.at)


def _restore_rest(
    warehouse: Warehouse, position: int, kept: Mapping[str, Any], columns: Sequence["array[float]"]
) -> None:
    if warehouse.graph.tables[position]:
        missing = _number(kept["missing"], math.inf)
        if missing != math.inf:
            warehouse.missing[position] = missing
        if "pending" in kept:
            # A batch given back was put in front: the order is the one kept, not that of arrival.
            warehouse.updates.pending[position] = deque(Update(*each) for each in kept["pending"])
    if "newest" in kept:
        warehouse.updates.newest[position] = kept["newest"]
    if "gaps" in kept:
        warehouse.updates.gaps[position] = array("d", kept["gaps"])
    job = warehouse.running.get(position)
    if job is not None:
        job.started = kept["job"]["started"]
        job.missing = _number(kept["job"]["missing"], math.inf)
        job.current_to = _number(kept["job"]["current_to"], math.inf)
        job.batch = tuple(Update(*each) for each in kept["job"]["batch"])
    for column, value in zip(columns, kept["measures"], strict=True):
        column[position] = _number(value, math.nan)


def _columns(measures: Measures) -> dict[str, "array[float]"]:
    """What is measured of each object."""
    found = {name: getattr(measures, name) for name in Measures.__slots__ if name not in _NOT_STATE}
    return {name: value for name, value in found.items() if isinstance(value, array)}


def _totals(measures: Measures) -> list[str]:
    """What is measured of the whole."""
    columns = _columns(measures)
    return [name for name in Measures.__slots__ if name not in _NOT_STATE and name not in columns]


def _total(value: float | ExactSum) -> float | dict[str, int]:
    return {"units": value.units} if isinstance(value, ExactSum) else value


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(value: float | None, other: float) -> float:
    return other if value is None else value
