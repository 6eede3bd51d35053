"""Model `operators`: tuples move along paths of operators, one unit of work at a time, and the backlog takes memory.

Paper 003. Tuples of a path keep their order under every policy here, so each operator has a queue whose head is the
only tuple it may have begun. Sizes are added up exactly. What a workload may say is read in `operator_paths`; beyond
the contract, two operators may be one join of two streams: see `Join`.
"""

import heapq
import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType
from typing import Protocol

from scheduler_plugin.brain.chart import Point, chain_priorities, greedy_priorities
from scheduler_plugin.simulator.operator_paths import Place, read_paths
from scheduler_plugin.simulator.progress import Tell, silent, told
from scheduler_plugin.simulator.result import Schedule, result
from scheduler_plugin.simulator.workload import Fields, Params, WorkloadError, one_of

#: More units of work than anyone waits for; also the longest memory series.
MOST_STEPS = 10_000_000


@dataclass(slots=True, eq=False, kw_only=True)
class Operator:
    """One operator of one path and the tuples before it."""

    path: int
    #: Its place among all operators, in declaration order.
    place: int
    duration: int
    #: Sizes of a tuple before and after, in the workload's common unit.
    before: int
    after: int
    #: None for the last operator of a path.
    following: "Operator | None" = None
    #: Runs of tuples [number of the first, how many], numbered in order of arrival.
    queue: deque[list[int]] = field(default_factory=deque)
    #: Units of work already put into the head.
    done: int = 0
    join: "Join | None" = None

    def put(self, number: int, count: int) -> None:
        if self.queue and sum(self.queue[-1]) == number:
            self.queue[-1][1] += count
        else:
            self.queue.append([number, count])

    def take(self) -> int:
        run = self.queue[0]
        run[0] += 1
        run[1] -= 1
        if not run[1]:
            self.queue.popleft()
        return run[0] - 1


@dataclass(slots=True, eq=False, kw_only=True)
class Join:
    """Two operators that are one join: it takes tuples of both sides in order of arrival.

    It waits while one side is empty, for a tuple there might come first, unless no more can come on that side.
    """

    sides: tuple[Operator, Operator]
    #: Per side, tuples that have not reached the join yet, future arrivals included.
    coming: list[int]

    def ready(self, operator: Operator) -> bool:
        if operator.done:
            return True
        side = self.sides.index(operator)
        other = self.sides[1 - side]
        if not other.queue:
            return self.coming[1 - side] == 0
        return not other.done and operator.queue[0][0] < other.queue[0][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """An `operators` workload, read and checked."""

    names: list[str]
    #: Per path.
    charts: list[list[Point]]
    #: (instant, path, count), in order of time.
    arrivals: list[tuple[int, int, int]]
    joins: list[tuple[Place, Place]]
    #: None: until all is done.
    horizon: int | None


class Policy(Protocol):
    """Keeps the operators that have tuples, and says which one works next."""

    def enter(self, operator: Operator) -> None:
        """It has tuples now, or another tuple at its head."""

    def choose(self) -> Operator | None:
        """The operator to work for one unit; it leaves the policy's keeping."""


class Ranked:
    """The best rank first, of equals the tuple that came first."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = ranks
        self._heap: list[tuple[int, int, int, Operator]] = []

    def enter(self, operator: Operator) -> None:
        head = operator.queue[0][0]
        heapq.heappush(self._heap, (self._ranks[operator.place], head, operator.place, operator))

    def choose(self) -> Operator | None:
        blocked = []
        found = None
        while self._heap and found is None:
            entry = heapq.heappop(self._heap)
            if entry[3].join is None or entry[3].join.ready(entry[3]):
                found = entry[3]
            else:
                blocked.append(entry)
        for entry in blocked:
            heapq.heappush(self._heap, entry)
        return found


class RoundRobin:
    """The next operator in declaration order that can work, one unit each."""

    def __init__(self) -> None:
        self._ready: list[int] = []
        self._operators: dict[int, Operator] = {}
        self._next = 0

    def enter(self, operator: Operator) -> None:
        insort(self._ready, operator.place)
        self._operators[operator.place] = operator

    def choose(self) -> Operator | None:
        begin = bisect_left(self._ready, self._next)
        for offset in range(len(self._ready)):
            index = (begin + offset) % len(self._ready)
            operator = self._operators[self._ready[index]]
            if operator.join is None or operator.join.ready(operator):
                del self._ready[index]
                self._next = operator.place + 1
                return operator
        return None


def simulate(
    workload: dict[str, object], policy: str, params: dict[str, str], tell: Tell = silent
) -> dict[str, object]:
    given = Params(params)
    given.finish()
    read = read_workload(Fields(workload))
    memory, schedule = work(read, POLICIES[policy](read.charts), keep=given.schedule, tell=tell)
    metrics = {"peak": max(memory), "integral": math.fsum(memory)}
    return result(
        policy=policy,
        model="operators",
        metrics=metrics,
        schedule=schedule if given.schedule else None,
        series={"memory": memory},
    )


def read_workload(fields: Fields) -> Workload:
    if fields.slots() != 1:
        raise WorkloadError("slots must be 1: one operator works at a time")
    paths = read_paths(fields)
    arrivals = []
    for arrival in fields.objects("arrivals"):
        at = math.ceil(arrival.number("t", minimum=0))
        name = one_of(arrival.get("path"), arrival.path("path"), paths.places)
        arrivals.append((at, paths.places[name], arrival.whole("n", 1, minimum=0)))
    arrivals.sort(key=lambda arrival: arrival[0])
    horizon = math.floor(fields.number("horizon", minimum=0)) if fields.has("horizon") else None
    needed = sum(count * paths.charts[path][-1][0] for _, path, count in arrivals)
    needed += arrivals[-1][0] if arrivals else 0
    if (needed if horizon is None else horizon) > MOST_STEPS:
        raise WorkloadError(f"horizon: the run would take more than {MOST_STEPS:,} steps; give a horizon below that")
    return Workload(
        names=list(paths.places), charts=paths.charts, arrivals=arrivals, joins=paths.joins, horizon=horizon
    )


def build(workload: Workload, unit: int) -> list[list[Operator]]:
    """The operators of each path, joined up; sizes in multiples of 1/unit."""
    paths: list[list[Operator]] = []
    place = 0
    for path, chart in enumerate(workload.charts):
        operators = []
        for (begin, before), (end, after) in pairwise(chart):
            operators.append(
                Operator(
                    path=path, place=place, duration=end - begin, before=int(before * unit), after=int(after * unit)
                )
            )
            place += 1
        for operator, following in pairwise(operators):
            operator.following = following
        paths.append(operators)
    for left, right in workload.joins:
        sides = (paths[left[0]][left[1]], paths[right[0]][right[1]])
        coming = [sum(count for _, path, count in workload.arrivals if path == side.path) for side in sides]
        sides[0].join = sides[1].join = Join(sides=sides, coming=coming)
    return paths


def work(workload: Workload, policy: Policy, *, keep: bool, tell: Tell) -> tuple[list[float], Schedule]:
    """The memory at each instant, and the schedule, one entry for each unit of work."""
    unit = math.lcm(*(size.denominator for chart in workload.charts for _, size in chart))
    paths = build(workload, unit)
    memory: list[float] = []
    schedule = Schedule(whole=True)
    used = now = number = 0
    coming = told(workload.arrivals, len(workload.arrivals), tell)
    arriving = next(coming, None)
    while True:
        while arriving is not None and arriving[0] <= now:
            _, path, count = arriving
            if count:
                used += count * paths[path][0].before
                move(policy, paths[path][0], number, count)
            number += count
            arriving = next(coming, None)
        memory.append(used / unit)
        if now == workload.horizon:
            return memory, schedule
        operator = policy.choose()
        if operator is None and arriving is None and workload.horizon is None:
            return memory, schedule
        if operator is not None:
            if keep:
                schedule.note(now, now + 1, workload.names[operator.path], 0)
            used += step(policy, operator)
        now += 1


def step(policy: Policy, operator: Operator) -> int:
    """One unit of work on the head of an operator; answers with the change in memory."""
    operator.done += 1
    changed = 0
    if operator.done == operator.duration:
        operator.done = 0
        changed = operator.after - operator.before
        tuple_number = operator.take()
        if operator.following is not None:
            move(policy, operator.following, tuple_number, 1)
    if operator.queue:
        policy.enter(operator)
    return changed


def move(policy: Policy, operator: Operator, number: int, count: int) -> None:
    """Tuples reach an operator."""
    idle = not operator.queue
    operator.put(number, count)
    if operator.join is not None:
        operator.join.coming[operator.join.sides.index(operator)] -= count
    if idle:
        policy.enter(operator)


def ranked(priorities: Callable[[Sequence[Point]], list[Fraction]]) -> Callable[[list[list[Point]]], Policy]:
    """A policy that goes by priorities of operators, the highest first."""

    def make(charts: list[list[Point]]) -> Policy:
        found = [priority for chart in charts for priority in priorities(chart)]
        rank = {priority: place for place, priority in enumerate(sorted(set(found), reverse=True))}
        return Ranked([rank[priority] for priority in found])

    return make


POLICIES: Mapping[str, Callable[[list[list[Point]]], Policy]] = MappingProxyType(
    {
        "chain": ranked(chain_priorities),
        "greedy": ranked(greedy_priorities),
        # Each tuple to its end before the next: whatever the operator, the tuple that came first.
        "fifo": ranked(lambda points: [Fraction(0)] * (len(points) - 1)),
        "round_robin": lambda charts: RoundRobin(),
    }
)
