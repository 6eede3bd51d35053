"""Who reads what, and when: a pure plan of accesses, skewed as real ones are.

Reads come as a Poisson stream; each falls on an object in proportion to its popularity (the catalog's `access`, which
falls like 1/rank in the demo: Zipf's law).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One read of an object."""

    #: Seconds after the replay begins.
    at_seconds: float
    object: str


def plan_accesses(
    popularity: Mapping[str, float], seconds: float, *, per_second: float | None = None, seed: int = 2013
) -> list[Access]:
    """The reads of so many seconds, in order. Popularity is in reads per minute; `per_second` scales their sum."""
    names = sorted(name for name, reads in popularity.items() if reads > 0)
    weights = [popularity[name] for name in names]
    rate = sum(weights) / 60 if per_second is None else per_second
    dice = random.Random(seed)
    found: list[Access] = []
    at = dice.expovariate(rate) if names and rate > 0 else seconds
    while at < seconds:
        found.append(Access(at_seconds=at, object=dice.choices(names, weights)[0]))
        at += dice.expovariate(rate)
    return found
