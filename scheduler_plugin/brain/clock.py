"""The clock cache: which objects were read lately, in a fixed number of places (paper 002, section 3.5.1).

A place is given up only once the hand has passed it twice with no read of its object in between.
"""

from collections.abc import Callable, Iterable, Iterator


def first_hot(hot: Iterable[int], lacks: Callable[[int], bool]) -> Iterator[int]:
    """What to keep ready first: the hot objects that lack something, in the order of the cache."""
    return (each for each in hot if lacks(each))


class ClockCache:
    """At most `places` objects, second chance for those read again.

    >>> cache = ClockCache(2)
    >>> for name in (7, 8, 9): cache.touch(name)
    >>> cache.objects()
    [9, 8]
    """

    __slots__ = ("_at", "_hand", "_held", "_read", "_size")

    def __init__(self, places: int) -> None:
        self._size = places
        self._held: list[int] = []
        #: Whether the object in each place was read since the hand last passed.
        self._read: list[bool] = []
        self._at: dict[int, int] = {}
        self._hand = 0

    def touch(self, name: int) -> None:
        """The object was read: mark it, or give it a place."""
        if name in self._at:
            self._read[self._at[name]] = True
        elif len(self._held) < self._size:
            self._at[name] = len(self._held)
            self._held.append(name)
            self._read.append(True)
        elif self._size:
            while self._read[self._hand]:
                self._read[self._hand] = False
                self._hand = (self._hand + 1) % self._size
            del self._at[self._held[self._hand]]
            self._held[self._hand] = name
            self._read[self._hand] = True
            self._at[name] = self._hand
            self._hand = (self._hand + 1) % self._size

    def objects(self) -> list[int]:
        """The objects held, by place."""
        return list(self._held)
