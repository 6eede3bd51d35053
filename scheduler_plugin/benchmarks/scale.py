"""Large catalogs: what a tick asks of the database and how long it takes, by how much has changed, and what Airflow's
parsing of the objects' DAGs costs.

A fifth of the objects are tables, a third of the views have staleness limits. The loop is the real one on a Postgres of
its own, tick by tick; no Airflow runs, and jobs end as soon as they are decided. Parsing is what Airflow's DAG
processor does in the file's own process: running the file and serialising each DAG. Times of parsing are of the
processor.
"""

import argparse
import io
import logging
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scheduler_plugin.cli.table import table

if TYPE_CHECKING:
    from scheduler_plugin.services.settings import Settings
    from scheduler_plugin.store.database import Database

#: Files that arrive between two ticks.
ARRIVALS = (0, 1, 10, 100)
SLOTS = 8
PARSE = """
import resource, runpy, time
began = time.process_time()
from airflow.serialization.serialized_objects import DagSerialization
import scheduler_plugin.live.dag_docs, scheduler_plugin.live.operators
imported = time.process_time()
dags = runpy.run_path({file!r})["dags"]
ran = time.process_time()
for dag in dags:
    DagSerialization.to_dict(dag)
told = (len(dags), ran - imported, time.process_time() - ran, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(*told)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", default="500,5000", help="objects, with commas (500,5000)")
    parser.add_argument("--ticks", type=int, default=100, help="for each number of arrivals (100)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """One size of the catalog, and so many files between two ticks; times in milliseconds."""

    objects: int
    arrivals: int
    p50_ms: float
    p99_ms: float
    #: Statements a tick sends to Postgres, at the median and at most.
    statements: float
    most_statements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogs:
    """What the catalog costs outside the ticks, in seconds and MiB."""

    objects: int
    #: Until a new loop has read the catalog and knows where things stand.
    start_seconds: float
    #: Looking ahead for breaches, which the loop does every few seconds and less often where it takes longer.
    watch_seconds: float
    loop_mib: float
    run_seconds: float
    serialize_seconds: float
    parse_mib: float


@dataclass(frozen=True, slots=True)
class Report:
    ticks: Sequence[Ticks]
    catalogs: Sequence[Catalogs]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        head = ("objects", "files a tick", "tick p50", "tick p99", "statements", "at most")
        rows = [
            (
                f"{each.objects:,}",
                each.arrivals,
                f"{each.p50_ms:.1f} ms",
                f"{each.p99_ms:.1f} ms",
                f"{each.statements:.0f}",
                each.most_statements,
            )
            for each in self.ticks
        ]
        other = ("objects", "loop starts in", "looks ahead in", "loop", "DAG file runs in", "serialised in", "parser")
        more = [
            (
                f"{each.objects:,}",
                f"{each.start_seconds:.2f} s",
                f"{each.watch_seconds:.2f} s",
                f"{each.loop_mib:.0f} MiB",
                f"{each.run_seconds:.2f} s",
                f"{each.serialize_seconds:.2f} s",
                f"{each.parse_mib:.0f} MiB",
            )
            for each in self.catalogs
        ]
        return f"{table(head, rows, right=head)}\n\n{table(other, more, right=other)}"


def run(options: argparse.Namespace) -> Report:
    from scheduler_plugin.services import postgres, stack
    from scheduler_plugin.services.home import Home
    from scheduler_plugin.services.progress import Progress
    from scheduler_plugin.services.settings import Settings

    logging.disable(logging.INFO)  # a line for each decision
    home = Home(root=Home.find().root / "bench-scale")
    stack.down(home, Progress(io.StringIO()))
    shutil.rmtree(home.root, ignore_errors=True)
    home.make()
    ticks: list[Ticks] = []
    catalogs: list[Catalogs] = []
    try:
        postgres.start(home)
        for size in map(int, options.sizes.split(",")):
            catalog = write_catalog(home.root / f"include-{size}", size)
            os.environ |= {"FRESHET_HOME": str(home.root), "FRESHET_CATALOG": str(catalog)}
            settings = Settings.load()
            server = settings.database_url.rpartition("/")[0]
            # Nobody answers there: nothing is sent.
            nowhere = {
                **settings.environment,
                "FRESHET_API_URL": "http://127.0.0.1:9",
                "FRESHET_DATABASE_URL": f"{server}/scale_{size}",
            }
            one = Scale(replace(settings, environment=nowhere), size)
            ticks += [one.measured(arrivals, options.ticks) for arrivals in ARRIVALS]
            catalogs.append(one.catalog())
            one.close()
    finally:
        stack.down(home, Progress(io.StringIO()))
    return Report(ticks=ticks, catalogs=catalogs)


def write_catalog(folder: Path, size: int) -> Path:
    """Views read one or two objects that were declared before them."""
    chance = random.Random(size)
    (folder / "views").mkdir(parents=True)
    names = [f"t{number}" for number in range(size // 5)]
    lines = [f"slots: {SLOTS}", "feeds:"]
    lines += [f"  {name}: {{format: csv, period: 60s, columns: {{id: long, at: timestamp}}}}" for name in names]
    lines.append("views:")
    for number in range(size - len(names)):
        name = f"v{number}"
        parents = sorted({chance.choice(names[-1000:]) for _ in range(chance.choice((1, 2)))})
        joined = "".join(f" JOIN {each} USING (id)" for each in parents[1:])
        (folder / "views" / f"{name}.sql").write_text(f"SELECT {parents[0]}.id FROM {parents[0]}{joined}\n")
        limit = ", staleness_limit: 10m" if number % 3 == 0 else ""
        lines.append(f"  {name}: {{access: {chance.randint(1, 50)}{limit}}}")
        names.append(name)
    path = folder / "warehouse.yml"
    path.write_text("\n".join(lines) + "\n")
    return path


class Scale:
    """One size: a loop and its ledger."""

    def __init__(self, settings: "Settings", size: int) -> None:
        from scheduler_plugin.live.loop import LEASE, Loop
        from scheduler_plugin.services import postgres
        from scheduler_plugin.store import lease
        from scheduler_plugin.store.database import Database
        from scheduler_plugin.store.migrate import upgrade

        postgres.make_database(settings.database_url)
        upgrade(settings.database_url)
        self._size = size
        self._database: Database = Database(settings.database_url)
        self._files = 0
        self._chance = random.Random(1)
        epoch = lease.take(self._database, "bench", LEASE)
        assert epoch is not None
        before, began = memory(), time.perf_counter()
        self._loop: Loop = Loop(settings, self._database, "bench", epoch)
        self._start_seconds = time.perf_counter() - began
        self._loop._courier.paused = frozenset()
        self._memory = memory() - before
        self._tables = [name for name, row in self._loop._scheduler.rows.items() if row.kind == "table"]
        self._arrive(self._tables)
        for _ in range(20):
            self._loop._tick()
            self._work()

    def close(self) -> None:
        self._database.close()

    def _arrive(self, tables: Sequence[str]) -> None:
        from scheduler_plugin.store import arrivals

        found = []
        for name in tables:
            self._files += 1
            known = f"{name}-{self._files}"
            found.append(arrivals.Arrival(table=name, path=f"/{known}", size_bytes=1, content_hash=known))
        if found:
            arrivals.take_in(self._database, found)

    def _work(self) -> None:
        """Ends what was decided."""
        from scheduler_plugin.store import decisions, reports, settling

        for each in reports.latest_decisions(self._database, SLOTS):
            claim = decisions.claim(self._database, each.id, each.attempt, "bench")
            if claim is not None:
                done = settling.Outcome(snapshot_id=each.id, rows=1, bytes_in=1, bytes_out=1, stages={})
                settling.finish(self._database, claim, done)

    def measured(self, arrivals: int, ticks: int) -> Ticks:
        seconds, statements = [], []
        self._loop._watch_next = time.monotonic() + 3600  # it has a figure of its own
        for _ in range(ticks):
            self._arrive(self._chance.sample(self._tables, min(arrivals, len(self._tables))))
            with counted(self._database) as count:
                began = time.perf_counter()
                self._loop._tick()
                seconds.append((time.perf_counter() - began) * 1000)
            statements.append(len(count))
            if arrivals:
                self._work()
        cuts = statistics.quantiles(seconds, n=100, method="inclusive")
        return Ticks(
            objects=self._size,
            arrivals=arrivals,
            p50_ms=cuts[49],
            p99_ms=cuts[98],
            statements=statistics.median(statements),
            most_statements=max(statements),
        )

    def catalog(self) -> Catalogs:
        from scheduler_plugin.services.home import REPOSITORY

        began = time.perf_counter()
        self._loop._watch.look(self._loop._scheduler, time.time())
        watch_seconds = time.perf_counter() - began
        program = PARSE.format(file=str(REPOSITORY / "dags" / "freshet_objects.py"))
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        environment["AIRFLOW_HOME"] = str(Path(os.environ["FRESHET_HOME"]) / "airflow")
        told = subprocess.run(
            [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
        )
        _, run_seconds, serialize_seconds, parse_mib = map(float, told.stdout.split()[-4:])
        return Catalogs(
            objects=self._size,
            start_seconds=self._start_seconds,
            watch_seconds=watch_seconds,
            loop_mib=self._memory,
            run_seconds=run_seconds,
            serialize_seconds=serialize_seconds,
            parse_mib=parse_mib,
        )


def memory() -> float:
    """MiB of this process."""
    import psutil

    return float(psutil.Process().memory_info().rss) / 2**20


@contextmanager
def counted(database: "Database") -> Iterator[list[str]]:
    """The statements sent meanwhile."""
    from sqlalchemy import event

    found: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        found.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
