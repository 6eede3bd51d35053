"""Progress charts: how a tuple shrinks as work is put into it, and what that makes urgent (paper 003, Chain).

A chart is a list of points (time, size): with `time` units of work done, the tuple has `size`. Operator i takes it
from point i to point i+1, and the size changes only when the operator ends. Chain ranks an operator by the slope of
the lower envelope there, so a slow operator that leads to a steep drop is as urgent as the drop; Greedy ranks it by
its own slope.

>>> points = [(0, Fraction(1)), (2, Fraction(9, 10)), (3, Fraction(1, 10)), (6, Fraction(0))]
>>> [str(slope) for slope in chain_priorities(points)]
['3/10', '3/10', '1/30']
>>> [str(slope) for slope in greedy_priorities(points)]
['1/20', '4/5', '1/30']
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

Point = tuple[int, Fraction]


def envelope(points: Sequence[Point]) -> list[int]:
    """The indexes of the points on the lower envelope, first and last included.

    The steepest descent from a point never passes above another point, so the envelope is the lower convex hull;
    a point on a straight line counts as on it.
    """
    hull: list[int] = []
    for index, point in enumerate(points):
        while len(hull) > 1 and _slope(points[hull[-2]], points[hull[-1]]) < _slope(points[hull[-1]], point):
            hull.pop()
        hull.append(index)
    return hull


def chain_priorities(points: Sequence[Point]) -> list[Fraction]:
    """For each operator, the slope of the envelope's segment it belongs to."""
    hull = envelope(points)
    slopes: list[Fraction] = []
    for begin, end in pairwise(hull):
        slopes += [_slope(points[begin], points[end])] * (end - begin)
    return slopes


def greedy_priorities(points: Sequence[Point]) -> list[Fraction]:
    """For each operator (1 - selectivity) / (time per unit of input size), which is its own slope."""
    return [_slope(begin, end) for begin, end in pairwise(points)]


def _slope(begin: Point, end: Point) -> Fraction:
    """How much size goes per unit of work."""
    return (begin[1] - end[1]) / (end[0] - begin[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One input of a sliding-window join."""

    #: Tuples per unit of time that reach the join.
    rate: Fraction
    #: Work to compare, probe and insert one of its tuples.
    time: Fraction
    #: How many tuples of the other stream's window one of its tuples meets, on average.
    matches: Fraction


def window_join(left: Stream, right: Stream) -> tuple[Fraction, Fraction]:
    """(time per tuple, selectivity) of a join of two streams, over the mix of tuples it is given.

    >>> left = Stream(rate=Fraction(3), time=Fraction(2), matches=Fraction(1, 2))
    >>> right = Stream(rate=Fraction(1), time=Fraction(6), matches=Fraction(3, 2))
    >>> [str(each) for each in window_join(left, right)]
    ['3', '3/4']
    """
    rate = left.rate + right.rate
    time = (left.rate * left.time + right.rate * right.time) / rate
    return time, (left.rate * left.matches + right.rate * right.matches) / rate
