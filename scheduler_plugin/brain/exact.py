"""A running sum without rounding: what was added and taken away again leaves no trace, and no order changes it.

So a sum kept up as things happen equals one counted anew, and the order of declaration cannot leak into a comparison.

>>> total = ExactSum([0.1, 0.2, 0.3])
>>> total.add(1e16); total.take(1e16)
>>> total.value == ExactSum([0.3, 0.2, 0.1]).value == 0.6
True
"""

from collections.abc import Iterable

#: Every double is a whole multiple of the smallest one, 2 ** -1074.
_ONE = 1 << 1074


class ExactSum:
    """A sum of doubles, rounded only when it is asked for."""

    __slots__ = ("_rounded", "_units")

    def __init__(self, numbers: Iterable[float] = ()) -> None:
        self._units = 0
        #: Asked for far more often than changed; None when it has to be reckoned again.
        self._rounded: float | None = None
        for number in numbers:
            self.add(number)

    def add(self, number: float) -> None:
        top, bottom = number.as_integer_ratio()
        self._units += top << (1075 - bottom.bit_length())
        self._rounded = None

    def take(self, number: float) -> None:
        self.add(-number)

    @property
    def units(self) -> int:
        """The sum itself, unrounded, for keeping."""
        return self._units

    @classmethod
    def of(cls, units: int) -> "ExactSum":
        found = cls()
        found._units = units
        return found

    @property
    def value(self) -> float:
        if self._rounded is None:
            self._rounded = self._units / _ONE
        return self._rounded
