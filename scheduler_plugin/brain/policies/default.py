"""The default policy: nothing forgotten, no new record of waiting, otherwise the most freshness per slot-second.

When a slot is free, of what may start:

1. **Overdue first.** What lacks an update for longer than PASSES runs of the whole warehouse would take, oldest first.
2. **Then staleness limits.** What has to start now or a limit is passed that could be kept; `brain/promises.py`.
3. **Then stale spells.** What is held up by an object goes on being stale. If a spell would come near the longest of
   recent memory, the object goes first, in at most a quarter of the slots.
4. **Then late tables.** If an update, loaded now, would take longer against the time it covers (stretch, paper 000)
   than any in recent memory, its table goes first, in at most a quarter of the slots.
5. **Then value**: the reads that depend on an object (popularity, paper 004), times the freshness that a run would
   bring them, over its cost. What is about to be overwritten is worth less, and what lags far behind is worth more.

Rules and numbers were found by search in the mixed model; docs/policy.md tells more. All of it follows from the state
of the warehouse, so a policy that was there all along and one made a moment ago decide the same. A lazy heap per rule
picks the few objects that are looked at closely, so a decision costs the same in a large warehouse as in a small one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from scheduler_plugin.brain import events
from scheduler_plugin.brain.lane import Lane
from scheduler_plugin.brain.policy import Candidate, Choice, Policy, figure
from scheduler_plugin.brain.promises import NO_LIMITS, Promise, Promises, Verdict
from scheduler_plugin.brain.rhythm import Rhythm
from scheduler_plugin.brain.warehouse import Warehouse

#: What lacks an update for longer than this many runs of everything is overdue.
PASSES = 8.0
#: A stale spell is near the longest of recent memory at this share of it, ...
NEAR = 0.85
#: ... and no spell is long that is shorter than this many mean ones.
LONG = 3.0
#: For each level of views below an object, mean refreshes until the last of them is fresh.
PER_LEVEL = 2.0
#: A spell that will hardly end by a run, because new data is due, is not worth a rescue.
LIKELY = 0.2
#: Mean refreshes that pass until a late table's turn would come again.
NEXT_TURN = 0.35
#: Share of the slots for rescues of stale spells, and as much again for late tables.
GUARD_SHARE = 0.25
#: Share of a run's worth that does not depend on how long its result stays fresh.
ANYWAY = 0.25
#: What a mean gap (and a turn) of new data is worth against being fresh.
LAG_WORTH = 0.35
#: A refresh that lasts for this share of the time to work off the backlog is worth its whole gain.
TURN = 0.4
#: What each object below costs, in mean refreshes, when freshness is to reach it.
BELOW = 0.4
#: Costs count a little less than in proportion.
COST_POWER = 0.8
#: Tables are looked at closely in the order in which they reach this stretch.
LATE = 4.0
#: How many of the first are looked at closely: by age, by stale spell, by stretch, by value.
CLOSE = (2, 4, 4, 8)
#: The rules, the foremost last.
VALUE, LATE_TABLE, SPELL, BROKEN_LIMIT, LIMIT, OVERDUE = range(6)
#: The rule that speaks for an object, by how much, and minus the object.
Found = tuple[int, float, int]


class Moment(NamedTuple):
    """What one decision goes by, the same for every object."""

    now: float
    overdue_after: float
    #: A stale spell longer than this goes first.
    long_spell: float
    #: How many more may start by that rule.
    rescues: int
    worst_stretch: float
    #: How many more tables may start by that rule.
    loads: int
    #: Mean cost of a refresh; 1 where nothing is known of any.
    refresh: float
    #: Time until the backlog could be worked off, as far as it counts.
    turn: float
    mean_gap: float


class Worth(NamedTuple):
    """What an object's value is made of, but for how long a result would stay fresh."""

    cost: float
    #: The reads that depend on it, per cost.
    reads: float
    #: What a run gains whatever comes after it.
    anyway: float

    def valued(self, survival: float, lasting: float) -> float:
        return self.reads * (self.anyway + (1 - ANYWAY) * survival * lasting)


class Freshest(Policy):
    """Overdue objects, long stale spells, late tables, then value per slot-second."""

    def choose(self, warehouse: Warehouse, now: float, free_slots: Sequence[int]) -> list[Choice]:
        moment = self._moment(warehouse, now)
        choices: list[Choice] = []
        close = self._close(warehouse, len(free_slots))
        started: list[int] = []
        for slot in free_slots[: len(close)]:
            found = self._best(warehouse, close, moment)
            limits = self._limits(warehouse, moment, found, started)
            rule, strength, minus = max([found, *self._asked_for(warehouse, moment, limits)])
            chosen = -minus
            if chosen in close:
                close.remove(chosen)
            started.append(chosen)
            choices.append(
                Choice(
                    object=warehouse.graph.names[chosen],
                    slot=slot,
                    impact=self._value(warehouse, chosen, moment) if rule else strength,
                    why=self._words(warehouse, chosen, rule, strength, limits),
                )
            )
            moment = moment._replace(
                rescues=moment.rescues - (rule == SPELL), loads=moment.loads - (rule == LATE_TABLE)
            )
        return choices

    def _best(self, warehouse: Warehouse, close: Sequence[int], moment: Moment) -> Found:
        """The foremost of those looked at closely, limits aside."""
        ruled = [(*found, -each) for each in close if (found := self._rule(warehouse, each, moment))]
        return max(ruled) if ruled else (VALUE, *self._most_valuable(warehouse, close, moment))

    def _most_valuable(self, warehouse: Warehouse, close: Sequence[int], moment: Moment) -> tuple[float, int]:
        """The largest value and minus its object. The outlook takes longest to reckon: only where it could matter."""
        worths = {each: self._worth(warehouse, each, moment) for each in close}
        best = (-math.inf, 0)
        for bound, minus in sorted(((worth.valued(1.0, 1.0), -each) for each, worth in worths.items()), reverse=True):
            if bound < best[0]:
                break
            worth = worths[-minus]
            best = max(best, (worth.valued(*self._outlook(-minus, moment, worth.cost)), minus))
        return best

    def foremost(self, warehouse: Warehouse, count: int) -> list[int]:
        close = self._close(warehouse, count)
        return sorted({*close, *self._promises.foremost(warehouse, count - 1)}) if warehouse.limits else close

    def _close(self, warehouse: Warehouse, count: int) -> list[int]:
        """What is looked at closely, to find the best `count` but for limits."""
        self._catch_up(warehouse)
        found = [
            entry[1]
            for lane, few in zip(self._lanes, CLOSE, strict=True)
            for entry in lane.first(warehouse.ready, few + count - 1)
        ]
        return sorted(set(found))

    def order(self, warehouse: Warehouse, position: int, now: float) -> tuple[float, float]:
        """The rule that speaks for the object, and by how much."""
        moment = self._moment(warehouse, now)
        return self._ruled(warehouse, position, moment, self._limits_now(warehouse, moment))

    def _ruled(self, warehouse: Warehouse, position: int, moment: Moment, limits: Verdict) -> tuple[int, float]:
        return self._rule(warehouse, position, moment, limits) or (VALUE, self._value(warehouse, position, moment))

    def _moment(self, warehouse: Warehouse, now: float) -> Moment:
        self._catch_up(warehouse)
        measures, room = warehouse.measures, max(1, self.room(warehouse))
        refresh, guards = warehouse.work.mean_refresh or 1.0, max(1, int(GUARD_SHARE * room))
        long_spell = max(NEAR * measures.record_spell, LONG * measures.mean_spell) or math.inf
        running = [each for each in warehouse.running if self.serves(warehouse, each)]
        rescued = sum(
            now - warehouse.behind[each] + PER_LEVEL * refresh * warehouse.graph.height[each] > long_spell
            for each in running
        )
        late = sum(warehouse.running[each].stretch > measures.record_stretch for each in running)
        return Moment(
            now=now,
            overdue_after=self.overdue_after(warehouse),
            long_spell=long_spell,
            rescues=guards - rescued,
            worst_stretch=measures.record_stretch,
            loads=guards - late,
            refresh=refresh,
            turn=TURN * warehouse.work.backlog / room,
            mean_gap=self._rhythm.mean_gap,
        )

    def _asked_for(self, warehouse: Warehouse, moment: Moment, limits: Verdict) -> list[Found]:
        found = [(LIMIT, moment.now - promise.due, -each) for each, promise in limits.pressing.items()]
        return found + [(BROKEN_LIMIT, self._value(warehouse, each, moment), -each) for each in limits.broken]

    # All rules but value.

    def _rule(
        self, warehouse: Warehouse, position: int, moment: Moment, limits: Verdict = NO_LIMITS
    ) -> tuple[int, float] | None:
        """Which rule speaks for the object, if any but its value does, and by how much."""
        waited = moment.now - warehouse.missing[position]
        if waited > moment.overdue_after:
            return (OVERDUE, waited)
        if position in limits.pressing:
            return (LIMIT, moment.now - limits.pressing[position].due)
        if position in limits.broken:
            return (BROKEN_LIMIT, self._value(warehouse, position, moment))
        if moment.rescues > 0:
            spell = self._spell(warehouse, position, moment)
            if spell > moment.long_spell:
                survival, _ = self._outlook(position, moment, warehouse.cost(position))
                if survival >= LIKELY:
                    return (SPELL, spell)
        if moment.loads > 0 and warehouse.graph.tables[position]:
            stretch = self._stretch(warehouse, position, moment)
            if stretch > moment.worst_stretch:
                return (LATE_TABLE, stretch)
        return None

    def _limits_now(self, warehouse: Warehouse, moment: Moment) -> Verdict:
        close = self._close(warehouse, 1) if warehouse.limits else []
        return self._limits(warehouse, moment, self._best(warehouse, close, moment), ()) if close else NO_LIMITS

    def _limits(self, warehouse: Warehouse, moment: Moment, otherwise: Found, started: Sequence[int]) -> Verdict:
        """What staleness limits ask for, and what would start without them."""
        if not warehouse.limits:
            return NO_LIMITS
        running = {each: job for each, job in warehouse.running.items() if self.serves(warehouse, each)}
        ends = [max(0.0, job.started + warehouse.cost_of(each, job) - moment.now) for each, job in running.items()]
        return self._promises.judged(
            warehouse,
            now=moment.now,
            room=max(1, self.room(warehouse)),
            busy=[*running, *started],
            next_turn=min(*ends, *(warehouse.cost(each) for each in (*started, -otherwise[2])), math.inf),
            worth=lambda each: self._value(warehouse, each, moment),
        )

    def overdue_after(self, warehouse: Warehouse) -> float:
        """How long an object may lack an update before it goes first."""
        return PASSES * warehouse.work.one_pass / max(1, self.room(warehouse))

    def _spell(self, warehouse: Warehouse, position: int, moment: Moment) -> float:
        """How long the longest stale spell that waits for the object will have been when all below it has been run."""
        chain = warehouse.cost(position) + PER_LEVEL * moment.refresh * warehouse.graph.height[position]
        return moment.now - warehouse.behind[position] + chain

    def _stretch(self, warehouse: Warehouse, position: int, moment: Moment) -> float:
        """The worst stretch of a table's pending updates if it does not start now but at its next turn."""
        ends = moment.now + warehouse.cost(position) + NEXT_TURN * moment.refresh
        return max((update.stretch(ends) for update in warehouse.updates.telling(position)), default=0.0)

    # Value.

    def impact(self, warehouse: Warehouse, position: int, now: float) -> float:
        return self._value(warehouse, position, self._moment(warehouse, now))

    def _value(self, warehouse: Warehouse, position: int, moment: Moment) -> float:
        worth = self._worth(warehouse, position, moment)
        return worth.valued(*self._outlook(position, moment, worth.cost))

    def _worth(self, warehouse: Warehouse, position: int, moment: Moment) -> Worth:
        cost = warehouse.cost(position)
        lag = self.lag(warehouse, position) / (moment.mean_gap + moment.turn) if moment.mean_gap > 0 else 0.0
        chain = cost / moment.refresh + BELOW * warehouse.graph.count_below(position)
        reads = warehouse.popularity(position) / chain**COST_POWER if chain > 0 else math.inf
        return Worth(cost, reads, ANYWAY + LAG_WORTH * lag)

    def lag(self, warehouse: Warehouse, position: int) -> float:
        """How much newer the object would be after a run."""
        held = warehouse.current_to[position]
        if warehouse.graph.tables[position]:
            return max(0.0, warehouse.updates.newest.get(position, held) - held)
        parents = warehouse.graph.parents[position]
        return max(0.0, min(warehouse.current_to[each] for each in parents) - held) if parents else 0.0

    def _outlook(self, position: int, moment: Moment, cost: float) -> tuple[float, float]:
        """The chance that no table behind it updates before a run ends, and the share of a turn that it then lasts."""
        survival, lasts = self._rhythm.outlook(position, moment.now, cost)
        return survival, min(1.0, lasts / moment.turn) if moment.turn > 0 else 1.0

    # In words and figures.

    def ingredients(self, warehouse: Warehouse, position: int, now: float) -> dict[str, float]:
        moment = self._moment(warehouse, now)
        cost = warehouse.cost(position)
        survival, lasting = self._outlook(position, moment, cost)
        is_stale = warehouse.missing[position] != math.inf
        waited = now - warehouse.missing[position] if is_stale else 0.0
        found = {
            "popularity": warehouse.popularity(position),
            "lag": self.lag(warehouse, position),
            "survival": survival,
            "lasting": lasting,
            "cost": cost,
            "objects_below": warehouse.graph.count_below(position),
            "waited": waited,
            "overdue_after": moment.overdue_after,
            "spell": self._spell(warehouse, position, moment) if is_stale else 0.0,
        }
        if warehouse.limits and (promise := self._promises.tightest(warehouse, position)) is not None:
            found |= {"limit_passed_in": promise.due - now, "limit_work": promise.work}
            found["limit_given_up"] = float(position in self._limits_now(warehouse, moment).given_up)
        if moment.long_spell != math.inf:
            found["long_spell"] = moment.long_spell
        if warehouse.graph.tables[position]:
            found |= {"stretch": self._stretch(warehouse, position, moment), "worst_stretch": moment.worst_stretch}
        return found

    def why(self, warehouse: Warehouse, position: int, now: float) -> str:
        moment = self._moment(warehouse, now)
        limits = self._limits_now(warehouse, moment)
        return self._words(warehouse, position, *self._ruled(warehouse, position, moment, limits), limits)

    def _words(self, warehouse: Warehouse, position: int, rule: int, strength: float, limits: Verdict) -> str:
        found = self._rule_in_words(warehouse, position, rule, strength, limits)
        if position in limits.given_up:
            found += (
                f"; {_promised(warehouse, limits.given_up[position])} is given up: not all limits can be kept, and of "
                "those that compete a run is worth least here"
            )
        return found

    def _rule_in_words(self, warehouse: Warehouse, position: int, rule: int, strength: float, limits: Verdict) -> str:
        if rule == OVERDUE:
            return f"overdue: it has lacked an update for {figure(strength)} s"
        if rule == LIMIT:
            return (
                f"limit: {_promised(warehouse, limits.pressing[position])} is to be kept for {figure(-strength)} s more"
            )
        if rule == BROKEN_LIMIT:
            return f"limit: {_promised(warehouse, limits.broken[position])} cannot be kept any more, so soon again"
        if rule == SPELL:
            return f"a stale spell that ends with it will have lasted {figure(strength)} s, near the longest of late"
        if rule == LATE_TABLE:
            return f"late: an update would take {figure(strength)} times the time it covers, more than any of late"
        popularity, lag = warehouse.popularity(position), self.lag(warehouse, position)
        return (
            f"popularity {figure(popularity)}, {figure(lag)} s of new data, {figure(warehouse.cost(position))} s to run"
        )

    def given_up(self, warehouse: Warehouse, now: float) -> list[Candidate]:
        moment = self._moment(warehouse, now)
        limits = self._limits_now(warehouse, moment)
        found = sorted(limits.given_up, key=lambda each: (self._value(warehouse, each, moment), each))
        return [
            Candidate(
                object=warehouse.graph.names[limits.given_up[each].object],
                impact=self._value(warehouse, each, moment),
                why=self._words(warehouse, each, *self._ruled(warehouse, each, moment, limits), limits),
            )
            for each in found
        ]

    # Following what happens. What is kept here could be found anew in the warehouse at any time.

    def _catch_up(self, warehouse: Warehouse) -> None:
        if self._warehouse is not warehouse or self._watch is None or self._watch.events is None:
            self._attach(warehouse)
        watch = self._watch
        assert watch is not None and watch.events is not None
        if watch.events:
            heard, watch.events = watch.events, []
            for event in heard:
                if isinstance(event, events.UpdateArrived):
                    self._rhythm.learn(warehouse.number(event.table))
                if warehouse.limits or isinstance(event, events.LimitChanged):
                    self._promises.follow(warehouse, event)
        if watch.touched:
            touched, watch.touched = watch.touched, []
            for position in touched:
                if position in warehouse.ready and self.serves(warehouse, position):
                    self._place(warehouse, position)

    def _attach(self, warehouse: Warehouse) -> None:
        self._warehouse, self._watch = warehouse, warehouse.watch(with_events=True)
        self._lanes = (Lane(), Lane(), Lane(), Lane())
        self._promises = Promises()
        self._rhythm = Rhythm(warehouse)

    def _place(self, warehouse: Warehouse, position: int) -> None:
        """Puts the object where it stands at best in each heap, by what changes only when something happens to it."""
        by_age, by_spell, by_stretch, by_value = self._lanes
        if warehouse.limits:
            self._promises.place(warehouse, position)
        by_age.put(position, -warehouse.missing[position])
        by_spell.put(position, -warehouse.behind[position])
        late_at = min(
            (update.start + LATE * update.length for update in warehouse.updates.telling(position)), default=math.inf
        )
        if late_at != math.inf:
            by_stretch.put(position, -late_at)
        cost = warehouse.cost(position)
        shortest = self._rhythm.shortest_gap(position)
        gain = 1 + (LAG_WORTH * self.lag(warehouse, position) / shortest if shortest > 0 else 0)
        by_value.put(position, warehouse.popularity(position) * gain / cost**COST_POWER if cost > 0 else math.inf)


def _promised(warehouse: Warehouse, promise: Promise) -> str:
    limit = warehouse.limits[promise.object]
    return f"the limit of {warehouse.graph.names[promise.object]} ({limit:.4g} s)"
