"""The result of a simulation: one JSON object, the same bytes for the same input."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

#: Schedule entries per piece of text, so that a million of them never sit in memory twice.
CHUNK = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One job of the schedule."""

    start: float
    end: float
    #: Its id; its number in a model whose objects have no names.
    object: str | int
    slot: int
    #: How many updates the job loaded; None for a view.
    updates: int | None = None

    def as_json(self) -> dict[str, float | str]:
        entry: dict[str, float | str] = {"start": self.start, "end": self.end, "object": self.object, "slot": self.slot}
        if self.updates is not None:
            entry["updates"] = self.updates
        return entry


def result(
    *,
    policy: str,
    model: str,
    metrics: Mapping[str, object],
    schedule: Iterable[Ran] | None = None,
    series: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The result object, its fields in the contract's order; no schedule when None is given."""
    found: dict[str, object] = {"policy": policy, "model": model}
    if schedule is not None:
        found["schedule"] = [ran.as_json() for ran in schedule]
    found["metrics"] = dict(metrics)
    if series is not None:
        found["series"] = dict(series)
    return found


def pieces(found: Mapping[str, object]) -> Iterator[str]:
    """The result as JSON text, in pieces: one line per field, a long schedule in chunks."""
    opening = "{"
    for name, value in found.items():
        yield f"{opening}{json.dumps(name)}: "
        if name == "schedule" and isinstance(value, list):
            yield "["
            for first in range(0, len(value), CHUNK):
                inner = json.dumps(value[first : first + CHUNK], allow_nan=False)[1:-1]
                yield inner if first == 0 else f", {inner}"
            yield "]"
        else:
            yield json.dumps(value, allow_nan=False)
        opening = ",\n "
    yield "}\n"
