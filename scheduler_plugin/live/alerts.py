"""One alert: the incident, handed to each Airflow notifier of the catalog that cares for its kind.

Runs in a task, where connections, templates and retries work as people know them. Besides the task's own context a
template may use `incident` (id, kind, object, summary, body, opened_at, closed_at) and `event`, "opened" or "closed".
"""

import logging
import re
from dataclasses import asdict
from importlib import import_module
from typing import Any

from scheduler_plugin.live.watch import span
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import incidents, objects
from scheduler_plugin.store.database import Database

log = logging.getLogger(__name__)


class AlertError(Exception):
    """Not everybody could be told."""


def tell(settings: Settings, context: Any) -> None:
    match = re.fullmatch(r"incident-(\d+)-(opened|closed)", context["run_id"])
    if match is None:
        raise AlertError(f"run {context['run_id']} is of no incident; Freshet starts this DAG by itself")
    database = Database(settings.database_url)
    try:
        incident = incidents.get(database, int(match[1]))
        catalog = objects.in_force(database)
    finally:
        database.close()
    told = asdict(incident)
    if match[2] == "closed" and incident.closed_at is not None:
        lasted = (incident.closed_at - incident.opened_at).total_seconds()
        told["summary"] = f"Recovered after {span(lasted)}: {incident.summary}"
    log.info("%s", told["summary"])
    failed = []
    for alert in catalog.settings.get("alerts", ()) if catalog else ():
        if incident.kind not in alert["kinds"]:
            continue
        try:
            module, _, name = alert["notifier"].rpartition(".")
            notifier = getattr(import_module(module), name)(**alert["arguments"])
            notifier({**context, "incident": told, "event": match[2]})
            log.info("%s has been told.", alert["name"])
        except Exception as error:
            log.exception("%s could not be told.", alert["name"])
            failed.append(f"{alert['name']}: {error}")
    if failed:
        raise AlertError("; ".join(failed))
