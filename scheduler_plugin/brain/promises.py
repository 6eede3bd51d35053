"""Staleness limits: what has to start now so that they are kept, and which are given up when not all can be.

An object with a limit must hold newer data by `current_to + limit`. What may start now and leads there is on the way,
and so is everything between; their costs say how much time is left. Taken in the order in which they are due, the
promises that can be kept at all show whether the next job may still be another one (earliest due first, as in every
schedule that keeps what can be kept). Where they ask for more than the slots can do, the one whose run is worth least
is given up, and so on until the rest can be kept (Moore and Hodgson's way, by worth).

>>> from scheduler_plugin.brain import Table, UpdateArrived, View, Warehouse
>>> warehouse = Warehouse([Table(name="r", fixed=1), View(name="v", parents=("r",), cost=3, limit=10)])
>>> warehouse.apply(UpdateArrived(table="r", at=2.0))
>>> promises = Promises()
>>> promises.place(warehouse, 0)
>>> promises.judged(warehouse, now=2.0, room=1, busy=[], next_turn=4.0, worth=lambda each: 1.0).pressing
{}
>>> promises.judged(warehouse, now=3.0, room=1, busy=[], next_turn=4.0, worth=lambda each: 1.0).pressing
{0: Promise(due=10.0, object=1, start=0, way=(0, 1), work=4.0)}
"""

import math
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import NamedTuple

from scheduler_plugin.brain import events
from scheduler_plugin.brain.lane import Lane
from scheduler_plugin.brain.warehouse import Warehouse

#: How many objects that may start are looked at, those first that have to start first; ...
LOOKED_AT = 8
#: ... how many limits at and below each, the nearest; and how far down those are looked for.
LIMITS_BELOW = 3
OBJECTS_BELOW = 64
#: How many of the tables behind an object are asked whether they have anything newer.
TABLES_BEHIND = 16
#: Share of the slots for limits where not all of them can be kept.
SHARE = 0.5


class Promise(NamedTuple):
    """One limit that a run now would help to keep."""

    #: When its object passes its limit.
    due: float
    #: Whose limit it is.
    object: int
    #: What may start now on the way there.
    start: int
    #: All that has to run, one after the other.
    way: tuple[int, ...]
    #: What that costs.
    work: float


class Verdict(NamedTuple):
    """What limits ask for, by the object that may start."""

    #: Has to start now, or a limit that can be kept will not be.
    pressing: Mapping[int, Promise]
    #: Its limit is passed, or will be whatever runs now.
    broken: Mapping[int, Promise]
    #: Could be kept, but not together with the others.
    given_up: Mapping[int, Promise]


NO_LIMITS = Verdict({}, {}, {})


class Promises:
    """Follows what may start and leads to a limit."""

    def __init__(self) -> None:
        #: By the latest time at which an object has to start, the earliest first.
        self._lane = Lane()
        #: Object -> limits at and below it, each with the way there.
        self._ways: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        self._tables: dict[int, list[int]] = {}
        #: Table that has been silent -> what would be looked at if something came.
        self._waiting: dict[int, set[int]] = {}

    def follow(self, warehouse: Warehouse, event: events.Event) -> None:
        """Looks again at what may start, where the time left for it may be another one now."""
        match event:
            case events.LimitChanged():
                self.__init__()  # type: ignore[misc]
                again = warehouse.ready
            case events.UpdateArrived():
                again = self._waiting.pop(warehouse.number(event.table), set())
            case events.JobFinished() | events.CostLearnt() if warehouse.limits:
                changed = warehouse.number(event.object)
                is_stale = warehouse.missing[changed] != math.inf
                again = warehouse.ready.intersection(warehouse.graph.ancestors(changed)) if is_stale else set()
            case _:
                again = set()
        for position in sorted(again & warehouse.ready):
            self.place(warehouse, position)

    def place(self, warehouse: Warehouse, position: int) -> None:
        found = self._promises(warehouse, position)
        if found:
            self._lane.put(position, -min(each.due - each.work for each in found))
        else:
            self._lane.entries.pop(position, None)

    def foremost(self, warehouse: Warehouse, count: int) -> list[int]:
        return [position for _, position in self._lane.first(warehouse.ready, LOOKED_AT + count)]

    def tightest(self, warehouse: Warehouse, position: int) -> Promise | None:
        """The limit at or below a stale object that leaves it the least time."""
        found = self._promises(warehouse, position) if warehouse.missing[position] != math.inf else []
        return min(found, key=lambda each: each.due - each.work, default=None)

    def judged(
        self,
        warehouse: Warehouse,
        *,
        now: float,
        room: int,
        busy: Collection[int],
        next_turn: float,
        worth: Callable[[int], float],
    ) -> Verdict:
        """What limits ask for, with some objects on slots, if otherwise `next_turn` passes until one is free again."""
        names = warehouse.graph.names
        chosen = [each for each in busy if each in warehouse.ready]
        promises = [
            each
            for position in self.foremost(warehouse, len(chosen))
            if position not in chosen
            for each in self._promises(warehouse, position)
        ]
        in_one_slot = math.fsum(each.work for each in promises)
        if all(now + next_turn + in_one_slot <= each.due for each in promises):
            return NO_LIMITS
        promises.sort(key=lambda each: (each.due, names[each.object], names[each.start]))
        broken: dict[int, Promise] = {}
        kept: list[Promise] = []
        for each in promises:
            if now + each.work > each.due:
                broken.setdefault(each.start, each)
            else:
                kept.append(each)
        given_up: dict[int, Promise] = {}
        worth = cache(worth)
        while (late := _first_late(warehouse, kept, now, room)) is not None:
            least = min({each.start for each in kept[: late + 1]}, key=lambda each: (worth(each), names[each]))
            given_up[least] = next(each for each in kept if each.start == least)
            kept = [each for each in kept if each.start != least]
        if broken or given_up:
            # The others are not to pay for what cannot be with more than a share of the slots.
            under_way = sum(bool(self._ways_from(warehouse, each)) for each in busy)
            broken = broken if under_way < int(SHARE * room) else {}
            kept = kept if under_way < max(1, int(SHARE * room)) else []
        pressing: dict[int, Promise] = {}
        for each in kept[: _pressing(warehouse, kept, now + next_turn, room)]:
            pressing.setdefault(each.start, each)
        return Verdict(pressing, broken, given_up)

    def _promises(self, warehouse: Warehouse, position: int) -> list[Promise]:
        """The limits that a run of the object helps to keep."""
        found = []
        for limited, way in self._ways_from(warehouse, position):
            held = warehouse.current_to[limited]
            newest, oldest_table = self._newest(warehouse, limited)
            if newest <= held:
                self._waiting.setdefault(oldest_table, set()).add(position)
            else:
                work = math.fsum(warehouse.cost(each) for each in way)
                found.append(Promise(held + warehouse.limits[limited], limited, position, way, work))
        return found

    def _newest(self, warehouse: Warehouse, limited: int) -> tuple[float, int]:
        """How new the object could be, from all that has arrived, and the table that holds it back."""
        tables = self._tables.get(limited)
        if tables is None:
            tables = self._tables[limited] = warehouse.graph.nearest_tables(limited, TABLES_BEHIND)
        return min((warehouse.updates.newest.get(each, warehouse.current_to[each]), each) for each in tables)

    def _ways_from(self, warehouse: Warehouse, position: int) -> list[tuple[int, tuple[int, ...]]]:
        found = self._ways.get(position)
        if found is None:
            graph, near = warehouse.graph, [position]
            limited: list[int] = []
            for each in near:  # grows while it is read
                if each in warehouse.limits:
                    limited.append(each)
                if len(limited) == LIMITS_BELOW:
                    break
                near += [child for child in graph.children[each] if child not in near][: OBJECTS_BELOW - len(near)]
            found = self._ways[position] = [(each, _way(warehouse, set(near), each)) for each in limited]
        return found


def _way(warehouse: Warehouse, near: Collection[int], limited: int) -> tuple[int, ...]:
    """What has to run among the objects `near`, up to the one with the limit; all of them derive from the same one."""
    way = [limited]
    for each in way:  # grows while it is read
        way += [parent for parent in warehouse.graph.parents[each] if parent in near and parent not in way]
    return tuple(sorted(each for each in way if not warehouse.graph.virtual[each]))


def _first_late(warehouse: Warehouse, promises: list[Promise], now: float, room: int) -> int | None:
    """The first that cannot be kept together with those due before it, however the slots are used."""
    met: set[int] = set()
    work = 0.0
    for number, each in enumerate(promises):
        work += math.fsum(warehouse.cost(other) for other in each.way if other not in met)
        met.update(each.way)
        if now + work / room > each.due:
            return number
    return None


def _pressing(warehouse: Warehouse, promises: list[Promise], now: float, room: int) -> int:
    """How many have to go first so that each is surely kept that could begin at `now`."""
    met: set[int] = set()
    work, pressing = 0.0, 0
    for number, each in enumerate(promises):
        work += math.fsum(warehouse.cost(other) for other in each.way if other not in met)
        met.update(each.way)
        if now + (work - each.work) / room + each.work > each.due:
            pressing = number + 1
    return pressing
