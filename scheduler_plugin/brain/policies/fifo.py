"""FIFO: every update in the order of arrival, each with refreshes of its own (paper 004, section 5).

An update asks for one load of its table alone, then one refresh of each materialized descendant, by level (the longest
path from the table) and then by declaration. Nothing is merged with another update's work; that is why it collapses
under load. With several slots the queue is read from its head, and a job may start when its object is idle, no earlier
job of that object waits, and the update's jobs above it are done.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from scheduler_plugin.brain import events
from scheduler_plugin.brain.graph import Graph
from scheduler_plugin.brain.policy import Choice, Policy, figure
from scheduler_plugin.brain.warehouse import Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an update of one table sets in motion."""

    #: Object -> its place in the order.
    places: Mapping[int, int]
    #: Object -> the objects of the plan that must be done before it; virtual views are looked through.
    above: Mapping[int, tuple[int, ...]]
    #: The same, the other way round.
    below: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, graph: Graph, first: int, rank: Callable[[int], float] | None = None) -> "Plan":
        """Views by level, or by another rank; equals by declaration."""
        levels = {first: 0, **graph.levels_below(first)}
        order = levels.__getitem__ if rank is None else rank
        run = sorted((each for each in levels if not graph.virtual[each]), key=lambda each: (order(each), each))
        reads: dict[int, tuple[int, ...]] = {}
        for each in sorted(levels, key=graph.level.__getitem__):
            within = [parent for parent in graph.parents[each] if parent in levels]
            found = (reads[parent] if graph.virtual[parent] else (parent,) for parent in within)
            reads[each] = tuple(dict.fromkeys(chain.from_iterable(found)))
        below: dict[int, list[int]] = {}
        for each in run:
            for parent in reads[each]:
                below.setdefault(parent, []).append(each)
        return cls(
            places={each: place for place, each in enumerate(run)},
            above={each: reads[each] for each in run},
            below={parent: tuple(children) for parent, children in below.items()},
        )


@dataclass(slots=True)
class Queued:
    """One update with work left."""

    at: float
    plan: Plan
    left: int


class Fifo(Policy):
    """The oldest work first, one job per update and object."""

    runs_dirty = True

    def choose(self, warehouse: Warehouse, now: float, free_slots: Sequence[int]) -> list[Choice]:
        self._catch_up(warehouse)
        choices: list[Choice] = []
        kept: dict[int, tuple[int, int, int]] = {}
        while self._heads and len(choices) < len(free_slots):
            entry = heapq.heappop(self._heads)
            number, _, position = entry
            if not self._is_head(position, number) or position in warehouse.running or position in kept:
                continue
            kept[position] = entry  # until it is told that they started
            if position not in warehouse.held and self.serves(warehouse, position):
                choices.append(self._choice(warehouse, position, now, free_slots[len(choices)], self._size(position)))
        for entry in kept.values():
            heapq.heappush(self._heads, entry)
        return choices

    def startable(self, warehouse: Warehouse) -> Iterable[int]:
        self._catch_up(warehouse)
        heads = {position for number, _, position in self._heads if self._is_head(position, number)}
        idle = heads - warehouse.running.keys() - warehouse.held
        return (each for each in idle if self.serves(warehouse, each))

    def order(self, warehouse: Warehouse, position: int, now: float) -> tuple[float, ...]:
        self._catch_up(warehouse)
        waiting = self._queues.get(position)
        if not waiting:
            return (-self._next, 0)
        return (-waiting[0], -self._queued[waiting[0]].plan.places[position])

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        self._catch_up(warehouse)
        waiting = self._queues.get(position)
        return now - self._queued[waiting[0]].at if waiting else 0.0

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        self._catch_up(warehouse)
        return {
            "waited": self.impact(warehouse, position, now),
            "queued_jobs": len(self._queues.get(position, ())),
            "cost": warehouse.cost(position, self._size(position)),
        }

    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        return f"queued {figure(self.impact(warehouse, position, now))} s ago"

    def _size(self, position: int) -> int | None:
        assert self._warehouse is not None
        return 1 if self._warehouse.graph.tables[position] else None

    def _is_head(self, position: int, number: int) -> bool:
        waiting = self._queues.get(position)
        return bool(waiting) and waiting is not None and waiting[0] == number

    # Following what happens.

    def _catch_up(self, warehouse: Warehouse) -> None:
        if self._warehouse is not warehouse or self._watch is None or self._watch.events is None:
            self._attach(warehouse)
            return
        heard, self._watch.events = self._watch.events, []
        self._watch.touched.clear()
        for event in heard:
            self._hear(warehouse, event)

    def _attach(self, warehouse: Warehouse) -> None:
        """Begins with what waits now: pending updates by arrival, then stale views that none of them will refresh."""
        self._warehouse, self._watch = warehouse, warehouse.watch(with_events=True)
        self._plans: dict[int, Plan] = {}
        #: Updates with work left, by number; numbers grow with arrival.
        self._queued: dict[int, Queued] = {}
        self._next = 0
        #: Object -> the updates whose job on it is not done, oldest first.
        self._queues: dict[int, deque[int]] = {}
        #: Object -> the latest update whose job on it is done. Jobs on one object keep the order.
        self._done: dict[int, int] = {}
        self._under_way: set[int] = set()
        #: What may start as far as the queue is concerned: (update, place, object); old entries are dropped when met.
        self._heads: list[tuple[int, int, int]] = []
        pending = ((update.at, table) for table, waiting in warehouse.updates.pending.items() for update in waiting)
        for at, table in sorted(pending):
            self._enqueue(warehouse, table, at)
        for position in warehouse.graph.order:
            missing = warehouse.missing[position]
            if missing != math.inf and not warehouse.graph.virtual[position] and position not in self._queues:
                self._enqueue(warehouse, position, missing)
        self._under_way |= {each for each in warehouse.running if self._queues.get(each)}

    def _hear(self, warehouse: Warehouse, event: events.Event) -> None:
        match event:
            case events.UpdateArrived():
                self._enqueue(warehouse, warehouse.number(event.table), event.at)
            case events.JobStarted():
                position = warehouse.number(event.object)
                if self._queues.get(position):
                    self._under_way.add(position)
            case events.JobFinished():
                position = warehouse.number(event.object)
                if position in self._under_way:
                    self._under_way.discard(position)
                    self._finish(warehouse, position)
                else:
                    self._look(warehouse, position)
            case events.JobFailed():
                position = warehouse.number(event.object)
                self._under_way.discard(position)
                self._look(warehouse, position)

    def _enqueue(self, warehouse: Warehouse, first: int, at: float) -> None:
        plan = self._plans.get(first)
        if plan is None:
            plan = self._plans[first] = Plan.of(warehouse.graph, first)
        number, self._next = self._next, self._next + 1
        self._queued[number] = Queued(at, plan, len(plan.places))
        for each in plan.places:
            waiting = self._queues.setdefault(each, deque())
            waiting.append(number)
        for each in plan.places:
            if self._is_head(each, number):
                self._look(warehouse, each)

    def _finish(self, warehouse: Warehouse, position: int) -> None:
        number = self._queues[position].popleft()
        self._done[position] = number
        update = self._queued[number]
        update.left -= 1
        if not update.left:
            del self._queued[number]
        self._look(warehouse, position)
        for each in update.plan.below.get(position, ()):
            if self._is_head(each, number):
                self._look(warehouse, each)

    def _look(self, warehouse: Warehouse, position: int) -> None:
        """Puts the object's next job among the heads if nothing of its update stands before it."""
        waiting = self._queues.get(position)
        if not waiting or position in warehouse.running:
            return
        number = waiting[0]
        plan = self._queued[number].plan
        if all(self._done.get(each, -1) >= number for each in plan.above[position]):
            if warehouse.graph.tables[position] and not warehouse.updates.pending.get(position):
                self._finish(warehouse, position)  # loaded by someone else's batch
            else:
                heapq.heappush(self._heads, (number, plan.places[position], position))
