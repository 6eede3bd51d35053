"""What if another policy or number of slots had run; what is in quarantine; which queries wait, and for what."""

import threading
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field

from scheduler_plugin.brain import POLICIES, PolicyError
from scheduler_plugin.live.whatif import MARGIN, Outcome, WhatIf, WhatIfError, what_if
from scheduler_plugin.store import history, quarantine
from scheduler_plugin.web.access import Reader, may_edit, readable
from scheduler_plugin.web.answers import answer
from scheduler_plugin.web.desk import Desk, epoch, rounded, short
from scheduler_plugin.web.models import Seconds, Time
from scheduler_plugin.web.reading import Hours, Until, find, window

PolicyName = Literal[tuple(POLICIES)]  # type: ignore[valid-type]
#: A replay is work for this process's only core; one at a time is enough.
_replaying = threading.Lock()


class Point(BaseModel):
    after: Seconds = Field(description="since the beginning of the window")
    fresh: float | None = Field(description="share of accesses that met a fresh object")
    staleness: Seconds | None = Field(description="mean staleness, each object counting by its popularity")


class OutcomeOut(BaseModel):
    policy: str
    slots: int
    qod: float | None
    weighted_staleness: Seconds | None
    worst_stretch: float | None
    limits_breached: int
    seconds_over_limit: Seconds | None
    slot_hours: float | None
    jobs: int
    curve: list[Point]


class WhatIfOut(BaseModel):
    """What really happened beside what would have."""

    since: Time
    until: Time
    arrivals: int
    margin: float = Field(description="how far the replay of what really ran may be from what was recorded")
    real: OutcomeOut
    replayed: OutcomeOut


class TradeOffPoint(BaseModel):
    wait: Seconds = Field(description="added, summed over the queries")
    help: Seconds = Field(description="staleness that the answers are spared, summed over them")


class QueryOut(BaseModel):
    """A read with a deadline or a preference, and how it traded waiting against freshness."""

    id: int
    by: str
    asked_at: Time
    deadline: Time | None
    prefer: float | None = Field(description="0 is as fast as can be, 1 as fresh as can be")
    objects: list[str]
    state: str
    finished_at: Time | None
    together_with: list[int] = Field(description="the queries that were weighed together, with this one")
    accepted: Seconds | None = Field(description="how much waiting they accept in all")
    curve: list[TradeOffPoint]
    taken: TradeOffPoint | None


class Kept(BaseModel):
    """A file or a row that was kept out of its table."""

    id: str
    table: str
    feed: str
    file: str
    row: int | None
    reason: str
    sample: str | None
    at: Time | None
    may_edit: bool


def router(desk: Desk) -> APIRouter:
    routes = APIRouter()

    @routes.get("/policies", response_model=list[str], tags=["what if"])
    def policies(request: Request, user: Reader) -> Response:
        """The policies that can be compared."""
        return answer(request, list(POLICIES))

    @routes.get(
        "/whatif", response_model=WhatIfOut, tags=["what if"], responses={409: {"description": "Nothing to replay"}}
    )
    def replay(
        request: Request,
        user: Reader,
        policy: PolicyName | None = None,
        slots: Annotated[int | None, Query(ge=1, le=1000)] = None,
        hours: Annotated[Hours, Query(le=24)] = 1,
        until: Until = None,
    ) -> Response:
        """Plays the recorded arrivals, costs and accesses of a window with other decisions."""
        begin, end = window(hours, until)

        def ask() -> WhatIf:
            with _replaying:
                return what_if(desk.database, policy=policy, slots=slots, start=begin, end=end)

        try:
            told = desk.kept(("what if", policy, slots, hours, until), 20.0, ask)
        except (WhatIfError, PolicyError, LookupError) as error:
            raise HTTPException(409, str(error)) from error
        content = WhatIfOut(
            since=told.start.timestamp(),
            until=told.end.timestamp(),
            arrivals=told.arrivals,
            margin=MARGIN,
            real=_outcome(told.real),
            replayed=_outcome(told.replayed),
        )
        return answer(request, content, at=time.time())

    @routes.get(
        "/quarantine", response_model=list[Kept], tags=["quarantine"], responses={404: {"description": "No table"}}
    )
    def kept(
        request: Request,
        user: Reader,
        table: Annotated[str | None, Query(max_length=200)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 100,
    ) -> Response:
        """What was kept out of the tables, why, and a sample of it; the newest first."""
        snapshot = desk.snapshot()
        if table is not None:
            find(desk, user, table)
        seen = readable(user, snapshot.whole.objects)
        # Who may not see every table would get less than there is, were it cut before.
        most = limit if seen == snapshot.by_name.keys() else None
        found = [each for each in quarantine.items(desk.database, table=table, limit=most) if each.table in seen][
            :limit
        ]
        edits = {each.table: may_edit(user, each.table, "table") for each in found}
        return answer(request, [_kept(each, edits[each.table]) for each in found])

    @routes.get("/queries", response_model=list[QueryOut], tags=["what if"])
    def queries(
        request: Request,
        user: Reader,
        limit: Annotated[int, Query(ge=1, le=50)] = 20,
        weighed: Annotated[bool, Query(description="only those with a curve")] = False,
    ) -> Response:
        """The newest queries, and for those with a preference the curve between waiting and freshness."""
        seen = readable(user, desk.snapshot().whole.objects)
        found = history.queries(desk.database, limit, weighed=weighed)
        told = [_query(each) for each in found if seen.issuperset(each.objects)]
        return answer(request, told)

    return routes


def _query(each: history.QueryReport) -> QueryOut:
    told = each.trade_off or {}
    return QueryOut(
        id=each.id,
        by=each.by,
        asked_at=each.asked_at.timestamp(),
        deadline=epoch(each.deadline),
        prefer=each.prefer,
        objects=list(each.objects),
        state=each.state,
        finished_at=epoch(each.finished_at),
        together_with=list(told.get("queries", ())),
        accepted=rounded(told.get("bound_seconds")),
        curve=[_trade_off(point) for point in told.get("curve", ())][:500],
        taken=_trade_off(told["taken"]) if "taken" in told else None,
    )


def _trade_off(point: Any) -> TradeOffPoint:
    return TradeOffPoint(wait=round(point["wait_seconds"], 3), help=point["help"])


def _kept(each: Any, may: bool) -> Kept:
    return Kept(
        id=each.id,
        table=each.table,
        feed=each.feed,
        file=each.file,
        row=each.row,
        reason=short(each.reason, 500),
        sample=short(each.raw, 300) if each.raw else None,
        at=epoch(each.at),
        may_edit=may,
    )


def _outcome(told: Outcome) -> OutcomeOut:
    return OutcomeOut(
        policy=told.policy,
        slots=told.slots,
        qod=rounded(told.qod),
        weighted_staleness=rounded(told.weighted_staleness),
        worst_stretch=rounded(told.worst_stretch),
        limits_breached=told.limits_breached,
        seconds_over_limit=rounded(told.seconds_over_limit),
        slot_hours=rounded(told.slot_hours),
        jobs=told.jobs,
        curve=[
            Point(after=round(after, 1), fresh=rounded(fresh), staleness=rounded(staleness))
            for after, fresh, staleness in told.curve
        ],
    )
