"""The default policy: nothing forgotten, no table out of its rhythm, otherwise the most freshness per slot-second.

When a slot is free, of what may start:

1. **Overdue first.** What lacks an update for longer than OVERDUE mean stale spells, the oldest first.
2. **Then late tables.** A table is late when its oldest update has taken much longer than the time it covers (stretch,
   paper 000). How much depends on the load: the stretch at which tables, in ever larger batches, use half the slots.
   The latest goes first; loads take at most three quarters of the slots.
3. **Then value**: the reads behind an object (popularity, paper 004), times the freshness that a run would bring them,
   divided by its cost. What is about to be overwritten is worth less, and a view stale for long is worth more.

Rules and numbers were found by search in the mixed model; docs/policy.md tells more. A lazy heap per rule picks the few
objects that are looked at closely, so a decision costs the same in a large warehouse as in a small one.
"""

import math
from array import array
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import NamedTuple

from scheduler_plugin.brain import events
from scheduler_plugin.brain.exact import ExactSum
from scheduler_plugin.brain.policy import Choice, Lane, Policy
from scheduler_plugin.brain.warehouse import Warehouse, Watch

#: Stale for longer than this many mean spells is overdue.
OVERDUE = 3.0
#: What a mean gap of new data is worth against being fresh.
LAG_WORTH = 1.0
#: Share of the slots that tables should need; sets how long a table may wait.
TABLES_SHARE = 0.5
#: A view stale for this many mean spells is worth as much as an average one.
LATE_VIEW = 3.0
#: With fewer gaps than this, nothing is guessed about a table's next update.
ENOUGH_GAPS = 4
#: How many of the tables behind a view are asked about their next update.
TABLES_BEHIND = 16
#: How many of the first are looked at closely: by age, by deadline, by value.
CLOSE = (4, 8, 16)


class Limits(NamedTuple):
    """What the first two rules go by, the same for every object of one decision."""

    overdue_after: float
    patience: float
    #: How many more loads may start by the second rule.
    loads: int


class Freshest(Policy):
    """Overdue objects, late tables, then value per slot-second."""

    def __init__(
        self,
        params: Mapping[str, str] | None = None,
        *,
        members: Collection[str] | None = None,
        slots: int | None = None,
    ) -> None:
        super().__init__(params, members=members, slots=slots)
        self._warehouse: Warehouse | None = None
        self._watch: Watch | None = None

    def choose(self, warehouse: Warehouse, now: float, free_slots: Sequence[int]) -> list[Choice]:
        self._catch_up(warehouse)
        limits = self._limits(warehouse)
        choices: list[Choice] = []
        with self._first(warehouse, len(free_slots)) as close:
            for slot in free_slots[: len(close)]:
                # Values take longest to reckon and only count when neither rule speaks.
                ruled = [(*rule, -each) for each in close if (rule := self._rule(warehouse, each, now, limits))]
                position = -max(ruled or [(0, self._value(warehouse, each, now), -each) for each in close])[2]
                close.remove(position)
                choices.append(self._choice(warehouse, position, now, slot))
                if warehouse.graph.tables[position]:
                    limits = limits._replace(loads=limits.loads - 1)
        return choices

    @contextmanager
    def _first(self, warehouse: Warehouse, slots: int) -> Iterator[list[int]]:
        """The objects at the top of any heap; the heaps are as before afterwards."""
        taken: list[tuple[Lane, tuple[float, int]]] = []
        for lane, count in zip((self._by_age, self._by_deadline, self._by_value), CLOSE, strict=True):
            for _ in range(count + slots - 1):
                entry = lane.take(warehouse.ready)
                if entry is None:
                    break
                taken.append((lane, entry))
        yield sorted({position for _, (_, position) in taken})
        for lane, entry in taken:
            lane.put_back(entry)

    def foremost(self, warehouse: Warehouse, count: int) -> Iterable[int]:
        self._catch_up(warehouse)
        with self._first(warehouse, count) as close:
            return close

    def order(self, warehouse: Warehouse, position: int, now: float) -> tuple[float, float]:
        """The rule that speaks for the object, and by how much."""
        self._catch_up(warehouse)
        rule = self._rule(warehouse, position, now, self._limits(warehouse))
        return rule or (0, self._value(warehouse, position, now))

    def _limits(self, warehouse: Warehouse) -> "Limits":
        return Limits(self.overdue_after(warehouse), self.patience(warehouse), self._room_for_loads(warehouse))

    def _rule(self, warehouse: Warehouse, position: int, now: float, limits: "Limits") -> tuple[int, float] | None:
        """Which of the first two rules speaks for the object, if any, and by how much."""
        waited = now - warehouse.missing[position]
        if waited > limits.overdue_after:
            return (2, waited)
        if limits.loads > 0 and warehouse.graph.tables[position]:
            lateness = self.lateness(warehouse, position, now)
            if lateness > limits.patience:
                return (1, lateness)
        return None

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        self._catch_up(warehouse)
        return self._value(warehouse, position, now)

    def _value(self, warehouse: Warehouse, position: int, now: float) -> float:
        cost = warehouse.cost(position)
        survival, lasting = self._outlook(warehouse, position, now, cost)
        gain = survival * lasting + self._lag_worth(warehouse, position)
        value = self.reads(warehouse, position) * gain / cost if cost > 0 else math.inf
        if warehouse.graph.tables[position]:
            return value
        return max(value, self._late_view(warehouse, now - warehouse.missing[position] + cost, survival))

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        self._catch_up(warehouse)
        cost = warehouse.cost(position)
        survival, lasting = self._outlook(warehouse, position, now, cost)
        missing = warehouse.missing[position]
        waited = 0.0 if missing == math.inf else now - missing
        found = {
            "reads": self.reads(warehouse, position),
            "lag": self.lag(warehouse, position),
            "survival": survival,
            "lasting": lasting,
            "cost": cost,
            "waited": waited,
            "overdue_after": self.overdue_after(warehouse),
        }
        if warehouse.graph.tables[position]:
            found |= {"lateness": self.lateness(warehouse, position, now), "patience": self.patience(warehouse)}
        else:
            found["late_view"] = self._late_view(warehouse, waited + cost, survival)
        return found

    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        rule, strength = self.order(warehouse, position, now)
        if rule == 2:
            return f"overdue: stale for {strength:.3g} s"
        if rule == 1:
            return f"late: its oldest update has taken {strength:.2g} times the time it covers"
        return (
            f"{self.reads(warehouse, position):.3g} of the reads behind it, {self.lag(warehouse, position):.3g} s of "
            f"new data, {warehouse.cost(position):.3g} s to run"
        )

    # Rule 1.

    def overdue_after(self, warehouse: Warehouse) -> float:
        """How long an object may lack an update before it goes first."""
        measures = warehouse.measures
        usual = measures.mean_spell if measures.finished_spells else warehouse.one_pass / max(1, self.room(warehouse))
        return OVERDUE * usual

    # Rule 2.

    def lateness(self, warehouse: Warehouse, position: int, now: float) -> float:
        """How long the oldest pending update will have taken, against its length; 0 for a view."""
        waiting = warehouse.pending.get(position)
        if not waiting:
            return 0.0
        cost = warehouse.cost(position)
        base = waiting[0].length + cost
        return (now + cost - waiting[0].start - 2 * warehouse.mean_view_cost) / base if base > 0 else math.inf

    def patience(self, warehouse: Warehouse) -> float:
        """The lateness at which a table goes first."""
        _, per_batch, per_update = self._sums
        room = self.room(warehouse) * TABLES_SHARE - per_update.value
        return min(8.0, max(1.1, per_batch.value / room)) if room > 0 else 8.0

    def _room_for_loads(self, warehouse: Warehouse) -> int:
        running = sum(warehouse.graph.tables[each] and self.serves(warehouse, each) for each in warehouse.running)
        return max(1, 3 * self.room(warehouse) // 4) - running

    # Rule 3.

    def reads(self, warehouse: Warehouse, position: int) -> float:
        """Own access, and that of each child shared among the parents it waits for."""
        return self._reads[position]

    def _count_reads(self, warehouse: Warehouse, positions: Iterable[int]) -> None:
        """Counts anew for objects given from the far ones up; fsum is exact, so no order of children shows in it."""
        graph, reads = warehouse.graph, self._reads
        for each in positions:
            from_children = (reads[child] / len(graph.parents[child]) for child in graph.children[each])
            reads[each] = math.fsum((warehouse.access[each], *from_children))

    def _recount_reads(self, warehouse: Warehouse, changed: Iterable[int]) -> None:
        """Passes changes of access on to what stands above."""
        graph = warehouse.graph
        above = {each for position in changed for each in (position, *graph.ancestors(position))}
        self._count_reads(warehouse, sorted(above, key=lambda each: -graph.level[each]))

    def lag(self, warehouse: Warehouse, position: int) -> float:
        """How much newer the object would be after a run."""
        held = warehouse.current_to[position]
        if warehouse.graph.tables[position]:
            return max(0.0, warehouse.newest.get(position, held) - held)
        parents = warehouse.graph.parents[position]
        return max(0.0, min(warehouse.current_to[each] for each in parents) - held) if parents else 0.0

    def _lag_worth(self, warehouse: Warehouse, position: int) -> float:
        return LAG_WORTH * self.lag(warehouse, position) / self._mean_gap if self._mean_gap > 0 else 0.0

    def _outlook(self, warehouse: Warehouse, position: int, now: float, cost: float) -> tuple[float, float]:
        """The chance that no table behind it updates before a run ends, and the share of a turn that it then lasts."""
        survival, rest = 1.0, math.inf
        for table in self._tables_of(warehouse, position):
            gaps, sums = self._sorted_gaps(warehouse, table)
            waited = now - warehouse.newest.get(table, now)
            open_gaps = len(gaps) - bisect_right(gaps, waited)
            if open_gaps and len(gaps) >= ENOUGH_GAPS:
                survival *= (len(gaps) - bisect_right(gaps, waited + cost)) / open_gaps
                rest = min(rest, sums[open_gaps - 1] / open_gaps - waited)
        turn = warehouse.backlog / max(1, self.room(warehouse))
        return survival, min(1.0, max(0.0, rest - cost) / turn) if turn > 0 else 1.0

    def _late_view(self, warehouse: Warehouse, spell: float, survival: float) -> float:
        """What ending a stale spell of a view is worth for its length alone."""
        usual, cost = warehouse.measures.mean_spell, warehouse.mean_view_cost
        if spell <= 0 or usual <= 0 or cost <= 0:
            return 0.0
        return (spell / (LATE_VIEW * usual)) ** 4 * survival * 0.1 / (warehouse.views * cost)

    def _tables_of(self, warehouse: Warehouse, position: int) -> list[int]:
        found = self._tables.get(position)
        if found is None:
            found = self._tables[position] = warehouse.graph.nearest_tables(position, TABLES_BEHIND)
        return found

    def _sorted_gaps(self, warehouse: Warehouse, table: int) -> tuple[list[float], list[float]]:
        """The table's latest gaps, and the sums of the largest one, two, ..."""
        found = self._gaps.get(table)
        if found is None:
            gaps = sorted(warehouse.gaps.get(table, ()))
            found = self._gaps[table] = (gaps, list(accumulate(reversed(gaps))))
        return found

    # Following what happens.

    def _catch_up(self, warehouse: Warehouse) -> None:
        if self._warehouse is not warehouse or self._watch is None or self._watch.events is None:
            self._attach(warehouse)
        watch = self._watch
        assert watch is not None and watch.events is not None
        if watch.events:
            heard, watch.events = watch.events, []
            for event in heard:
                if isinstance(event, events.UpdateArrived):
                    self._learn(warehouse, warehouse.number(event.table))
                elif isinstance(event, events.CostLearnt) and warehouse.number(event.object) in self._loads:
                    self._learn(warehouse, warehouse.number(event.object))
            self._recount_reads(
                warehouse, [warehouse.number(each.object) for each in heard if isinstance(each, events.AccessChanged)]
            )
        if watch.touched:
            touched, watch.touched = watch.touched, []
            for position in touched:
                if position in warehouse.ready and self.serves(warehouse, position):
                    self._place(warehouse, position)

    def _attach(self, warehouse: Warehouse) -> None:
        self._warehouse, self._watch = warehouse, warehouse.watch(with_events=True)
        self._by_age, self._by_deadline, self._by_value = Lane(), Lane(), Lane()
        self._tables: dict[int, list[int]] = {}
        self._reads = array("d", warehouse.access)
        self._count_reads(warehouse, reversed(warehouse.graph.order))
        self._gaps: dict[int, tuple[list[float], list[float]]] = {}
        #: Table -> its mean gap and the slots that its loads need, per batch and per update; and the sums of each.
        self._loads: dict[int, tuple[float, float, float]] = {}
        self._sums = (ExactSum(), ExactSum(), ExactSum())
        for table in warehouse.gaps:
            self._learn(warehouse, table)

    @property
    def _mean_gap(self) -> float:
        return self._sums[0].value / len(self._loads) if self._loads else 0.0

    def _learn(self, warehouse: Warehouse, table: int) -> None:
        self._gaps.pop(table, None)
        gaps = warehouse.gaps.get(table)
        mean = math.fsum(gaps) / len(gaps) if gaps else 0.0
        if mean > 0:
            before = self._loads.get(table, (0.0, 0.0, 0.0))
            after = (mean, warehouse.fixed[table] / mean, warehouse.per_update[table] / mean)
            self._loads[table] = after
            for total, old, new in zip(self._sums, before, after, strict=True):
                total.take(old)
                total.add(new)

    def _place(self, warehouse: Warehouse, position: int) -> None:
        """Puts the object where it stands at best in each heap."""
        cost = warehouse.cost(position)
        self._by_age.put(position, -warehouse.missing[position])
        gain = 1.0 + self._lag_worth(warehouse, position)
        self._by_value.put(position, self.reads(warehouse, position) * gain / cost if cost > 0 else math.inf)
        waiting = warehouse.pending.get(position)
        if waiting:
            self._by_deadline.put(position, -(waiting[0].start + 1.1 * waiting[0].length + 0.1 * cost))
