"""Chain for views in a burst (paper 003): when too many bytes wait, what frees the most bytes per second goes first.

A file's bytes go through stages: the load of its table, then refreshes, each with a cost per byte and a selectivity
that its jobs have shown. Along each path from a table to a view that nothing reads, these make a progress chart; a
stage's urgency is the slope of the lower envelope there (`brain.chart`), so a slow stage before a steep drop is as
urgent as the drop. What waits is counted in bytes: files not loaded, and what parents wrote that views have not read.

>>> burst = Burst({"t": (), "v": ("t",)}, mark=100)
>>> burst.arrived("t", 80); burst.arrived("t", 60); burst.on
True
>>> burst.started("t"); burst.finished("t", seconds=2.0, bytes_out=14)
>>> burst.backlog, burst.on
(14, False)
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scheduler_plugin.brain.chart import Point, chain_priorities

#: How far the newest job moves what is believed of its stage.
LEARNING = 0.3
#: Paths from one table that are looked at; a warehouse with more is told apart well enough by these.
MOST_PATHS = 64
#: Charts have whole times: one unit is so many seconds per byte.
UNIT = 1e-12


@dataclass(slots=True, kw_only=True)
class Stage:
    """What an object's jobs have shown."""

    seconds_per_byte: float
    #: Bytes written per byte read.
    selectivity: float


class Burst:
    """Counts what waits and knows the slopes. `mark` is in bytes."""

    def __init__(self, reads: Mapping[str, Collection[str]], mark: int) -> None:
        """`reads`: each object that runs -> the objects whose bytes it reads; none for a table."""
        self.mark = mark
        #: Bytes that an object has yet to read; of a running one, those that came since it started.
        self.waiting: dict[str, int] = dict.fromkeys(reads, 0)
        #: Bytes that running jobs have taken.
        self.taken: dict[str, int] = {}
        self.stages: dict[str, Stage] = {}
        self._readers: dict[str, list[str]] = {name: [] for name in reads}
        self._tables = [name for name, parents in reads.items() if not parents]
        for name, parents in reads.items():
            for parent in parents:
                self._readers.setdefault(parent, []).append(name)
        self._slopes: dict[str, Fraction] | None = None

    @property
    def backlog(self) -> int:
        return sum(self.waiting.values()) + sum(self.taken.values())

    @property
    def on(self) -> bool:
        return self.backlog > self.mark

    def arrived(self, name: str, size: int) -> None:
        self.waiting[name] += size

    def started(self, name: str, size: int | None = None) -> None:
        """A job takes `size` of what waits; all of it unless said otherwise."""
        size = self.waiting[name] if size is None else min(size, self.waiting[name])
        self.taken[name] = size
        self.waiting[name] -= size

    def failed(self, name: str) -> None:
        self.waiting[name] += self.taken.pop(name, 0)

    def finished(self, name: str, *, seconds: float, bytes_out: int) -> None:
        """What it took is done with; what it wrote waits for its readers."""
        bytes_in = self.taken.pop(name, 0)
        for reader in self._readers[name]:
            self.waiting[reader] += bytes_out
        if bytes_in > 0 and seconds > 0:
            self._learn(name, Stage(seconds_per_byte=seconds / bytes_in, selectivity=min(1.0, bytes_out / bytes_in)))

    def _learn(self, name: str, seen: Stage) -> None:
        known = self.stages.setdefault(name, seen)
        known.seconds_per_byte += LEARNING * (seen.seconds_per_byte - known.seconds_per_byte)
        known.selectivity += LEARNING * (seen.selectivity - known.selectivity)
        self._slopes = None

    def slope(self, name: str) -> Fraction:
        """How many of a byte's parts go per unit of work at this stage; 0 while nothing is known of it."""
        if self._slopes is None:
            self._slopes = {}
            for table in self._tables:
                for place, path in enumerate(self._paths(table)):
                    if place == MOST_PATHS:
                        break
                    for stage, slope in zip(path, chain_priorities(self._chart(path)), strict=True):
                        self._slopes[stage] = max(slope, self._slopes.get(stage, Fraction(0)))
        return self._slopes.get(name, Fraction(0))

    def freed(self, name: str) -> float:
        """The slope in bytes per second: what the memory of waiting bytes loses while the object runs."""
        return float(self.slope(name)) / UNIT

    def order(self, ready: Collection[str]) -> list[str]:
        """What may start, steepest first; of equals the one with most bytes waiting, then by name."""
        return sorted(ready, key=lambda name: (-self.slope(name), -self.waiting[name], name))

    def as_json(self) -> dict[str, Any]:
        """What it knows, for a restart."""
        stages = {name: [each.seconds_per_byte, each.selectivity] for name, each in self.stages.items()}
        return {"waiting": self.waiting, "taken": self.taken, "stages": stages}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Knows again what was known, of the objects that are still there."""
        self.waiting |= {name: size for name, size in state["waiting"].items() if name in self.waiting}
        self.taken = {name: size for name, size in state["taken"].items() if name in self.waiting}
        self.stages = {
            name: Stage(seconds_per_byte=seconds, selectivity=kept)
            for name, (seconds, kept) in state["stages"].items()
            if name in self.waiting
        }
        self._slopes = None

    def _paths(self, first: str) -> Iterator[list[str]]:
        """Every way from a table to an object that nothing reads, as far as stages have been measured."""
        if first not in self.stages:
            return
        ahead = [[first]]
        while ahead:
            path = ahead.pop()
            further = [each for each in self._readers[path[-1]] if each in self.stages]
            if not further:
                yield path
            ahead += [[*path, each] for each in reversed(further)]

    def _chart(self, path: list[str]) -> list[Point]:
        """Work against what is left of one byte; what the last stage has written waits for nobody."""
        points: list[Point] = [(0, Fraction(1))]
        for number, name in enumerate(path):
            time, size = points[-1]
            stage = self.stages[name]
            # A stage takes some time, however little is left of the byte.
            work = max(1, round(float(size) * stage.seconds_per_byte / UNIT))
            kept = Fraction(stage.selectivity).limit_denominator(10**6) if number < len(path) - 1 else Fraction(0)
            points.append((time + work, size * kept))
        return points
