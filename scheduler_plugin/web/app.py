"""Freshet's page and API, mounted by Airflow's api-server under /freshet."""

from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError
from starlette.middleware.base import RequestResponseEndpoint

from scheduler_plugin.services import ServiceError
from scheduler_plugin.web import acting, asking, board, page, questions, reading
from scheduler_plugin.web.access import Reader
from scheduler_plugin.web.desk import Desk

API = "/api/v1"
DESCRIPTION = """How fresh every object of the warehouse is, why, and what can be done about it.

Log in as for Airflow's own API (`POST /auth/token`, then `Authorization: Bearer ...`), or with the page's cookie.
Whoever may read an object's DAG may read the object; whoever may edit the DAG may act on it. What was done, and by
whom, is in Airflow's audit log. Times are seconds since 1970 in UTC, durations are seconds."""


def make_app() -> FastAPI:
    # No page of FastAPI's own: those load their scripts from another host.
    app = FastAPI(
        title="Freshet", version="1", description=DESCRIPTION, openapi_url=None, docs_url=None, redoc_url=None
    )
    desk = Desk()
    desk.start()
    app.state.desk = desk
    refusals: dict[int | str, dict[str, Any]] = {
        401: {"description": "Not logged in"},
        403: {"description": "Logged in, but without the right"},
        503: {"description": "The ledger cannot be reached"},
    }
    api = APIRouter(prefix=API, responses=refusals)
    for part in (board, reading, questions, asking, acting):
        api.include_router(part.router(desk))

    @api.get("/openapi.json", include_in_schema=False)
    def openapi(request: Request, user: Reader) -> dict[str, Any]:
        return {**app.openapi(), "servers": [{"url": request.scope.get("root_path", "") or "/"}]}

    app.include_router(api)
    app.include_router(page.router(desk))

    @app.middleware("http")
    async def guard(request: Request, proceed: RequestResponseEndpoint) -> Response:
        response = await proceed(request)
        response.headers.update(page.HEADERS)
        return response

    @app.exception_handler(OperationalError)
    @app.exception_handler(ServiceError)
    async def away(request: Request, error: Exception) -> Response:
        return JSONResponse({"detail": "Freshet's ledger in Postgres cannot be reached."}, status_code=503)

    return app
