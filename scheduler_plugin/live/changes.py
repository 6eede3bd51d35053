"""What became of freshness: each object's state where it differs from the one that was last written down."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime

from scheduler_plugin.brain import Warehouse
from scheduler_plugin.store.freshness import Change


class Changes:
    """Compares a warehouse with what has been told of it."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._told: dict[str, tuple[bool, float]] = {}

    def below(self, name: str, at: datetime) -> Iterator[Change]:
        """What an event on `name` changed: itself, and below it as far as anything did."""
        graph = self._warehouse.graph
        below = [graph.index[name]]
        seen = set(below)
        for position in below:  # grows while it is read
            change = self._of(graph.names[position], at)
            if change is not None:
                yield change
                fresh_children = [each for each in graph.children[position] if each not in seen]
                seen.update(fresh_children)
                below.extend(fresh_children)

    def standing(self, at: datetime) -> list[Change]:
        """Every object as it stands."""
        self._told.clear()
        found = (self._of(name, at) for name in self._warehouse.graph.names)
        return [change for change in found if change is not None]

    def _of(self, name: str, at: datetime) -> Change | None:
        current_to = self._warehouse.current_to[self._warehouse.number(name)]
        state = (self._warehouse.is_fresh(name), current_to)
        if self._told.get(name) == state:
            return None
        self._told[name] = state
        until = datetime.fromtimestamp(current_to, UTC) if math.isfinite(current_to) else None
        return Change(object=name, at=at, fresh=state[0], current_to=until)
