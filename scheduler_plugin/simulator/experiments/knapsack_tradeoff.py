"""The knapsack's trade-off curve (paper 001, sections 1 and 3): how much data quality a wait of the queries buys.

Queries and updates are all there at once; the users' preference goes from the fastest answer to the freshest, and with
it the bound on how much longer the queries may wait. Beside it stands what needs no knapsack: a share of the updates,
first come first served, before all queries.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from scheduler_plugin.simulator.experiments import Cell, Progress, Report, picture
from scheduler_plugin.simulator.experiments.contention import KINDS, Pending, as_query, as_update, transactions
from scheduler_plugin.simulator.queries import Query, Update, pareto, queries_first, updates_first


def figures(queries: list[Query], updates: list[Update], positions: list[int]) -> tuple[int, int]:
    """Added waiting of all queries together, and the QoD (rows that queries find applied)."""
    pairs = list(zip(updates, positions, strict=True))
    waiting = sum(update.cost * position for update, position in pairs)
    gained = sum(
        update.profit * int(np.searchsorted(update.dependents, place, side="right")) for update, place in pairs
    )
    return waiting, gained


def shortest_first(of: list[Pending]) -> list[Pending]:
    return sorted(of, key=lambda each: (each.duration_ms, each.number))


def run(quick: bool, progress: Progress) -> Report:
    count = 100 if quick else 1000
    steps = 4 if quick else 20
    shares = [step / steps for step in range(steps + 1)]
    curves: dict[str, list[tuple[float, float]]] = {}
    rows: list[tuple[Cell, ...]] = []
    for number, (name, kind) in enumerate(KINDS.items()):
        drawn, written = transactions(kind, count, count, seed=3)
        order = shortest_first(drawn)
        queries = [as_query(each, 1.0) for each in order]
        updates = [as_update(each, order) for each in written]
        longest, _ = figures(queries, updates, updates_first(queries, updates, None))
        _, best = figures(queries, updates, [int(max(each.dependents, default=0)) for each in updates])
        _, none = figures(queries, updates, queries_first(queries, updates, None))
        curves[f"{name}: knapsack"], curves[f"{name}: first come"] = [], []
        first_come = random.Random(4).sample(range(count), count)
        for step, share in enumerate(shares):
            progress(number * len(shares) + step, len(KINDS) * len(shares), f"{name}, preference {share:.0%} fresh")
            wanted = [as_query(each, 1 - share) for each in order]
            waiting, gained = figures(queries, updates, pareto(wanted, updates, None))
            put_first = set(first_come[: round(share * count)])
            plain = [count if place in put_first else 0 for place in range(count)]
            plain_waiting, plain_gained = figures(queries, updates, plain)
            curves[f"{name}: knapsack"].append((waiting / longest, gained / best))
            curves[f"{name}: first come"].append((plain_waiting / longest, plain_gained / best))
            if step % max(1, steps // 10) == 0:
                rows.append((name, f"{share:.0%}", waiting / longest, gained / best, plain_gained / best))
        assert none == 0, "with the queries first nobody finds anything applied"
    return Report(
        title=f"Data quality against waiting: {count:,} queries and {count:,} updates at once, 10% of pairs dependent",
        columns=("workload", "bound (of updates first)", "added waiting", "QoD", "QoD, first come"),
        rows=tuple(rows),
        notes=(
            "QoD and waiting are shares of what updates first reaches: 0 and 0 is queries first, 1 and 1 updates "
            "first.",
            "The paper draws the front for five queries and two updates and gives no figures. Ours has its shape: it "
            "runs from queries first to updates first, is concave, and no schedule lies above it.",
            "The knapsack reaches all of the QoD with less waiting than updates first: an update need not run before "
            "queries that do not depend on it.",
            "Costs and profits of the gauss workload hardly differ (sigma is 1), so there the gain over first come is "
            "in where an update goes; in the zipf workload also in which.",
        ),
        draw=lambda path: draw(path, curves),
    )


def draw(path: Path, curves: Mapping[str, list[tuple[float, float]]]) -> None:
    """QoD against added waiting, a panel per workload."""
    figure, panels = picture.panels(
        len(KINDS), title="What waiting buys: queries first is (0, 0), updates first (1, 1)"
    )
    for axes, name in zip(panels, KINDS, strict=True):
        for number, how in enumerate(("knapsack", "first come")):
            points = curves[f"{name}: {how}"]
            picture.line(axes, [x for x, _ in points], [y for _, y in points], number, how)
        picture.finished(
            axes, x="added waiting (of updates first)", y="QoD (of updates first)", title=f"{name} workload"
        )
    picture.saved(figure, path)
