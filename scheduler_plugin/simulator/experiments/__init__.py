"""The papers' experiments, run again with our code; `freshet experiment NAME` shows one.

An experiment is a module with `run(quick, progress)`, which answers with a `Report`. It calls
`progress(done, total, what)` as it goes on. Adding one touches the table below and one file.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

#: Called with how much is done, of how much, and what comes next.
Progress = Callable[[int, int, str], None]

#: What stands in a cell of a report.
Cell = str | int | float | None

#: Lines that differ without colour: dash and marker, for the n-th line of a picture.
LINES: tuple[tuple[str, str], ...] = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"), ("-", "x"), ("--", "v"))


def _no_picture(path: Path) -> None:
    raise NotImplementedError("this report has no picture")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an experiment found, beside what was published."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: What the paper published, where we differ, and why; a sentence each.
    notes: tuple[str, ...] = ()
    #: Draws the picture into a file.
    draw: Callable[[Path], None] = _no_picture


class Experiment(Protocol):
    """What an experiment's module provides."""

    def run(self, quick: bool, progress: Progress) -> Report:
        """Runs it; `quick` is a small version of the same that takes seconds."""


#: Name -> (module in this package, one line).
EXPERIMENTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "qoda-speed": ("qoda_speed", "QoD from half to twice the speed that is needed, FIFO against QoDA (paper 004)"),
        "qoda-locality": ("qoda_locality", "QoD when updates of a relation come together or apart (paper 004)"),
        "qoda-surges": ("qoda_surges", "QoD and recovery when updates surge, FIFO against QoDA (paper 004)"),
        "group-and-run": ("group_and_run", "stretch and weighted staleness against their bounds (paper 000)"),
        "knapsack-tradeoff": ("knapsack_tradeoff", "how much data quality a wait of the queries buys (paper 001)"),
        "knapsack-adaptivity": ("knapsack_adaptivity", "schedules of users who change their minds (paper 001)"),
        "knapsack-stability": ("knapsack_stability", "how far consecutive schedules are apart (paper 001)"),
        "orad": ("orad", "missed deadlines, stale reads and versions, ORAD against ODRTB (paper 002)"),
        "chain": ("chain", "memory over time when tuples come in bursts (paper 003)"),
        "default": ("default", "the default policy against the papers' in 20 scenarios and 4 measures"),
    }
)


def experiment(name: str) -> Experiment:
    """The module of experiment `name`."""
    return cast(Experiment, importlib.import_module(f"{__name__}.{EXPERIMENTS[name][0]}"))
