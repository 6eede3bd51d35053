"""How the knapsack follows users who change their minds (paper 001, section 5.2).

5,000 queries and 5,000 updates; all users switch between the freshest and the fastest answer six times on the way.
Beside the schedule of the knapsack run queries first and updates first, each the best there is for one of the two.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from scheduler_plugin.simulator.experiments import Cell, Progress, Report, picture
from scheduler_plugin.simulator.experiments.contention import KINDS, Executed, Kind, Machine, placed, transactions
from scheduler_plugin.simulator.queries import queries_first, updates_first

PHASES = 7
#: Points of a curve; the paper smooths over 30 queries, which would show how many come together.
BLOCKS = 50

POLICIES = {
    "knapsack": placed,
    "queries first": lambda queries, updates: queries_first(list(queries), list(updates), None),
    "updates first": lambda queries, updates: updates_first(list(queries), list(updates), None),
}


def wish(number: int, count: int) -> float:
    """Fresh, fast, fresh, ... in equal phases: the qos of all queries when this one is next."""
    return float(number * PHASES // count % 2)


def run(quick: bool, progress: Progress) -> Report:
    count, together = (350, 7) if quick else (5000, 20)
    found: dict[tuple[str, str], list[Executed]] = {}
    rows: list[tuple[Cell, ...]] = []
    for place, (name, kind) in enumerate(KINDS.items()):
        for number, policy in enumerate(POLICIES):
            progress(place * len(POLICIES) + number, len(KINDS) * len(POLICIES), f"{name}, {policy}")
            found[name, policy] = executed(kind, policy, count, together)
        for phase in range(PHASES):
            cells: list[Cell] = [name, phase + 1, "fresh" if phase % 2 == 0 else "fast"]
            for measure in (quality, response_seconds):
                for policy in POLICIES:
                    within = settled(found[name, policy], phase)
                    cells.append(sum(measure(each) for each in within) / len(within))
            rows.append(tuple(cells))
    return Report(
        title=f"Adaptivity: {count:,} queries and {count:,} updates, the users change their minds {PHASES - 1} times",
        columns=(
            *("workload", "phase", "wish"),
            *("QoD: knapsack", "queries first", "updates first"),
            *("response (s): knapsack", "queries first", "updates first"),
        ),
        rows=tuple(rows),
        notes=(
            "Means over the second half of each phase. QoD of a query is 1 / (1 + rows of its partition not applied), "
            "as in the paper.",
            "Published as curves: with every change the schedule is as good as the better of the two baselines in that "
            "phase. So is ours: QoD 1 where freshness is wished, the response of queries first where speed is.",
            f"{together} queries and {together} updates come at a time and keep the machine busy for 80% of the "
            "time; the paper says neither, and they set the size of the response times.",
        ),
        draw=lambda path: draw(path, found),
    )


def executed(kind: Kind, policy: str, count: int, together: int) -> list[Executed]:
    queries, updates = transactions(kind, count, together, seed=6)
    machine = Machine(queries=queries, updates=updates, qos=lambda number: wish(number, count), place=POLICIES[policy])
    return list(machine.run())


def settled(of: Sequence[Executed], phase: int) -> Sequence[Executed]:
    """The second half of a phase."""
    length = len(of) // PHASES
    return of[phase * length + length // 2 : (phase + 1) * length]


def quality(query: Executed) -> float:
    return 1 / (1 + query.unapplied_rows)


def response_seconds(query: Executed) -> float:
    return query.response_ms / 1000


def draw(path: Path, found: Mapping[tuple[str, str], Sequence[Executed]]) -> None:
    """QoD, and how much longer an answer took than with queries first; a panel per workload and measure."""
    count = len(found["gauss", "knapsack"])
    block = count // BLOCKS
    title = f"Users who change their minds (shaded: they wish speed); means of {block} queries in a row"
    figure, panels = picture.panels(4, columns=2, title=title)
    middles = [block * number + block / 2 for number in range(BLOCKS)]
    for name, (quality_axes, waiting_axes) in zip(KINDS, zip(panels[:2], panels[2:], strict=True), strict=True):
        by_number = {policy: sorted(found[name, policy], key=lambda each: each.number) for policy in POLICIES}
        fastest = [response_seconds(each) for each in by_number["queries first"]]
        waiting = {
            policy: [response_seconds(each) - least for each, least in zip(of, fastest, strict=True)]
            for policy, of in by_number.items()
        }
        qualities = {policy: [quality(each) for each in of] for policy, of in by_number.items()}
        for axes, values, words in (
            (quality_axes, qualities, "QoD"),
            (waiting_axes, waiting, "added response time (s)"),
        ):
            for phase in range(1, PHASES, 2):
                axes.axvspan(phase * count / PHASES, (phase + 1) * count / PHASES, color="0.9")
            picture.lines(axes, middles, {policy: blocks(each, block) for policy, each in values.items()})
            picture.finished(axes, x="queries", y=words, title=f"{name} workload")
    picture.saved(figure, path)


def blocks(values: Sequence[float], length: int) -> list[float]:
    """
    >>> blocks([1.0, 3.0] * BLOCKS, 2)[:2]
    [2.0, 2.0]
    """
    return [sum(values[first : first + length]) / length for first in range(0, BLOCKS * length, length)]
