"""The default policy: rescue tables that fall behind, otherwise buy readers the most freshness per slot-second.

1. A table is late when its oldest update has waited much longer than the table's own rhythm. The latest goes first,
   in at most three quarters of the slots.
2. Otherwise the largest value: the reads behind an object, times the freshness a run would bring them, divided by its
   cost. A view that is about to be overwritten is worth less, and a view that has been stale for long is worth more
   and more, so that nothing is forgotten.

After papers 000 (stretch) and 004 (popularity per cost); the numbers were found by search in the mixed model.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from scheduler_plugin.brain import events
from scheduler_plugin.brain.policy import Choice, Policy
from scheduler_plugin.brain.warehouse import Warehouse, Watch

#: With fewer gaps than this, nothing is guessed about a table's next update.
ENOUGH_GAPS = 4
#: With fewer finished stale spells than this, no view counts as late.
ENOUGH_SPELLS = 20


class Freshest(Policy):
    """Late tables, then value per slot-second."""

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
        open_to_late = self._room_for_late(warehouse)
        waiting = sorted(each for each in warehouse.ready if self.serves(warehouse, each))
        late = self._late_tables(warehouse, waiting, now)
        values = sorted(waiting, key=lambda each: (-self.value(warehouse, each, now), each))
        choices: list[Choice] = []
        taken: set[int] = set()
        for slot in free_slots:
            queue = late if late and open_to_late > 0 else values
            open_to_late -= queue is late
            while queue and queue[0] in taken:
                queue.pop(0)
            if not queue:
                queue = values
                while queue and queue[0] in taken:
                    queue.pop(0)
            if queue:
                position = queue.pop(0)
                taken.add(position)
                choices.append(self._choice(warehouse, position, now, slot))
        return choices

    def order(self, warehouse: Warehouse, position: int, now: float) -> tuple[float, ...]:
        self._catch_up(warehouse)
        ratio = self.lateness(warehouse, position, now)
        late = ratio > self._patience(warehouse) and self._room_for_late(warehouse) > 0
        return (1.0, ratio) if late else (0.0, self.value(warehouse, position, now))

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        self._catch_up(warehouse)
        return self.value(warehouse, position, now)

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        self._catch_up(warehouse)
        found = {
            "reads": self.reads(warehouse, position),
            "lag": self.lag(warehouse, position),
            "survival": self.survival(warehouse, position, now),
            "fresh_gain": self.fresh_gain(warehouse, position, now),
            "cost": warehouse.cost(position),
        }
        if warehouse.graph.tables[position]:
            found |= {"lateness": self.lateness(warehouse, position, now), "patience": self._patience(warehouse)}
        else:
            found["late_view"] = self.late_view(warehouse, position, now)
        return found

    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        self._catch_up(warehouse)
        ratio = self.lateness(warehouse, position, now)
        if ratio > self._patience(warehouse):
            return f"late: its oldest update has waited {ratio:.2g} times its rhythm"
        return (
            f"{self.reads(warehouse, position):.3g} of the reads behind it, {self.lag(warehouse, position):.3g} s of "
            f"new data, {warehouse.cost(position):.3g} s to run"
        )

    # Late tables.

    def lateness(self, warehouse: Warehouse, position: int, now: float) -> float:
        """How long the oldest pending update will have taken, against its length; 0 for a view."""
        waiting = warehouse.pending.get(position)
        if not waiting:
            return 0.0
        cost = warehouse.cost(position)
        spent = now + cost - waiting[0].start - 2 * warehouse.mean_view_cost
        base = waiting[0].length + cost
        return spent / base if base > 0 else math.inf

    def _late_tables(self, warehouse: Warehouse, waiting: Sequence[int], now: float) -> list[int]:
        patience = self._patience(warehouse)
        ratios = ((self.lateness(warehouse, each, now), each) for each in waiting if warehouse.graph.tables[each])
        return [each for ratio, each in sorted(ratios, key=lambda pair: (-pair[0], pair[1])) if ratio > patience]

    def _patience(self, warehouse: Warehouse) -> float:
        """The stretch at which tables, loaded in ever larger batches, use half the slots."""
        room = self.room(warehouse) / 2 - math.fsum(self._per_update_load.values())
        return min(8.0, max(1.1, math.fsum(self._fixed_load.values()) / room)) if room > 0 else 8.0

    def _room_for_late(self, warehouse: Warehouse) -> int:
        running = sum(warehouse.graph.tables[each] and self.serves(warehouse, each) for each in warehouse.running)
        return max(1, 3 * self.room(warehouse) // 4) - running

    # Value.

    def value(self, warehouse: Warehouse, position: int, now: float) -> float:
        cost = warehouse.cost(position)
        worth = self.reads(warehouse, position) * (
            self.fresh_gain(warehouse, position, now) + 0.2 * self.lag(warehouse, position)
        )
        value = worth / cost if cost > 0 else math.inf
        return max(value, self.late_view(warehouse, position, now))

    def reads(self, warehouse: Warehouse, position: int) -> float:
        """Own access, and each child's shared among the parents it waits for."""
        found = self._reads.get(position)
        if found is None:
            graph = warehouse.graph
            found = self._reads[position] = warehouse.access[position] + math.fsum(
                self.reads(warehouse, child) / len(graph.parents[child]) for child in graph.children[position]
            )
        return found

    def lag(self, warehouse: Warehouse, position: int) -> float:
        """How much newer the object would be after a run."""
        if warehouse.graph.tables[position]:
            available = warehouse.newest.get(position, warehouse.current_to[position])
        else:
            parents = warehouse.graph.parents[position]
            available = min((warehouse.current_to[each] for each in parents), default=math.inf)
        lag = available - warehouse.current_to[position]
        return lag if lag > 0 else 0.0  # NaN for a view of nothing

    def fresh_gain(self, warehouse: Warehouse, position: int, now: float) -> float:
        """How much of the freshness a run brings is likely to last."""
        cost = warehouse.cost(position)
        backlog = warehouse.backlog / max(1, self.room(warehouse))
        survival, rest = self._outlook(warehouse, position, now, cost)
        return survival * min(1.0, max(0.0, rest - cost) / backlog if backlog > 0 else 1.0)

    def survival(self, warehouse: Warehouse, position: int, now: float) -> float:
        return self._outlook(warehouse, position, now, warehouse.cost(position))[0]

    def _outlook(self, warehouse: Warehouse, position: int, now: float, cost: float) -> tuple[float, float]:
        """The chance that no ancestor table updates before a run ends, and how long until one does."""
        survival, rest = 1.0, math.inf
        for table in self._tables_of(warehouse, position):
            gaps = warehouse.gaps.get(table, ())
            if len(gaps) < ENOUGH_GAPS:
                continue
            waited = now - warehouse.newest[table]
            open_gaps = [gap for gap in gaps if gap > waited]
            if open_gaps:
                survival *= sum(gap > waited + cost for gap in open_gaps) / len(open_gaps)
                rest = min(rest, math.fsum(open_gaps) / len(open_gaps) - waited)
        return survival, rest

    def _tables_of(self, warehouse: Warehouse, position: int) -> list[int]:
        found = self._tables.get(position)
        if found is None:
            found = self._tables[position] = warehouse.graph.ancestor_tables(position)
        return found

    def late_view(self, warehouse: Warehouse, position: int, now: float) -> float:
        """What a long stale spell is worth; 0 for a table."""
        measures = warehouse.measures
        if warehouse.graph.tables[position] or measures.finished_spells < ENOUGH_SPELLS:
            return 0.0
        stale_since = measures.stale_since(position)
        mean_cost = warehouse.mean_view_cost
        if stale_since is None or mean_cost <= 0 or measures.mean_spell <= 0:
            return 0.0
        cost = warehouse.cost(position)
        spell = (now - stale_since + cost) / (3 * measures.mean_spell)
        return 0.1 / warehouse.views * spell**4 * self.survival(warehouse, position, now) / mean_cost

    # Following what happens.

    def _catch_up(self, warehouse: Warehouse) -> None:
        if self._warehouse is not warehouse or self._watch is None or self._watch.events is None:
            self._warehouse, self._watch = warehouse, warehouse.watch(with_events=True)
            self._tables: dict[int, list[int]] = {}
            self._reads: dict[int, float] = {}
            #: Table -> slots that its loads need, the part per batch and the part per update.
            self._fixed_load: dict[int, float] = {}
            self._per_update_load: dict[int, float] = {}
            for table in warehouse.gaps:
                self._learn(warehouse, table)
            return
        heard, self._watch.events = self._watch.events or [], []
        self._watch.touched.clear()
        for event in heard:
            if isinstance(event, events.UpdateArrived):
                self._learn(warehouse, warehouse.number(event.table))
            elif isinstance(event, events.AccessChanged):
                self._reads.clear()

    def _learn(self, warehouse: Warehouse, table: int) -> None:
        gaps = warehouse.gaps.get(table)
        mean = math.fsum(gaps) / len(gaps) if gaps else 0.0
        if mean > 0:
            self._fixed_load[table] = warehouse.fixed[table] / mean
            self._per_update_load[table] = warehouse.per_update[table] / mean
