"""What can be done: each action needs the right to edit that object's DAG, and is written to Airflow's audit log."""

import json
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from scheduler_plugin.live.scheduler import dag_id
from scheduler_plugin.store import demands
from scheduler_plugin.store.standing import Standing
from scheduler_plugin.web.access import Reader, note_action, require_editor
from scheduler_plugin.web.desk import Desk
from scheduler_plugin.web.reading import ObjectName, find

#: No control characters: Postgres keeps no NUL, and nobody needs the others.
Words = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$", description="why, for the record")]
REFUSALS: dict[int | str, dict[str, Any]] = {
    404: {"description": "No such object, or not for you to see"},
    409: {"description": "It cannot be done as things are"},
}


class Because(BaseModel):
    why: Words = ""


class RunNow(Because):
    within: Annotated[float, Field(gt=0, le=7 * 86400)] | None = Field(
        None, description="seconds in which it should be done; the earliest deadline goes first"
    )


class Done(BaseModel):
    message: str


def router(desk: Desk) -> APIRouter:
    routes = APIRouter(tags=["actions"], responses=REFUSALS)

    def editable(user: BaseUser, name: str) -> Standing:
        _, item = find(desk, user, name)
        if not item.materialized:
            raise HTTPException(409, f"{name} is a virtual view: it is never run, and fresh when its parents are.")
        require_editor(user, name, item.kind)
        return item

    def did(user: BaseUser, action: str, item: Standing, **detail: Any) -> None:
        note_action(user, action, dag=dag_id(item.name, item.kind), detail=json.dumps({"object": item.name, **detail}))
        desk.forget()

    @routes.post("/objects/{name}/run", response_model=Done)
    def run_now(user: Reader, name: ObjectName, asked: RunNow) -> Done:
        """Runs it before everything else, with the stale ancestors that it needs."""
        item = editable(user, name)
        deadline = datetime.now(UTC) + timedelta(seconds=asked.within) if asked.within else None
        number = demands.demand(desk.database, name, by=user.get_name(), why=asked.why, deadline=deadline)
        did(user, "run", item, why=asked.why, demand=number)
        return Done(message=f"{name} runs as soon as a slot is free (demand {number}).")

    @routes.post("/objects/{name}/pause", response_model=Done)
    def pause(user: Reader, name: ObjectName, asked: Because) -> Done:
        """Pauses its DAG: no new job on it until it is resumed; what runs goes on to its end."""
        item = editable(user, name)
        set_paused(item, True)
        did(user, "pause", item, why=asked.why)
        return Done(message=f"{name} is paused.")

    @routes.post("/objects/{name}/resume", response_model=Done)
    def resume(user: Reader, name: ObjectName, asked: Because) -> Done:
        """Undoes a pause."""
        item = editable(user, name)
        set_paused(item, False)
        did(user, "resume", item, why=asked.why)
        return Done(message=f"{name} is resumed.")

    return routes


def set_paused(item: Standing, paused: bool) -> None:
    """What Airflow's own switch does; the loop sees it within a second or two."""
    with create_session() as session:
        model = session.get(DagModel, dag_id(item.name, item.kind))
        if model is None:
            raise HTTPException(409, f"Airflow has no DAG {dag_id(item.name, item.kind)} yet. Try again in a moment.")
        model.is_paused = paused
