"""What can be done: each action needs the right to edit that object's DAG, and is written to Airflow's audit log."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import APIRouter, HTTPException
from pydantic import AfterValidator, BaseModel, Field

from scheduler_plugin.catalog import landing_path
from scheduler_plugin.live import announce as announcing
from scheduler_plugin.live.quarantine import act
from scheduler_plugin.live.scheduler import dag_id
from scheduler_plugin.store import accesses, backfill_plan, backfills, controls, demands
from scheduler_plugin.store import quarantine as held
from scheduler_plugin.store.standing import Standing
from scheduler_plugin.web.access import Reader, note_action, require_editor
from scheduler_plugin.web.desk import Desk
from scheduler_plugin.web.models import AskedTime
from scheduler_plugin.web.reading import ObjectName, find


def _printable(words: str) -> str:
    """Postgres keeps no NUL, a log no line break that somebody smuggles in."""
    return "".join(each if each.isprintable() else " " for each in words).strip()


Words = Annotated[str, AfterValidator(_printable), Field(max_length=500, description="why, for the record")]
REFUSALS: dict[int | str, dict[str, Any]] = {
    404: {"description": "No such object, or not for you to see"},
    409: {"description": "It cannot be done as things are"},
}


class Because(BaseModel):
    why: Words = ""


class RunNow(Because):
    within: Annotated[float, Field(ge=1, le=7 * 86400)] | None = Field(
        None, description="seconds in which it should be done; the earliest deadline goes first"
    )


class Weight(Because):
    weight: Annotated[float, Field(ge=0.001, le=1000)] | None = Field(description="null: the catalog's again")
    minutes: float = Field(60, ge=0.1, le=7 * 24 * 60)


class OutOfQuarantine(BaseModel):
    action: held.What
    ids: list[Annotated[str, Field(max_length=30)]] = Field(
        min_length=1, max_length=500, description="as GET quarantine tells them"
    )
    why: Words


class Interval(Because):
    """Of what the data covers; for a table only. A view is computed whole."""

    since: AskedTime | None = None
    until: AskedTime | None = None


class Landed(BaseModel):
    files: list[Annotated[str, Field(max_length=255)]] = Field(
        min_length=1, max_length=1000, description="names of whole files in the feed's landing folder"
    )


class Reads(BaseModel):
    count: int = Field(ge=1, le=1_000_000, description="reads that happened just now")


class BackfillPreview(BaseModel):
    message: str
    files: int
    bytes: int
    views: list[str]
    slot_seconds: float
    pieces: int


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
        """Undoes a pause, made here, in Airflow or on the command line."""
        item = editable(user, name)
        controls.resume(desk.database, [name], who=user.get_name(), why=asked.why)
        set_paused(item, False)
        did(user, "resume", item, why=asked.why)
        return Done(message=f"{name} is resumed.")

    @routes.post("/objects/{name}/weight", response_model=Done)
    def weight(user: Reader, name: ObjectName, asked: Weight) -> Done:
        """Lets it count for more, or less, for a while; or takes that back."""
        item = editable(user, name)
        until = datetime.now(UTC) + timedelta(minutes=asked.minutes) if asked.weight is not None else None
        controls.override(desk.database, name, "weight", asked.weight, until=until, who=user.get_name(), why=asked.why)
        did(user, "weight", item, why=asked.why, weight=asked.weight, minutes=asked.minutes)
        if until is None:
            return Done(message=f"{name} weighs what the catalog says again.")
        return Done(message=f"{name} weighs {asked.weight:g} until {until:%H:%M} UTC.")

    @routes.post("/objects/{name}/backfill/preview", response_model=BackfillPreview)
    def preview(user: Reader, name: ObjectName, asked: Interval) -> BackfillPreview:
        """What a backfill would do; nothing is changed."""
        editable(user, name)
        plan = backfill(backfill_plan.preview, name, asked)
        what = f"loads {plan.files} file(s) again" if plan.mode == "reload" else "computes it again"
        return BackfillPreview(
            message=f"It {what} and then refreshes {len(plan.views)} view(s), beside the live work.",
            files=plan.files,
            bytes=plan.bytes,
            views=list(plan.views),
            slot_seconds=round(plan.slot_seconds, 1),
            pieces=len(plan.pieces),
        )

    @routes.post("/objects/{name}/backfill", response_model=Done)
    def start(user: Reader, name: ObjectName, asked: Interval) -> Done:
        """Loads an interval of a table again, or computes a view again."""
        item = editable(user, name)
        number = backfill(backfills.start, name, asked, who=user.get_name(), why=asked.why)
        did(user, "backfill", item, why=asked.why, backfill=number, since=asked.since, until=asked.until)
        return Done(message=f"Backfill {number} of {name} has started.")

    def backfill(act: Any, name: str, asked: Interval, **words: Any) -> Any:
        begin, end = (None if at is None else datetime.fromtimestamp(at, UTC) for at in (asked.since, asked.until))
        try:
            return act(desk.database, name, covers_from=begin, covers_to=end, **words)
        except backfill_plan.BackfillError as error:
            raise HTTPException(409, str(error)) from error

    @routes.post("/objects/{name}/announce", response_model=Done)
    def announce(user: Reader, name: ObjectName, asked: Landed) -> Done:
        """Tells of files that have landed for a table, without waiting for the watcher to see them."""
        item = editable(user, name)
        if item.kind != "table":
            raise HTTPException(409, f"{name} is a view: files land for tables.")
        # Names, not paths: what may be announced lies in the feed's own landing folder.
        for each in asked.files:
            if not re.fullmatch(r"[\w][\w .+=@%~-]*", each):
                raise HTTPException(409, f"{each!a} is not the name of a file.")
        folder = landing_path(item.spec["landing"], desk.settings.landing)
        paths = [f"{folder.rstrip('/')}/{each}" for each in asked.files]
        try:
            new = announcing.announce(desk.database, item.spec["feed"], paths)
        except announcing.AnnounceError as error:
            raise HTTPException(409, str(error)) from error
        did(user, "announce", item, files=asked.files[:20], new=len(new))
        return Done(message=f"{len(new)} of {len(paths)} file(s) are new.")

    @routes.post("/objects/{name}/reads", response_model=Done)
    def reads(user: Reader, name: ObjectName, asked: Reads) -> Done:
        """Counts reads that others have done; popularity is learnt from them."""
        _, item = find(desk, user, name)
        require_editor(user, name, item.kind)
        accesses.count(desk.database, {name: asked.count})
        did(user, "reads", item, count=asked.count)
        return Done(message=f"{asked.count} read(s) of {name} counted.")

    @routes.post("/quarantine", response_model=Done)
    def quarantine(user: Reader, asked: OutOfQuarantine) -> Done:
        """Releases, retries or drops files and rows: all of them, or none."""
        wanted = set(asked.ids)
        found = [each for each in held.items(desk.database) if each.id in wanted]
        tables = {each.table for each in found}
        for table in sorted(tables):
            editable(user, table)
        if len(found) < len(wanted):
            gone = sorted(wanted - {each.id for each in found})
            raise HTTPException(404, f"Not in quarantine, or not any more: {', '.join(map(ascii, gone))}.")
        try:
            count = act(
                desk.database,
                asked.action,
                sorted(wanted),
                who=user.get_name(),
                why=asked.why,
                archive=desk.settings.archive,
            )
        except held.QuarantineError as error:
            raise HTTPException(409, str(error)) from error
        for table in sorted(tables):
            did(user, f"quarantine.{asked.action}", editable(user, table), why=asked.why, ids=sorted(wanted))
        return Done(message=f"{count['files']} file(s) and {count['rows']} row(s): {held.DONE[asked.action]}.")

    return routes


def set_paused(item: Standing, paused: bool) -> None:
    """What Airflow's own switch does; the loop sees it within a second or two."""
    with create_session() as session:
        model = session.get(DagModel, dag_id(item.name, item.kind))
        if model is None:
            raise HTTPException(409, f"Airflow has no DAG {dag_id(item.name, item.kind)} yet. Try again in a moment.")
        model.is_paused = paused
