"""Views, versions and queries on a Postgres and a Spark of the benchmark's own.

refresh   by difference against in full, for filters that let little and much pass and for aggregates with few and
          many keys, over a table that grew by some rows; then by larger and larger shares of it, to see where it
          stops to pay
query     what `freshet query` adds to the time Spark takes for the same SQL on an open session
choice    choosing versions that were true together, among a thousand objects, with and without the database
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from scheduler_plugin.benchmarks.ground import services
from scheduler_plugin.cli.table import table

COLUMNS = [
    ("id", "long"),
    ("key", "int"),
    ("customer", "int"),
    ("amount", "decimal(12,2)"),
    ("happened", "timestamp"),
]
AGGREGATE = (
    "SELECT {key}, count(*) AS n, sum(amount) AS total, avg(amount) AS mean, max(happened) AS newest "
    "FROM facts GROUP BY {key}"
)
VIEWS = {
    "filter_of_a_twentieth": "SELECT id, key, amount FROM facts WHERE key < 50",
    "filter_of_a_half": "SELECT id, key, amount FROM facts WHERE key < 512",
    "aggregate_of_1024_keys": AGGREGATE.format(key="key"),
    "aggregate_of_262144_keys": AGGREGATE.format(key="customer"),
}
#: The one that is queried.
QUERIED = "aggregate_of_1024_keys"
#: Shares of the table that are added, for the curve.
SHARES = (0.05, 0.25, 0.5, 1.0)
CHOSEN_OBJECTS, CHOSEN_VERSIONS = 1000, 5
#: So many objects with so many versions each, of ten seconds, a few seconds apart from object to object.
FILL = """
WITH objects AS (
    INSERT INTO freshet.object (name, kind, materialized, spec, parents, position, taken_in_at, defined_at_event)
    SELECT 'o' || n, 'table', true, '{}', '{}', n, now(), 1 FROM generate_series(0, :objects - 1) AS n
    RETURNING name, position
), decisions AS (
    INSERT INTO freshet.decision
        (object, state, policy, slot, impact, why, figures, reads, epoch, attempt, time_limit, decided_at)
    SELECT name, 'done', 'bench', 0, 0, '', '{}', '{}', 1, 1, 60, now() FROM objects
    RETURNING id, object
)
INSERT INTO freshet.version (object, snapshot_id, decision_id, committed_at, valid_from, valid_to, rows, reads)
SELECT object, v, id, now() + v * interval '1 second',
    'epoch'::timestamptz + (v * 10 + position % 7) * interval '1 second',
    'epoch'::timestamptz + (v * 10 + position % 7 + 10) * interval '1 second', 0, '{}'
FROM decisions JOIN objects ON name = object, generate_series(1, :versions) AS v
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of the table (20000000)")
    parser.add_argument("--new", type=int, default=100_000, help="rows that are added (100000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each measurement, the median counts (3)")
    parser.add_argument("--no-curve", action="store_true", help="leave out the larger shares")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the curve")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    view: str
    added: int
    full: float
    difference: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    rows: int
    refreshes: Sequence[Refresh]
    #: Seconds: answer, spark, added.
    query: Mapping[str, float]
    #: Seconds: in_all, pure.
    choice: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "refreshes": [
                {
                    "view": each.view,
                    "added_rows": each.added,
                    "full_seconds": each.full,
                    "difference_seconds": each.difference,
                    "times": each.full / each.difference,
                }
                for each in self.refreshes
            ],
            "query_seconds": dict(self.query),
            "choice_seconds": dict(self.choice),
        }

    def as_text(self) -> str:
        rows = [
            (
                _title(each.view),
                f"{each.added:,}",
                f"{each.full:.2f} s",
                f"{each.difference:.2f} s",
                f"{each.full / each.difference:.1f}",
            )
            for each in self.refreshes
        ]
        header = ("view", "rows added", "in full", "by difference", "times")
        return "\n".join(
            [
                f"a table of {self.rows:,} rows",
                table(header, rows, right=header[1:]),
                "",
                f"query: {self.query['answer']:.2f} s, of which Spark would take {self.query['spark']:.2f} s alone: "
                f"{self.query['added']:.2f} s added",
                f"versions of {CHOSEN_OBJECTS} objects: chosen in {1000 * self.choice['in_all']:.0f} ms with the "
                f"database, {1000 * self.choice['pure']:.1f} ms without",
            ]
        )


def run(options: argparse.Namespace) -> Report:
    from scheduler_plugin.services.home import Home
    from spark_jobs.tables import Tables

    root = Home.find().root / "bench-views"
    with services(root) as settings, Tables(settings.database_url, settings.warehouse) as tables:
        bench = Bench(settings, tables, options.rounds)
        base = bench.load(0, options.rows)
        for view in VIEWS:
            bench.refresh(view, base, "full")
        refreshes = bench.compare(base, options.new)
        for share in () if options.no_curve else SHARES:
            refreshes += bench.compare(base, round(options.rows * share))
        query = _query(settings, tables, bench.newest, options.rounds)
        choice = _choice(settings, options.rounds)
    report = Report(rows=options.rows, refreshes=refreshes, query=query, choice=choice)
    if options.picture is not None:
        _draw(report, options.picture)
    return report


def _draw(report: Report, path: Path) -> None:
    from scheduler_plugin.simulator.experiments import picture

    figure, axes = picture.panels(
        len(VIEWS), columns=2, title=f"A refresh after a table of {report.rows:,} rows has grown"
    )
    for each, (view, panel) in enumerate(zip(VIEWS, axes, strict=True)):
        points = sorted(
            (one.added / report.rows, one.full, one.difference) for one in report.refreshes if one.view == view
        )
        share, full, difference = (list(column) for column in zip(*points, strict=True))
        picture.lines(panel, share, {"in full": full, "by difference": difference})
        panel.set_ylim(bottom=0)
        picture.finished(
            panel, x="rows added, as a share of the table", y="" if each % 2 else "seconds", title=_title(view)
        )
    picture.saved(figure, path)


def _title(view: str) -> str:
    return view.replace("_", " ")


class Bench:
    """A table and views over it, refreshed either way from the same snapshots."""

    def __init__(self, settings: Any, tables: Any, rounds: int) -> None:
        self.settings, self.tables, self.rounds = settings, tables, rounds
        self.newest: dict[str, int] = {}
        self._batch = 0
        self._decision = 0
        self._loaded = 0

    def _session(self) -> Any:
        """For one piece of work, as a job has it."""
        from spark_jobs.session import spark_session

        return spark_session(self.settings.spark_remote, kept=self.settings.home.spark / "sessions")

    def load(self, first: int, rows: int) -> int:
        """More rows, as one batch; returns the snapshot."""
        from spark_jobs import files, schema

        planned = self.tables.ensure("facts", COLUMNS)
        self._batch += 1
        with self._session() as spark, self.tables.attempt("facts", f"batch-{self._batch}") as folder:
            frame = spark.range(first, first + rows, 1, max(1, rows // 5_000_000)).selectExpr(
                "id",
                "CAST(hash(id) & 1023 AS int) AS key",
                "CAST(hash(id, 3) & 262143 AS int) AS customer",
                "CAST((hash(id, 7) & 65535) / 100 AS decimal(12,2)) AS amount",
                "timestamp_seconds(1700000000 + id % 10000000) AS happened",
            )
            written = files.write_frame(schema.cast(frame, planned), folder)
            self.newest["facts"] = self.tables.append("facts", written, f"batch-{self._batch}", folder)
        self._loaded = first + rows
        return self.newest["facts"]

    def refresh(self, view: str, snapshot: int, way: str) -> float:
        """One refresh the one way or the other; returns its seconds."""
        from spark_jobs.refresh import Measured, refresh_view

        self._decision += 1
        other = {"full": "difference", "difference": "full"}[way]
        measured = {way: Measured(seconds=0.0, bytes_in=1.0), other: Measured(seconds=1e9, bytes_in=1.0)}
        begin = time.monotonic()
        with self._session() as spark:
            made = refresh_view(
                spark=spark,
                tables=self.tables,
                view=view,
                sql=VIEWS[view],
                reads={"facts": snapshot},
                virtual={},
                marker=f"refresh-{self._decision}",
                measured=measured,
                progress=lambda _: None,
            )
        took = time.monotonic() - begin
        assert made.way == way or self.newest.get(view) is None, made.how
        self.newest[view] = made.snapshot_id
        return took

    def compare(self, base: int, added: int) -> list[Refresh]:
        """Both ways from the table before to the table after it grew, in turns."""
        before = self.newest["facts"] if self.newest["facts"] != base else base
        after = self.load(self._loaded, added)
        found = []
        for view in VIEWS:
            took: dict[str, list[float]] = {"full": [], "difference": []}
            for _ in range(self.rounds):
                self.refresh(view, before, "full")
                took["difference"].append(self.refresh(view, after, "difference"))
                took["full"].append(self.refresh(view, after, "full"))
            found.append(
                Refresh(
                    view=view,
                    added=added,
                    full=statistics.median(took["full"]),
                    difference=statistics.median(took["difference"]),
                )
            )
        return found


def _query(settings: Any, tables: Any, newest: Mapping[str, int], rounds: int) -> dict[str, float]:
    """`ask` on fresh data, beside the same SQL on a session that is open and knows the files."""
    from scheduler_plugin.live.queries import Asked, ask
    from scheduler_plugin.store import objects
    from scheduler_plugin.store.database import Database
    from spark_jobs.query import prepared
    from spark_jobs.session import spark_session

    wishes = {"weight": 1.0, "access": 1.0, "staleness_limit": None}
    spec = {**wishes, "sql": VIEWS[QUERIED], "reads": ["facts"], "virtual": {}}
    database = Database(settings.database_url)
    rows = [
        objects.ObjectRow(name="facts", kind="table", materialized=True, parents=(), spec={**wishes, "period": 1.0}),
        objects.ObjectRow(name=QUERIED, kind="view", materialized=True, parents=("facts",), spec=spec),
    ]
    objects.take_in(database, objects.CatalogRow(settings={"slots": 2}, objects=rows))
    _commit(database, newest)
    database.close()
    sql = f"SELECT key, n, total FROM {QUERIED} WHERE n > 3 ORDER BY total DESC LIMIT 20"
    answers, alone = [], []
    with spark_session(settings.spark_remote) as spark:
        prepared(spark, tables, sql, {QUERIED: newest[QUERIED]}, {})
        for _ in range(max(5, rounds) + 1):
            begin = time.monotonic()
            spark.sql(sql).toArrow()
            alone.append(time.monotonic() - begin)
            begin = time.monotonic()
            ask(settings, Asked(sql=sql, by="bench"))
            answers.append(time.monotonic() - begin)
    answer, spark_alone = statistics.median(answers[1:]), statistics.median(alone[1:])
    return {"answer": answer, "spark": spark_alone, "added": answer - spark_alone}


def _commit(database: Any, snapshots: Mapping[str, int]) -> None:
    """The ledger's side of versions that were committed without it."""
    from scheduler_plugin.store import decisions, lease, objects, settling

    epoch = lease.take(database, "bench", timedelta(hours=1)) or 0
    known = {row.name for row in (objects.in_force(database) or objects.CatalogRow(settings={}, objects=[])).objects}
    for name, snapshot in snapshots.items():
        if name not in known:
            continue
        new = decisions.NewDecision(object=name, policy="bench", slot=0, impact=0.0, why="", figures={})
        (identity,) = decisions.record(database, epoch, [new])
        claim = decisions.claim(database, identity, 1, "bench")
        assert claim is not None
        outcome = settling.Outcome(snapshot_id=snapshot, rows=0, bytes_in=1, bytes_out=1, stages={})
        settling.finish(database, claim, outcome)


def _choice(settings: Any, rounds: int) -> dict[str, float]:
    """A thousand objects with several versions each, none of them the newest together."""
    from sqlalchemy import text

    from scheduler_plugin.brain.versions import Version, together
    from scheduler_plugin.services import postgres
    from scheduler_plugin.store import migrate, versions
    from scheduler_plugin.store.database import Database

    url = settings.database_url.rpartition("/")[0] + "/choice"
    postgres.make_database(url)
    migrate.upgrade(url)
    database = Database(url)
    names = [f"o{number}" for number in range(CHOSEN_OBJECTS)]
    with database.transaction() as connection:
        connection.execute(text(FILL), {"objects": CHOSEN_OBJECTS, "versions": CHOSEN_VERSIONS})
    in_all = []
    for _ in range(max(5, rounds)):
        with database.transaction() as connection:
            begin = time.monotonic()
            versions.choose(connection, names, strict=True)
            in_all.append(time.monotonic() - begin)
    database.close()
    histories = [
        [Version(ltb=10 * place + number % 7, utb=10 * place + number % 7 + 10) for place in range(CHOSEN_VERSIONS)]
        for number in range(CHOSEN_OBJECTS)
    ]
    begin = time.monotonic()
    found = together(histories)
    pure = time.monotonic() - begin
    assert found is not None
    return {"in_all": statistics.median(in_all), "pure": pure}
