"""The updates of tables: those that wait, oldest first, and when they have come so far.

>>> updates = Updates()
>>> for start, release in ((0.0, 2.0), (2.0, 5.0)):
...     updates.arrived(0, Update(start=start, release=release, at=release))
>>> updates.length[0], list(updates.gaps[0])
(5.0, [3.0])
>>> [update.release for update in updates.take(0, 1)], len(updates.pending[0])
([2.0], 1)
"""

import math
from array import array
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

#: How many of a table's latest gaps between updates are remembered.
GAPS = 16


class Update(NamedTuple):
    """One update of a table, as it waits and is loaded."""

    start: float
    release: float
    #: When it arrived.
    at: float
    id: str | None = None

    @property
    def length(self) -> float:
        return self.release - self.start

    def stretch(self, at: float) -> float:
        """How long it took, loaded at `at`, against the time it covers; 0 where it covers none."""
        length = self.release - self.start
        return (at - self.start) / length if length > 0 else 0.0


class Updates:
    """Those of every table, by the table's number."""

    __slots__ = ("_shortest", "gaps", "length", "newest", "pending")

    def __init__(self) -> None:
        #: Those that wait, oldest first, of tables that have any.
        self.pending: dict[int, deque[Update]] = {}
        #: How much time those cover together.
        self.length: dict[int, float] = {}
        #: The shortest of those, where it is known.
        self._shortest: dict[int, Update] = {}
        #: The newest release known, of tables that ever had one.
        self.newest: dict[int, float] = {}
        #: The latest gaps between releases, of tables that had two.
        self.gaps: dict[int, array[float]] = {}

    def arrived(self, table: int, update: Update) -> None:
        waiting = self.pending.get(table)
        if waiting is None:
            waiting = self.pending[table] = deque()
            self.length[table] = 0.0
        shortest = self._shortest.get(table)
        if not waiting or (shortest is not None and 0 < update.length < (shortest.length or math.inf)):
            self._shortest[table] = update
        waiting.append(update)
        self.length[table] += update.length
        before = self.newest.get(table)
        if before is None or update.release > before:
            self.newest[table] = update.release
            if before is not None:
                gaps = self.gaps.setdefault(table, array("d"))
                del gaps[: max(0, len(gaps) - GAPS + 1)]
                gaps.append(update.release - before)

    def take(self, table: int, count: int) -> tuple[Update, ...]:
        """The oldest that wait, which wait no longer."""
        waiting = self.pending[table]
        taken = tuple(waiting.popleft() for _ in range(count))
        self._shortest.pop(table, None)
        if waiting:
            self.length[table] -= sum(update.length for update in taken)
        else:
            del self.pending[table], self.length[table]
        return taken

    def give_back(self, table: int, taken: Sequence[Update]) -> None:
        """Puts what was taken in front again."""
        self.pending.setdefault(table, deque()).extendleft(reversed(taken))
        self._shortest.pop(table, None)
        self.length[table] = self.length.get(table, 0.0) + sum(update.length for update in taken)

    def telling(self, table: int) -> tuple[Update, ...]:
        """The oldest and the shortest that wait: those whose stretch will be the worst."""
        waiting = self.pending.get(table)
        if not waiting:
            return ()
        shortest = self._shortest.get(table)
        if shortest is None:
            shortest = self._shortest[table] = min(waiting, key=lambda update: update.length or math.inf)
        return (waiting[0], shortest)
