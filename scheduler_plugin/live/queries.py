"""A query from asking to answer: vetted, made fresh enough on demand, served by deadline, read at one instant.

    SQL ──► confined ──► fresh enough? ──no──► can it be in time? ──no──► refused, with what could be had
                              │yes                   │yes
                              │                      └──► demands ──► loop ──► met
                              └──► its turn (earliest deadline first) ──► versions true together, pinned ──► Spark

The same for the command line, the API and DAGs; no Airflow in here.
"""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler_plugin.brain import preference
from scheduler_plugin.catalog.confined import ConfinedError, confined
from scheduler_plugin.live import spark_reading
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import accesses, demands, freshness, objects, queries, versions
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)

#: Seconds between two looks at whether what a query waits for has happened.
LOOK_SECONDS = 0.1
#: Rows that an answer has at most; who needs more reads the tables.
MOST_ROWS = 10_000
#: The most that Spark may work on one query, whatever its deadline.
LONGEST_SECONDS = 600.0
#: Whoever would like to wait does not wait longer than this for a loop that tells for what.
WEIGHED_WITHIN = 5.0
#: Slot-seconds to assume of a job that has never run.
FIRST_COST = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What somebody wants to know, and how soon and how fresh."""

    sql: str
    by: str
    #: Seconds from now.
    deadline: float | None = None
    #: The answer must have been true within so many seconds, or when it was asked.
    max_staleness: float | None = None
    #: How much freshness is worth waiting for: 0 answers at once, 1 waits for everything.
    prefer: float | None = None
    as_of: datetime | None = None
    #: Object -> snapshot that must be read.
    at_versions: Mapping[str, int] = field(default_factory=dict)
    most_rows: int = MOST_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was read, how fresh it is, and where the time went."""

    query: int
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    #: More rows than `most_rows` were there.
    cut: bool
    #: All versions were true from here to `until` (None: they are still the newest truth).
    instant: datetime | None
    until: datetime | None
    #: Object -> version, current_to, stale_seconds, fresh.
    freshness: Mapping[str, Mapping[str, Any]]
    trade_off: Mapping[str, Any] | None
    #: Seconds: waited for work, for its turn, in Spark, in all.
    seconds: Mapping[str, float]


class CannotMeetError(Exception):
    """The query cannot be answered in time; `possible` tells how fresh an answer could be had instead."""

    def __init__(self, message: str, query: int, possible: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.query = query
        self.possible = possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a query needs of the catalog."""

    sql: str
    #: As named in the SQL; counted as read.
    named: Sequence[str]
    #: Tables and materialized views whose snapshots are read.
    reads: Sequence[str]
    #: Virtual views between, with their SQL.
    virtual: Mapping[str, str]
    catalog: objects.CatalogRow


def plan(catalog: objects.CatalogRow | None, sql: str) -> Plan:
    """The query in terms of the catalog in force; ConfinedError when it is not about that."""
    if catalog is None:
        raise ConfinedError("there is no catalog in force yet: `freshet up` takes it in")
    rows = {row.name: row for row in catalog.objects if row.kind in ("table", "view")}
    allowed = confined(sql, rows)
    reads: set[str] = set()
    virtual: dict[str, str] = {}
    for name in allowed.objects:
        row = rows[name]
        if row.materialized:
            reads.add(name)
        else:
            reads.update(row.spec["reads"])
            virtual |= {**row.spec["virtual"], name: row.spec["sql"]}
    return Plan(sql=allowed.sql, named=allowed.objects, reads=sorted(reads), virtual=virtual, catalog=catalog)


def ask(settings: Settings, asked: Asked) -> Answer:
    """Answers a query. ConfinedError: not with this SQL; CannotMeetError: not in time; LookupError: nothing there."""
    database = Database(settings.database_url)
    try:
        return Asking(settings, database, asked).answer()
    finally:
        database.close()


class Asking:
    """One query on its way."""

    def __init__(self, settings: Settings, database: Database, asked: Asked) -> None:
        self.asked = asked
        self._settings = settings
        self._database = database
        self._began = time.monotonic()
        self.plan = plan(objects.in_force(database), asked.sql)
        now = datetime.now(UTC)
        self.deadline = None if asked.deadline is None else now + timedelta(seconds=asked.deadline)
        self.id, self.asked_at = queries.ask(
            database,
            sql=asked.sql,
            by=asked.by,
            deadline=self.deadline,
            max_staleness=asked.max_staleness,
            prefer=asked.prefer,
            as_of=asked.as_of,
            objects=list(self.plan.reads),
        )
        self._trade_off: dict[str, Any] | None = None

    def answer(self) -> Answer:
        try:
            waited = self._make_fresh()
            turn = self._wait_for_turn()
            return self._read({"waited": waited, "turn": turn})
        except CannotMeetError as error:
            state = "refused" if self._wait_was_refused else "missed"
            self._end(state, error=str(error), freshness=dict(error.possible))
            raise
        except BaseException as error:
            self._end("failed", error=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            raise

    _wait_was_refused = False

    def _end(self, state: str, **values: Any) -> None:
        queries.note(self._database, self.id, state=state, finished_at=datetime.now(UTC), **values)

    # Fresh enough -----------------------------------------------------------------------------------------------

    def _make_fresh(self) -> float:
        """Runs on demand what the query needs; returns the seconds it waited."""
        if self.asked.as_of is not None or self.asked.at_versions:
            return 0.0
        stale = self._stale()
        wanted = [name for name in self.plan.reads if name in stale]
        if not wanted:
            return 0.0
        if self.asked.max_staleness is not None and self._age() > self.asked.max_staleness:
            self._require_time(wanted, stale)
            return self._wait_for(wanted, until=self.deadline, must=True)
        if self.asked.prefer is not None:
            return self._wait_as_preferred(wanted)
        return 0.0

    def _require_time(self, wanted: Sequence[str], stale: set[str]) -> None:
        needed = self._seconds_needed(wanted, stale)
        if self.deadline is not None and datetime.now(UTC) + timedelta(seconds=needed) > self.deadline:
            self._wait_was_refused = True
            raise self._cannot_meet(
                f"about {needed:.1f} s of work lie before it ({', '.join(self._above(wanted, stale))}), "
                f"more than the {self.asked.deadline:g} s to its deadline"
            )

    def _wait_as_preferred(self, wanted: Sequence[str]) -> float:
        """The loop weighs it with all others that wait (`brain.weighing`) and declines what is not worth it."""
        until = self.deadline
        if until is not None:
            until -= timedelta(seconds=queries.spark_seconds(self._database, self.asked.sql))
        waited = self._wait_for(wanted, until=until, must=False)
        self._trade_off = queries.trade_off(self._database, self.id)
        return waited

    def _wait_for(self, wanted: Sequence[str], *, until: datetime | None, must: bool) -> float:
        began = time.monotonic()
        made = demands.demand_all(
            self._database,
            wanted,
            by=self.asked.by,
            why=f"query {self.id}",
            deadline=self.deadline,
            run=False,
            wish=None if must else (self.id, self.asked.prefer or 0.0),
        )
        try:
            while any(each.ended_at is None for each in demands.reports(self._database, only=made)):
                if until is not None and datetime.now(UTC) > until:
                    if must:
                        raise self._cannot_meet("its deadline has passed while it waited")
                    break
                if not must and time.monotonic() - began > WEIGHED_WITHIN and not self._weighed():
                    log.warning("Nothing weighs query %d; it goes on with what there is.", self.id)
                    break
                queries.note(self._database, self.id)
                time.sleep(LOOK_SECONDS)
        finally:
            demands.withdraw(self._database, made)
        return time.monotonic() - began

    def _weighed(self) -> bool:
        return queries.trade_off(self._database, self.id) is not None

    def _wait_for_turn(self) -> float:
        began = time.monotonic()
        slots = int(self.plan.catalog.settings["slots"])
        while not queries.take_turn(self._database, self.id, slots):
            if self.deadline is not None and datetime.now(UTC) > self.deadline:
                raise self._cannot_meet("its deadline has passed while others were served")
            time.sleep(LOOK_SECONDS / 2)
        return time.monotonic() - began

    def _stale(self) -> set[str]:
        """By the versions, which know of an arrival at once, and by the loop, which knows of views never refreshed."""
        told = {name for name, (fresh, _) in freshness.open_spells(self._database).items() if not fresh}
        return told | versions.behind(self._database)

    def _age(self) -> float:
        """Seconds since the newest versions that were true together ceased to be; 0 while they are, inf without any."""
        with self._database.transaction() as connection:
            try:
                chosen = versions.choose(connection, self.plan.reads, strict=True)
            except versions.NoCommonInstantError:
                return math.inf
        return _age(chosen.interval.until)

    def _above(self, wanted: Sequence[str], stale: set[str]) -> list[str]:
        """The wanted objects and their stale ancestors that would have to run, parents first."""
        parents = {row.name: row for row in self.plan.catalog.objects}
        found: dict[str, None] = {}

        def walk(name: str) -> None:
            for parent in parents[name].parents:
                walk(parent)
            if name in stale and parents[name].materialized:
                found.setdefault(name)

        for name in wanted:
            walk(name)
        return list(found)

    def _seconds_needed(self, wanted: Sequence[str], stale: set[str]) -> float:
        """What lies before the query: the work of earlier deadlines, its own, and Spark's time for it."""
        known = queries.costs(self._database)
        rows = self.plan.catalog.objects
        cost = {row.name: known.get(row.name, FIRST_COST) for row in rows}
        slots = int(self.plan.catalog.settings["slots"])
        own = self._above(wanted, stale)
        earlier = set(self._above(queries.demanded_before(self._database, self.deadline), stale)) - set(own)
        parents = {row.name: tuple(row.parents) for row in rows}
        return (
            sum(cost[name] for name in earlier) / slots
            + preference.seconds_to_run(own, parents, cost, slots)
            + queries.spark_seconds(self._database, self.asked.sql)
        )

    def _cannot_meet(self, why: str) -> CannotMeetError:
        with self._database.transaction() as connection:
            try:
                chosen = versions.choose(connection, self.plan.reads, strict=True)
                possible = self._told(chosen)
                age = _age(chosen.interval.until)
                hint = f" An answer that was true {age:.1f} s ago can be had at once, without a limit of staleness."
            except versions.NoCommonInstantError as error:
                possible, hint = {}, f" There is nothing to fall back on: {error}."
        hint = "" if self.asked.max_staleness is None else hint
        return CannotMeetError(f"query {self.id} cannot be answered in time: {why}.{hint}", self.id, possible)

    # Reading ----------------------------------------------------------------------------------------------------

    def _read(self, seconds: dict[str, float]) -> Answer:
        with (
            versions.pinned(
                self._database,
                f"query-{self.id}",
                self.plan.reads,
                at=self.asked.as_of,
                fixed=self.asked.at_versions,
            ) as chosen,
            self._alive(),
        ):
            told = self._told(chosen)
            if self.asked.as_of is None and not self.asked.at_versions:
                accesses.count(self._database, Counter(self.plan.named))
            found, seconds["spark"] = self._in_spark(chosen)
        cut = found.num_rows > self.asked.most_rows
        # Column by column: two may have the same name.
        shown = (column.to_pylist() for column in found.slice(0, self.asked.most_rows).columns)
        rows = [list(row) for row in zip(*shown, strict=True)]
        seconds["all"] = time.monotonic() - self._began
        self._end(
            "done",
            instant=chosen.interval.since,
            versions=dict(chosen.snapshots),
            freshness=told,
            spark_seconds=seconds["spark"],
            rows=len(rows),
        )
        return Answer(
            query=self.id,
            columns=found.column_names,
            rows=rows,
            cut=cut,
            instant=chosen.interval.since,
            until=chosen.interval.until,
            freshness=told,
            trade_off=self._trade_off,
            seconds={name: round(value, 4) for name, value in seconds.items()},
        )

    def _in_spark(self, chosen: versions.Chosen) -> tuple[Any, float]:
        left = LONGEST_SECONDS
        if self.deadline is not None:
            left = min(left, (self.deadline - datetime.now(UTC)).total_seconds())
        try:
            return spark_reading.read(
                self._settings,
                self.plan.sql,
                chosen.snapshots,
                self.plan.virtual,
                most_rows=self.asked.most_rows,
                seconds=left,
            )
        except spark_reading.StoppedError as error:
            raise self._cannot_meet(str(error)) from error

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Signs of life while Spark works, so that the query keeps its turn."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(queries.GONE_AFTER.total_seconds() / 4):
                queries.note(self._database, self.id)

        thread = threading.Thread(target=beat, name=f"query-{self.id}-beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _told(self, chosen: versions.Chosen) -> dict[str, dict[str, Any]]:
        """How fresh each version is, for the answer."""
        found = {}
        intervals = versions.intervals(self._database, chosen.snapshots)
        for name, snapshot in chosen.snapshots.items():
            valid = intervals.get(name)
            until = valid.until if valid is not None else None
            since = valid.since if valid is not None else None
            found[name] = {
                "version": snapshot,
                "current_to": since.isoformat() if since else None,
                "fresh": until is None,
                "stale_seconds": round(_age(until), 3),
            }
        return found


def _age(until: datetime | None) -> float:
    return 0.0 if until is None else max(0.0, (datetime.now(UTC) - until).total_seconds())
