"""The mixed model against the plain recount, which schedules by the contract's words and shares no code with it."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.brain import Table, View
from scheduler_plugin.simulator.mixed import POLICIES, simulate
from scheduler_plugin.simulator.workload import WorkloadError
from tests.brain.naive import Naive
from tests.brain.worlds import quarters, unhurried, warehouses


@st.composite
def workloads(draw):
    objects = draw(warehouses())
    tables = [
        {
            "id": each.name,
            "fixed": each.fixed,
            "per_update": each.per_update,
            "weight": 1,
            "releases": sorted(draw(st.lists(quarters.map(lambda number: 4 * number), max_size=6))),
        }
        | ({"period": draw(st.sampled_from((1, 3, 7)))} if draw(st.booleans()) else {})
        for each in objects
        if isinstance(each, Table)
    ]
    views = [
        {
            "id": each.name,
            "cost": each.cost,
            "access": each.access,
            "parents": list(each.parents),
            "materialized": each.materialized,
        }
        for each in objects
        if isinstance(each, View)
    ]
    return {
        "model": "mixed",
        "slots": draw(st.integers(1, 4)),
        "horizon": draw(st.integers(1, 40)),
        "tables": tables,
        "views": views,
    }


class Plain:
    """The mixed model as the contract reads, with nothing remembered that can be recounted."""

    def __init__(self, workload, policy):
        self.workload, self.policy = workload, policy
        self.tables, self.slots = workload["tables"], workload["slots"]
        self.naive = Naive(
            [
                *(Table(name=t["id"], fixed=t["fixed"], per_update=t["per_update"]) for t in self.tables),
                *(
                    View(
                        name=v["id"],
                        parents=tuple(v["parents"]),
                        cost=v["cost"],
                        access=v["access"],
                        materialized=v["materialized"],
                    )
                    for v in workload["views"]
                ),
            ]
        )
        self.schedule, self.running, self.stretches = [], [], []
        self.queue = []  # FIFO's: [update, object], in order
        self.releases = sorted((r, n) for n, table in enumerate(self.tables) for r in table["releases"])
        self.coming = list(self.releases)

    def run(self):
        while self.coming or self.running:
            now = min([end for end, *_ in self.running] + [release for release, _ in self.coming[:1]])
            self.move_to(now)
            for job in sorted(each for each in self.running if each[0] == now):
                self.running.remove(job)
                self.end(job)
            while self.coming and self.coming[0][0] == now:
                self.arrive(self.tables[self.coming.pop(0)[1]]["id"])
            for slot in range(self.slots):
                if slot not in {job[1] for job in self.running}:
                    self.start(now, slot)
        self.move_to(max(self.naive.now, self.workload["horizon"]))
        return self

    def move_to(self, now):
        """Lets time pass; what lies beyond the horizon is not measured."""
        horizon = self.workload["horizon"]
        if self.naive.now < horizon:
            self.naive.pass_time(min(now, horizon))
        self.naive.now = now

    def end(self, job):
        end, _, name, batch, update = job
        self.naive.finish(name)
        releases = [0.0, *next((t["releases"] for t in self.tables if t["id"] == name), [])]
        for number in batch:
            length = releases[number + 1] - releases[number]
            if length > 0:
                self.stretches.append((end - releases[number]) / length)
        if [update, name] in self.queue:
            self.queue.remove([update, name])

    def arrive(self, table):
        self.naive.arrive(table)
        update = len(self.releases) - len(self.coming)
        below = sorted(self.naive.descendants(table), key=lambda each: (self.level(table, each), self.place(each)))
        self.queue += [[update, each] for each in [table, *below] if not self.naive.is_virtual(each)]

    def level(self, table, name):
        parents = [each for each in self.naive.parents(name) if each == table or table in self.naive.ancestors(each)]
        return 0 if name == table else 1 + max(self.level(table, each) for each in parents)

    def place(self, name):
        return self.naive.names.index(name)

    def start(self, now, slot):
        update = None
        if self.policy == "fifo":
            update, name = self.fifo()
        else:
            ready = [each for each in self.naive.names if self.naive.may_start(each)]
            if self.policy == "group_and_run":
                groups, of_slot = self.groups()
                ready = [each for each in ready if slot < len(of_slot) and groups[each] == of_slot[slot]]
            name = min(ready, key=self.key, default=None)
        if name is None:
            return
        taken = 1 if self.policy == "fifo" else None
        is_table = self.naive.is_table(name)
        batch = self.naive.pending(name)[:taken] if is_table else []
        end = now + self.naive.cost(name, len(batch) if is_table else None)
        self.naive.start(name, taken)
        self.running.append((end, slot, name, batch, update))
        entry = {"start": now, "end": end, "object": name, "slot": slot}
        self.schedule.append(entry | ({"updates": len(batch)} if is_table else {}))

    def key(self, name):
        if self.policy == "qoda":
            cost = self.naive.cost(name)
            return -(self.naive.popularity(name) / cost if cost else math.inf), self.place(name)
        lacks = [
            self.naive.arrived[table][number]
            for table in self.naive.tables_of(name)
            for number in range(len(self.naive.arrived[table]))
            if (table, number) not in self.naive.holds(name)
        ]
        return min(lacks), self.place(name)

    def fifo(self):
        for place, (update, name) in enumerate(self.queue):
            earlier = self.queue[:place]
            waits = any(other == name or (u == update and other in self.naive.ancestors(name)) for u, other in earlier)
            if name not in self.naive.running and not waits:
                return update, name
        return None, None

    def groups(self):
        def period(table):
            lengths = [
                later - sooner for sooner, later in zip([0, *table["releases"]], table["releases"], strict=False)
            ]
            return table.get("period", max(lengths, default=0))

        made = []
        for table in sorted(self.tables, key=period):
            if not made or period(table) > 2 * period(made[-1][0]):
                made.append([])
            made[-1].append(table)
        groups = {table["id"]: number for number, group in enumerate(made) for table in group}
        groups |= {
            view["id"]: min(groups[table] for table in self.naive.tables_of(view["id"]))
            for view in self.workload["views"]
        }
        sizes = [math.ceil((self.slots - len(made)) * len(group) / len(self.tables)) for group in made]
        return groups, [number for number, size in enumerate(sizes) for _ in range(size)]

    def metrics(self):
        naive, horizon, views = self.naive, self.workload["horizon"], self.workload["views"]
        return {
            "qod": sum(view["access"] * (1 - naive.stale_time[view["id"]] / horizon) for view in views),
            "weighted_age_views": sum(view["access"] * naive.age_integral[view["id"]] / horizon for view in views),
            "mean_age_tables": sum(naive.age_integral[t["id"]] / horizon for t in self.tables) / len(self.tables),
            "max_stretch": max(self.stretches, default=0.0),
            "max_view_stale": max((naive.longest_spell[view["id"]] for view in views), default=0.0),
        }


@pytest.mark.parametrize("policy", ["fifo", "myopic", "group_and_run", "qoda"])
@unhurried
@given(workload=workloads())
def test_schedule_and_measures_are_those_of_the_plain_recount(policy, workload):
    found, plain = simulate(workload, policy, {}), Plain(workload, policy).run()
    assert found["schedule"] == plain.schedule
    assert found["metrics"] == pytest.approx(plain.metrics(), abs=1e-9)


@unhurried
@given(workload=workloads())
def test_the_default_policy_ends_with_everything_loaded(workload):
    found = simulate(workload, "default", {})
    loaded = sum(entry.get("updates", 0) for entry in found["schedule"])
    assert loaded == sum(len(table["releases"]) for table in workload["tables"])


def small(**changes):
    return {
        "model": "mixed",
        "slots": 1,
        "horizon": 20,
        "tables": [{"id": "t", "fixed": 1, "per_update": 1, "releases": [4, 8]}],
        "views": [{"id": "v", "cost": 2, "access": 1, "parents": ["t"]}],
    } | changes


def test_a_case_worked_by_hand():
    found = simulate(small(), "qoda", {})
    assert [(ran["start"], ran["end"], ran["object"]) for ran in found["schedule"]] == [
        (4, 6, "t"),
        (6, 8, "v"),
        (8, 10, "t"),
        (10, 12, "v"),
    ]
    # Stale from 4 to 8 and from 8 to 12: the refresh ends first, then the update of that instant arrives.
    assert found["metrics"]["qod"] == pytest.approx(12 / 20)
    assert found["metrics"]["max_view_stale"] == 4
    assert found["metrics"]["max_stretch"] == 1.5
    # Current to 0 until 8, to 4 until 12, to 8 until 20.
    assert found["metrics"]["weighted_age_views"] == pytest.approx((32 + 4 * 6 + 8 * 8) / 20)


def test_work_past_the_horizon_is_done_and_not_measured():
    found = simulate(small(horizon=5), "qoda", {})
    assert len(found["schedule"]) == 4
    assert found["metrics"]["max_view_stale"] == 1
    assert found["metrics"]["qod"] == pytest.approx(0.8)


def test_without_a_horizon_the_end_of_the_last_job_counts():
    workload = small()
    del workload["horizon"]
    assert simulate(workload, "qoda", {})["metrics"]["qod"] == pytest.approx(4 / 12)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"slots": 0}, "slots must be a whole number of at least 1"),
        ({"slots": 1.5}, "slots must be a whole number"),
        ({"horizon": -1}, "horizon must be a number above 0"),
        ({"horizon": 10**400}, "horizon must be a number above 0, not a number of that size"),
        ({"tables": None}, "tables is missing"),
        ({"tables": [{"id": "t", "fixed": -1, "per_update": 1, "releases": []}]}, r"tables\[0\].fixed .* at least 0"),
        ({"tables": [{"id": "t", "fixed": 1, "releases": []}]}, r"tables\[0\].per_update is missing"),
        ({"tables": [{"id": "t", "fixed": 1, "per_update": 1}]}, r"tables\[0\].releases is missing"),
        (
            {"tables": [{"id": "t", "fixed": 1, "per_update": 1, "releases": [3, 2]}]},
            r"releases\[1\] must be at least 3",
        ),
        ({"tables": [{"id": "t", "fixed": 1, "per_update": 1, "releases": ["x"]}]}, r"tables\[0\].releases\[0\]"),
        ({"tables": 2 * small()["tables"]}, "tables: the id t is declared twice"),
        ({"views": [{"id": "t", "cost": 1, "access": 1, "parents": ["t"]}]}, "views: the id t is declared twice"),
        ({"views": [{"id": "v", "cost": 1, "access": 1, "parents": ["x"]}]}, r"views\[0\].parents\[0\] of view v is x"),
        ({"views": [{"id": "v", "cost": 1, "access": 1, "parents": ["v"]}]}, "views: .* circle: v reads v"),
        ({"views": [{"id": "v", "cost": math.nan, "access": 1, "parents": ["t"]}]}, r"views\[0\].cost"),
        ({"views": [{"id": "v", "cost": 1, "access": -1, "parents": ["t"]}]}, r"views\[0\].access"),
        ({"views": "v"}, "views must be a list"),
    ],
)
def test_refuses_a_wrong_workload_by_field(changes, words):
    with pytest.raises(WorkloadError, match=words):
        simulate(small(**changes), "qoda", {})


def freshet(tmp_path, text, policy="qoda"):
    file = tmp_path / "workload.json"
    file.write_text(text)
    command = [sys.executable, "-m", "scheduler_plugin.cli", "simulate", "--workload", str(file), "--policy", policy]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_the_same_bytes_each_time(tmp_path):
    first, second = (freshet(tmp_path, json.dumps(small())) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == second.stdout
    assert json.loads(first.stdout) == simulate(small(), "qoda", {})


@pytest.mark.parametrize(
    ("text", "policy", "words"),
    [
        (json.dumps(small(horizon=math.nan)), "qoda", "NaN"),
        (json.dumps(small(views=7)), "qoda", "views must be a list"),
        (json.dumps(small()), "qodo", "Did you mean qoda?"),
        ('{"model": "mixed"', "qoda", "not JSON"),
        ('{"model": "mixd"}', "qoda", "model must be one of"),
    ],
)
def test_the_command_refuses_with_two_and_nothing_on_stdout(tmp_path, text, policy, words):
    run = freshet(tmp_path, text, policy)
    assert (run.returncode, run.stdout) == (2, "")
    assert words in run.stderr
    assert "Traceback" not in run.stderr


def test_knows_the_policies_of_the_contract():
    assert sorted(POLICIES) == ["default", "fifo", "group_and_run", "myopic", "qoda"]
