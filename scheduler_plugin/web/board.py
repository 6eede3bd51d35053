"""The board: every object, searched, filtered, sorted and cut to what is on the screen."""

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from scheduler_plugin.web.access import Reader, readable
from scheduler_plugin.web.answers import answer
from scheduler_plugin.web.desk import Desk
from scheduler_plugin.web.models import Board, SortKey, State
from scheduler_plugin.web.selection import cut


def router(desk: Desk) -> APIRouter:
    routes = APIRouter(tags=["board"])

    @routes.get("/board", response_model=Board, summary="Every object as it stands")
    def board(
        request: Request,
        user: Reader,
        search: Annotated[str, Query(max_length=100, description="part of a name, feed or group")] = "",
        state: State | None = None,
        kind: Literal["table", "view"] | None = None,
        sort: SortKey = "staleness",
        descending: bool = True,
        offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
        limit: Annotated[int, Query(ge=0, le=150)] = 60,
    ) -> Response:
        """Sorted and filtered here, so that a page asks only for the rows that it shows.

        The server's clock is in `X-Freshet-Now`; with it a page can let staleness tick by itself.
        """
        snapshot = desk.snapshot()
        seen = readable(user, snapshot.whole.objects)
        content = cut(snapshot, seen, search, state, kind, sort, descending, offset, limit)
        return answer(request, content, at=time.time())

    return routes
