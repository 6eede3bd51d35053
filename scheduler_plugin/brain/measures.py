"""The measures of freshness, kept up as things happen: the same accumulator judges a simulation and the live warehouse.

Staleness, stretch, penalty and LOW are those of paper 000, sections 2.1 and 2.2; QoD is that of paper 004, section 3.2.
Time beyond `until` is not counted.
"""

import math
from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from scheduler_plugin.brain.exact import ExactSum
from scheduler_plugin.brain.updates import Update

#: A record fades to half over this many loads per table, or stale spells per view.
FADING = 1000


class Measures:
    """What has been measured of each object so far, by the object's number."""

    __slots__ = (
        "_age",
        "_aged_to",
        "_current_to",
        "_fading_spell",
        "_fading_stretch",
        "_longest_spell",
        "_spell_time",
        "_stale_from",
        "_stale_time",
        "_tables",
        "batches",
        "finished_spells",
        "low",
        "max_stretch",
        "penalty",
        "record_spell",
        "record_stretch",
        "since",
        "stretch_sum",
        "stretched",
        "until",
    )

    def __init__(
        self, *, current_to: Sequence[float], tables: Sequence[int], since: float = 0.0, until: float = math.inf
    ) -> None:
        self.since = since
        self.until = until
        count = len(current_to)
        #: Where the present stale spell began; NaN while fresh.
        self._stale_from = array("d", [math.nan]) * count
        self._stale_time = array("d", [0.0]) * count
        self._longest_spell = array("d", [0.0]) * count
        #: Shared with the warehouse, which tells before it changes an entry.
        self._current_to = current_to
        self._aged_to = array("d", [since]) * count
        self._age = array("d", [0.0]) * count
        self._tables = tables
        #: Stale spells of views that ended, and how long they were together.
        self.finished_spells = 0
        self._spell_time = ExactSum()
        #: Sum of squared lengths of the updates that arrived; half of it bounds the staleness from below.
        self.low = 0.0
        #: Sum over batches of the squared time from the batch's first interval to its end.
        self.penalty = 0.0
        self.batches = 0
        self.max_stretch = 0.0
        #: The worst stretch, and the longest stale spell of a view, in recent memory: the old ones fade.
        self.record_stretch = 0.0
        self.record_spell = 0.0
        self._fading_stretch = 0.5 ** (1 / (FADING * max(1, sum(tables))))
        self._fading_spell = 0.5 ** (1 / (FADING * max(1, count - sum(tables))))
        self.stretch_sum = 0.0
        self.stretched = 0

    # What the warehouse tells.

    def turned_stale(self, position: int, at: float) -> None:
        self._stale_from[position] = at

    def turned_fresh(self, position: int, at: float) -> None:
        began = self._stale_from[position]
        spell = max(0.0, min(at, self.until) - began)
        self._stale_time[position] += spell
        if spell > self._longest_spell[position]:
            self._longest_spell[position] = spell
        self._stale_from[position] = math.nan
        if not self._tables[position]:
            self.finished_spells += 1
            self._spell_time.add(at - began)
            self.record_spell = max(at - began, self.record_spell * self._fading_spell)

    def moves_on(self, position: int, at: float) -> None:
        """The object is about to become current up to a later time."""
        self._age[position] += self._aged(position, at)
        self._aged_to[position] = at

    def arrived(self, update: Update) -> None:
        self.low += update.length**2

    def loaded(self, batch: Iterable[Update], at: float) -> None:
        first = math.inf
        for update in batch:
            first = min(first, update.start)
            if update.length > 0:  # an update that covers no time has no stretch
                stretch = update.stretch(at)
                self.stretch_sum += stretch
                self.stretched += 1
                if stretch > self.max_stretch:
                    self.max_stretch = stretch
                self.record_stretch = max(stretch, self.record_stretch * self._fading_stretch)
        self.penalty += (at - first) ** 2
        self.batches += 1

    # What can be asked, at `now` or at the end of what counts.

    def stale_since(self, position: int) -> float | None:
        """Where the present stale spell began; None while fresh."""
        began = self._stale_from[position]
        return None if math.isnan(began) else began

    def fresh_share(self, position: int, now: float) -> float:
        """Share of the time so far in which the object was fresh; 1 before any time has passed."""
        now = min(now, self.until)
        passed = now - self.since
        return 1.0 - (self._stale_time[position] + self._open_spell(position, now)) / passed if passed > 0 else 1.0

    def fresh_shares(self, now: float) -> npt.NDArray[np.float64]:
        """The `fresh_share` of every object."""
        now = min(now, self.until)
        passed = now - self.since
        if passed <= 0:
            return np.ones(len(self._stale_from))
        began, stale = np.frombuffer(self._stale_from), np.frombuffer(self._stale_time)
        with np.errstate(over="ignore"):  # as floats do; what is out of range shows in the result
            open_spell = np.where(np.isnan(began), 0.0, np.maximum(0.0, now - began))
            return 1.0 - (stale + open_spell) / passed

    def longest_spell(self, position: int, now: float) -> float:
        """The longest time the object was stale without a break."""
        return max(self._longest_spell[position], self._open_spell(position, min(now, self.until)))

    def staleness(self, position: int, now: float | None = None) -> float:
        """Integral of the object's staleness up to `now`, or up to the last time it moved on."""
        return self._age[position] + (0.0 if now is None else self._aged(position, now))

    def qod(self, access: Iterable[tuple[int, float]], now: float) -> float:
        """Share of accesses that met a fresh object, from (object, access) pairs."""
        return math.fsum(share * self.fresh_share(position, now) for position, share in access)

    @property
    def mean_stretch(self) -> float:
        return self.stretch_sum / self.stretched if self.stretched else 0.0

    @property
    def mean_spell(self) -> float:
        return self._spell_time.value / self.finished_spells if self.finished_spells else 0.0

    def _open_spell(self, position: int, now: float) -> float:
        began = self._stale_from[position]
        return 0.0 if math.isnan(began) else max(0.0, now - began)

    def _aged(self, position: int, at: float) -> float:
        """Integral of (t - current_to) from where it was last taken to `at`."""
        first, last, current_to = self._aged_to[position], min(at, self.until), self._current_to[position]
        if last <= first or current_to == math.inf:  # a view of nothing never ages
            return 0.0
        return (last - first) * ((first + last) / 2 - current_to)
