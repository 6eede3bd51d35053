"""Queries on the real services while updates pour in: one instant each, and what DuckDB says of the same versions."""

import json
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from scheduler_plugin.catalog.confined import ConfinedError
from scheduler_plugin.live import job, waiting
from scheduler_plugin.live.queries import Asked, CannotMeetError, ask
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import arrivals, decisions, demands, freshness, lease, objects, queries, versions
from scheduler_plugin.store.database import Database
from tests.conftest import settings_in, until

pytestmark = pytest.mark.services

WISHES = {"weight": 1.0, "access": 1.0, "staleness_limit": None}
TABLES = {
    "orders": [["id", "long"], ["shop", "string"], ["amount", "decimal(10,2)"]],
    "shops": [["shop", "string"], ["city", "string"]],
}
VIEWS = {
    "totals": (
        "SELECT shop, count(*) AS n, CAST(sum(amount) AS decimal(18,2)) AS total FROM orders GROUP BY shop",
        ("orders",),
        True,
    ),
    "cities": (
        "SELECT s.city, count(*) AS n FROM orders o JOIN shops s ON o.shop = s.shop GROUP BY s.city",
        ("orders", "shops"),
        True,
    ),
    "busy": ("SELECT shop, n FROM totals WHERE n > 1", ("totals",), False),
}


def catalog() -> objects.CatalogRow:
    rows = [
        objects.ObjectRow(
            name=name,
            kind="table",
            materialized=True,
            parents=(),
            spec={
                **WISHES,
                "period": 1.0,
                "columns": columns,
                "format": "json",
                "key": [],
                "expectations": [],
                "interval": None,
                "landing": name,
                "feed": name,
            },
        )
        for name, columns in TABLES.items()
    ]
    for name, (sql, parents, materialized) in VIEWS.items():
        spec = {**WISHES, "sql": sql, "reads": list(parents), "virtual": {}}
        rows.append(objects.ObjectRow(name=name, kind="view", materialized=materialized, parents=parents, spec=spec))
    settings = {"slots": 2, "groups": [], "policy": {"name": "default", "params": {}}, "tick_seconds": 1.0}
    return objects.CatalogRow(settings=settings, objects=rows)


class Running:
    """The loop without Airflow: what it decides is run by threads."""

    def __init__(self, settings: Settings, database: Database, folder: Path) -> None:
        self.settings, self.database, self._folder = settings, database, folder
        objects.take_in(database, catalog())
        epoch = lease.take(database, "the test's loop", timedelta(hours=1))
        assert epoch is not None
        self._epoch = epoch
        self._stop = threading.Event()
        self._jobs: list[Future[bool]] = []
        self._pool = ThreadPoolExecutor(2)
        self._orders = 0
        #: Only what is demanded runs.
        self.on_demand = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        row = objects.in_force(self.database)
        assert row is not None
        first, *_ = freshness.events_after(self.database, 0)
        scheduler, seen = Scheduler(row, first.at.timestamp()), 0
        changes: list[freshness.Change] = scheduler.standing(first.at)
        while not self._stop.wait(0.02):
            for event in freshness.events_after(self.database, seen):
                changes += scheduler.apply(event)
                seen = event.id
            freshness.note(self.database, self._epoch, changes, event_seen=seen, last_tick={})
            changes = []
            if waiting.tell(self.database, self._epoch, scheduler, time.time()):
                continue
            chosen = scheduler.choose(time.time())
            chosen = [each for each in chosen if not self.on_demand or each.policy == "demand"]
            for identity in decisions.record(self.database, self._epoch, chosen):
                self._jobs.append(self._pool.submit(job.run, self.settings, identity, 1))

    def land(self, table: str, *rows: dict[str, Any]) -> None:
        path = self._folder / f"{uuid.uuid4().hex}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        arrivals.take_in(
            self.database,
            [
                arrivals.Arrival(
                    table=table, path=str(path), size_bytes=path.stat().st_size, content_hash=uuid.uuid4().hex
                )
            ],
        )

    def shops(self) -> None:
        self.land("shops", *({"shop": f"s{each}", "city": f"c{each % 2}"} for each in range(3)))

    def order(self, count: int = 3) -> None:
        self._orders += count
        rows = [
            {"id": number, "shop": f"s{number % 3}", "amount": number * 1.25}
            for number in range(self._orders - count, self._orders)
        ]
        self.land("orders", *rows)

    def settle(self) -> None:
        """Until everything is fresh."""
        until("the loop rests", lambda: not versions.behind(self.database) and len(self.versions()) == 4)

    def versions(self) -> set[str]:
        found = {name: versions.history(self.database, name) for name in ("orders", "shops", "totals", "cities")}
        return {name for name, history in found.items() if history}

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._pool.shutdown()
        for each in self._jobs:
            each.result()


@contextmanager
def running_anew(postgres: Settings, spark_remote: str, template: str, folder: Path) -> Iterator[Running]:
    """A ledger, tables and a loop of their own, with nothing in them."""
    from tests.conftest import database_url, in_server

    name = f"test_{uuid.uuid4().hex[:12]}"
    in_server(postgres, f"CREATE DATABASE {name} TEMPLATE {template}")
    url = database_url(postgres, name)
    settings = settings_in(
        postgres.home.root,
        FRESHET_DATABASE_URL=url,
        FRESHET_SPARK_REMOTE=spark_remote,
        FRESHET_WAREHOUSE=str(folder / "warehouse"),
    )
    database = Database(url)
    it = Running(settings, database, folder)
    yield it
    it.close()
    database.close()
    in_server(postgres, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def running(
    postgres: Settings, spark_remote: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    with running_anew(postgres, spark_remote, template, tmp_path_factory.mktemp("queries")) as it:
        it.shops()
        it.order()
        it.settle()
        yield it


def by_duckdb(settings: Settings, sql: str, read: dict[str, int]) -> list[tuple[Any, ...]]:
    from spark_jobs.tables import Tables

    connection = duckdb.connect()
    with Tables(settings.database_url, settings.warehouse) as tables:
        for name, snapshot in read.items():
            connection.execute(f"CREATE VIEW {name} AS FROM read_parquet({tables.files(name, snapshot)!r})")
    for name, (body, _, materialized) in VIEWS.items():
        if not materialized and set(read) >= {"totals"}:
            connection.execute(f"CREATE VIEW {name} AS {body}")
    return connection.execute(sql).fetchall()


#: Every column counts the same orders, by another way.
TOGETHER = (
    "SELECT (SELECT count(*) FROM orders) AS orders, (SELECT sum(n) FROM totals) AS totals, "
    "(SELECT sum(n) FROM cities) AS cities"
)


def test_no_query_mixes_instants_while_updates_pour_in(running: Running) -> None:
    answers: list[Any] = []
    stop = threading.Event()

    def pour() -> None:
        while not stop.wait(0.1):
            running.order()

    def read(fresh: bool) -> None:
        for _ in range(2):
            asked = Asked(sql=TOGETHER, by="test", deadline=60, max_staleness=0.2 if fresh else None)
            answers.append(ask(running.settings, asked))

    pouring = threading.Thread(target=pour)
    pouring.start()
    readers = [threading.Thread(target=read, args=(number == 0,)) for number in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    stop.set()
    pouring.join()
    assert len(answers) == 4
    for answer in answers:
        ((orders, totals, cities),) = answer.rows
        assert orders == totals == cities
        read_versions = {name: each["version"] for name, each in answer.freshness.items()}
        assert by_duckdb(running.settings, TOGETHER, read_versions) == [(orders, totals, cities)]
        assert answer.instant is not None
        (row,) = queries.reports(running.database, only=answer.query)
        assert (row.state, row.versions) == ("done", read_versions)
    assert len({answer.rows[0][0] for answer in answers}) > 1, "the updates should have been seen to pour in"
    running.settle()


def test_what_is_too_old_is_run_on_demand_and_the_decisions_say_for_whom(running: Running) -> None:
    running.settle()
    running.on_demand = True
    try:
        running.order(5)
        old = ask(running.settings, Asked(sql="SELECT sum(n) AS n FROM busy", by="ana"))
        assert not old.freshness["totals"]["fresh"]
        time.sleep(0.05)
        new = ask(
            running.settings, Asked(sql="SELECT sum(n) AS n FROM busy", by="ana", max_staleness=0.01, deadline=90)
        )
        assert new.rows[0][0] == old.rows[0][0] + 5
        assert new.freshness["totals"]["fresh"]
        with running.database.transaction() as connection:
            from sqlalchemy import text

            whys = list(
                connection.execute(
                    text("SELECT object, why FROM freshet.decision WHERE policy = 'demand' ORDER BY id DESC LIMIT 2")
                )
            )
        assert [each.object for each in whys] == ["totals", "orders"]
        assert whys[0].why == f"demanded by ana (fresh for a query: query {new.query})"
        before = ask(running.settings, Asked(sql="SELECT sum(n) AS n FROM busy", by="ana", as_of=old.instant))
        assert before.rows == old.rows
        fixed = {"totals": old.freshness["totals"]["version"]}
        again = ask(running.settings, Asked(sql="SELECT sum(n) AS n FROM totals", by="ana", at_versions=fixed))
        assert again.freshness["totals"]["version"] == fixed["totals"]
    finally:
        running.on_demand = False


def test_what_was_never_refreshed_is_not_read_as_empty_but_run_on_demand(
    postgres: Settings, spark_remote: str, template: str, tmp_path: Path
) -> None:
    sql = "SELECT sum(n) AS n FROM cities"
    with running_anew(postgres, spark_remote, template, tmp_path) as running:
        running.on_demand = True
        running.shops()
        running.order(5)
        with pytest.raises(LookupError, match="cities holds nothing yet"):
            ask(running.settings, Asked(sql=sql, by="ana"))
        with pytest.raises(CannotMeetError, match="nothing to fall back on: cities holds nothing yet"):
            ask(running.settings, Asked(sql=sql, by="ana", deadline=0.02, max_staleness=60))
        assert ask(running.settings, Asked(sql=sql, by="ana", deadline=300, max_staleness=60)).rows == [[5]]


def test_one_that_cannot_be_in_time_is_told_at_once_with_what_could_be_had(running: Running) -> None:
    running.settle()
    running.on_demand = True
    try:
        running.order()
        time.sleep(0.05)
        with pytest.raises(CannotMeetError, match="An answer that was true") as refused:
            ask(running.settings, Asked(sql=TOGETHER, by="ana", deadline=0.02, max_staleness=0.01))
        assert {"orders", "totals", "cities"} <= refused.value.possible.keys()
        (row,) = queries.reports(running.database, only=refused.value.query)
        assert row.state == "refused"
        assert [each for each in demands.reports(running.database) if each.ended_at is None] == []
    finally:
        running.on_demand = False


def test_a_preference_waits_for_as_much_as_it_says_and_keeps_the_curve(running: Running) -> None:
    running.settle()
    running.on_demand = True
    try:
        running.order()
        sql = "SELECT sum(n) AS n FROM totals"
        fast = ask(running.settings, Asked(sql=sql, by="ana", prefer=0.0))
        fresh = ask(running.settings, Asked(sql=sql, by="ana", prefer=1.0))
        assert (fast.freshness["totals"]["fresh"], fresh.freshness["totals"]["fresh"]) == (False, True)
        assert fast.trade_off is not None and fresh.trade_off is not None
        assert fast.trade_off["taken"]["wait_seconds"] == 0
        assert fresh.trade_off["taken"] == fresh.trade_off["curve"][-1]
    finally:
        running.on_demand = False


def test_a_query_without_an_end_is_stopped_at_its_deadline_and_leaves_spark_to_others(running: Running) -> None:
    running.settle()
    numbers = [f"(SELECT explode(sequence(1, 10000)) AS {name}) AS of_{name}" for name in "abc"]
    endless = f"SELECT count(*) AS n FROM totals, {', '.join(numbers)} WHERE a * b * c % 7 = n"
    with pytest.raises(CannotMeetError, match=r"Spark was stopped after [\d.]+ s of work on it\.$"):
        ask(running.settings, Asked(sql=endless, by="ana", deadline=4))
    assert ask(running.settings, Asked(sql="SELECT sum(n) AS n FROM totals", by="ana", deadline=60)).rows


def test_the_session_itself_reads_no_files_and_no_variables(running: Running) -> None:
    from spark_jobs.query import confine
    from spark_jobs.session import spark_session

    with pytest.raises(ConfinedError):
        ask(running.settings, Asked(sql="SELECT * FROM text.`/etc/hostname`", by="eve"))
    with spark_session(running.settings.spark_remote) as spark:
        confine(spark)
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql("SELECT * FROM text.`/etc/hostname`").collect()
        assert spark.sql("SELECT '${env:PATH}' AS p").collect()[0].p == "${env:PATH}"


@pytest.mark.parametrize(
    ("sql", "told"),
    [("SELECT nothing FROM orders", "cannot be resolved"), ("SELECT id / 0 FROM orders", "Division by zero")],
)
def test_what_spark_has_against_the_sql_is_told_in_a_line(running: Running, sql: str, told: str) -> None:
    with pytest.raises(ConfinedError, match=f"Spark cannot run it: .*{told}") as refused:
        ask(running.settings, Asked(sql=sql, by="ana"))
    assert "\n" not in str(refused.value)


def test_columns_of_one_name_stand_side_by_side(running: Running) -> None:
    answer = ask(running.settings, Asked(sql="SELECT 1 AS a, 2 AS a FROM shops LIMIT 1", by="ana"))
    assert (list(answer.columns), answer.rows) == (["a", "a"], [[1, 2]])


def test_reads_are_counted_for_what_the_sql_names(running: Running) -> None:
    from scheduler_plugin.store import accesses

    def reads() -> float:
        return accesses.per_minute(running.database, timedelta(hours=1)).get("busy", 0.0)

    before = reads()
    ask(running.settings, Asked(sql="SELECT count(*) AS n FROM busy", by="ana"))
    assert reads() > before
    assert datetime.now(UTC) > queries.reports(running.database, limit=1)[0].asked_at
