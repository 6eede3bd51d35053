"""Pictures that tell without colour: lines by dash and marker, all in black; the files hold shades of grey."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scheduler_plugin.simulator.experiments import LINES

#: matplotlib's Axes; it has no types that reach here.
Axes = Any


def panels(count: int, *, title: str, columns: int | None = None) -> tuple[Any, list[Axes]]:
    """A figure with that many pictures, side by side or in rows of `columns`."""
    from matplotlib.figure import Figure

    columns = columns or count
    rows = -(-count // columns)
    figure = Figure(figsize=(max(6.0, 4.0 * columns), 0.6 + 3.0 * rows), layout="constrained", dpi=90)
    figure.suptitle(title, fontsize=11)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def lines(axes: Axes, x: Sequence[float], series: Mapping[str, Sequence[float]], *, markers: int = 12) -> None:
    """One line per name; a long line has about that many markers."""
    every = max(1, len(x) // markers)
    for number, (name, values) in enumerate(series.items()):
        # Each line starts its markers elsewhere, so that lines that meet can still be told apart.
        line(axes, x, values, number, name, markevery=(number * every // len(series), every))


def line(axes: Axes, x: Sequence[float], y: Sequence[float], number: int, name: str, **more: object) -> None:
    """The n-th line of a picture, by its dash and marker."""
    dash, marker = LINES[number % len(LINES)]
    look = {"color": "black", "markerfacecolor": "white", "markersize": 5, "linewidth": 1.1}
    axes.plot(x, y, dash, marker=marker, label=name, **look, **more)


def finished(axes: Axes, *, x: str, y: str, title: str = "") -> None:
    """Words at the axes and a faint grid."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=10)
    axes.grid(color="0.85", linewidth=0.6)
    axes.set_axisbelow(True)


def saved(figure: Any, path: Path) -> None:
    """Writes the picture as PNG, with one legend for all its panels below them, where it covers nothing."""
    from PIL import Image

    labelled: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            labelled.setdefault(label, handle)
    if labelled:
        figure.legend(
            labelled.values(),
            labelled,
            loc="outside lower center",
            ncols=min(5, len(labelled)),
            fontsize=9,
            frameon=False,
        )
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("L").quantize(16).save(path, format="png", optimize=True)
