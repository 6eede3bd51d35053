"""What people and failures do to an object for a while: holds with their reasons, growing pauses, overrides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Reasons of holds, beside `controls.BY_HAND`: somebody paused its DAG in Airflow; its jobs fail; a job from before it
#: was defined anew still runs.
PAUSED = "its DAG is paused"
PARENT_BLOCKED = "files of a table below it are in quarantine"
FAILING = "its jobs fail"
OLDER = "an older definition of it is running"


@dataclass(slots=True)
class Trouble:
    """An object whose jobs keep failing: it waits, longer each time."""

    failures: int
    #: When the last one failed.
    at: float
    until: float


@dataclass(slots=True)
class Override:
    """A weight or limit that somebody set for a while."""

    value: float
    #: None: until somebody takes it back.
    until: float | None
    by: str
    why: str


@dataclass(slots=True)
class Holds:
    """Why an object may not start; it may when no reason is left."""

    #: Object -> reason -> what more there is to say of it.
    reasons: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, name: str, reason: str, told: str = "") -> bool:
        """True when it is the first reason."""
        kept = self.reasons.setdefault(name, {})
        kept[reason] = told
        return len(kept) == 1

    def drop(self, name: str, reason: str) -> bool:
        """True when it was the last reason."""
        kept = self.reasons.get(name, {})
        if reason not in kept:
            return False
        del kept[reason]
        if not kept:
            del self.reasons[name]
        return not kept


def told(body: Mapping[str, Any]) -> str:
    """Who, and why: "by ana: the source is being mended"."""
    who = f"by {body['who']}" if body.get("who") else ""
    return f"{who}: {body['why']}" if body.get("why") else who
