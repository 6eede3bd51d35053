"""The page's own files: one HTML page, a style sheet and a few JavaScript modules, nothing from another host."""

import mimetypes
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response

from scheduler_plugin.web.access import Reader, readable
from scheduler_plugin.web.answers import tagged
from scheduler_plugin.web.desk import Desk

FILES = {path.name: path for path in (Path(__file__).parent / "static").iterdir()}
#: The page runs its own scripts and speaks to its own server, and may be shown within Airflow alone.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


def router(desk: Desk) -> APIRouter:
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def page(request: Request, user: Reader) -> Response:
        # What it asks for first is made while the browser reads its scripts.
        desk.prepare(lambda snapshot: readable(user, snapshot.whole.objects))
        return _file(request, "index.html")

    @routes.get("/static/{name}")
    def static(request: Request, user: Reader, name: str) -> Response:
        if name not in FILES:
            raise HTTPException(404)
        return _file(request, name)

    return routes


def _file(request: Request, name: str) -> Response:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return tagged(request, FILES[name].read_bytes(), kind)
