"""How the brain's time and memory grow with the warehouse.

Each size is a fresh process. A quarter of the objects are tables; each view reads one to three objects of its own
neighbourhood of forty. Measured are one arrival, one decision (choosing and noting the start) and one end of a job,
while one table in a hundred has already been updated; before that, the moment at which those arrive together. Times are
of the processor, so that what else a machine does shows little in them. Memory is what the process grew by, the
policy's heaps included.

With --dagster, a Python that has Dagster evaluates its automation conditions (`eager` on every asset) over the same
graph after one materialization of a source, and stands beside our arrival and decision.
"""

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from scheduler_plugin.brain import POLICIES, JobFinished, JobStarted, Table, UpdateArrived, View, Warehouse
from scheduler_plugin.brain.objects import Declared
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.cli.table import table

ROUNDS = 3000
NEIGHBOURHOOD = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", default="20000,100000,1000000", help="objects, with commas (20000,100000,1000000)")
    parser.add_argument("--policies", default="default,qoda", help="with commas (default,qoda)")
    parser.add_argument(
        "--dagster",
        metavar="PYTHON",
        default=os.environ.get("FRESHET_DAGSTER_PYTHON"),
        help="a Python that can import dagster, to compare with (FRESHET_DAGSTER_PYTHON)",
    )
    parser.add_argument("--dagster-size", type=int, default=1050, help="objects in the comparison (1050)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One size under one policy; times in milliseconds."""

    policy: str
    objects: int
    bytes_per_object: float
    #: One table in a hundred updated together, and the decision after it.
    burst_ms: float
    arrival_p99_ms: float
    decision_p99_ms: float
    end_p99_ms: float
    #: Median of one arrival and one decision together.
    both_p50_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    figures: Sequence[Figures]
    #: Milliseconds of one evaluation by Dagster, and how many times ours that is.
    dagster: dict[str, float] | None

    def as_json(self) -> dict[str, object]:
        return {"figures": [asdict(each) for each in self.figures], "dagster": self.dagster}

    def as_text(self) -> str:
        header = ["policy", "objects", "B/object", "1% at once", "arrival p99", "decision p99", "end p99", "both p50"]
        rows = [
            [
                each.policy,
                f"{each.objects:,}",
                f"{each.bytes_per_object:.0f}",
                *(
                    f"{milliseconds:.3f} ms"
                    for milliseconds in (
                        each.burst_ms,
                        each.arrival_p99_ms,
                        each.decision_p99_ms,
                        each.end_p99_ms,
                        each.both_p50_ms,
                    )
                ),
            ]
            for each in self.figures
        ]
        text = table(header, rows, right=header[1:])
        if self.dagster:
            text += (
                f"\n\nDagster, {self.dagster['objects']:,.0f} objects: "
                f"{self.dagster['evaluation_ms']:.1f} ms an evaluation; "
                f"ours {self.dagster['ours_ms']:.4f} ms, {self.dagster['ratio']:,.0f} times less"
            )
        return text


def run(options: argparse.Namespace) -> Report:
    sizes, policies = options.sizes.split(","), options.policies.split(",")
    for name in policies:
        if name not in POLICIES:
            raise UserError(f"there is no policy {name}; there are {', '.join(POLICIES)}", exit_code=2)
    if not all(size.isdigit() and int(size) >= NEIGHBOURHOOD for size in sizes):
        raise UserError(f"--sizes takes whole numbers of at least {NEIGHBOURHOOD}, with commas", exit_code=2)
    found = []
    for size in map(int, sizes):
        for policy in policies:
            print(f"{policy}, {size:,} objects ...", file=sys.stderr)
            # A process of its own, so that what it grew by is this warehouse.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found.append(pool.submit(measure, policy, size).result())
    compared = against_dagster(options.dagster, options.dagster_size, policies[0]) if options.dagster else None
    return Report(figures=found, dagster=compared)


def warehouse_of(count: int, seed: int = 1) -> list[Declared]:
    """Neighbourhoods of ten tables and thirty views over them."""
    dice = random.Random(seed)
    objects: list[Declared] = []
    for number in range(count):
        place = number % NEIGHBOURHOOD
        if place < NEIGHBOURHOOD // 4:
            objects.append(Table(name=f"t{number}", fixed=dice.uniform(0.5, 2), per_update=0.1))
        else:
            read = {number - dice.randint(1, place) for _ in range(dice.choice((1, 1, 2, 3)))}
            parents = tuple(objects[each].name for each in sorted(read))
            objects.append(View(name=f"v{number}", parents=parents, cost=dice.uniform(0.5, 5), access=dice.random()))
    return objects


def measure(policy_name: str, count: int) -> Figures:
    before = resident()
    warehouse = Warehouse(warehouse_of(count), slots=8)
    policy = POLICIES[policy_name]()
    dice = random.Random(2)
    tables = [name for position, name in enumerate(warehouse.graph.names) if warehouse.graph.tables[position]]
    for each in tables:  # a past, so that there are gaps to guess from
        for at in (1.0, 2.0, 4.0, 5.0, 7.0, 8.0):
            warehouse.apply(UpdateArrived(table=each, at=at))
        warehouse.apply(JobStarted(object=each, at=8.0))
        warehouse.apply(JobFinished(object=each, at=8.0))
    for position in warehouse.graph.order:
        if position in warehouse.ready:
            warehouse.apply(JobStarted(object=warehouse.graph.names[position], at=8.0))
            warehouse.apply(JobFinished(object=warehouse.graph.names[position], at=8.0))
    policy.choose(warehouse, 8.0, [0])
    gc.collect()
    gc.freeze()  # what lives as long as the process need not be looked at again
    now = 10.0
    hit = dice.sample(tables, len(tables) // 100)
    began = time.thread_time()
    for each in hit:
        warehouse.apply(UpdateArrived(table=each, at=now))
    policy.choose(warehouse, now, range(8))
    burst = time.thread_time() - began

    arrivals, decisions, ends = [], [], []
    running: list[str] = []
    for _ in range(ROUNDS):
        now += 0.01
        began = time.thread_time()
        warehouse.apply(UpdateArrived(table=dice.choice(tables), at=now))
        arrivals.append(time.thread_time() - began)
        began = time.thread_time()
        choices = policy.choose(warehouse, now, [0])
        for choice in choices:
            warehouse.apply(JobStarted(object=choice.object, at=now))
        decisions.append(time.thread_time() - began)
        running += [choice.object for choice in choices]
        if len(running) >= 8:
            began = time.thread_time()
            warehouse.apply(JobFinished(object=running.pop(0), at=now))
            ends.append(time.thread_time() - began)
    both = [arrival + decision for arrival, decision in zip(arrivals, decisions, strict=True)]
    return Figures(
        policy=policy_name,
        objects=count,
        bytes_per_object=(resident() - before) / count,
        burst_ms=1000 * burst,
        arrival_p99_ms=p99(arrivals),
        decision_p99_ms=p99(decisions),
        end_p99_ms=p99(ends),
        both_p50_ms=1000 * statistics.median(both),
    )


def p99(seconds: Sequence[float]) -> float:
    return 1000 * sorted(seconds)[int(0.99 * len(seconds))]


def resident() -> int:
    """Bytes of memory this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def against_dagster(python: str, count: int, policy: str) -> dict[str, float]:
    objects = warehouse_of(count)
    graph = [[each.name, [] if isinstance(each, Table) else list(each.parents)] for each in objects]
    print(f"Dagster, {count:,} objects ...", file=sys.stderr)
    script = Path(__file__).with_name("dagster_evaluation.py")
    done = subprocess.run([python, str(script)], input=json.dumps(graph), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"Dagster could not be measured with {python}: {done.stderr.strip().splitlines()[-1]}")
    theirs = float(done.stdout.split()[-1])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        ours = pool.submit(measure, policy, count).result().both_p50_ms
    return {"objects": count, "evaluation_ms": theirs, "ours_ms": ours, "ratio": theirs / ours}
