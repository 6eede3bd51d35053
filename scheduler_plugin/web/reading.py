"""What can be read of one object, of the decisions, and of the quality of data."""

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Path, Query, Request, Response

from scheduler_plugin.live.explain import ObjectExplanation
from scheduler_plugin.live.scheduler import dag_id
from scheduler_plugin.store import backfills, history, quality_of_data
from scheduler_plugin.store.decisions import run_id
from scheduler_plugin.store.history import DecisionDetail, Sawtooth
from scheduler_plugin.store.standing import Standing
from scheduler_plugin.web import models
from scheduler_plugin.web.access import Reader, may_edit, readable
from scheduler_plugin.web.answers import answer
from scheduler_plugin.web.desk import Desk, Snapshot, epoch, rounded, short
from scheduler_plugin.web.neighbourhood import neighbourhood

ObjectName = Annotated[str, Path(min_length=1, max_length=200, description="a table or view of the catalog")]
Hours = Annotated[float, Query(ge=0.01, le=24 * 31, description="how long a window")]
Until = Annotated[models.AskedTime | None, Query(description="its end; now by default")]
Limit = Annotated[int, Query(ge=1, le=100)]
MISSING: dict[int | str, dict[str, Any]] = {404: {"description": "No such object, or not for you to see"}}
#: How many objects the picture of the QoD shows one by one.
MOST_SHARES = 150


def router(desk: Desk) -> APIRouter:
    routes = APIRouter()

    def found(user: Any, name: str) -> tuple[Snapshot, Standing]:
        return find(desk, user, name)

    @routes.get("/objects/{name}", response_model=models.ObjectPage, responses=MISSING, tags=["object"])
    def one_object(request: Request, user: Reader, name: ObjectName) -> Response:
        """How it stands, what it is made of, and why it is or is not next."""
        snapshot, item = found(user, name)
        told = desk.explain(name)
        if told is not None and told.turn.state == "fresh" and not item.fresh:
            # Its job has ended since the picture was taken: the page should not say both.
            desk.forget()
            snapshot, item = found(user, name)
        spec = item.spec
        waiting = history.pending_updates(desk.database, name, 20) if item.kind == "table" else []
        seen = readable(user, snapshot.whole.objects)
        row = next(row for row in snapshot.rows if row.name == name)
        content = models.ObjectPage(
            row=row,
            dag_id=dag_id(name, item.kind) if item.materialized else None,
            may_edit=item.materialized and may_edit(user, name, item.kind),
            parents=[each for each in item.parents if each in seen],
            children=[each for each in snapshot.children.get(name, ()) if each in seen],
            sql=spec.get("sql"),
            columns=[(str(column), str(kind)) for column, kind in spec.get("columns", ())],
            expectations=list(spec.get("expectations", ())),
            weight=spec["weight"],
            access=spec["access"],
            period=spec.get("period"),
            explanation=None if told is None else why_not(told.turn, seen),
            waiting=[
                models.Waiting(path=path, bytes=size, release=release.timestamp(), state=state)
                for path, size, release, state in waiting
            ],
            overrides=[
                models.OverrideOut(what=what, **asdict(each))
                for what, each in (told.overrides if told is not None else {}).items()
            ],
            backfills=[_backfill(each) for each in backfills.reports(desk.database, object=name, limit=5)],
        )
        return answer(request, content, at=time.time())

    @routes.get("/objects/{name}/history", response_model=models.SawtoothOut, responses=MISSING, tags=["object"])
    def sawtooth(request: Request, user: Reader, name: ObjectName, hours: Hours = 1, until: Until = None) -> Response:
        """The staleness sawtooth over a window, with arrivals, runs and breaches."""
        snapshot, item = found(user, name)
        limit = next(row.limit for row in snapshot.rows if row.name == name)
        begin, end = window(hours, until)
        told = history.sawtooth(desk.database, name, begin, end)
        return answer(request, _sawtooth(item, limit, told, begin, end), at=time.time())

    @routes.get("/objects/{name}/versions", response_model=list[models.VersionOut], responses=MISSING, tags=["object"])
    def versions(request: Request, user: Reader, name: ObjectName, limit: Limit = 20) -> Response:
        """Its newest committed snapshots."""
        found(user, name)
        told = [
            models.VersionOut(
                snapshot_id=str(each.snapshot_id),
                decision=each.decision_id,
                committed_at=each.committed_at.timestamp(),
                rows=each.rows,
                reads={parent: None if read is None else str(read) for parent, read in each.reads.items()},
            )
            for each in history.versions(desk.database, name, limit)
        ]
        return answer(request, told)

    @routes.get("/objects/{name}/costs", response_model=list[models.CostOut], responses=MISSING, tags=["object"])
    def costs(request: Request, user: Reader, name: ObjectName, limit: Limit = 60) -> Response:
        """What its newest jobs took, and where the time went."""
        found(user, name)
        told = [
            models.CostOut(
                decision=each.decision_id,
                at=each.at.timestamp(),
                slot_seconds=round(each.slot_seconds, 3),
                units=each.units,
                bytes_in=each.bytes_in,
                bytes_out=each.bytes_out,
                stages={stage: round(float(seconds), 3) for stage, seconds in (each.stages or {}).items()},
            )
            for each in history.costs(desk.database, name, limit)
        ]
        return answer(request, told)

    @routes.get("/objects/{name}/quality", response_model=list[models.QualityOut], responses=MISSING, tags=["object"])
    def quality(request: Request, user: Reader, name: ObjectName, limit: Limit = 60) -> Response:
        """What was expected of its newest batches, and whether it held."""
        found(user, name)
        return answer(request, [quality_out(each) for each in history.quality(desk.database, name, limit)])

    @routes.get("/objects/{name}/graph", response_model=models.Neighbourhood, responses=MISSING, tags=["graph"])
    def graph(
        request: Request,
        user: Reader,
        name: ObjectName,
        up: Annotated[int, Query(ge=0, le=6)] = 2,
        down: Annotated[int, Query(ge=0, le=6)] = 2,
    ) -> Response:
        """Its neighbourhood in the dependency graph: so many steps up and down, the nearest first."""
        snapshot, _ = found(user, name)
        content = neighbourhood(snapshot, readable(user, snapshot.whole.objects), name, up, down)
        return answer(request, content, at=time.time())

    @routes.get("/decisions", response_model=list[models.DecisionOut], responses=MISSING, tags=["decisions"])
    def decisions(
        request: Request,
        user: Reader,
        object: Annotated[str | None, Query(max_length=200)] = None,
        search: Annotated[str, Query(max_length=100, description="part of an object's name")] = "",
        before: Annotated[int | None, Query(ge=1, le=2**62, description="older than this decision")] = None,
        failed: bool = False,
        limit: Limit = 30,
    ) -> Response:
        """What was decided, newest first: why, on which figures, and what was passed over."""
        snapshot = desk.snapshot()
        if object is not None:
            found(user, object)
        seen = readable(user, snapshot.whole.objects)
        wanted = seen if object is None else {object}
        wanted = {each for each in wanted if search.lower() in each.lower()}
        told = history.decisions(
            desk.database,
            objects=None if wanted == snapshot.by_name.keys() else wanted,
            before=before,
            failed=failed,
            limit=limit,
        )
        return answer(request, [decision_out(each, snapshot, seen) for each in told if each.object in seen])

    @routes.get("/qod", response_model=models.QodOut, tags=["quality of data"])
    def qod(
        request: Request,
        user: Reader,
        hours: Hours = 6,
        until: Until = None,
        buckets: Annotated[int, Query(ge=1, le=240)] = 72,
    ) -> Response:
        """The quality of data over a window: the share of accesses that met a fresh object, in equal stretches."""
        step = hours * 3600 / buckets
        # Whole stretches, so that everybody who looks in the same one gets the same answer, made once.
        end = (until if until is not None else time.time()) // step * step + step
        begin, end_at = window(hours, end)
        told = desk.kept(
            ("qod", hours, end, buckets),
            min(10.0, step / 2),
            lambda: quality_of_data.over_time(desk.database, begin, end_at, buckets),
        )
        content = models.QodOut(
            since=begin.timestamp(),
            until=end_at.timestamp(),
            buckets=[
                models.BucketOut(at=each.at.timestamp(), qod=rounded(each.qod), fresh=rounded(each.fresh))
                for each in told
            ],
        )
        return answer(request, content, at=time.time())

    @routes.get("/qod/picture", response_model=models.PictureOut, tags=["quality of data"])
    def picture(request: Request, user: Reader, hours: Hours = 1, until: Until = None) -> Response:
        """Which objects cost how much of the quality of data in a window (paper 004, section 4.2)."""
        begin, end = window(hours, until)
        shares = quality_of_data.picture(desk.database, begin, end)
        seen = readable(user, desk.snapshot().whole.objects)
        shown = [_share(each) for each in shares if each.object in seen]
        content = models.PictureOut(
            since=begin.timestamp(),
            until=end.timestamp(),
            qod=rounded(quality_of_data.qod(shares)),
            objects=shown[:MOST_SHARES],
            others=len(shown[MOST_SHARES:]),
            others_lost=round(sum(each.lost for each in shown[MOST_SHARES:]), 6),
        )
        return answer(request, content, at=time.time())

    return routes


def find(desk: Desk, user: Any, name: str) -> tuple[Snapshot, Standing]:
    """The object, for somebody who may see it; to others it is not there."""
    snapshot = desk.snapshot()
    item = snapshot.by_name.get(name)
    if item is None or name not in readable(user, snapshot.whole.objects):
        raise HTTPException(404, f"No object is called {name}.")
    return snapshot, item


def window(hours: float, until: float | None) -> tuple[datetime, datetime]:
    end = until if until is not None else time.time()
    begin = max(0.0, end - hours * 3600)
    return datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(max(end, begin + 1), UTC)


def why_not(told: ObjectExplanation, seen: frozenset[str]) -> models.WhyNot:
    return models.WhyNot(
        state=told.state,
        summary=told.summary,
        why=told.why,
        impact=rounded(told.impact),
        rank=told.rank,
        ingredients={key: rounded(value) for key, value in told.ingredients.items()},
        dirty_ancestors=[each for each in told.dirty_ancestors if each in seen][:50],
        ahead=[
            models.Ahead(object=each.object, impact=rounded(each.impact), why=each.why)
            for each in told.ahead[:8]
            if each.object in seen
        ],
        expected_at=epoch(told.expected_at),
        cost_spread=rounded(told.cost_spread),
        failures=told.failures,
    )


def quality_out(each: history.QualityReport) -> models.QualityOut:
    call, _, told = str(each.detail.get("words", each.expectation)).partition("): ")
    return models.QualityOut(
        batch=each.batch_id,
        at=each.at.timestamp(),
        expectation=f"{call})" if told else call,
        on_fail=each.on_fail,
        passed=each.passed,
        message=short(told, 500),
        samples=[short(str(value), 200) for value in each.detail.get("sample", ())][:5],
    )


def _backfill(each: backfills.BackfillReport) -> models.BackfillOut:
    return models.BackfillOut(
        id=each.id,
        mode=each.mode,
        covers_from=epoch(each.covers_from),
        covers_to=epoch(each.covers_to),
        state=each.state,
        who=each.who,
        why=each.why,
        started_at=each.started_at.timestamp(),
        finished_at=epoch(each.finished_at),
        pieces=each.pieces,
        pieces_done=each.pieces_done,
        next=each.next,
    )


def decision_out(each: DecisionDetail, snapshot: Snapshot, seen: frozenset[str]) -> models.DecisionOut:
    figures = each.figures
    return models.DecisionOut(
        id=each.id,
        object=each.object,
        kind=snapshot.by_name[each.object].kind,
        run_id=run_id(each.id, each.attempt),
        state=each.state,
        policy=each.policy,
        slot=each.slot,
        impact=rounded(each.impact) or 0.0,
        why=each.why,
        ingredients={
            key: rounded(value) if isinstance(value, int | float) else None
            for key, value in (figures.get("ingredients") or {}).items()
        },
        candidates=figures.get("candidates"),
        passed_over=[
            models.Ahead(object=other["object"], impact=rounded(other.get("impact")), why=other.get("why", ""))
            for other in figures.get("passed_over") or ()
            if other["object"] in seen
        ],
        updates=each.updates,
        decided_at=each.decided_at.timestamp(),
        claimed_at=epoch(each.claimed_at),
        finished_at=epoch(each.finished_at),
        error=short(each.error, 2000) if each.error else None,
    )


def _sawtooth(
    item: Standing, limit: float | None, told: Sawtooth, begin: datetime, end: datetime
) -> models.SawtoothOut:
    return models.SawtoothOut(
        object=item.name,
        since=begin.timestamp(),
        until=end.timestamp(),
        limit=limit,
        spells=[
            models.SpellOut(
                since=round(each.since.timestamp(), 3),
                until=epoch(each.until),
                fresh=each.fresh,
                current_to=epoch(each.current_to),
            )
            for each in told.spells
        ],
        arrivals=[round(each.timestamp(), 3) for each in told.arrivals],
        runs=[
            models.RunOut(
                decision=each.decision,
                state=each.state,
                decided_at=round(each.decided_at.timestamp(), 3),
                finished_at=epoch(each.finished_at),
                error=short(each.error, 300) if each.error else None,
            )
            for each in told.runs
        ],
        breaches=[
            models.Breach(since=round(since, 3), until=until)
            for since, until in history.breaches(told.spells, limit, time.time())
        ],
        truncated=told.truncated,
    )


def _share(each: quality_of_data.Share) -> models.ShareOut:
    return models.ShareOut(
        object=each.object,
        access=round(each.access, 6),
        reads=each.reads,
        reads_met_fresh=each.reads_met_fresh,
        seconds=round(each.seconds, 2),
        stale_seconds=round(each.stale_seconds, 2),
        running_seconds=round(each.running_seconds, 2),
        lost=round(each.access * each.stale_seconds / each.seconds, 6) if each.seconds else 0.0,
    )
