"""A backfill from its preview to its last piece, decided by the brain and run by real jobs beside live loads."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.demo import duck
from scheduler_plugin.live import job
from scheduler_plugin.live.quarantine import act
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import backfill_plan, backfills, decisions, freshness, objects
from scheduler_plugin.store.backfill_plan import BackfillError
from spark_jobs.tables import Tables

pytestmark = pytest.mark.services

WISHES = {"weight": 1.0, "access": 1.0, "staleness_limit": None, "period": 10.0}
NO_NULLS = {"expect": "expect_column_values_to_not_be_null", "on_fail": "drop", "arguments": {"column": "what"}}
SETTINGS = {"slots": 1, "groups": [], "policy": {"name": "default", "params": {}}, "tick_seconds": 1.0}


class World:
    """One table, one view that counts its rows, and the loop's part played for them alone."""

    def __init__(self, ledger: Any, settings: Settings, tables: Tables, name: str, folder: Path) -> None:
        self.ledger, self.database, self.settings, self.tables = ledger, ledger.database, settings, tables
        self.table, self.view, self.folder = name, f"{name}_v", folder
        self.declare([NO_NULLS])
        self.ledger.declare(
            self.view,
            "view",
            [name],
            sql=f"SELECT count(*) AS n FROM {name}",
            reads=[name],
            virtual={},
            when_parent_blocked="refresh",
            **WISHES,
        )

    def declare(self, expectations: list[Any]) -> None:
        self.ledger.declare(
            self.table,
            "table",
            feed=self.table,
            columns=[["id", "long"], ["what", "string"]],
            format="csv",
            key=[],
            interval=None,
            expectations=expectations,
            max_batch=60,
            **WISHES,
        )

    def arrive(self, number: int, what: str = "w") -> None:
        """A file with three rows, one of which lacks a value, that says it is about one hour."""
        path = self.folder / f"{number}.csv"
        path.write_text(f"id,what\n{number * 10},{what}\n{number * 10 + 1},{what}\n{number * 10 + 2},\n")
        (update,) = self.ledger.arrive(self.table, path)
        self.ledger.ask(
            "UPDATE freshet.update SET covers_from = :begin, covers_to = :end WHERE id = :id RETURNING id",
            id=update,
            begin=datetime(2024, 1, 1, number, tzinfo=UTC),
            end=datetime(2024, 1, 1, number + 1, tzinfo=UTC),
        )

    def scheduler(self) -> Scheduler:
        found = objects.in_force(self.database, backfills=True)
        assert found is not None
        mine = [row for row in found.objects if row.name in (self.table, self.view) or row.kind == "backfill"]
        scheduler = Scheduler(objects.CatalogRow(settings=SETTINGS, objects=mine), since=0.0)
        for event in freshness.events_after(self.database, 0):
            scheduler.apply(event)
        return scheduler

    def tick(self) -> str | None:
        """Runs what the brain wants run next; its name, or None when there is nothing to do."""
        chosen = self.scheduler().choose(datetime.now(UTC).timestamp())
        if not chosen:
            return None
        (decision,) = decisions.record(self.database, self.ledger.epoch, chosen[:1])
        assert job.run(self.settings, decision, 1)
        return chosen[0].object

    def drain(self) -> list[str]:
        done = []
        while (name := self.tick()) is not None:
            done.append(name)
        return done

    def ids(self) -> list[int]:
        scan = duck.scan(self.tables.metadata_location(self.table))
        return [row[0] for row in duck.connect().execute(f"SELECT id FROM {scan} ORDER BY 1").fetchall()]

    def counted(self) -> int:
        scan = duck.scan(self.tables.metadata_location(self.view))
        return int(duck.connect().execute(f"SELECT n FROM {scan}").fetchone()[0])

    def open_rows(self) -> int:
        sql = "SELECT count(*) AS n FROM freshet.quarantined_row WHERE table_name = :t AND resolution IS NULL"
        return int(self.ledger.ask(sql, t=self.table)[0]["n"])


@pytest.fixture
def world(ledger: Any, settings: Settings, tables: Tables, name: str, tmp_path: Path) -> World:
    return World(ledger, settings, tables, name, tmp_path)


def hour(number: int) -> datetime:
    return datetime(2024, 1, 1, number, tzinfo=UTC)


def test_an_interval_is_loaded_again_beside_live_loads_without_a_row_lost_or_doubled(world: World) -> None:
    for number in (1, 2, 3, 4):
        world.arrive(number)
    world.drain()
    assert world.ids() == [10, 11, 20, 21, 30, 31, 40, 41]
    # Somebody lets one row out of quarantine; the reload judges it anew with its file and must not double it.
    first = world.ledger.ask("SELECT min(id) AS n FROM freshet.quarantined_row WHERE table_name = :t", t=world.table)
    act(world.database, "release", [f"r{first[0]['n']}"], who="t", why="t", archive=str(world.folder / "archive"))
    world.drain()
    assert world.ids() == [10, 11, 12, 20, 21, 30, 31, 40, 41]
    # The rule was wrong, and one source file is gone.
    world.declare([])
    (world.folder / "3.csv").unlink()
    plan = backfill_plan.preview(world.database, world.table, covers_from=hour(1), covers_to=hour(4))
    assert (plan.files, plan.views) == (3, [world.view])
    assert [piece.what for piece in plan.pieces] == ["stage", "stage", "commit", "refresh"]
    identity = backfills.start(
        world.database, world.table, who="ann", why="the rule was wrong", covers_from=hour(1), covers_to=hour(4)
    )
    with pytest.raises(BackfillError, match="is under way"):
        backfills.start(world.database, world.table, who="ann", why="again")
    assert world.tick() == f"backfill/{identity}"
    world.arrive(5)
    assert world.ids() == [10, 11, 12, 20, 21, 30, 31, 40, 41]
    done = world.drain()
    assert done.count(f"backfill/{identity}") == 3
    assert world.table in done
    # Hours 1 and 2 are new, 3 could not be read and stays, 4 was not asked for, 5 came meanwhile without a rule.
    assert world.ids() == [10, 11, 12, 20, 21, 22, 30, 31, 40, 41, 50, 51, 52]
    assert world.counted() == 13
    assert world.open_rows() == 2
    (report, *_) = backfills.reports(world.database)
    assert (report.id, report.state, report.pieces_done, report.next) == (identity, "done", 4, None)
    found = objects.in_force(world.database, backfills=True)
    assert found is not None
    assert all(row.kind != "backfill" for row in found.objects)


def test_a_view_is_computed_again(world: World) -> None:
    world.arrive(1)
    world.drain()
    identity = backfills.start(world.database, world.view, who="ann", why="to be sure")
    assert world.drain() == [f"backfill/{identity}"]
    assert world.counted() == 2


@pytest.mark.parametrize("end", ["resume", "stop"])
def test_a_paused_backfill_starts_no_piece_and_a_stopped_one_leaves_the_table_alone(world: World, end: str) -> None:
    world.arrive(1)
    world.drain()
    world.declare([])
    identity = backfills.start(world.database, world.table, who="ann", why="t")
    assert world.tick() == f"backfill/{identity}"
    backfills.pause(world.database, identity, who="ann", why="too busy")
    assert world.tick() is None
    change: Callable[..., None] = getattr(backfills, end)
    change(world.database, identity, who="ann", why="t")
    assert world.drain() == ([f"backfill/{identity}"] * 2 if end == "resume" else [])
    assert world.ids() == ([10, 11, 12] if end == "resume" else [10, 11])
    with pytest.raises(BackfillError, match=f"backfill {identity} is"):
        backfills.pause(world.database, identity, who="ann", why="late")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"name": "nowhere"}, "no table or view `nowhere`"),
        ({"covers_from": hour(5)}, "no file of"),
        ({"covers_from": hour(5), "covers_to": hour(4)}, "it is empty"),
        ({"name": "view", "mode": "reload"}, "is a view"),
        ({"name": "view", "covers_from": hour(1)}, "computed whole"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is(world: World, asked: dict[str, Any], words: str) -> None:
    name = asked.pop("name", world.table)
    with pytest.raises(BackfillError, match=words):
        backfill_plan.preview(world.database, world.view if name == "view" else name, **asked)
