"""A lane: objects by rank, the best few at hand, at a cost that follows what changed.

What is put in with a new key leaves its old entry behind, to be dropped when it is met; so does what may no longer
start. The best few are kept in order apart from the heap, since the same few are asked for at every decision.

>>> lane = Lane()
>>> for position, key in ((7, 1.0), (8, 3.0), (9, 2.0)): lane.put(position, key)
>>> lane.put(7, 4.0)
>>> [position for _, position in lane.first({7, 9}, 2)]
[7, 9]
"""

import heapq
from bisect import insort
from collections.abc import Container
from dataclasses import dataclass, field

#: (minus key, object): the largest key first, the first declared of equals.
Entry = tuple[float, int]

#: How many are kept in order without being asked for.
AT_HAND = 16


@dataclass(slots=True)
class Lane:
    """One ranking of objects by number."""

    #: The entry that counts for each object; any other is a leftover.
    entries: dict[int, Entry] = field(default_factory=dict)
    #: The best, in order; none in the heap comes before them.
    front: list[Entry] = field(default_factory=list)
    heap: list[Entry] = field(default_factory=list)

    def put(self, position: int, key: float) -> None:
        known = self.entries.get(position)
        if known is not None and known[0] == -key:
            return
        entry = self.entries[position] = (-key, position)
        front = self.front
        if front and entry < front[-1]:
            insort(front, entry)
            if len(front) > AT_HAND:
                heapq.heappush(self.heap, front.pop())
            return
        heapq.heappush(self.heap, entry)
        if len(self.heap) > 2 * len(self.entries) + 64:
            front.clear()
            self.heap = list(self.entries.values())
            heapq.heapify(self.heap)

    def first(self, ready: Container[int], count: int) -> list[Entry]:
        """The best entries whose objects may still start, as many as there are up to `count`."""
        front, entries, place = self.front, self.entries, 0
        while place < count and place < len(front):
            entry = front[place]
            if entries.get(entry[1]) is entry and entry[1] in ready:
                place += 1
            else:
                self._counts(front.pop(place), ready)
        while len(front) < count and self.heap:
            entry = heapq.heappop(self.heap)
            if self._counts(entry, ready):
                front.append(entry)
        return front[:count]

    def peek(self, ready: Container[int]) -> Entry | None:
        """The best entry whose object may still start."""
        return next(iter(self.first(ready, 1)), None)

    def take(self, ready: Container[int]) -> Entry | None:
        """Like `peek`, and takes the entry out; `put_back` undoes it."""
        return self.front.pop(0) if self.peek(ready) else None

    def put_back(self, entry: Entry) -> None:
        insort(self.front, entry)

    def _counts(self, entry: Entry, ready: Container[int]) -> bool:
        """Whether the entry still says something; what may no longer start is forgotten."""
        if self.entries.get(entry[1]) is not entry:
            return False
        if entry[1] in ready:
            return True
        del self.entries[entry[1]]
        return False
