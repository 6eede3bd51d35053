"""Drives the brain over a workload, and judges policies without a warehouse at hand.

A model is one of the papers' worlds. Its module has `POLICIES`, whose keys are the policies' names, and
`simulate(workload, policy, params, tell)`, which answers with the result object or raises `WorkloadError`.
Adding a model touches the table below, one file and its tests.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, cast

from scheduler_plugin.simulator.progress import Tell, silent


class Model(Protocol):
    """What a model's module provides."""

    #: Policy name -> whatever the module needs to run it.
    POLICIES: Mapping[str, object]

    def simulate(
        self, workload: dict[str, object], policy: str, params: dict[str, str], tell: Tell = silent
    ) -> dict[str, object]:
        """Runs one policy over one workload, and tells how far it is."""


#: Model -> the module that runs it, imported only when asked for.
MODELS: Mapping[str, str] = MappingProxyType(
    {
        "refresh": "scheduler_plugin.simulator.refresh",
        "append": "scheduler_plugin.simulator.append",
        "mixed": "scheduler_plugin.simulator.mixed",
        "queries": "scheduler_plugin.simulator.queries",
        "versions": "scheduler_plugin.simulator.versions",
        "operators": "scheduler_plugin.simulator.operators",
    }
)


def model(name: str) -> Model:
    """The module that runs model `name`."""
    return cast(Model, importlib.import_module(MODELS[name]))
