"""The warehouse again, slow and plain: every object holds a set of updates, and everything is recounted when asked.

It shares no code with the brain, so that the two can disagree.
"""

from collections.abc import Sequence

from scheduler_plugin.brain.objects import Declared, Table

Held = frozenset[tuple[str, int]]


class Naive:
    """Which updates arrived, and which of them each object holds."""

    def __init__(self, objects: Sequence[Declared]) -> None:
        self.objects = {each.name: each for each in objects}
        self.names = [each.name for each in objects]
        #: Table -> releases that arrived, in order.
        self.arrived: dict[str, list[float]] = {name: [] for name in self.names if self.is_table(name)}
        self.content: dict[str, Held] = {name: frozenset() for name in self.names}
        #: What a running job will publish.
        self.running: dict[str, Held] = {}
        self.held: set[str] = set()
        self.now = 0.0
        self.stale_time = dict.fromkeys(self.names, 0.0)
        self.age_integral = dict.fromkeys(self.names, 0.0)
        self.spell = dict.fromkeys(self.names, 0.0)
        self.longest_spell = dict.fromkeys(self.names, 0.0)

    def is_table(self, name: str) -> bool:
        return isinstance(self.objects[name], Table)

    def is_virtual(self, name: str) -> bool:
        return not self.is_table(name) and not self.objects[name].materialized

    def parents(self, name: str) -> Sequence[str]:
        return () if self.is_table(name) else self.objects[name].parents

    def ancestors(self, name: str) -> set[str]:
        return {above for parent in self.parents(name) for above in {parent, *self.ancestors(parent)}}

    def descendants(self, name: str) -> set[str]:
        return {other for other in self.names if name in self.ancestors(other)}

    def tables_of(self, name: str) -> set[str]:
        return {each for each in {name, *self.ancestors(name)} if self.is_table(each)}

    def holds(self, name: str) -> Held:
        return self.reads(name) if self.is_virtual(name) else self.content[name]

    def reads(self, name: str) -> Held:
        """What a refresh that starts now would hold: the updates that every parent derived from their table has."""
        parents = self.parents(name)
        found = {update for parent in parents for update in self.holds(parent)}
        return frozenset(
            (table, number)
            for table, number in found
            if all((table, number) in self.holds(parent) for parent in parents if table in self.tables_of(parent))
        )

    def is_fresh(self, name: str) -> bool:
        wanted = {(table, number) for table in self.tables_of(name) for number in range(len(self.arrived[table]))}
        return wanted <= self.holds(name)

    def dirty_ancestors(self, name: str) -> set[str]:
        return {each for each in self.ancestors(name) if not self.is_fresh(each)}

    def may_start(self, name: str) -> bool:
        """What a policy that waits for ancestors may start."""
        idle = name not in self.running and name not in self.held and not self.is_virtual(name)
        return idle and not self.is_fresh(name) and not self.dirty_ancestors(name)

    def pending(self, table: str) -> list[int]:
        gone = {number for name, number in self.content[table] | self.running.get(table, frozenset()) if name == table}
        return [number for number in range(len(self.arrived[table])) if number not in gone]

    def popularity(self, name: str) -> float:
        return sum(self.objects[each].access for each in {name, *self.descendants(name)})

    def cost(self, name: str, updates: int | None = None) -> float:
        found = self.objects[name]
        if not isinstance(found, Table):
            return found.cost
        return found.fixed + found.per_update * (len(self.pending(name)) if updates is None else updates)

    def current_to(self, name: str) -> float:
        """The smallest, over the tables behind it, of the latest release it holds."""
        held = self.holds(name)
        latest = {
            table: max((self.arrived[table][number] for other, number in held if other == table), default=0.0)
            for table in self.tables_of(name)
        }
        return min(latest.values())

    # What happens.

    def pass_time(self, now: float) -> None:
        passed = now - self.now
        for name in self.names:
            self.age_integral[name] += passed * ((self.now + now) / 2 - self.current_to(name))
            if self.is_fresh(name):
                self.spell[name] = 0.0
            else:
                self.stale_time[name] += passed
                self.spell[name] += passed
                self.longest_spell[name] = max(self.longest_spell[name], self.spell[name])
        self.now = now

    def arrive(self, table: str) -> None:
        self.arrived[table].append(self.now)

    def start(self, name: str, updates: int | None = None) -> None:
        if self.is_table(name):
            batch = {(name, number) for number in self.pending(name)[:updates]}
            self.running[name] = self.content[name] | batch
        else:
            self.running[name] = self.reads(name)

    def finish(self, name: str) -> None:
        was_stale = not self.is_fresh(name)
        self.content[name] = self.running.pop(name)
        if was_stale and self.is_fresh(name):
            for each in {name, *self.descendants(name)}:
                self.spell[each] = 0.0 if self.is_fresh(each) else self.spell[each]

    def fail(self, name: str) -> None:
        del self.running[name]
