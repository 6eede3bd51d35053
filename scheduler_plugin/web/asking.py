"""Questions to the warehouse: the same SQL, limits and answers as `freshet query`.

Whoever may see every object that a query reads may ask it. An answer is waited for in the request, at most as long as
its deadline; a few are served at a time, so that questions do not keep the page from being served.
"""

import math
import threading
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from scheduler_plugin.catalog.confined import ConfinedError
from scheduler_plugin.live.queries import Answer, Asked, CannotMeetError, ask, plan
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import objects
from scheduler_plugin.web.access import Reader, readable
from scheduler_plugin.web.desk import Desk
from scheduler_plugin.web.models import AskedTime
from spark_jobs.session import SparkGone

#: Queries that are answered at the same time by one api-server.
MOST_AT_ONCE = 8
#: Versions have smaller numbers. Not a limit of the schema: readers who know only doubles cannot tell it from its
#: neighbours.
NO_VERSION = 2**63
Seconds = Annotated[float, Field(ge=0, le=7 * 86400)]


class Question(BaseModel):
    sql: str = Field(max_length=100_000, description="one SELECT in Spark's dialect over tables and views")
    deadline: Annotated[float, Field(gt=0, le=600)] = Field(60, description="seconds; later it is of no use")
    max_staleness: Seconds | None = Field(None, description="it must have been true so many seconds ago")
    prefer: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="how much freshness is worth waiting for: 0 nothing, 1 whatever it takes"
    )
    as_of: AskedTime | None = None
    versions: dict[Annotated[str, Field(max_length=200)], Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, max_length=100, description="object -> version that must be read"
    )
    limit: Annotated[int, Field(ge=1, le=10_000)] = Field(1000, description="the most rows")


class AnswerOut(BaseModel):
    query: int
    columns: list[str]
    rows: list[list[Any]] = Field(description="decimals and times as text, bytes in hex")
    cut: bool = Field(description="there were more rows than `limit`")
    instant: datetime | None = Field(description="all versions were true from here")
    until: datetime | None = Field(description="to here; null: they still are")
    freshness: dict[str, dict[str, Any]] = Field(description="per object: version, current_to, stale_seconds, fresh")
    trade_off: dict[str, Any] | None
    seconds: dict[str, float]


def router(desk: Desk) -> APIRouter:
    routes = APIRouter(
        tags=["queries"],
        responses={
            404: {"description": "There is nothing there to read, or not for you to see"},
            409: {"description": "The SQL is refused; or not in time, and `possible` tells what could be had at once"},
            429: {"description": "Too many at once"},
            503: {"description": "Spark does not answer"},
        },
    )
    room = threading.BoundedSemaphore(MOST_AT_ONCE)

    @routes.post("/queries", response_model=AnswerOut)
    def question(user: Reader, asked: Question) -> Any:
        """Answers a query from versions that were true together, fresh enough or told at once that it cannot be."""
        try:
            wanted = plan(objects.in_force(desk.database), asked.sql)
        except ConfinedError as error:
            raise HTTPException(409, f"The SQL is refused: {error}") from None
        hidden = {*wanted.named, *wanted.reads} - readable(user, desk.snapshot().whole.objects)
        if hidden:
            raise HTTPException(404, f"There is no {', '.join(sorted(hidden))}, or it is not for you to see.")
        for name, version in asked.versions.items():
            if version >= NO_VERSION:
                raise HTTPException(404, f"There is no version {version} of {name}.")
        if not room.acquire(blocking=False):
            raise HTTPException(429, f"{MOST_AT_ONCE} queries are being answered. Ask again in a moment.")
        try:
            told = _answer(user.get_name(), asked)
            return _plain({**asdict(told), "freshness": _with_versions_as_text(told.freshness)})
        except CannotMeetError as error:
            return JSONResponse(
                {"detail": str(error), "possible": _with_versions_as_text(error.possible)}, status_code=409
            )
        except ConfinedError as error:
            raise HTTPException(409, f"The SQL is refused: {error}") from None
        except LookupError as error:
            raise HTTPException(404, str(error)) from None
        except SparkGone as error:
            raise HTTPException(503, f"{error}") from None
        finally:
            room.release()

    return routes


def _with_versions_as_text(freshness: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Browsers round such numbers; `versions` of a question takes the text as well."""
    return {
        name: {**each, "version": None if each["version"] is None else str(each["version"])}
        for name, each in freshness.items()
    }


def _plain(value: Any) -> Any:
    """As JSON can hold it, and nothing lost: decimals, times and numbers that are none as text, bytes in hex."""
    match value:
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes():
            return value.hex()
        case datetime() | date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _answer(by: str, asked: Question) -> Answer:
    return ask(
        Settings.load(),
        Asked(
            sql=asked.sql,
            by=by,
            deadline=asked.deadline,
            max_staleness=asked.max_staleness,
            prefer=asked.prefer,
            as_of=None if asked.as_of is None else datetime.fromtimestamp(asked.as_of, UTC),
            at_versions=asked.versions,
            most_rows=asked.limit,
        ),
    )
