"""What a job costs, learnt from what such jobs took: a fixed part, a part for each update of a batch, and the spread.

A straight line through the latest observations, the newest counting most. Until batches of different sizes have been
seen the part for each update is what was assumed at first; a job is never taken to cost less than LEAST.

>>> learnt = CostHistory(fixed=1.0, per_update=0.0)
>>> for seconds in (4.0, 5.0, 6.0, 5.0):
...     learnt.observe(seconds, updates=1)
>>> round(learnt.fixed, 1), round(learnt.spread, 1)
(4.5, 1.9)
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

#: How much an observation loses with each newer one.
FADING = 0.85
#: No job is taken to cost less, in slot-seconds.
LEAST = 0.05
#: How many observations the first assumption about the part for each update is worth, in units of (updates ** 2).
_TRUST = 4.0


@dataclass(slots=True, kw_only=True)
class CostHistory:
    """The learnt cost of one object. Begins with what is assumed of an unknown one."""

    fixed: float
    per_update: float
    #: Standard deviation of what jobs took around what was expected of them.
    spread: float = 0.0
    jobs: int = 0
    _weight: float = 0.0
    _updates: float = 0.0
    _seconds: float = 0.0
    _squares: float = 0.0
    _products: float = 0.0
    _errors: float = 0.0

    def observe(self, seconds: float, updates: int) -> None:
        expected = self.fixed + self.per_update * updates
        assumed = self.per_update
        if not self.jobs:  # the assumption is worth one observation: a first job is often slower than the rest
            self._weight, self._updates, self._squares = 1.0, updates, updates * updates
            self._seconds, self._products = expected, updates * expected
        for name in ("_weight", "_updates", "_seconds", "_squares", "_products"):
            setattr(self, name, getattr(self, name) * FADING)
        self._weight += 1
        self._updates += updates
        self._seconds += seconds
        self._squares += updates * updates
        self._products += updates * seconds
        # The slope, drawn towards what was believed until batches differ enough to tell.
        varied = self._squares - self._updates**2 / self._weight
        together = self._products - self._updates * self._seconds / self._weight
        slope = (together + _TRUST * assumed) / (varied + _TRUST)
        self.per_update = max(0.0, slope)
        self.fixed = max(LEAST, (self._seconds - self.per_update * self._updates) / self._weight)
        if self.jobs:
            self._errors = self._errors * FADING + (seconds - expected) ** 2
            self.spread = math.sqrt(self._errors / max(self._weight - 1, 1.0))
        self.jobs += 1

    def time_limit(self, updates: int) -> float:
        """Seconds after which a job is taken to hang: far outside of anything seen, and never less than a minute."""
        if not self.jobs:
            return 900.0
        return max(60.0, 5 * (self.fixed + self.per_update * updates + 3 * self.spread))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
