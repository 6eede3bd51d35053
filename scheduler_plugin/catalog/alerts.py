"""Reads `alerts:`, which says whom to tell of incidents: Airflow notifiers, by class and arguments.

alerts:
  on_call:
    notifier: airflow.providers.slack.notifications.slack.SlackNotifier
    arguments: {slack_conn_id: slack_default, text: "{{ incident.summary }}", channel: "#data"}
    kinds: [breach, failing]        # all of them unless told
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler_plugin.catalog import values
from scheduler_plugin.catalog.problems import Fields, mapping

KINDS = ("predicted_breach", "breach", "silent_feed", "failing", "blocked_batch", "overload")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One notifier and what it is told of."""

    name: str
    #: Dotted path of a class below Airflow's BaseNotifier.
    notifier: str
    arguments: dict[str, Any] = field(default_factory=dict)
    kinds: Sequence[str] = KINDS


def read_alerts(entries: Sequence[tuple[str, Fields]]) -> dict[str, Alert]:
    found = {}
    for name, fields in entries:
        notifier = fields.take("notifier", _dotted)
        arguments = fields.take("arguments", mapping, {}) or {}
        kinds = fields.take("kinds", values.names, KINDS) or ()
        fields.done()
        for kind in kinds:
            if kind not in KINDS:
                fields.problems.add(fields.where, f", `kinds`: `{kind}` is none.{fields.problems.hint(kind, KINDS)}")
        found[name] = Alert(name=name, notifier=notifier or "", arguments=dict(arguments), kinds=list(kinds))
    return found


def _dotted(value: Any) -> str:
    text = values.text(value)
    if not all(part.isidentifier() for part in text.split(".")) or "." not in text:
        raise ValueError(f"`{text}` is not the dotted path of a class, such as package.module.Notifier.")
    return text
