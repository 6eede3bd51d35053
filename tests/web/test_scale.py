"""The board with five thousand objects: each answer is small, and what it says is what the ledger and the brain say."""

import random
from collections.abc import Iterator

import pytest
from sqlalchemy import insert, text

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import arrivals, freshness, objects
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Freshness
from scheduler_plugin.web.desk import Desk, Snapshot
from scheduler_plugin.web.neighbourhood import MOST_NODES, neighbourhood
from scheduler_plugin.web.selection import KEYS, STATES, cut
from tests.conftest import new_database, until

pytestmark = pytest.mark.services

OBJECTS = 5000
SETTINGS = {"slots": 4, "groups": [], "policy": {"name": "default", "params": {}}, "tick_seconds": 1}


def wide_catalog(dice: random.Random) -> objects.CatalogRow:
    """A thousand tables, and views over up to three of what came before."""
    spec = {"weight": 1.0, "staleness_limit": 60.0}
    rows = []
    for number in range(OBJECTS):
        name = f"{'table' if number < 1000 else 'view'}_{number:04d}_of_some_department"
        if number < 1000:
            own = {"period": 10.0, "feed": name, "max_batch": 10**9, "expectations": [], "columns": [], "key": []}
            item = objects.ObjectRow(
                name=name, kind="table", materialized=True, parents=(), spec={**spec, **own, "access": dice.random()}
            )
        else:
            parents = tuple(sorted({rows[dice.randrange(max(0, number - 400), number)].name for _ in range(3)}))
            own = {"sql": "SELECT 1", "reads": list(parents), "virtual": {}, "when_parent_blocked": "refresh"}
            item = objects.ObjectRow(
                name=name,
                kind="view",
                materialized=True,
                parents=parents,
                spec={**spec, **own, "access": dice.random()},
            )
        rows.append(item)
    return objects.CatalogRow(settings=SETTINGS, objects=rows)


@pytest.fixture(scope="module")
def wide(postgres: Settings, template: str) -> Iterator[Database]:
    with new_database(postgres, template) as database:
        fill(database)
        yield database


@pytest.fixture(scope="module")
def snapshot(wide: Database) -> Snapshot:
    desk = Desk(wide)
    desk.brain.think()
    return desk.snapshot()


def fill(database: Database) -> None:
    dice = random.Random(7)
    catalog = wide_catalog(dice)
    objects.take_in(database, catalog)
    arrivals.take_in(
        database,
        [
            arrivals.Arrival(table=item.name, path=f"/landing/{item.name}.csv", size_bytes=10, content_hash=item.name)
            for item in catalog.objects[:1000:5]
        ],
    )
    at = freshness.events_after(database, 0)[-1].at
    with database.transaction() as connection:
        connection.execute(
            insert(Freshness),
            [
                {"object": item.name, "since": at, "fresh": dice.random() < 0.5, "current_to": at}
                for item in catalog.objects
            ],
        )


def test_five_thousand_objects_are_cut_sorted_and_filtered_into_small_answers(snapshot: Snapshot) -> None:
    everyone = snapshot.by_name.keys()
    assert len(snapshot.rows) == OBJECTS
    for sort in KEYS:
        board = cut(snapshot, everyone, sort=sort, limit=150)  # type: ignore[arg-type]
        assert len(board.model_dump_json()) < 100_000
    sizes = {state: cut(snapshot, everyone, state=state).total for state in STATES}  # type: ignore[arg-type]
    assert sizes["fresh"] + sizes["stale"] == OBJECTS
    assert sizes["running"] == 0

    # Page after page is the whole, once.
    pages = [
        cut(snapshot, everyone, sort="name", descending=False, offset=at, limit=150) for at in range(0, OBJECTS, 150)
    ]
    assert [row.name for page in pages for row in page.objects] == sorted(everyone)
    # Whoever may see little gets little.
    few = sorted(everyone)[:3]
    assert [row.name for row in cut(snapshot, few, sort="name", descending=False).objects] == few


def test_the_brain_ranks_what_could_run_and_the_board_shows_it(snapshot: Snapshot) -> None:
    ranked = cut(snapshot, snapshot.by_name.keys(), sort="rank", descending=False, limit=150).objects
    assert [row.rank for row in ranked] == list(range(1, 151))
    assert all(row.pending == 1 and row.kind == "table" and row.impact is not None for row in ranked)
    below = next(row for row in snapshot.rows if row.dirty)
    assert below.rank is None


def test_while_the_brain_reads_the_log_the_ledger_answers_alone(wide: Database, snapshot: Snapshot) -> None:
    desk = Desk(wide)
    with wide.transaction() as connection:
        # The log cannot be read to its end now, as if it were very long.
        connection.execute(text("LOCK TABLE freshet.checkpoint"))
        desk.brain.start()
        early = desk.snapshot()
        names = early.by_name.keys()
        told = cut(early, names, sort="staleness", limit=150)
        assert told.total == OBJECTS
        assert told.summary.fresh == cut(snapshot, names).summary.fresh
        assert (told.summary.slots, told.summary.policy, told.summary.backlog) == (4, "default", None)
        assert {(row.limit, row.rank) for row in told.objects} == {(60.0, None)}
        assert desk.explain(told.objects[0].name) is None
    until("the log is read", lambda: desk.snapshot().outlook.backlog is not None)
    assert cut(desk.snapshot(), names, sort="rank", descending=False).objects[0].rank == 1
    desk.brain.close()


def test_a_neighbourhood_is_never_more_than_a_screen(snapshot: Snapshot) -> None:
    seen = frozenset(snapshot.by_name)
    for row in snapshot.rows[::500]:
        told = neighbourhood(snapshot, seen, row.name, 6, 6)
        names = {node.name for node in told.nodes}
        assert row.name in names
        assert len(names) <= MOST_NODES
        assert all(parent in names and child in names for parent, child in told.edges)
        assert len(told.model_dump_json()) < 100_000
