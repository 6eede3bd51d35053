"""A policy ranks what may start and says why. The live scheduler and the simulator use the same objects.

A policy of one's own is a subclass of `Ranked` with a `key`; a policy whose order changes as time passes is a subclass
of `Policy`. It is one file in `policies/` and one line in its table.

Where objects belong to groups of slots, each group has a policy object of its own, with its members and its slots; all
of them look at the same warehouse.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from scheduler_plugin.brain.lane import Entry, Lane
from scheduler_plugin.brain.warehouse import Warehouse, Watch


class PolicyError(ValueError):
    """A policy was given a parameter it cannot use."""


def figure(value: float) -> str:
    """A number in a reason: three digits that count, and all of those before the point."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One object to start now."""

    object: str
    slot: int
    impact: float
    #: For a person: "popularity 0.7, 1.5 s to run".
    why: str
    #: How many pending updates to load; None means all of them.
    updates: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One object that could start now, as the policy sees it."""

    object: str
    impact: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an object is, or is not, next."""

    object: str
    #: What the policy makes of it now, as if it could start.
    impact: float
    #: The numbers the impact is made of.
    ingredients: Mapping[str, float]
    #: Stale ancestors, which have to be run first.
    dirty_ancestors: tuple[str, ...]
    #: 1 is next; None when the object cannot start now.
    rank: int | None
    #: The candidates that stand before it, best first; by how much is the difference of the impacts.
    ahead: tuple[Candidate, ...]
    #: Where it stands: "fresh", "running since 3", "held", "waits for 2 stale ancestors", "ready".
    state: str
    why: str


class Policy(ABC):
    """Ranks what may start. `params` are the words a person gave, by name."""

    #: Parameters the policy takes, with their defaults.
    PARAMS: ClassVar[Mapping[str, float]] = {}
    #: True when it may leave a slot empty although something could start.
    idles: ClassVar[bool] = False
    #: True when it also refreshes views with stale ancestors, as FIFO does.
    runs_dirty: ClassVar[bool] = False

    def __init__(
        self,
        params: Mapping[str, str] | None = None,
        *,
        members: Collection[str] | None = None,
        slots: int | None = None,
    ) -> None:
        #: The only objects it may start; None means every one.
        self.members = None if members is None else frozenset(members)
        #: How many slots it fills; None means all of the warehouse's.
        self.slots = slots
        #: What it was asked about last, and has heard of since.
        self._warehouse: Warehouse | None = None
        self._watch: Watch | None = None
        self.params: dict[str, float] = dict(self.PARAMS)
        for name, value in (params or {}).items():
            if name not in self.PARAMS:
                known = ", ".join(self.PARAMS) or "none"
                raise PolicyError(f"policy {type(self).__name__} has no parameter {name}; it knows {known}")
            try:
                self.params[name] = float(value)
            except ValueError:
                raise PolicyError(f"parameter {name} must be a number, not {value!r}") from None

    @abstractmethod
    def choose(self, warehouse: Warehouse, now: float, free_slots: Sequence[int]) -> list[Choice]:
        """What to start in the free slots, given by index in increasing order. Changes nothing in the warehouse."""

    @abstractmethod
    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        """The numbers that the impact is made of, by name."""

    @abstractmethod
    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        """What is lost by not running the object now; the largest goes first."""

    @abstractmethod
    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        """The impact in words."""

    def order(self, warehouse: Warehouse, position: int, now: float) -> float | tuple[float, ...]:
        """What is compared, the largest first; equals go by declaration."""
        return self.impact(warehouse, position, now)

    def startable(self, warehouse: Warehouse) -> Iterable[int]:
        """The objects that it could start now."""
        return (each for each in warehouse.ready if self.serves(warehouse, each))

    def rivals(self, warehouse: Warehouse, position: int) -> Iterable[int]:
        """The objects that could start now and compete with this one for the same slots."""
        return self.startable(warehouse)

    def serves(self, warehouse: Warehouse, position: int) -> bool:
        return self.members is None or warehouse.graph.names[position] in self.members

    def room(self, warehouse: Warehouse) -> int:
        """How many slots it fills, busy ones included."""
        return warehouse.slots if self.slots is None else self.slots

    def candidates(self, warehouse: Warehouse, now: float, limit: int | None = None) -> list[Candidate]:
        """What could start now, best first: everything, or the best few at the cost of a decision."""
        found = self.startable(warehouse) if limit is None else self.foremost(warehouse, limit)
        return [self._candidate(warehouse, each, now) for each in self._ranked(warehouse, found, now)[:limit]]

    def foremost(self, warehouse: Warehouse, count: int) -> Iterable[int]:
        """Objects that could start now, among them the best `count`. A policy that keeps a ranking looks at few."""
        return self.startable(warehouse)

    def given_up(self, warehouse: Warehouse, now: float) -> list[Candidate]:
        """Objects whose staleness limits it does not try to keep, as not all can be; first given up comes first."""
        return []

    def explain(self, warehouse: Warehouse, now: float, name: str) -> Explanation:
        """Why an object is, or is not, next."""
        position = warehouse.number(name)
        ranked = self._ranked(warehouse, self.rivals(warehouse, position), now)
        rank = ranked.index(position) if position in ranked else None
        before = ranked if rank is None else ranked[:rank]
        return Explanation(
            object=name,
            impact=self.impact(warehouse, position, now),
            ingredients=self.ingredients(warehouse, position, now),
            dirty_ancestors=tuple(warehouse.dirty_ancestors(name)),
            rank=None if rank is None else rank + 1,
            ahead=tuple(self._candidate(warehouse, each, now) for each in before),
            state=_state(warehouse, position),
            why=self.why(warehouse, position, now),
        )

    def _ranked(self, warehouse: Warehouse, positions: Iterable[int], now: float) -> list[int]:
        # Reversed keeps the first declared first among equals.
        found = sorted(positions, reverse=True)
        return sorted(found, key=lambda each: self.order(warehouse, each, now))[::-1]

    def _candidate(self, warehouse: Warehouse, position: int, now: float) -> Candidate:
        return Candidate(
            object=warehouse.graph.names[position],
            impact=self.impact(warehouse, position, now),
            why=self.why(warehouse, position, now),
        )

    def _choice(self, warehouse: Warehouse, position: int, now: float, slot: int, updates: int | None = None) -> Choice:
        return Choice(
            object=warehouse.graph.names[position],
            slot=slot,
            impact=self.impact(warehouse, position, now),
            why=self.why(warehouse, position, now),
            updates=updates,
        )


class Ranked(Policy):
    """A policy whose order between two objects changes only when something happens to one of them.

    That lets it keep lazy heaps: a decision costs what changed since the last one, not the size of the warehouse.
    """

    _lanes: dict[float, Lane]

    @abstractmethod
    def key(self, warehouse: Warehouse, position: int) -> float:
        """What is compared, the largest first; must not depend on time."""

    def order(self, warehouse: Warehouse, position: int, now: float) -> float:
        return self.key(warehouse, position)

    def lane(self, warehouse: Warehouse, position: int) -> float:
        """Objects of one lane compete with each other."""
        return 0

    def slot_lane(self, warehouse: Warehouse, slot: int) -> float | None:
        """The lane that a slot serves; None when it serves none."""
        return 0

    def choose(self, warehouse: Warehouse, now: float, free_slots: Sequence[int]) -> list[Choice]:
        self._catch_up(warehouse)
        choices: list[Choice] = []
        taken: list[tuple[Lane, Entry]] = []
        for slot in free_slots:
            number = self.slot_lane(warehouse, slot)
            lane = None if number is None else self._lanes.get(number)
            entry = lane.take(warehouse.ready) if lane is not None else None
            if lane is not None and entry is not None:
                taken.append((lane, entry))
                choices.append(self._choice(warehouse, entry[1], now, slot))
        for lane, entry in taken:  # until it is told that they started
            lane.put_back(entry)
        return choices

    def foremost(self, warehouse: Warehouse, count: int) -> Iterable[int]:
        self._catch_up(warehouse)
        return {each for lane in self._lanes.values() for _, each in lane.first(warehouse.ready, count)}

    def _catch_up(self, warehouse: Warehouse) -> None:
        if self._warehouse is not warehouse or self._watch is None:
            self._warehouse, self._watch, self._lanes = warehouse, warehouse.watch(), {}
        touched, self._watch.touched = self._watch.touched, []
        for position in touched:
            if position in warehouse.ready and self.serves(warehouse, position):
                lane = self._lanes.setdefault(self.lane(warehouse, position), Lane())
                lane.put(position, self.key(warehouse, position))


def _state(warehouse: Warehouse, position: int) -> str:
    if position in warehouse.running:
        return f"running since {warehouse.running[position].started:g}"
    if warehouse.is_fresh(warehouse.graph.names[position]):
        return "fresh"
    if warehouse.graph.virtual[position]:
        return "virtual: fresh when its parents are"
    if position in warehouse.held:
        return "held"
    dirty = warehouse.dirty(position)
    return f"waits for {dirty} stale ancestor{'s' if dirty > 1 else ''}" if dirty else "ready"
