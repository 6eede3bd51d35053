"""How much the knapsack's schedule changes from one query to the next (paper 001, section 5.4).

5,000 queries and 5,000 updates; the users switch between freshness and speed 1, 50, 500 or 1,000 times. The distance of
two schedules is the mean difference in position of the updates that are in both.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from scheduler_plugin.simulator.experiments import Cell, Progress, Report, picture
from scheduler_plugin.simulator.experiments.contention import KINDS, Machine, transactions

SWITCHES = (1, 50, 500, 1000)


def distance(before: Mapping[int, int], after: Mapping[int, int]) -> float:
    """
    >>> distance({1: 6, 2: 2, 3: 4}, {2: 1, 3: 5})
    1.0
    """
    both = before.keys() & after.keys()
    return sum(abs(before[each] - after[each]) for each in both) / len(both) if both else 0.0


def run(quick: bool, progress: Progress) -> Report:
    count, together = (200, 10) if quick else (5000, 20)
    found: dict[int, list[float]] = {}
    for number, switches in enumerate(SWITCHES):
        progress(number, len(SWITCHES), f"{switches} changes")
        # As many per query in a quick run: one stays one.
        switches_now = max(1, round(switches * count / 5000))
        queries, updates = transactions(KINDS["zipf"], count, together, seed=6, load=0.95)
        machine = Machine(
            queries=queries,
            updates=updates,
            qos=lambda place, often=switches_now: float(place * (often + 1) // count % 2),  # type: ignore[misc]
        )
        schedules = [each.positions for each in machine.run()]
        found[switches] = [distance(before, after) for before, after in pairwise(schedules)]
    rows: list[tuple[Cell, ...]] = []
    for switches, distances in found.items():
        occurred = Counter(map(round, distances))
        small = (occurred[0] + occurred[1]) / len(distances)
        rows.append((switches, sum(distances) / len(distances), small, max(distances), len(occurred)))
    return Report(
        title=f"Stability: distances of consecutive schedules, {count:,} queries and {count:,} updates",
        columns=("changes of mind", "mean distance", "share of 0 and 1", "largest", "different distances"),
        rows=tuple(rows),
        notes=(
            "The paper shows curves without figures: with one change the distance is usually 0 or 1; with 50, 500 and "
            "1,000 larger distances become more frequent. So they do here.",
            f"Some distance is there without any change of mind: {together} queries and updates come at a time (zipf "
            "workload, load 95%), and who comes anew moves the positions, which count from the end of the queue.",
        ),
        draw=lambda path: draw(path, found),
    )


def words(switches: int) -> str:
    return f"{switches:,} change{'s' if switches > 1 else ''} of mind"


def draw(path: Path, found: Mapping[int, Sequence[float]]) -> None:
    """How often a distance is reached, and the distances over the run."""
    figure, (often, over_time) = picture.panels(2, title="How far consecutive schedules are apart")
    for number, (switches, distances) in enumerate(found.items()):
        ranked = sorted(distances, reverse=True)
        picture.line(often, ranked, range(1, len(ranked) + 1), number, words(switches), markevery=0.1)
        window = max(1, len(distances) // 50)
        means = [
            sum(distances[first : first + window]) / len(distances[first : first + window])
            for first in range(0, len(distances), window)
        ]
        picture.line(over_time, [place * window for place in range(len(means))], means, number, words(switches))
    often.set_yscale("log")
    picture.finished(often, x="distance", y="schedules that far apart or further", title="how often")
    picture.finished(over_time, x="queries run", y=f"mean distance over {window} queries", title="over the run")
    picture.saved(figure, path)
