"""The paths of an `operators` workload, as progress charts: given as points, or operator by operator.

Operator by operator, an entry has its time and its selectivity, and two operators on two paths that name the same join
are one join of two streams. Each side says what one of its own tuples costs and how many tuples of the other side's
window it meets; from these and the streams' rates the paper's formulas give the time and the selectivity that stand in
both charts (`brain.chart.window_join`). Numbers are taken as the decimals they are written as, so that equal slopes
are equal.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import takewhile

from scheduler_plugin.brain.chart import Point, Stream, window_join
from scheduler_plugin.simulator.workload import Fields, WorkloadError, finite, kind, one_of, unique, whole

#: (path, operator)
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """All paths, read and checked."""

    #: Id -> number.
    places: Mapping[str, int]
    charts: list[list[Point]]
    joins: list[tuple[Place, Place]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """An operator that is one side of a join."""

    join: str
    #: Of its stream, on arrival; what stands before the join on the path is not yet taken off.
    stream: Stream
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """An operator with a time and a selectivity of its own."""

    time: int
    selectivity: Fraction


def read_paths(fields: Fields) -> Paths:
    names: list[str] = []
    charts: list[list[Point]] = []
    steps: dict[int, list[Step | Side]] = {}
    for number, path in enumerate(fields.objects("paths")):
        names.append(path.text("id"))
        if path.has("operators"):
            if path.has("points"):
                raise WorkloadError(f"{path.where} must have points or operators, not both")
            steps[number] = read_steps(path)
            charts.append([])
        elif path.has("points"):
            charts.append(read_points(path))
        else:
            raise WorkloadError(f"{path.path('points')} is missing; give points or operators")
    unique(names, "paths")
    named = named_joins(steps)
    for number, found in joined_up(steps, named).items():
        charts[number] = chart(found)
    joins = [(left, right) for left, right in named]
    places = {name: place for place, name in enumerate(names)}
    return Paths(places=places, charts=charts, joins=[*joins, *listed_joins(fields, places, charts, joins)])


def exact(number: float) -> Fraction:
    """The decimal that was written."""
    return Fraction(repr(number))


def read_points(path: Fields) -> list[Point]:
    """The points of a path, checked: from (0, 1) through growing whole times to size 0."""
    points: list[Point] = []
    for place, entry in enumerate(path.items("points")):
        where = f"{path.path('points')}[{place}]"
        if not isinstance(entry, list) or len(entry) != 2:
            raise WorkloadError(f"{where} must be a list of a time and a size, not {kind(entry)}")
        time = whole(entry[0], f"{where}[0]", minimum=points[-1][0] + 1 if points else 0, maximum=None if points else 0)
        points.append((time, exact(finite(entry[1], f"{where}[1]", minimum=0))))
    if len(points) < 2 or points[0][1] != 1 or points[-1][1] != 0:
        raise WorkloadError(f"{path.path('points')} must lead from [0, 1] to a size of 0")
    return points


def read_steps(path: Fields) -> list[Step | Side]:
    found: list[Step | Side] = []
    operators = list(path.objects("operators"))
    if not operators:
        raise WorkloadError(f"{path.path('operators')} must have at least one operator")
    for place, each in enumerate(operators):
        if each.has("join"):
            if any(isinstance(before, Side) for before in found):
                raise WorkloadError(f"{each.path('join')}: a path goes through one join of two streams")
            stream = Stream(
                rate=exact(path.number("rate", above=0)),
                time=exact(each.number("time", above=0)),
                matches=exact(each.number("matches", minimum=0)),
            )
            found.append(Side(join=each.text("join"), stream=stream, where=each.where))
        else:
            # What leaves the last operator takes no memory any more, and so it may leave its selectivity out.
            last = place == len(operators) - 1
            selectivity = each.number("selectivity", 0.0, minimum=0) if last else each.number("selectivity", minimum=0)
            found.append(Step(time=each.whole("time", minimum=1), selectivity=exact(selectivity)))
    return found


def named_joins(steps: Mapping[int, list[Step | Side]]) -> list[dict[Place, Side]]:
    """The two sides of each join that operators name, by the first side."""
    joins: dict[str, dict[Place, Side]] = {}
    for path, found in steps.items():
        for operator, each in enumerate(found):
            if isinstance(each, Side):
                joins.setdefault(each.join, {})[path, operator] = each
    for name, sides in joins.items():
        if len(sides) != 2:
            *_, side = sides.values()
            raise WorkloadError(f"{side.where}.join: {name} must be named on two paths, not on {len(sides)}")
    return list(joins.values())


def joined_up(steps: Mapping[int, list[Step | Side]], joins: list[dict[Place, Side]]) -> dict[int, list[Step]]:
    """The paths with the joins' times and selectivities in their places."""
    of: dict[Place, Step] = {}
    for sides in joins:
        left, right = (replace(side.stream, rate=thinned(side, steps[path])) for (path, _), side in sides.items())
        *_, side = sides.values()
        if not left.rate + right.rate:
            raise WorkloadError(f"{side.where}: no tuple reaches the join {side.join}")
        time, selectivity = window_join(left, right)
        if time.denominator != 1:
            raise WorkloadError(
                f"{side.where}: the join {side.join} takes {time} units of work per tuple on average, which must be a "
                f"whole number; give all times of the workload in units {time.denominator} times as small"
            )
        of |= dict.fromkeys(sides, Step(time=int(time), selectivity=selectivity))
    return {
        path: [each if isinstance(each, Step) else of[path, place] for place, each in enumerate(found)]
        for path, found in steps.items()
    }


def thinned(side: Side, path: list[Step | Side]) -> Fraction:
    """The rate of a stream where it reaches the join."""
    before = takewhile(lambda each: each is not side, path)
    return math.prod((each.selectivity for each in before if isinstance(each, Step)), start=side.stream.rate)


def chart(steps: list[Step]) -> list[Point]:
    points: list[Point] = [(0, Fraction(1))]
    for each in steps:
        time, size = points[-1]
        points.append((time + each.time, size * each.selectivity))
    return [*points[:-1], (points[-1][0], Fraction(0))]


def listed_joins(
    fields: Fields, places: Mapping[str, int], charts: list[list[Point]], named: list[tuple[Place, Place]]
) -> list[tuple[Place, Place]]:
    """The pairs of operators that `joins` lists, whose charts say what the join does."""
    joins: list[tuple[Place, Place]] = []
    taken = {place for join in named for place in join}
    for join in fields.objects("joins", []):
        sides: list[Place] = []
        for side in ("left", "right"):
            given = Fields(join.get(side), join.path(side))
            path = places[one_of(given.get("path"), given.path("path"), places)]
            operator = given.whole("operator", minimum=0, maximum=len(charts[path]) - 2)
            if (path, operator) in taken:
                raise WorkloadError(f"{join.path(side)}: that operator is in a join already")
            taken.add((path, operator))
            sides.append((path, operator))
        if sides[0][0] == sides[1][0]:
            raise WorkloadError(f"{join.where}: the two sides must be on two paths")
        joins.append((sides[0], sides[1]))
    return joins
