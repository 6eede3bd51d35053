"""Who may see and do what: Airflow's own users and rights.

Airflow leaves a plugin's routes open, so every one of ours asks. An object is seen by whoever may read its DAG, and
acted on by whoever may edit it. A virtual view has no DAG; it shows nothing but its parents, so it is seen with them.
"""

import time
from collections.abc import Collection, Iterable
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import get_user
from airflow.models.log import Log
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, status

from scheduler_plugin.live.scheduler import dag_id
from scheduler_plugin.store.standing import Standing

#: For so long an answer about a user's rights to read is kept: the board asks for thousands of DAGs at once.
REMEMBER_SECONDS = 10.0

User = Annotated[BaseUser, Depends(get_user)]

_remembered: dict[str, tuple[float, int, frozenset[str]]] = {}


def require_reader(user: User) -> BaseUser:
    """Somebody who may look at DAGs at all."""
    if not get_auth_manager().is_authorized_dag(method="GET", user=user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not read DAGs.")
    return user


Reader = Annotated[BaseUser, Depends(require_reader)]


def readable(user: BaseUser, objects: Collection[Standing]) -> frozenset[str]:
    """The names of the objects that the user may see."""
    at, size, known = _remembered.get(user.get_id(), (0.0, 0, frozenset()))
    if time.monotonic() - at < REMEMBER_SECONDS and size == len(objects):
        return known
    dags = {dag_id(each.name, each.kind): each.name for each in objects if each.materialized}
    allowed = get_auth_manager().filter_authorized_dag_ids(dag_ids=set(dags), user=user, method="GET")
    seen = {dags[each] for each in allowed}
    _add_virtual(seen, [each for each in objects if not each.materialized])
    if len(_remembered) > 1000:
        _remembered.clear()
    _remembered[user.get_id()] = (time.monotonic(), len(objects), frozenset(seen))
    return _remembered[user.get_id()][2]


def _add_virtual(seen: set[str], virtual: Iterable[Standing]) -> None:
    waiting = list(virtual)
    while ready := [each for each in waiting if seen.issuperset(each.parents)]:
        seen.update(each.name for each in ready)
        waiting = [each for each in waiting if each.name not in seen]


def may_edit(user: BaseUser, name: str, kind: str) -> bool:
    details = DagDetails(id=dag_id(name, kind))
    return get_auth_manager().is_authorized_dag(method="PUT", details=details, user=user)


def require_editor(user: BaseUser, name: str, kind: str) -> None:
    if not may_edit(user, name, kind):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"You may not edit DAG {dag_id(name, kind)}.")


def note_action(user: BaseUser, action: str, *, dag: str | None, detail: str) -> None:
    """Writes what somebody did to Airflow's audit log, where the rest of what they did is."""
    with create_session() as session:
        session.add(
            Log(
                event=f"freshet.{action}",
                dag_id=dag,
                owner=user.get_name(),
                owner_display_name=user.get_name(),
                extra=detail,
            )
        )
