"""Plays arrivals against a warehouse: at one instant what ends comes first, then what arrives, then what starts.

Time jumps from one instant at which something happens to the next. Jobs are never interrupted, and run on past any
horizon: what is not to count there is the measures' affair.
"""

import heapq
import math
from bisect import insort
from collections.abc import Iterable

from scheduler_plugin.brain.events import JobFinished, JobStarted, UpdateArrived
from scheduler_plugin.brain.policy import Choice, Policy
from scheduler_plugin.brain.warehouse import Warehouse
from scheduler_plugin.simulator.result import Schedule
from scheduler_plugin.simulator.workload import WorkloadError


class Drive:
    """One run of a policy over the arrivals, which come in order of time."""

    def __init__(self, warehouse: Warehouse, policy: Policy, arrivals: Iterable[UpdateArrived]) -> None:
        self.warehouse = warehouse
        self.policy = policy
        #: Every job started so far, in order.
        self.schedule = Schedule()
        self._arrivals = iter(arrivals)
        self._next = next(self._arrivals, None)
        #: What runs: (end, slot, object).
        self._running: list[tuple[float, int, str]] = []
        self._free = list(range(warehouse.slots))

    def advance(self, until: float = math.inf) -> None:
        """Takes in everything that happens up to and at `until`; without it, everything."""
        while True:
            ends = self._running[0][0] if self._running else math.inf
            arrives = self._next.at if self._next is not None else math.inf
            now = min(ends, arrives)
            if now > until or now == math.inf:
                return
            while self._running and self._running[0][0] == now:
                _, slot, name = heapq.heappop(self._running)
                insort(self._free, slot)
                self.warehouse.apply(JobFinished(object=name, at=now))
            while self._next is not None and self._next.at == now:
                self.warehouse.apply(self._next)
                self._next = next(self._arrivals, None)
            # One slot at a time: what starts in one may make way for what suits the next.
            for slot in tuple(self._free):
                choices = self.policy.choose(self.warehouse, now, [slot])
                for choice in choices:
                    self._start(choice, now)
                if not choices and not self.policy.idles:
                    break

    def _start(self, choice: Choice, now: float) -> None:
        warehouse = self.warehouse
        position = warehouse.graph.index[choice.object]
        end = now + warehouse.cost(position, choice.updates)
        if end == math.inf:
            raise WorkloadError(f"the job of {choice.object} that starts at {now:g} ends past the largest number")
        warehouse.apply(JobStarted(object=choice.object, at=now, updates=choice.updates))
        taken = len(warehouse.running[position].batch) if warehouse.graph.tables[position] else None
        self._free.remove(choice.slot)
        heapq.heappush(self._running, (end, choice.slot, choice.object))
        self.schedule.note(now, end, choice.object, choice.slot, updates=taken)


def in_range(metrics: dict[str, object]) -> dict[str, object]:
    """The metrics, if all are finite; numbers near the largest one add up to infinity."""
    for name, value in metrics.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise WorkloadError(f"the workload's numbers are too large: {name} is out of range")
    return metrics
