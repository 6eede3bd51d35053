"""Small warehouses and histories for property tests."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st

from scheduler_plugin.brain import (
    Held,
    JobFailed,
    JobFinished,
    JobStarted,
    Released,
    Table,
    UpdateArrived,
    View,
    Warehouse,
)
from scheduler_plugin.brain.objects import Declared
from tests.brain.naive import Naive

#: Quarters are exact in binary, so the plain recount may be compared to the last digit.
quarters = st.integers(0, 20).map(lambda number: number / 4)


#: Each example plays a whole history and a machine may be busy: fewer examples, and no deadline.
unhurried = settings(max_examples=40, deadline=None)


@st.composite
def warehouses(draw: st.DrawFn, virtual: bool = True) -> list[Declared]:
    """One to three tables and up to seven views, each reading one to three of those before it."""
    limits = st.one_of(st.none(), quarters) if draw(st.booleans()) else st.none()
    objects: list[Declared] = [
        Table(
            name=f"t{number}",
            fixed=draw(quarters),
            per_update=draw(quarters),
            access=draw(quarters),
            limit=draw(limits),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    for number in range(draw(st.integers(0, 7))):
        names = [each.name for each in objects]
        objects.append(
            View(
                name=f"v{number}",
                parents=tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))),
                cost=draw(quarters),
                access=draw(quarters),
                materialized=not virtual or draw(st.integers(0, 4)) > 0,
                limit=draw(limits),
            )
        )
    return objects


@dataclass(frozen=True, slots=True)
class Step:
    """Something that may happen: which of the possible things is settled when it is played."""

    kind: str
    pick: int
    wait: float


steps = st.builds(
    Step,
    st.sampled_from(("arrive", "arrive", "start", "start", "finish", "finish", "fail", "hold", "release")),
    st.integers(0, 100),
    quarters,
)
histories = st.lists(steps, max_size=40)


class World:
    """The brain's warehouse and the plain one, living through the same."""

    def __init__(self, objects: Sequence[Declared], slots: int = 2) -> None:
        self.objects = objects
        self.warehouse = Warehouse(objects, slots=slots)
        self.naive = Naive(objects)
        self.now = 0.0

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.naive.pass_time(self.now)

    def play(self, step: Step) -> None:
        """Waits and lets one possible thing of that kind happen, if there is one."""
        self.wait(step.wait)
        possible = getattr(self, f"_to_{step.kind}")()
        if possible:
            getattr(self, step.kind)(possible[step.pick % len(possible)])

    def _to_arrive(self) -> list[str]:
        return sorted(self.naive.arrived)

    def arrive(self, table: str) -> None:
        self.naive.arrive(table)
        self.warehouse.apply(UpdateArrived(table=table, at=self.now))

    def _to_start(self) -> list[str]:
        idle = [each for each in self.naive.names if each not in self.naive.running and not self.naive.is_virtual(each)]
        return [each for each in sorted(idle) if not self.naive.is_table(each) or self.naive.pending(each)]

    def start(self, name: str, updates: int | None = None) -> None:
        self.naive.start(name, updates)
        self.warehouse.apply(JobStarted(object=name, at=self.now, updates=updates))

    def _to_finish(self) -> list[str]:
        return sorted(self.naive.running)

    def finish(self, name: str) -> None:
        self.naive.finish(name)
        self.warehouse.apply(JobFinished(object=name, at=self.now))

    _to_fail = _to_finish

    def fail(self, name: str) -> None:
        self.naive.fail(name)
        self.warehouse.apply(JobFailed(object=name, at=self.now))

    def _to_hold(self) -> list[str]:
        return sorted(self.naive.names)

    def hold(self, name: str) -> None:
        self.naive.held.add(name)
        self.warehouse.apply(Held(object=name, at=self.now))

    def _to_release(self) -> list[str]:
        return sorted(self.naive.held)

    def release(self, name: str) -> None:
        self.naive.held.discard(name)
        self.warehouse.apply(Released(object=name, at=self.now))
