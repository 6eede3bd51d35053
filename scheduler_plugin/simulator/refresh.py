"""The refresh model: relations, views derived from them, and freshness as yes or no (paper 004).

Every update of a relation is one operation; a refresh reads its parents as they are when it starts and publishes when
it ends. The paper's surges are a few hundred thousand operations on twenty thousand views, so the model keeps a small
state of its own, flags and counters; tests hold it against the brain's warehouse and policies, job by job.
"""

import heapq
import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np

from scheduler_plugin.brain.graph import Graph, GraphError
from scheduler_plugin.brain.measures import Measures
from scheduler_plugin.brain.objects import Declared, Table, View
from scheduler_plugin.brain.policies.fifo import Plan
from scheduler_plugin.brain.popularity import Popularity
from scheduler_plugin.simulator.drive import in_range
from scheduler_plugin.simulator.progress import Tell, silent, told
from scheduler_plugin.simulator.result import Schedule, result
from scheduler_plugin.simulator.workload import Fields, Params, WorkloadError, kind, unique


class World:
    """Who is stale, what waits and what runs; objects by number."""

    def __init__(self, objects: list[Declared], *, slots: int, horizon: float, in_order: bool) -> None:
        self.graph = Graph(objects)
        self.slots = slots
        self.horizon = horizon
        #: Relations apply updates in the order of arrival over all of them, not only each its own in order.
        self.in_order = in_order
        count = len(objects)
        self.cost = [each.fixed if isinstance(each, Table) else each.cost for each in objects]
        self.access = [each.access for each in objects]
        self._views = np.flatnonzero(np.frombuffer(bytes(self.graph.tables), dtype=np.uint8) == 0)
        self._view_access = np.array(self.access, dtype=np.float64)[self._views]
        #: Updates of a relation that are not applied, the one under way included.
        self.waiting = array("q", bytes(8 * count))
        self.stale = bytearray(count)
        self.stale_parents = array("q", bytes(8 * count))
        #: What runs -> whether its result will be fresh; an arrival makes it false.
        self.running: dict[int, bool] = {}
        self.measures = Measures(current_to=array("d", bytes(8 * count)), tables=self.graph.tables, until=horizon)

    def arrive(self, relation: int, at: float) -> None:
        self.waiting[relation] += 1
        if self.stale[relation]:
            return  # and so is everything below
        turned = [relation]
        while turned:
            here = turned.pop()
            self.stale[here] = 1
            self.measures.turned_stale(here, at)
            for child in self.graph.children[here]:
                self.stale_parents[child] += 1
                if child in self.running:
                    self.running[child] = False
                if not self.stale[child]:
                    self.stale[child] = 1
                    turned.append(child)

    def start(self, position: int) -> None:
        self.running[position] = not self.stale_parents[position]

    def finish(self, position: int, at: float) -> list[int]:
        """Answers with the materialized views that have no stale parent any more."""
        fresh = self.running.pop(position)
        if self.graph.tables[position]:
            self.waiting[position] -= 1
            fresh = not self.waiting[position]
        freed: list[int] = []
        turned = [position] if fresh and self.stale[position] else []
        while turned:
            here = turned.pop()
            self.stale[here] = 0
            self.measures.turned_fresh(here, at)
            for child in self.graph.children[here]:
                self.stale_parents[child] -= 1
                if not self.stale_parents[child]:
                    (turned if self.graph.virtual[child] else freed).append(child)
        return freed

    def qod(self, until: float) -> float:
        """Share of the accesses up to `until` that met a fresh view."""
        fresh = self.measures.fresh_shares(until)[self._views]
        return math.fsum((self._view_access * fresh).tolist())


class Order(Protocol):
    """What a policy of this model does: hears what happens and says what starts."""

    def arrived(self, relation: int) -> None: ...

    def finished(self, position: int, freed: list[int]) -> None: ...

    def take(self, now: float) -> int | None:
        """The next object to start, if any may; it is started."""


class Qoda:
    """The largest popularity / cost among stale objects without a stale ancestor."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: Relations by the arrival of their updates that have not started.
        self._arrivals: deque[int] = deque()
        self._heap: list[tuple[float, int]] = []
        self._queued = bytearray(len(world.graph))
        self._popularity = Popularity(world.graph, world.access)
        self._impact: dict[int, float] = {}

    def arrived(self, relation: int) -> None:
        if self.world.in_order:
            self._arrivals.append(relation)
        self._consider(relation)

    def finished(self, position: int, freed: list[int]) -> None:
        self._consider(position)
        for each in freed:
            self._consider(each)

    def take(self, now: float) -> int | None:
        while self._heap:
            position = heapq.heappop(self._heap)[1]
            self._queued[position] = 0
            if self._may_start(position):
                self._begin(position)
                return position
        return None

    def _begin(self, position: int) -> None:
        """The next relation in order of arrival may start now."""
        if self.world.in_order and self.world.graph.tables[position]:
            self._arrivals.popleft()
            if self._arrivals and self._arrivals[0] != position:
                self._consider(self._arrivals[0])

    def _consider(self, position: int) -> None:
        if not self._queued[position] and self._may_start(position):
            self._queued[position] = 1
            heapq.heappush(self._heap, (-self.impact(position), position))

    def _may_start(self, position: int) -> bool:
        world = self.world
        if not world.stale[position] or world.stale_parents[position] or position in world.running:
            return False
        head = not (world.in_order and world.graph.tables[position]) or self._arrivals[0] == position
        return head and not world.graph.virtual[position]

    def impact(self, position: int) -> float:
        found = self._impact.get(position)
        if found is None:
            cost = self.world.cost[position]
            found = self._impact[position] = self._popularity.of(position) / cost if cost else math.inf
        return found


class Fifo:
    """Every update in the order of arrival, with one refresh of each materialized descendant that is its own.

    With several slots the queue is read from its head: what starts is the first operation whose object is idle and has
    no earlier operation waiting, and whose ancestors' operations for the same update are done.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._plans: dict[int, Plan] = {}
        #: What each update sets in motion; updates are numbered as they arrive.
        self._updates: list[Plan] = []
        #: How many relations' operations have started.
        self._begun = 0
        #: Object -> the updates whose operation on it is not done, oldest first.
        self._queues: dict[int, deque[int]] = {}
        #: Object -> the latest update whose operation on it is done.
        self._done: dict[int, int] = {}
        #: (update, place in its plan, object) of what may start as far as the queue is concerned.
        self._heads: list[tuple[int, int, int]] = []

    def rank(self) -> Callable[[int], float] | None:
        """By what an update's views are ordered; None for by level."""
        return None

    def arrived(self, relation: int) -> None:
        plan = self._plans.get(relation)
        if plan is None:
            plan = self._plans[relation] = Plan.of(self.world.graph, relation, self.rank())
            for each in plan.places:
                self._queues.setdefault(each, deque())
        number = len(self._updates)
        self._updates.append(plan)
        queues = self._queues
        for each in plan.places:
            queues[each].append(number)
        if len(queues[relation]) == 1:
            self._look(relation)

    def finished(self, position: int, freed: list[int]) -> None:
        number = self._done[position] = self._queues[position].popleft()
        self._look(position)
        for each in self._updates[number].below.get(position, ()):
            if self._queues[each][0] == number:
                self._look(each)

    def take(self, now: float) -> int | None:
        if not self._heads:
            return None
        number, _, position = self._heads[0]
        if self.world.graph.tables[position]:
            if self.world.in_order and number != self._begun:
                return None  # an earlier update of another relation has to wait, and all later ones with it
            self._begun += 1
        heapq.heappop(self._heads)
        return position

    def _look(self, position: int) -> None:
        """Puts the object's next operation among the heads if nothing of its update stands before it."""
        waiting = self._queues[position]
        if waiting:
            number = waiting[0]
            plan = self._updates[number]
            if all(self._done.get(each, -1) >= number for each in plan.above[position]):
                heapq.heappush(self._heads, (number, plan.places[position], position))


class FifoPop(Fifo):
    """FIFO, but of an update's views the most accessed first, among those whose ancestors are done."""

    def rank(self) -> Callable[[int], float]:
        return lambda position: -self.world.access[position]


class Run:
    """One policy over one list of updates, in order of time."""

    def __init__(self, world: World, order: Order, updates: Iterable[tuple[float, int]], *, keep: bool) -> None:
        self.world = world
        self.order = order
        #: Every operation started so far, when they are kept.
        self.schedule = Schedule() if keep else None
        self._updates = iter(updates)
        self._next = next(self._updates, None)
        self._running: list[tuple[float, int, int]] = []
        self._free = list(range(world.slots))

    def advance(self, until: float = math.inf) -> None:
        """Takes in everything up to and at `until`: at each instant ends, then arrivals, then starts."""
        world, order, running = self.world, self.order, self._running
        while True:
            now = running[0][0] if running else math.inf
            if self._next is not None:
                now = min(now, self._next[0])
            if now > until or now == math.inf:
                return
            while running and running[0][0] == now:
                _, slot, position = heapq.heappop(running)
                heapq.heappush(self._free, slot)
                order.finished(position, world.finish(position, now))
            while self._next is not None and self._next[0] == now:
                relation = self._next[1]
                self._next = next(self._updates, None)
                world.arrive(relation, now)
                order.arrived(relation)
            while self._free and (chosen := order.take(now)) is not None:
                self._start(chosen, now)

    def _start(self, position: int, now: float) -> None:
        slot = heapq.heappop(self._free)
        end = now + self.world.cost[position]
        name = self.world.graph.names[position]
        if end == math.inf:
            raise WorkloadError(f"the operation of {name} that starts at {now:g} ends past the largest number")
        self.world.start(position)
        heapq.heappush(self._running, (end, slot, position))
        if self.schedule is not None:
            updates = 1 if self.world.graph.tables[position] else None
            self.schedule.note(now, end, name, slot, updates=updates)


def _optimal(world: World, updates: list[tuple[float, int]]) -> Order:
    from scheduler_plugin.simulator.optimal import Planned

    return Planned(world, updates)


POLICIES: Mapping[str, Callable[[World, list[tuple[float, int]]], Order]] = MappingProxyType(
    {
        "fifo": lambda world, _: Fifo(world),
        "fifo_pop": lambda world, _: FifoPop(world),
        "qoda": lambda world, _: Qoda(world),
        "optimal": _optimal,
    }
)


def simulate(
    workload: dict[str, object], policy: str, params: dict[str, str], tell: Tell = silent
) -> dict[str, object]:
    """Runs one policy over one workload."""
    given = Params(params)
    in_order = given.choice("relation_order", ("arrival", "any"), "arrival") == "arrival"
    #: Above zero: the result has the QoD of each step of this length.
    every = given.number("every", 0.0, minimum=0)
    given.finish()
    fields = Fields(workload)
    slots = fields.slots()
    horizon = fields.number("horizon", above=0)
    objects = read_objects(fields)
    try:
        world = World(objects, slots=slots, horizon=horizon, in_order=in_order)
    except GraphError as error:
        raise WorkloadError(f"objects: {error}") from None
    updates = read_updates(fields, world.graph)
    coming = told(updates, len(updates), tell)
    run = Run(world, POLICIES[policy](world, updates), coming, keep=given.schedule)
    series = qod_by_step(run, every) if every else None
    run.advance()
    views = [position for position in range(len(objects)) if not world.graph.tables[position]]
    return result(
        policy=policy,
        model="refresh",
        schedule=run.schedule,
        metrics=in_range(
            {
                "qod": world.qod(horizon),
                "per_view": {world.graph.names[view]: world.measures.fresh_share(view, horizon) for view in views},
            }
        ),
        series=series,
    )


def read_objects(fields: Fields) -> list[Declared]:
    """Relations and views in declaration order."""
    objects: list[Declared] = []
    wheres: list[Fields] = []
    for each in fields.objects("objects"):
        name = each.text("id")
        if each.choice("kind", ("relation", "view")) == "relation":
            objects.append(Table(name=name, fixed=each.number("cost", minimum=0)))
        else:
            materialized = each.flag("materialized", True)
            objects.append(
                View(
                    name=name,
                    parents=tuple(each.texts("parents")),
                    cost=each.number("cost", minimum=0) if materialized else 0.0,
                    access=each.number("access", 0.0, minimum=0),
                    materialized=materialized,
                )
            )
        wheres.append(each)
    unique([each.name for each in objects], "objects")
    known = {each.name for each in objects}
    for where, found in zip(wheres, objects, strict=True):
        for position, parent in enumerate(found.parents if isinstance(found, View) else ()):
            if parent not in known:
                raise WorkloadError(f"{where.path('parents')}[{position}] is {parent}, which is not declared")
    return objects


def read_updates(fields: Fields, graph: Graph) -> list[tuple[float, int]]:
    """(time, relation) in order of time; at one instant in the order of the list."""
    updates: list[tuple[float, int]] = []
    for each in fields.objects("updates"):
        at = each.number("t", minimum=0)
        relation = graph.index.get(each.text("relation"))
        if relation is None or not graph.tables[relation]:
            raise WorkloadError(f"{each.path('relation')} must be a relation, not {kind(each.get('relation'))}")
        updates.append((at, relation))
    updates.sort(key=lambda update: update[0])
    return updates


def qod_by_step(run: Run, step: float) -> dict[str, object]:
    """The QoD within each step of the horizon; a last step that the horizon cuts short is left out."""
    steps = int(run.world.horizon / step)
    if steps > 1_000_000:
        raise WorkloadError(f"--param every={step:g} makes {steps} steps; a million is the most")
    ends = [step * (number + 1) for number in range(steps)]
    found: list[float] = []
    before = 0.0
    for end in ends:
        run.advance(end)
        fresh = run.world.qod(end) * end
        found.append((fresh - before) / step)
        before = fresh
    return {"t": ends, "qod": found}
