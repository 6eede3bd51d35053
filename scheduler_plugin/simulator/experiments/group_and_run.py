"""Stretch and weighted staleness of GroupAndRun against its bounds, on quasi-periodic inputs (paper 000).

Three groups of tables whose updates cover between B/2 and B seconds, B being 1, 6 and 36. With alpha, the time it takes
to load a second of data, at most (p - g) / 8t, GroupAndRun keeps every stretch below 3 and the weighted staleness
within a constant of the least possible (sections 4 and 5). The paper proves this and measures nothing; here is what
happens up to that alpha and beyond, with the updates of a group scattered or all at once.
"""

import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from scheduler_plugin.simulator import append
from scheduler_plugin.simulator.experiments import Cell, Progress, Report, picture

SLOTS = 12
PERIODS = (1.0, 6.0, 36.0)
STRETCH_BOUND = 3.0
#: On weighted staleness / (weighted LOW / 2); the theorem says 4.5 where its argument gives this.
STALENESS_BOUND = 9.0
OTHERS = tuple(name for name in append.POLICIES if name not in ("group_and_run", "myopic"))

Tables = list[dict[str, object]]


def tables(in_step: bool, span: float, per_group: int, alpha: float, seed: int) -> Tables:
    """Quasi-periodic tables; `in_step` all tables of a group get their updates at nearly the same moments."""
    dice = random.Random(seed)
    found: Tables = []
    for group, period in enumerate(PERIODS):
        common = releases(period, span, dice)
        for number in range(per_group):
            # No two updates arrive at the same instant, and nobody knows which table is first.
            offset = dice.random() * period / 1000
            own = [at + offset for at in common] if in_step else releases(period, span, dice)
            table = {"id": f"g{group}t{number}", "alpha": alpha, "period": period, "releases": own}
            found.append({**table, "weight": dice.choice((1, 10, 100))})
    dice.shuffle(found)
    return found


def releases(period: float, span: float, dice: random.Random) -> list[float]:
    found, at = [], dice.uniform(period / 2, period)
    while at <= span:
        found.append(at)
        at += dice.uniform(period / 2, period)
    return found


def weighted_low(of: Tables) -> float:
    """What no schedule can go below, times two: the sum of weight x squared length."""
    total = 0.0
    for table in of:
        at = [0.0, *map(float, table["releases"])]  # type: ignore[call-overload]
        squares = sum((later - earlier) ** 2 for earlier, later in pairwise(at))
        total += float(str(table["weight"])) * squares
    return total


def measured(of: Tables, policy: str) -> tuple[float, float]:
    """The largest stretch, and weighted staleness over half of weighted LOW."""
    found = append.simulate({"model": "append", "slots": SLOTS, "tables": of}, policy, {"schedule": "0"})["metrics"]
    assert isinstance(found, dict)
    return found["max_stretch"], found["weighted_staleness"] / (weighted_low(of) / 2)


Figures = Mapping[tuple[bool, float], Mapping[str, tuple[float, float]]]


def run(quick: bool, progress: Progress) -> Report:
    span, per_group = (36.0, 16) if quick else (432.0, 16)
    multiples = (1.0, 4.0) if quick else (0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 7.5)
    limit = (SLOTS - len(PERIODS)) / (8 * per_group * len(PERIODS))
    cases = [(in_step, multiple) for in_step in (False, True) for multiple in multiples]
    found: dict[tuple[bool, float], dict[str, tuple[float, float]]] = {}
    rows: list[tuple[Cell, ...]] = []
    for number, (in_step, multiple) in enumerate(cases):
        progress(number, len(cases), f"alpha {multiple:g} times the limit, {words(in_step)}")
        of = tables(in_step, span, per_group, multiple * limit, seed=5)
        each = found[in_step, multiple] = {policy: measured(of, policy) for policy in append.POLICIES}
        stretches, ratios = zip(*(each[policy] for policy in OTHERS), strict=True)
        row: list[Cell] = [words(in_step), f"{multiple * limit:.4f}", multiple]
        for place, others in ((0, stretches), (1, ratios)):
            row += [each["group_and_run"][place], each["myopic"][place], f"{min(others):.3g} to {max(others):.3g}"]
        rows.append(tuple(row))
    kept = [each["group_and_run"] for (_, multiple), each in found.items() if multiple <= 1]
    return Report(
        title=f"GroupAndRun on {len(PERIODS)} x {per_group} quasi-periodic tables, {SLOTS} slots, "
        f"limit for alpha {limit:.4f}, {span:g} s",
        columns=(
            *("updates", "alpha", "of limit"),
            *("stretch: group_and_run", "myopic", "other five"),
            *("staleness / least: group_and_run", "myopic", "other five"),
        ),
        rows=tuple(rows),
        notes=(
            f"Published (theorem 4.3): up to the limit every stretch is below {STRETCH_BOUND:g}; largest here "
            f"{max(stretch for stretch, _ in kept):.3f}.",
            f"Published (theorem 5.1): weighted staleness at most 4.5 times the least. Its last step takes LOW for a "
            f"lower bound where section 2.2 proves LOW / 2, so the argument gives {STALENESS_BOUND:g}; largest here "
            f"{max(ratio for _, ratio in kept):.3f} times LOW / 2, which nothing can go below.",
            "With the updates of a group all at once, long loads of the slow group fill every slot: Myopic and the "
            "others then make fast tables wait, while GroupAndRun keeps slots for them. It pays with staleness, for "
            "the slots of a group that has nothing to load stay idle.",
            "Beyond the limit nothing is promised: near 8 times it the slots of a group are full while others idle.",
            "The paper measures nothing; periods, weights (1, 10 or 100) and lengths are ours.",
        ),
        draw=lambda path: draw(path, found, multiples),
    )


def words(in_step: bool) -> str:
    return "all at once" if in_step else "scattered"


def draw(path: Path, found: Figures, multiples: tuple[float, ...]) -> None:
    """Stretch and staleness against alpha, a panel per kind of arrivals and measure."""
    figure, panels = picture.panels(4, columns=2, title="GroupAndRun, Myopic and the bounds on quasi-periodic tables")
    shown = ("group_and_run", "myopic", "weighted", "weighted_staleness")
    cases = [(place, in_step) for place in (0, 1) for in_step in (False, True)]
    for axes, (place, in_step) in zip(panels, cases, strict=True):
        bound = (STRETCH_BOUND, STALENESS_BOUND)[place]
        series = {policy: [found[in_step, each][policy][place] for each in multiples] for policy in shown}
        picture.lines(axes, multiples, series)
        axes.plot([min(multiples), 1.0], [bound, bound], color="black", linewidth=3, label="bound, up to its limit")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        measure = ("largest stretch", "weighted staleness / (LOW / 2)")[place]
        picture.finished(axes, x="alpha (of the bound's limit)", y=measure, title=f"updates {words(in_step)}")
    picture.saved(figure, path)
