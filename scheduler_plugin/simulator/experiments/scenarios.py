"""Twenty small warehouses under different loads, drawn from a seed: where the default policy is chosen and judged.

Load is the slot-seconds asked for per second if nothing were merged, divided by the slots; above 1 not everything can
be kept fresh.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: The time unit: gaps between updates are around one.
Releases = Callable[[random.Random, float, float], list[float]]


def periodic(dice: random.Random, gap: float, horizon: float) -> list[float]:
    """One update each `gap`, a little early or late."""
    offset = dice.random() * gap
    count = int((horizon - offset) / gap)
    return sorted(max(1e-3, offset + gap * (number + dice.uniform(-0.1, 0.1))) for number in range(count))


def poisson(dice: random.Random, gap: float, horizon: float) -> list[float]:
    """Updates at any time, independent of each other."""
    found, at = [], dice.expovariate(1 / gap)
    while at < horizon:
        found.append(at)
        at += dice.expovariate(1 / gap)
    return found


def bursty(dice: random.Random, gap: float, horizon: float) -> list[float]:
    """Eight updates close together, then a long rest."""
    found, at = [], dice.random() * 8 * gap
    while at < horizon:
        found += [at + number * gap / 10 for number in range(8)]
        at += 8 * gap * dice.uniform(0.7, 1.3)
    return [release for release in found if release < horizon]


def together(dice: random.Random, gap: float, horizon: float) -> list[float]:
    """Every table at the same instants."""
    return [gap * (number + 1) for number in range(int(horizon / gap))]


def surge(times: float) -> Releases:
    """Periodic, and `times` as often from 40% to 50% of the time."""

    def releases(dice: random.Random, gap: float, horizon: float) -> list[float]:
        usual = periodic(dice, gap, horizon)
        more = periodic(dice, gap / (times - 1), 0.1 * horizon)
        return sorted({*usual, *(0.4 * horizon + release for release in more)})

    return releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """How one warehouse is drawn."""

    load: float
    releases: Releases = periodic
    tables: int = 10
    views: int = 30
    slots: int = 4
    #: How many mean gaps it runs.
    horizon: float = 60.0
    #: Largest period against the smallest.
    periods: float = 4.0
    #: Exponent of the access frequencies; 0 is even.
    skew: float = 1.0
    #: Sigma of the lognormal costs.
    cost_spread: float = 0.5
    #: Chance that a view reads a view, not a table.
    depth: float = 0.4
    #: How many objects a view reads, one of these.
    reads: tuple[int, ...] = (1, 1, 2)


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "light": Scenario(load=0.4),
        "busy": Scenario(load=0.8),
        "full": Scenario(load=1.2),
        "overload": Scenario(load=2.5),
        "light, Poisson": Scenario(load=0.4, releases=poisson),
        "busy, Poisson": Scenario(load=0.8, releases=poisson),
        "full, Poisson": Scenario(load=1.2, releases=poisson),
        "overload, Poisson": Scenario(load=2.5, releases=poisson),
        "busy, bursts": Scenario(load=0.8, releases=bursty),
        "overload, bursts": Scenario(load=2.5, releases=bursty),
        "surge of 5": Scenario(load=0.7, releases=surge(5)),
        "surge of 10": Scenario(load=0.7, releases=surge(10)),
        "uneven costs, full": Scenario(load=1.2, cost_spread=1.5),
        "uneven costs, overload": Scenario(load=2.5, cost_spread=1.5, releases=poisson),
        "even access, full": Scenario(load=1.2, skew=0.0),
        "skewed access, overload": Scenario(load=2.5, skew=1.6),
        "deep views": Scenario(load=1.2, depth=0.85),
        "many periods": Scenario(load=1.2, periods=32.0),
        "diamonds": Scenario(load=1.2, depth=0.6, reads=(2, 2, 3)),
        "all at once": Scenario(load=1.2, releases=together, periods=1.0),
    }
)


def workload(scenario: Scenario, seed: int, scale: float = 1.0) -> dict[str, object]:
    """A workload of the mixed model; `scale` shortens it."""
    dice = random.Random(seed)
    horizon = scenario.horizon * scale
    gaps = [scenario.periods ** (dice.random() - 0.5) for _ in range(scenario.tables)]
    names = [f"t{number}" for number in range(scenario.tables)]
    parents: list[list[str]] = []
    above: dict[str, set[int]] = {name: {number} for number, name in enumerate(names)}
    for number in range(scenario.views):
        pool = [f"v{each}" for each in range(number)] if number and dice.random() < scenario.depth else names
        read = sorted(set(dice.choices(pool, k=dice.choice(scenario.reads))))
        parents.append(read)
        above[f"v{number}"] = set().union(*(above[each] for each in read))
    costs = [dice.lognormvariate(0, scenario.cost_spread) for _ in range(scenario.views)]
    fixed = [dice.lognormvariate(0, scenario.cost_spread) * 0.6 for _ in range(scenario.tables)]
    asked = sum(1.2 * cost / gap for cost, gap in zip(fixed, gaps, strict=True)) + sum(
        cost / gaps[table] for number, cost in enumerate(costs) for table in above[f"v{number}"]
    )
    unit = scenario.load * scenario.slots / asked
    ranks = dice.sample(range(1, scenario.views + 1), scenario.views)
    access = [rank**-scenario.skew for rank in ranks]
    total = sum(access)
    return {
        "model": "mixed",
        "slots": scenario.slots,
        "horizon": horizon,
        "tables": [
            {
                "id": name,
                "fixed": unit * cost,
                "per_update": 0.2 * unit * cost,
                "weight": 1,
                "releases": scenario.releases(dice, gap, horizon),
            }
            for name, cost, gap in zip(names, fixed, gaps, strict=True)
        ],
        "views": [
            {"id": f"v{number}", "cost": unit * costs[number], "access": access[number] / total, "parents": read}
            for number, read in enumerate(parents)
        ],
    }
