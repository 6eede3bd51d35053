"""Answers that cost nothing when nothing has changed: every one carries an ETag, and browsers send it back."""

import hashlib
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import to_json


def answer(request: Request, content: BaseModel | Sequence[Any], *, at: float | None = None) -> Response:
    """The content as JSON, or 304 when the asker has it. `at` is the server's clock, apart from what is hashed."""
    return tagged(request, to_json(content, inf_nan_mode="null"), "application/json", at=at)


def tagged(
    request: Request, body: bytes, media_type: str, *, at: float | None = None, headers: dict[str, str] | None = None
) -> Response:
    tag = f'"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    told = {"ETag": tag, "Cache-Control": "no-cache, private", **(headers or {})}
    if at is not None:
        told["X-Freshet-Now"] = f"{at:.3f}"
    # A proxy that compresses makes the tag a weak one.
    if tag in request.headers.get("if-none-match", "").replace("W/", "").split(", "):
        return Response(status_code=304, headers=told)
    return Response(body, media_type=media_type, headers=told)
