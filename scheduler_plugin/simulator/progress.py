"""How far a long run is, told now and then to whoever wants to show it."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

#: Called with how much of what comes in the run has taken in, and of how much.
Tell = Callable[[int, int], None]

#: What comes in between two calls.
EVERY = 1000

Item = TypeVar("Item")


def silent(done: int, total: int) -> None:
    """Tells nobody."""


def told(items: Iterable[Item], total: int, tell: Tell) -> Iterator[Item]:
    """The items, and word of every thousandth and of the end.

    >>> list(told("ab", 2, lambda done, total: print(f"{done} of {total}")))
    0 of 2
    2 of 2
    ['a', 'b']
    """
    for number, each in enumerate(items):
        if number % EVERY == 0:
            tell(number, total)
        yield each
    tell(total, total)
