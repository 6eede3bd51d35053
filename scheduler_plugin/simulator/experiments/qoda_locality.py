"""Temporal locality of the update stream (paper 004, section 5.2): updates of one relation together, at random, apart.

1,000 relations with 20 views each and 50 updates of relations a second; the server is 10% to 100% as fast as the stream
asks. QoDA refreshes a view once for all updates that came in the meantime, which helps most when they come together.
"""

import random
from collections.abc import Sequence
from pathlib import Path

from scheduler_plugin.simulator.experiments import Cell, Progress, Report, picture
from scheduler_plugin.simulator.experiments.web import Server, Updates, shuffled_zipf


def streams(relations: int, each: int, rate: float, seed: int) -> dict[str, Updates]:
    """The same updates in three orders."""
    together = [relation for relation in range(relations) for _ in range(each)]
    at_random = random.Random(seed).sample(together, len(together))
    apart = [relation for _ in range(each) for relation in range(relations)]
    orders = {"together": together, "random": at_random, "apart": apart}
    return {
        name: [((number + 1) / rate, relation) for number, relation in enumerate(order)]
        for name, order in orders.items()
    }


def run(quick: bool, progress: Progress) -> Report:
    relations, each = (50, 6) if quick else (1000, 6)
    rate = relations / 20
    server = Server(
        relations=relations,
        views_each=20,
        access=shuffled_zipf(relations * 20, seed=1),
        horizon_seconds=relations * each / rate,
    )
    speeds = [share / 10 for share in ((1, 3, 10) if quick else range(1, 11))]
    updates = streams(relations, each, rate, seed=2)
    rows: list[tuple[Cell, ...]] = []
    for number, speed in enumerate(speeds):
        progress(number, len(speeds) + 1, f"{speed:.0%} of the incoming rate")
        operations = speed * rate * server.operations
        rows.append(
            (
                f"{operations:g}",
                f"{speed:.0%}",
                *(server.qod("qoda", stream, speed=operations) for stream in updates.values()),
            )
        )
    progress(len(speeds), len(speeds) + 1, "relations in any order")
    slowest = speeds[0] * rate * server.operations
    any_order = server.qod("qoda", updates["random"], speed=slowest, in_order=False)
    return Report(
        title=f"Temporal locality: QoDA's QoD, {relations:,} relations, {relations * 20:,} views, "
        f"{rate * server.operations:,.0f} operations a second asked for",
        columns=("speed (op/s)", "of incoming", *updates),
        rows=tuple(rows),
        notes=(
            "The paper shows curves without figures: perfect locality on top, random in the middle, zero locality "
            "at the bottom, further apart at low speeds. Ours have the same order at every speed below that of the "
            "stream, and meet when the server keeps up.",
            "Relations apply updates in the order of arrival. Letting them overtake each other takes the QoD of the "
            f"random stream at the lowest speed from {rows[0][3]:.4f} to {any_order:.4f}: with twenty views behind "
            "it a relation outranks nearly every view.",
            f"Each relation gets {each} updates in {server.horizon_seconds:.0f} s, in all three streams; the paper "
            "does not say how long its streams were.",
        ),
        draw=lambda path: draw(path, list(updates), speeds, rows),
    )


def draw(path: Path, names: Sequence[str], speeds: Sequence[float], rows: Sequence[Sequence[Cell]]) -> None:
    """QoD against speed, one line per stream."""
    figure, (axes,) = picture.panels(1, title="QoDA and the temporal locality of the update stream")
    series = {f"updates {name}": [float(str(row[2 + place])) for row in rows] for place, name in enumerate(names)}
    picture.lines(axes, [100 * speed for speed in speeds], series)
    picture.finished(axes, x="processing speed (% of the incoming rate)", y="QoD (share of fresh reads)")
    picture.saved(figure, path)
