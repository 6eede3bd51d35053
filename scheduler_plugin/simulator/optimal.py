"""The refresh model's offline optimum: the most QoD that any schedule reaches, for inputs of some fifteen operations.

A best-first search over what can be started at each instant, or left for the next. Two facts keep it small. Refreshing
a view with a stale ancestor leaves it stale, so only what QoDA could start is worth starting. And between two instants
at which something ends or arrives nothing is gained by waiting, so a slot either starts something now or stays empty
until the next. States are ranked by what they have gained and at most can still gain; the first finished one is best.
"""

import heapq
import math
from typing import NamedTuple

from scheduler_plugin.simulator.refresh import Qoda, World
from scheduler_plugin.simulator.workload import WorkloadError

#: Past this many states the input is not small.
MOST_STATES = 300_000


class State(NamedTuple):
    """Where the world stands at an instant, after what ended and arrived."""

    now: float
    #: Updates that have arrived, and how many of them were started, by relation.
    arrived: int
    begun: tuple[int, ...]
    #: The materialized views that are fresh, a bit each.
    fresh: int
    #: (end, object, whether its result will be fresh)
    running: tuple[tuple[float, int, bool], ...]


class Planned(Qoda):
    """Starts what the search found, when it found it; what cannot matter any more follows in QoDA's order."""

    def __init__(self, world: World, updates: list[tuple[float, int]]) -> None:
        super().__init__(world)
        self._plan = Search(world, updates).best()

    def take(self, now: float) -> int | None:
        if not self._plan:
            return super().take(now)
        at, position = self._plan[0]
        if at > now or not self._may_start(position):  # what takes no time ends before its children start
            return None
        self._plan.pop(0)
        self._begin(position)
        return position


class Search:
    """The world's rules over states, and the search for the best way through them."""

    def __init__(self, world: World, updates: list[tuple[float, int]]) -> None:
        graph = world.graph
        self.world = world
        self.updates = updates
        self.relations = [each for each in range(len(graph)) if graph.tables[each]]
        self.number = {relation: number for number, relation in enumerate(self.relations)}
        self.below = {relation: set(graph.descendants(relation)) for relation in self.relations}
        self.above = {each: set(graph.ancestors(each)) for each in range(len(graph))}
        #: arrivals[k][n]: how many of the first k updates are of relation n.
        self.arrivals = [tuple(0 for _ in self.relations)]
        for _, relation in updates:
            counts = list(self.arrivals[-1])
            counts[self.number[relation]] += 1
            self.arrivals.append(tuple(counts))
        self.valued = [each for each in range(len(graph)) if not graph.tables[each] and world.access[each] > 0]
        #: View -> per k, when the next update after the first k touches it, and its fresh time from then on at most.
        self.later = {view: self._later(view) for view in self.valued}

    def best(self) -> list[tuple[float, int]]:
        """The starts of a best schedule, as (time, object), in order."""
        everything = sum(1 << each for each in range(len(self.world.graph)))
        first = self._take_in(State(0.0, 0, tuple(0 for _ in self.relations), everything, ()))
        gained = {first: 0.0}
        came: dict[State, tuple[State, int | None]] = {}
        heap = [(-self._most(first), 0, 0.0, first)]
        while heap:
            _, _, before, state = heapq.heappop(heap)
            if before < gained[state]:
                continue  # a better way here was found since
            followers = self._followers(state)
            if not followers:
                return self._starts(state, came)
            for follower, gain, started in followers:
                total = before + gain
                if follower not in gained or total > gained[follower]:
                    gained[follower] = total
                    came[follower] = (state, started)
                    # The younger state first among equals: it is nearer to the end.
                    heapq.heappush(heap, (-(total + self._most(follower)), -len(gained), total, follower))
            if len(gained) > MOST_STATES:
                raise WorkloadError(
                    f"policy optimal gave up after {MOST_STATES} states; it is for small inputs, "
                    "of some fifteen operations in all"
                )
        raise AssertionError("a search ends in a finished state")

    def _starts(self, state: State, came: dict[State, tuple[State, int | None]]) -> list[tuple[float, int]]:
        starts: list[tuple[float, int]] = []
        while state in came:
            state, started = came[state]
            if started is not None:
                starts.append((state.now, started))
        return starts[::-1]

    def _followers(self, state: State) -> list[tuple[State, float, int | None]]:
        """(state, QoD gained on the way, what was started); none once nothing can be gained any more."""
        world = self.world
        if state.now >= world.horizon:
            return []
        fresh = self._fresh(state)
        found: list[tuple[State, float, int | None]] = []
        if len(state.running) < world.slots:
            found = [(self._started(state, each), 0.0, each) for each in self._startable(state, fresh)]
        then = self._next_instant(state)
        if then < world.horizon or not found:
            rate = math.fsum(world.access[each] for each in self.valued if fresh[each])
            reached = self._take_in(state._replace(now=min(then, world.horizon)))
            found.append((reached, rate * (reached.now - state.now), None))
        return found

    def _fresh(self, state: State) -> list[bool]:
        """Whether each object is fresh."""
        graph = self.world.graph
        fresh = [bool(state.fresh >> each & 1) for each in range(len(graph))]
        under_way = {each for _, each, _ in state.running}
        for each in graph.order:
            if graph.tables[each]:
                number = self.number[each]
                done = state.begun[number] - (each in under_way)
                fresh[each] = done == self.arrivals[state.arrived][number]
            elif graph.virtual[each]:
                fresh[each] = all(fresh[parent] for parent in graph.parents[each])
        return fresh

    def _startable(self, state: State, fresh: list[bool]) -> list[int]:
        graph = self.world.graph
        under_way = {each for _, each, _ in state.running}
        head = None
        if self.world.in_order and sum(state.begun) < state.arrived:
            head = self.updates[sum(state.begun)][1]
        return [
            each
            for each in range(len(graph))
            if not fresh[each]
            and each not in under_way
            and not graph.virtual[each]
            and all(fresh[parent] for parent in graph.parents[each])
            and (not graph.tables[each] or not self.world.in_order or each == head)
        ]

    def _started(self, state: State, position: int) -> State:
        begun = list(state.begun)
        if self.world.graph.tables[position]:
            begun[self.number[position]] += 1
        job = (state.now + self.world.cost[position], position, True)
        return state._replace(begun=tuple(begun), running=tuple(sorted((*state.running, job))))

    def _next_instant(self, state: State) -> float:
        ends = state.running[0][0] if state.running else math.inf
        return min(ends, self.updates[state.arrived][0]) if state.arrived < len(self.updates) else ends

    def _take_in(self, state: State) -> State:
        """What ends and then what arrives at the state's instant."""
        fresh, arrived, running = state.fresh, state.arrived, list(state.running)
        while running and running[0][0] == state.now:
            _, position, clean = running.pop(0)
            if clean and not self.world.graph.tables[position]:
                fresh |= 1 << position
        while arrived < len(self.updates) and self.updates[arrived][0] == state.now:
            below = self.below[self.updates[arrived][1]]
            arrived += 1
            fresh &= ~sum(1 << each for each in below)
            running = [(end, each, clean and each not in below) for end, each, clean in running]
        return state._replace(fresh=fresh, arrived=arrived, running=tuple(running))

    # What can still be gained at most.

    def _later(self, view: int) -> list[tuple[float, float]]:
        """Per number of updates arrived: when the next touches the view, and its fresh time from then on at most."""
        found = [(self.world.horizon, 0.0)]
        for at, relation in reversed(self.updates):
            until, more = found[-1]
            if view in self.below[relation]:
                first = min(at, self.world.horizon)
                found.append((first, more + max(0.0, until - first - self._path(relation, view))))
            else:
                found.append((until, more))
        return found[::-1]

    def _path(self, relation: int, view: int) -> float:
        """The least time from an update's arrival to the view's being fresh again."""
        between = [relation, *(each for each in self.above[view] | {view} if each in self.below[relation])]
        if self.world.slots == 1:
            return sum(self.world.cost[each] for each in between)
        longest: dict[int, float] = {}
        for each in self.world.graph.order:
            if each in between:
                read = (longest.get(parent, 0.0) for parent in self.world.graph.parents[each])
                longest[each] = max(read, default=0.0) + self.world.cost[each]
        return longest[view]

    def _most(self, state: State) -> float:
        """No schedule gains more from here on."""
        world = self.world
        ready = self._ready(state)
        #: Views by the time at which an arrival makes them stale: what each gains until then at most.
        alone: dict[float, float] = {}
        stale: dict[float, list[tuple[float, float]]] = {}
        total = 0.0
        for view in self.valued:
            until, more = self.later[view][state.arrived]
            access = world.access[view]
            total += access * more
            gain = access * max(0.0, until - ready[view])
            if world.slots == 1 and not world.graph.virtual[view] and ready[view] > state.now and world.cost[view]:
                alone[until] = alone.get(until, 0.0) + gain
                stale.setdefault(until, []).append((access / world.cost[view], world.cost[view]))
            else:
                total += gain
        return total + sum(min(gain, shared(stale[until], state.now, until)) for until, gain in alone.items())

    def _ready(self, state: State) -> list[float]:
        """The earliest time at which each object can be fresh."""
        world, graph = self.world, self.world.graph
        fresh = self._fresh(state)
        ends = {each: (end, clean) for end, each, clean in state.running}
        ready = [state.now] * len(graph)
        #: What each stale object still needs of a slot.
        work = [0.0] * len(graph)
        for each in graph.order:
            if fresh[each]:
                continue
            end, clean = ends.get(each, (state.now, False))
            start = max([end, *(ready[parent] for parent in graph.parents[each])])
            if graph.tables[each]:
                number = self.number[each]
                work[each] = world.cost[each] * (self.arrivals[state.arrived][number] - state.begun[number])
                ready[each] = start + work[each]
                work[each] += end - state.now
            elif clean:
                ready[each], work[each] = end, end - state.now
            else:
                work[each] = world.cost[each] + end - state.now
                ready[each] = start + world.cost[each]
            if world.slots == 1:
                ready[each] = max(ready[each], state.now + work[each] + sum(work[above] for above in self.above[each]))
        return ready


def shared(jobs: list[tuple[float, float]], now: float, until: float) -> float:
    """What refreshing views on one slot gains at most until they all turn stale, from (access / cost, cost) pairs.

    Each moment of work counts as if its share of the view were fresh at once; then the densest work goes first.
    """
    gain = 0.0
    for density, cost in sorted(jobs, reverse=True):
        worked = min(cost, until - now)
        if worked <= 0:
            break
        gain += density * worked * (until - now - worked / 2)
        now += worked
    return gain
