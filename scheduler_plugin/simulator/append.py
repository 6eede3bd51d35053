"""The append model: tables that feeds append to, staleness as an age, pending updates batched (paper 000).

The warehouse is the brain's, without views: loading a batch takes alpha times the length of time it covers.
"""

import heapq
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from scheduler_plugin.brain.events import UpdateArrived
from scheduler_plugin.brain.objects import Table
from scheduler_plugin.brain.policies.group_and_run import GroupAndRun
from scheduler_plugin.brain.policies.myopic import Myopic
from scheduler_plugin.brain.policy import Policy
from scheduler_plugin.brain.warehouse import Warehouse
from scheduler_plugin.simulator import batching
from scheduler_plugin.simulator.drive import Drive, in_range
from scheduler_plugin.simulator.progress import Tell, silent, told
from scheduler_plugin.simulator.result import result
from scheduler_plugin.simulator.workload import Fields, Params, WorkloadError, unique

POLICIES: Mapping[str, type[Policy]] = MappingProxyType(
    {
        "myopic": Myopic,
        "group_and_run": GroupAndRun,
        "longest_batch": batching.LongestBatch,
        "shortest_batch": batching.ShortestBatch,
        "weighted": batching.Weighted,
        "weighted_staleness": batching.WeightedStaleness,
        "lifo": batching.Lifo,
    }
)


def simulate(
    workload: dict[str, object], policy: str, params: dict[str, str], tell: Tell = silent
) -> dict[str, object]:
    """Runs one policy over one workload."""
    given = Params(params)
    given.finish()
    fields = Fields(workload)
    slots = fields.slots()
    horizon = fields.number("horizon", minimum=0) if fields.has("horizon") else None
    tables, releases = read_tables(fields)
    warehouse = Warehouse(tables, slots=slots, until=math.inf if horizon is None else horizon)
    drive = Drive(warehouse, POLICIES[policy](), told(arrivals(tables, releases), sum(map(len, releases)), tell))
    try:
        drive.advance()
        metrics = measured(warehouse, horizon)
    except OverflowError:
        raise WorkloadError("the numbers are too large: a cost or a squared time is past the largest number") from None
    return result(
        policy=policy, model="append", schedule=drive.schedule if given.schedule else None, metrics=in_range(metrics)
    )


def read_tables(fields: Fields) -> tuple[list[Table], list[list[float]]]:
    """The tables in declaration order, and the releases of each."""
    tables: list[Table] = []
    releases: list[list[float]] = []
    for each in fields.objects("tables"):
        released = each.numbers("releases")
        before = 0.0
        for position, release in enumerate(released):
            if release <= before:
                raise WorkloadError(f"{each.path('releases')}[{position}] must be above {before:g}, not {release:g}")
            before = release
        lengths = (later - earlier for earlier, later in zip([0.0, *released], released, strict=False))
        tables.append(
            Table(
                name=each.text("id"),
                per_length=each.number("alpha", minimum=0),
                weight=each.number("weight", 1.0, minimum=0),
                # Where no period is declared, the largest length stands for it.
                period=each.number("period", above=0) if each.has("period") else max(lengths, default=0.0),
            )
        )
        releases.append(released)
    unique([table.name for table in tables], "tables")
    return tables, releases


def arrivals(tables: list[Table], releases: list[list[float]]) -> Iterator[UpdateArrived]:
    """All updates in order of release; at one instant, in declaration order."""
    streams = ([(release, position) for release in released] for position, released in enumerate(releases))
    return (UpdateArrived(table=tables[position].name, at=release) for release, position in heapq.merge(*streams))


def measured(warehouse: Warehouse, horizon: float | None) -> dict[str, object]:
    measures = warehouse.measures
    # Without a horizon a table's staleness counts up to the end of its last batch, when it last moved on.
    staleness = [measures.staleness(position, horizon) for position in range(len(warehouse.graph))]
    return {
        "staleness": math.fsum(staleness),
        "weighted_staleness": math.fsum(map(float.__mul__, warehouse.weight, staleness)),
        "low": measures.low,
        "penalty": measures.penalty,
        "max_stretch": measures.max_stretch,
        "mean_stretch": measures.mean_stretch,
        "batches": measures.batches,
    }
