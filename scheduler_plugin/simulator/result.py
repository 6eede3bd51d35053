"""The result of a simulation: one JSON object, the same bytes for the same input."""

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

#: Schedule entries per piece of text, so that a million of them never sit in memory twice.
CHUNK = 10_000

#: One job of the schedule, as it is printed.
Job = dict[str, float | str]


class Schedule(Sequence[Job]):
    """The jobs of a run, in the order of their start; ten million of them fit in a few hundred megabytes.

    >>> schedule = Schedule()
    >>> schedule.note(1.0, 2.5, "flights", 0, updates=3)
    >>> list(schedule)
    [{'start': 1.0, 'end': 2.5, 'object': 'flights', 'slot': 0, 'updates': 3}]
    """

    def __init__(self, *, whole: bool = False) -> None:
        """`whole`: times are whole numbers, and are printed as such."""
        self._starts: array[Any] = array("q" if whole else "d")
        self._ends: array[Any] = array("q" if whole else "d")
        self._objects: list[str | int] = []
        self._slots = array("i")
        #: Below zero for a job that loads no updates.
        self._updates = array("q")

    def note(self, start: float, end: float, name: str | int, slot: int, *, updates: int | None = None) -> None:
        """A job was started. `name` is a number in a model whose objects have no names."""
        self._starts.append(start)
        self._ends.append(end)
        self._objects.append(name)
        self._slots.append(slot)
        self._updates.append(-1 if updates is None else updates)

    def __len__(self) -> int:
        return len(self._objects)

    @overload
    def __getitem__(self, place: int) -> Job: ...
    @overload
    def __getitem__(self, place: slice) -> list[Job]: ...
    def __getitem__(self, place: int | slice) -> Job | list[Job]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        entry: Job = {
            "start": self._starts[place],
            "end": self._ends[place],
            "object": self._objects[place],
            "slot": self._slots[place],
        }
        if self._updates[place] >= 0:
            entry["updates"] = self._updates[place]
        return entry

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(dict.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # it grows


def result(
    *,
    policy: str,
    model: str,
    metrics: Mapping[str, object],
    schedule: Schedule | None = None,
    series: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """The result object, its fields in the contract's order; no schedule when None is given."""
    found: dict[str, object] = {"policy": policy, "model": model}
    if schedule is not None:
        found["schedule"] = schedule
    found["metrics"] = dict(metrics)
    if series is not None:
        found["series"] = dict(series)
    return found


def pieces(found: Mapping[str, object]) -> Iterator[str]:
    """The result as JSON text, in pieces: one line per field, a long schedule in chunks."""
    opening = "{"
    for name, value in found.items():
        yield f"{opening}{json.dumps(name)}: "
        if isinstance(value, Schedule):
            yield "["
            for first in range(0, len(value), CHUNK):
                inner = json.dumps(value[first : first + CHUNK], allow_nan=False)[1:-1]
                yield inner if first == 0 else f", {inner}"
            yield "]"
        else:
            yield json.dumps(value, allow_nan=False)
        opening = ",\n "
    yield "}\n"
