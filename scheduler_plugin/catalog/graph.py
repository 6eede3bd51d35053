"""Cycles and levels of "reads": each view and its parents."""

from collections.abc import Mapping, Sequence


def levels(parents: Mapping[str, Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Names by distance from the roots, each level in alphabetical order; names on or behind a cycle are left out."""
    children: dict[str, list[str]] = {name: [] for name in parents}
    waiting = {name: len(above) for name, above in parents.items()}
    for name, above in parents.items():
        for parent in above:
            children[parent].append(name)
    found: list[tuple[str, ...]] = []
    level = sorted(name for name, count in waiting.items() if count == 0)
    while level:
        found.append(tuple(level))
        following = []
        for name in level:
            for child in children[name]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    following.append(child)
        level = sorted(following)
    return tuple(found)


def cycles(parents: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Disjoint cycles, one for each knot to untie, each starting at its alphabetically first name."""
    found: list[tuple[str, ...]] = []
    left = dict(parents)
    while True:
        # Whatever stays has a parent that stays, so following parents must come round to a cycle.
        clear = {name for level in levels(_within(left)) for name in level}
        left = {name: above for name, above in left.items() if name not in clear}
        if not left:
            return found
        inside = _within(left)
        walk = [min(left)]
        while (step := min(inside[walk[-1]])) not in walk:
            walk.append(step)
        cycle = walk[walk.index(step) :]
        first = cycle.index(min(cycle))
        found.append(tuple(cycle[first:] + cycle[:first]))
        for name in cycle:
            del left[name]


def _within(parents: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: [each for each in above if each in parents] for name, above in parents.items()}
