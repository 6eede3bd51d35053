"""Versions with validity intervals, and which of them a reader should see (paper 002).

An update makes a version valid from its arrival, [ltb, utb), and closes the one before it. What a reader saw must have
been true together at some instant, so its own interval shrinks with every read. A rule says which version to take and
which can no longer be wanted; a version that has arrived but is not loaded yet is loaded when a reader wants it, and a
view none of whose versions will do is computed anew from versions of its parents that will.
"""

import heapq
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler_plugin.brain.clock import first_hot


@dataclass(slots=True, eq=False, kw_only=True)
class Version:
    """One state of an object."""

    #: Valid from here; the arrival of the update that made it.
    ltb: float
    #: Valid up to here, exclusively; infinity while nothing has replaced it.
    utb: float = math.inf
    #: False while the update has arrived but is not loaded.
    applied: bool = True


@dataclass(slots=True, eq=False, kw_only=True)
class Reader:
    """One transaction that reads several objects as of one instant."""

    #: When its first read was dispatched.
    start: float
    #: The reader's own interval is [ltb, utb).
    ltb: float
    seen: list[Version] = field(default_factory=list)
    #: Whether some version was out of date already when the reader started.
    stale: bool = False

    @property
    def utb(self) -> float:
        """Follows the versions seen, as later updates close them."""
        return min((version.utb for version in self.seen), default=math.inf)

    def see(self, version: Version) -> None:
        self.stale |= version.utb <= self.start
        self.ltb = max(self.ltb, version.ltb)
        self.seen.append(version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """One version of each object, all of them true in [since, until) and so at one instant."""

    #: Per history the version's place in it; None where no version will do and that was allowed.
    places: list[int | None]
    since: float
    until: float


def together(
    histories: Sequence[Sequence[Version]], before: float = math.inf, *, some: bool = False
) -> Together | None:
    """The newest versions that were true together before an instant; None when there are none.

    A history is one object's versions, oldest first, none of them empty and no two overlapping. From the newest on, the
    end of whatever is true there bounds where all others may begin, until nothing moves. With `some`, histories that
    begin too late are left out instead.

    >>> old, new, other = Version(ltb=1, utb=5), Version(ltb=7), Version(ltb=2, utb=6)
    >>> together([[old, new], [other]])
    Together(places=[0, 0], since=2, until=5)
    """
    places: list[int | None] = [len(history) - 1 if history else None for history in histories]
    until, moved = before, True
    while moved:
        moved = False
        for number, history in enumerate(histories):
            place = places[number]
            while place is not None and history[place].ltb >= until:
                place = place - 1 if place else None
            places[number] = place
            if place is not None and history[place].utb < until:
                until, moved = history[place].utb, True
    if None in places and not some:
        return None
    since = max((history[at].ltb for history, at in zip(histories, places, strict=True) if at is not None), default=0.0)
    return Together(places=places, since=since, until=until)


def floor(histories: Sequence[Sequence[Version]]) -> float:
    """Versions that ended before this are not among the newest common ones of any objects, nor will they ever be.

    For objects that have a common instant, the search above never comes below the newest one; so where it ends for all
    of them at once is not above where it ends for any.
    """
    found = together(histories, some=True)
    assert found is not None, "it is always found when histories may be left out"
    return found.until


class Rule(Protocol):
    """Which version a reader takes, and which versions nobody can take any more."""

    #: Whether maintenance goes by the cache of hot objects and leaves only the newest version.
    favours_newest: bool

    def opening(self, start: float) -> float:
        """Where the interval of a reader that starts now begins."""

    def choose(self, versions: Sequence[Version], reader: Reader, now: float) -> tuple[Version | None, int]:
        """The version to read, or None when none will do, and how many were looked at."""

    def floor(self, readers: Iterable[Reader], now: float) -> float:
        """Versions replaced up to here are not wanted by these readers or by any to come."""


class Orad:
    """Nothing that was out of date when the reader started; of what is left the newest, scanned from the newest."""

    favours_newest = True

    def opening(self, start: float) -> float:
        return start

    def choose(self, versions: Sequence[Version], reader: Reader, now: float) -> tuple[Version | None, int]:
        ltb, utb = reader.ltb, reader.utb
        for scans, version in enumerate(reversed(versions), start=1):
            if max(version.ltb, ltb) < min(version.utb, utb):
                return version, scans
        return None, len(versions)

    def floor(self, readers: Iterable[Reader], now: float) -> float:
        return min((reader.ltb for reader in readers), default=now)


class Odrtb:
    """Data may be `delta` old; the version with the widest overlap leaves the reader most room. All are looked at."""

    favours_newest = False

    def __init__(self, delta: float) -> None:
        self.delta = delta

    def opening(self, start: float) -> float:
        return start - self.delta

    def choose(self, versions: Sequence[Version], reader: Reader, now: float) -> tuple[Version | None, int]:
        ltb, utb = reader.ltb, reader.utb
        best, widest = None, -math.inf
        for version in versions:
            begin, end = max(version.ltb, ltb), min(version.utb, utb)
            # An open end is measured up to now.
            if begin < end and min(end, now) - begin > widest:
                best, widest = version, min(end, now) - begin
        return best, len(versions)

    def floor(self, readers: Iterable[Reader], now: float) -> float:
        return min((reader.start for reader in readers), default=now) - self.delta


@dataclass(slots=True, kw_only=True)
class Effort:
    """What one read took."""

    scans: int = 0
    #: Updates loaded on demand, for the object or for a view's parents.
    applied: int = 0
    recomputed: bool = False
    #: Of the parents of a view that was computed anew.
    parents_read: int = 0
    parents_scans: int = 0


class Versions:
    """All versions of all objects: `base` base objects, then one view per list of parents."""

    def __init__(self, base: int, views: Sequence[Sequence[int]], rule: Rule) -> None:
        self.base = base
        self.rule = rule
        self._parents = views
        self._children: list[list[int]] = [[] for _ in range(base)]
        for place, parents in enumerate(views):
            for parent in dict.fromkeys(parents):
                self._children[parent].append(base + place)
        #: Per object, oldest first; their intervals do not overlap.
        self._of: list[list[Version]] = [[Version(ltb=0.0)] for _ in range(base + len(views))]
        #: How many there are in all.
        self.total = len(self._of)
        #: (utb, object) of the versions that have a newer one; some may be gone already.
        self._replaced: list[tuple[float, int]] = []
        #: (object, version) in arrival order; what was loaded or dropped since is passed over.
        self._pending: deque[tuple[int, Version]] = deque()
        self._unapplied: set[Version] = set()
        #: Views whose newest version is closed; a heap, so that the first declared comes first.
        self._stale: list[int] = []

    def arrive(self, name: int, at: float) -> None:
        """An update of a base object: closes its newest version and those of the views made from it."""
        versions = self._of[name]
        versions[-1].utb = at
        version = Version(ltb=at, applied=False)
        self._insert(name, len(versions), version)
        self._pending.append((name, version))
        self._unapplied.add(version)
        for view in self._children[name]:
            newest = self._of[view][-1]
            if newest.utb == math.inf:
                newest.utb = at
                heapq.heappush(self._stale, view)

    def read(self, name: int, reader: Reader, now: float) -> Effort:
        """Let the reader see the object, with what has to be done for it."""
        effort = Effort()
        version, effort.scans = self.rule.choose(self._of[name], reader, now)
        if version is None:
            version = self._recompute(name, reader, now, effort)
        elif self._apply(version):
            effort.applied += 1
        reader.see(version)
        return effort

    def _recompute(self, view: int, reader: Reader, now: float, effort: Effort) -> Version:
        effort.recomputed = True
        inner = Reader(start=reader.start, ltb=reader.ltb, seen=list(reader.seen))
        for parent in self._parents[view - self.base]:
            version, scans = self.rule.choose(self._of[parent], inner, now)
            assert version is not None, "the versions of a base object leave no gap above any reader's floor"
            effort.parents_read += 1
            effort.parents_scans += scans
            effort.applied += self._apply(version)
            inner.see(version)
        made = Version(ltb=inner.ltb, utb=inner.utb)
        versions = self._of[view]
        place = len(versions)
        while place and versions[place - 1].ltb > made.ltb:
            place -= 1
        self._insert(view, place, made)
        if place == len(versions) - 1 and made.utb < math.inf:
            heapq.heappush(self._stale, view)
        return made

    def _apply(self, version: Version) -> bool:
        if version.applied:
            return False
        version.applied = True
        self._unapplied.remove(version)
        return True

    def _insert(self, name: int, place: int, version: Version) -> None:
        versions = self._of[name]
        versions.insert(place, version)
        self.total += 1
        replaced = versions[-2] if place == len(versions) - 1 else version
        heapq.heappush(self._replaced, (replaced.utb, name))

    def prune(self, readers: Iterable[Reader], now: float) -> None:
        """Drop the versions that the rule says nobody wants; the newest of an object always stays."""
        floor = self.rule.floor(readers, now)
        ended: dict[int, None] = {}
        while self._replaced and self._replaced[0][0] <= floor:
            ended[heapq.heappop(self._replaced)[1]] = None
        for name in ended:
            # They are in order of time, so what ended first stands first.
            versions = self._of[name]
            self._drop(name, bisect_right(versions, floor, hi=len(versions) - 1, key=lambda version: version.utb))

    def _drop(self, name: int, count: int) -> None:
        """The oldest versions of an object go."""
        versions = self._of[name]
        self._unapplied.difference_update(versions[:count])
        del versions[:count]
        self.total -= count

    def maintain(self, hot: Sequence[int]) -> int | None:
        """Do the next piece of maintenance, if there is one, and say on which object.

        Loads first, in arrival order, those of `hot` objects before all others; then the stale views.
        """
        for name in first_hot(hot, lambda name: not self._of[name][-1].applied):
            return self._load(name, self._of[name][-1])
        while self._pending:
            name, version = self._pending.popleft()
            if version in self._unapplied:
                return self._load(name, version)
        while self._stale:
            view = heapq.heappop(self._stale)
            if self._of[view][-1].utb < math.inf:
                return self._refresh(view)
        return None

    def _load(self, name: int, version: Version) -> int:
        self._apply(self._only_newest(name) if self.rule.favours_newest else version)
        return name

    def _refresh(self, view: int) -> int:
        parents = self._parents[view - self.base]
        made = Version(ltb=max(self._of[parent][-1].ltb for parent in parents))
        self._insert(view, len(self._of[view]), made)
        if self.rule.favours_newest:
            self._only_newest(view)
        return view

    def _only_newest(self, name: int) -> Version:
        self._drop(name, len(self._of[name]) - 1)
        return self._of[name][-1]
