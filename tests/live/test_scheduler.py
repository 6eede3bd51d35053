"""The brain fed from the log: what a loop knows is what the log says, and nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.live.holds import PARENT_BLOCKED, PAUSED
from scheduler_plugin.live.memory import dump, restored
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.store.freshness import Change, LoggedEvent
from scheduler_plugin.store.models import EventKind
from scheduler_plugin.store.objects import CatalogRow, ObjectRow

START = datetime(2026, 1, 1, tzinfo=UTC)


def table(name: str) -> ObjectRow:
    spec = {"weight": 1.0, "access": 1.0, "period": 10.0, "staleness_limit": None}
    return ObjectRow(name=name, kind="table", materialized=True, parents=(), spec=spec)


def view(name: str, *parents: str, materialized: bool = True, access: float = 1.0, defined_at: int = 0) -> ObjectRow:
    spec = {"weight": 1.0, "access": access, "staleness_limit": None, "sql": "", "reads": list(parents), "virtual": {}}
    return ObjectRow(
        name=name,
        kind="view",
        materialized=materialized,
        parents=parents,
        spec=spec,
        defined_at_event=defined_at,
    )


def catalog(
    *objects: ObjectRow, slots: int = 2, policy: str = "default", groups: Sequence[Mapping[str, Any]] = ()
) -> CatalogRow:
    settings = {
        "slots": slots,
        "groups": list(groups),
        "policy": {"name": policy, "params": {}},
        "tick_seconds": 1.0,
    }
    return CatalogRow(settings=settings, objects=objects)


@dataclass
class Log:
    """Writes events as the store would, a second apart, and lets a scheduler follow."""

    scheduler: Scheduler
    events: list[LoggedEvent] = field(default_factory=list)
    decisions: int = 0

    @property
    def now(self) -> float:
        return self.events[-1].at.timestamp() if self.events else START.timestamp()

    def add(self, kind: EventKind, name: str, after: float = 1.0, **body: Any) -> list[Change]:
        at = (self.events[-1].at if self.events else START) + timedelta(seconds=after)
        event = LoggedEvent(id=len(self.events) + 1, at=at, kind=kind, object=name, body=body)
        self.events.append(event)
        return self.scheduler.apply(event)

    def arrive(self, name: str) -> list[Change]:
        return self.add(EventKind.UPDATE_ARRIVED, name, update=len(self.events), start=self.now, release=self.now + 1)

    def start(self, name: str, slot: int = 0) -> list[Change]:
        self.decisions += 1
        pending = self.scheduler.warehouse.updates.pending.get(self.scheduler.warehouse.number(name), ())
        return self.add(
            EventKind.JOB_STARTED, name, decision=self.decisions, slot=slot, updates=list(range(len(pending)))
        )

    def finish(self, name: str, slot_seconds: float = 1.0) -> list[Change]:
        return self.add(EventKind.JOB_FINISHED, name, decision=self.decisions, slot_seconds=slot_seconds)

    def fail(self, name: str, after: float = 1.0) -> list[Change]:
        return self.add(EventKind.JOB_FAILED, name, after=after, decision=self.decisions)

    def run(self, name: str) -> None:
        self.start(name)
        self.finish(name)

    def chosen(self, after: float = 0.0) -> list[str]:
        return [each.object for each in self.scheduler.choose(self.now + after)]


def log(*objects: ObjectRow, slots: int = 2) -> Log:
    return Log(Scheduler(catalog(*objects, slots=slots), since=START.timestamp()))


def told(changes: Sequence[Change]) -> dict[str, bool]:
    return {change.object: change.fresh for change in changes}


def test_an_arrival_makes_the_table_and_everything_above_it_stale_once() -> None:
    it = log(table("t"), view("v", "t"), view("w", "v"), view("other"))
    assert told(it.arrive("t")) == {"t": False, "v": False, "w": False}
    assert told(it.arrive("t")) == {}


def test_a_refresh_tells_of_its_view_and_of_the_virtual_ones_above() -> None:
    it = log(table("t"), view("v", "t"), view("thin", "v", materialized=False), view("w", "thin"))
    it.arrive("t")
    it.start("t")
    assert told(it.finish("t")) == {"t": True}
    it.start("v")
    assert told(it.finish("v")) == {"v": True, "thin": True}
    assert it.chosen() == ["w"]


def test_an_object_with_an_open_decision_keeps_its_slot_and_is_not_chosen_again() -> None:
    it = log(table("a"), table("b"), table("c"))
    for name in "abc":
        it.arrive(name)
    first = it.scheduler.choose(it.now)
    it.start(first[0].object, slot=first[0].slot)
    (second,) = it.scheduler.choose(it.now)
    assert second.object != first[0].object
    assert second.slot != first[0].slot


def test_an_object_whose_jobs_fail_waits_longer_each_time_and_is_forgiven_when_one_succeeds() -> None:
    it = log(table("t"))
    it.arrive("t")
    for pause in (2, 4, 8):
        it.start("t")
        it.fail("t")
        assert it.chosen(after=pause - 0.1) == []
        assert it.chosen(after=pause) == ["t"]
        it.add(EventKind.ACCESS_LEARNT, "t", after=pause, access=1.0)
    it.run("t")
    it.arrive("t")
    assert it.chosen() == ["t"]


def test_a_paused_object_is_held_until_it_is_resumed() -> None:
    it = log(table("t"))
    it.arrive("t")
    assert it.scheduler.to_hold({"load__t", "load__unknown"}) == (["t"], [])
    it.add(EventKind.HELD, "t", by=PAUSED)
    assert it.chosen() == []
    assert it.scheduler.to_hold({"load__t"}) == ([], [])
    assert it.scheduler.to_hold(set()) == ([], ["t"])
    it.add(EventKind.RELEASED, "t", by=PAUSED)
    assert it.chosen() == ["t"]


def test_resuming_does_not_forgive_failures() -> None:
    it = log(table("t"))
    it.arrive("t")
    it.start("t")
    it.add(EventKind.HELD, "t", by=PAUSED)
    it.fail("t")
    it.add(EventKind.RELEASED, "t", after=0.1, by=PAUSED)
    assert it.chosen() == []


def test_a_view_that_was_defined_anew_is_stale_whatever_ran_before() -> None:
    it = log(table("t"), view("v", "t"))
    it.arrive("t")
    it.run("t")
    it.run("v")
    anew = Scheduler(catalog(table("t"), view("v", "t", defined_at=100)), since=START.timestamp())
    for event in it.events:
        anew.apply(event)
    assert [each.object for each in anew.choose(it.now)] == ["v"]


def test_a_job_on_an_older_definition_blocks_the_view_until_it_ends_and_counts_for_nothing() -> None:
    it = log(table("t"), view("v", "t"))
    it.arrive("t")
    it.run("t")
    it.start("v")
    anew = Log(Scheduler(catalog(table("t"), view("v", "t", defined_at=100)), since=START.timestamp()))
    for event in it.events:
        anew.scheduler.apply(event)
    anew.events = list(it.events)
    assert anew.chosen() == []
    anew.finish("v")
    assert anew.chosen() == ["v"]


def test_events_of_objects_that_the_catalog_no_longer_has_are_passed_over() -> None:
    it = log(table("t"))
    assert it.add(EventKind.UPDATE_ARRIVED, "gone", update=1, start=0.0, release=1.0) == []


def test_a_cost_is_learnt_from_what_jobs_took() -> None:
    it = log(table("t"), view("v", "t"))
    it.arrive("t")
    it.run("t")
    number = it.scheduler.warehouse.number("v")
    before = it.scheduler.warehouse.cost(number)
    it.start("v")
    it.finish("v", slot_seconds=11.0)
    assert before < it.scheduler.warehouse.cost(number) < 11.0


def test_access_is_learnt_where_it_changed_and_the_catalogs_guess_fades() -> None:
    it = log(table("t"), view("v", "t", access=60.0))
    assert it.scheduler.accesses({}, prior_share=1.0) == {}
    assert it.scheduler.accesses({"v": 30.0}, prior_share=0.5) == {"t": 0.5}
    assert it.scheduler.accesses({"v": 10.0, "t": 1.0}, prior_share=0.0) == {"v": 10.0}


def test_a_decision_says_what_its_impact_is_made_of_and_who_was_passed_over() -> None:
    it = log(table("a"), table("b"), table("c"), slots=1)
    for name in "abc":
        it.arrive(name)
    (decision,) = it.scheduler.choose(it.now)
    assert decision.figures["ingredients"]
    assert decision.figures["candidates"] == 3
    assert {each["object"] for each in decision.figures["passed_over"]} == set("abc") - {decision.object}
    assert decision.why


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("arrive a", "arrive b", "decide", "finish", "fail", "pause", "resume")), st.integers(0, 5)
    ),
    max_size=60,
)


def play(steps: Sequence[tuple[str, int]]) -> tuple[Log, list[list[str]], dict[str, bool]]:
    """Plays a history in which every decision is carried out, and returns all that was decided and told."""
    it = log(table("a"), table("b"), view("v", "a", "b"), view("thin", "v", materialized=False), view("w", "thin", "a"))
    decided, fresh = [], {}
    for step, number in steps:
        changes: list[Change] = []
        running = sorted(it.scheduler.running)
        match step:
            case "arrive a" | "arrive b":
                changes = it.arrive(step[-1])
            case "decide":
                chosen = it.scheduler.choose(it.now)
                decided.append([each.object for each in chosen])
                for each in chosen:
                    changes += it.start(each.object, slot=each.slot)
            case "finish" | "fail" if running:
                name = running[number % len(running)]
                changes = it.finish(name) if step == "finish" else it.fail(name)
            case "pause" | "resume":
                kind = EventKind.HELD if step == "pause" else EventKind.RELEASED
                changes = it.add(kind, "v", by=PAUSED)
        fresh |= told(changes)
    return it, decided, fresh


@given(STEPS)
def test_a_loop_that_replays_the_log_knows_what_its_predecessor_knew(steps: Sequence[tuple[str, int]]) -> None:
    it, _, fresh = play(steps)
    again = Scheduler(catalog(*it.scheduler.rows.values()), since=START.timestamp())
    for event in it.events:
        again.apply(event)
    assert again.choose(it.now) == it.scheduler.choose(it.now)
    assert again.running == it.scheduler.running
    assert again.standing(START) == it.scheduler.standing(START)
    # What was told along the way is where things stand; what was never told of has been fresh all the time.
    assert {change.object: change.fresh for change in again.standing(START)} == {
        **dict.fromkeys(it.scheduler.rows, True),
        **fresh,
    }


@given(STEPS)
def test_never_more_jobs_than_slots_nor_two_on_one_slot(steps: Sequence[tuple[str, int]]) -> None:
    it, _, _ = play(steps)
    slots = [job.slot for job in it.scheduler.running.values()]
    assert len(slots) == len(set(slots)) <= 2


def test_a_changed_weight_alone_does_not_make_anything_stale() -> None:
    it = log(table("t"), view("v", "t"))
    it.arrive("t")
    it.run("t")
    it.run("v")
    rows = [replace(row, spec={**row.spec, "weight": 5.0}) for row in it.scheduler.rows.values()]
    anew = Scheduler(catalog(*rows), since=START.timestamp())
    for event in it.events:
        anew.apply(event)
    assert all(change.fresh for change in anew.standing(START))


def test_a_view_that_asks_for_it_is_held_while_a_table_below_has_files_in_quarantine() -> None:
    careful = replace(view("w", "thin"), spec={**view("w").spec, "when_parent_blocked": "hold"})
    it = log(table("t"), table("other"), view("v", "t"), view("thin", "v", materialized=False), careful)
    it.run("t") if it.arrive("t") else None
    it.run("v")
    assert it.scheduler.to_hold_above({"other"}) == ([], [])
    assert it.scheduler.to_hold_above({"t"}) == (["w"], [])
    it.add(EventKind.HELD, "w", by=PARENT_BLOCKED)
    assert it.scheduler.to_hold_above({"t"}) == ([], [])
    assert it.chosen() == []
    assert it.scheduler.to_hold_above(()) == ([], ["w"])
    it.add(EventKind.RELEASED, "w", by=PARENT_BLOCKED)
    assert it.chosen() == ["w"]


def test_a_backfill_competes_with_live_loads_and_neither_starves() -> None:
    backfill = replace(table("backfill/1"), kind="backfill")
    it = log(table("t"), backfill, slots=1)
    for _ in range(10):
        it.arrive("backfill/1")
    ran = []
    for _ in range(40):
        it.arrive("t")
        (name,) = it.chosen()
        it.decisions += 1
        it.add(EventKind.JOB_STARTED, name, decision=it.decisions, slot=0, updates=[1])
        it.finish(name, slot_seconds=1.0)
        ran.append(name)
    assert ran.count("backfill/1") == 10
    assert "t" in ran[: ran.index("backfill/1") + 12]
    assert it.scheduler.accesses({}, 0.0).keys() == {"t"}


def test_a_limit_set_for_a_while_is_the_brains_until_it_is_over_and_then_the_catalogs() -> None:
    limited = replace(view("v", "t"), spec={**view("v").spec, "staleness_limit": 60.0})
    it = log(table("t"), limited)
    position = it.scheduler.warehouse.number("v")
    assert it.scheduler.warehouse.limits == {position: 60.0}
    it.add(EventKind.OVERRIDDEN, "v", what="limit", value=20.0, until=it.now + 9.0, by="ada", why="fair")
    assert it.scheduler.warehouse.limits == {position: 20.0}
    assert restored(catalog(table("t"), limited), dump(it.scheduler), 1).warehouse.limits == {position: 20.0}
    it.scheduler.pass_time(it.now + 10.0)
    assert it.scheduler.warehouse.limits == {position: 60.0}
