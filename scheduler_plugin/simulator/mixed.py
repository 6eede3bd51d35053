"""The mixed model: tables that batch, views derived from them, several slots, and the measures of papers 000 and 004.

It is the world of the live scheduler, with the same policies. docs/simulator/mixed.md says what its measures mean and
which choices were made where the papers are silent.
"""

import heapq
import math
from collections.abc import Iterator

from scheduler_plugin.brain.events import UpdateArrived
from scheduler_plugin.brain.graph import GraphError
from scheduler_plugin.brain.objects import Table, View
from scheduler_plugin.brain.policies import POLICIES
from scheduler_plugin.brain.policy import Policy
from scheduler_plugin.brain.warehouse import Warehouse
from scheduler_plugin.simulator.drive import Drive, in_range
from scheduler_plugin.simulator.progress import Tell, silent, told
from scheduler_plugin.simulator.result import result
from scheduler_plugin.simulator.workload import Fields, Params, WorkloadError, unique

__all__ = ["POLICIES", "run", "simulate"]


def simulate(
    workload: dict[str, object], policy: str, params: dict[str, str], tell: Tell = silent
) -> dict[str, object]:
    """Runs one policy over one workload."""
    given = Params(params)
    given.finish()
    drive, metrics = run(workload, POLICIES[policy](), tell)
    return result(policy=policy, model="mixed", schedule=drive.schedule if given.schedule else None, metrics=metrics)


def run(workload: dict[str, object], policy: Policy, tell: Tell = silent) -> tuple[Drive, dict[str, object]]:
    """Runs any policy object over one workload; answers with the finished drive and the measures."""
    fields = Fields(workload)
    slots = fields.slots()
    horizon = fields.number("horizon", above=0) if fields.has("horizon") else None
    tables, releases = read_tables(fields)
    views = read_views(fields, [table.name for table in tables])
    try:
        warehouse = Warehouse([*tables, *views], slots=slots, until=math.inf if horizon is None else horizon)
    except GraphError as error:
        raise WorkloadError(f"views: {error}") from None
    drive = Drive(warehouse, policy, told(arrivals(tables, releases), sum(map(len, releases)), tell))
    try:
        drive.advance()
        metrics = measured(warehouse, warehouse.now if horizon is None else horizon)
    except OverflowError:
        raise WorkloadError("the workload's numbers are too large: a measure is out of range") from None
    return drive, in_range(metrics)


def read_tables(fields: Fields) -> tuple[list[Table], list[list[float]]]:
    """The tables in declaration order, and the releases of each."""
    tables: list[Table] = []
    releases: list[list[float]] = []
    for each in fields.objects("tables"):
        released = each.numbers("releases", minimum=0)
        lengths = []
        before = 0.0
        for position, release in enumerate(released):
            if release < before:
                raise WorkloadError(f"{each.path('releases')}[{position}] must be at least {before:g}, not {release:g}")
            lengths.append(release - before)
            before = release
        tables.append(
            Table(
                name=each.text("id"),
                fixed=each.number("fixed", minimum=0),
                per_update=each.number("per_update", minimum=0),
                weight=each.number("weight", 1.0, minimum=0),
                # Where no period is declared, the largest length stands for it.
                period=each.number("period", above=0) if each.has("period") else max(lengths, default=0.0),
            )
        )
        releases.append(released)
    unique([table.name for table in tables], "tables")
    return tables, releases


def read_views(fields: Fields, tables: list[str]) -> list[View]:
    views: list[View] = []
    wheres: list[Fields] = []
    for each in fields.objects("views", []):
        materialized = each.flag("materialized", True)
        views.append(
            View(
                name=each.text("id"),
                parents=tuple(each.texts("parents")),
                cost=each.number("cost", minimum=0) if materialized else 0.0,
                access=each.number("access", 0.0, minimum=0),
                materialized=materialized,
            )
        )
        wheres.append(each)
    names = [*tables, *(view.name for view in views)]
    unique(names, "views")
    known = set(names)
    for view, where in zip(views, wheres, strict=True):
        for position, parent in enumerate(view.parents):
            if parent not in known:
                raise WorkloadError(
                    f"{where.path('parents')}[{position}] of view {view.name} is {parent}, which is not declared"
                )
    return views


def arrivals(tables: list[Table], releases: list[list[float]]) -> Iterator[UpdateArrived]:
    """All updates in order of release; at one instant, in declaration order."""
    streams = ([(release, position) for release in released] for position, released in enumerate(releases))
    return (UpdateArrived(table=tables[position].name, at=release) for release, position in heapq.merge(*streams))


def measured(warehouse: Warehouse, end: float) -> dict[str, object]:
    """The measures over [0, end]."""
    graph, measures = warehouse.graph, warehouse.measures
    tables = [position for position in range(len(graph)) if graph.tables[position]]
    views = [position for position in range(len(graph)) if not graph.tables[position]]
    ages = {each: measures.staleness(each, end) / end if end > 0 else 0.0 for each in range(len(graph))}
    return {
        "qod": measures.qod(((each, warehouse.access[each]) for each in views), end),
        "weighted_age_views": math.fsum(warehouse.access[each] * ages[each] for each in views),
        "mean_age_tables": math.fsum(ages[each] for each in tables) / len(tables) if tables else 0.0,
        "max_stretch": measures.max_stretch,
        "max_view_stale": max((measures.longest_spell(each, end) for each in views), default=0.0),
    }
