"""The exact knapsack with classes: at most one item of each class, the most profit within a capacity.

Paper 001 fills a table of (items x capacity); this needs neither. A price per unit of capacity turns every item into
one number, profit - price * cost, and taking the best item of each class at that price bounds what any choice can
reach. At the right price two such choices straddle the capacity, an upper bound and a first answer close below it.
What is left is small: an item is dropped when taking it would cost more than the gap between the two, and the choices
among the rest are listed class by class, cheapest deviation first, keeping only lists in which more cost buys more
profit. The price is a fraction of whole numbers, so nothing is rounded and the answer is exact.

>>> choose([([2, 5], [3, 9]), ([4], [8])], capacity=6)
[1, None]
>>> choose([([2, 5], [3, 9]), ([4], [8])], capacity=8)
[0, 0]
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]

#: Sums above this are not exact in an IEEE double, which is what results are written in.
LARGEST_TOTAL = 2**53
_LARGEST_PRODUCT = 2**62
_NEVER = -(2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Items:
    """All classes end to end. Item 0 of each class is "nothing", and costs never decrease within a class."""

    cost: Whole
    profit: Whole
    #: Where each class begins.
    first: Whole
    #: Which class each item belongs to.
    owner: Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """One item of each class, as indexes into the items, and what they add up to."""

    taken: Whole
    cost: int
    profit: int

    def beats(self, other: "_Answer") -> bool:
        return (self.profit, -self.cost) > (other.profit, -other.cost)


def choose(
    classes: Sequence[tuple[Sequence[int] | Whole, Sequence[int] | Whole]], capacity: int
) -> list[int | None]:
    """For each class (costs, profits) the index of the item taken, or None.

    Profit is the largest possible and cost the smallest that reaches it. Costs and profits are whole and not negative.
    """
    if capacity < 0:
        raise ValueError(f"a capacity is never negative, and this one is {capacity}")
    items, places = _lay_out(classes)
    answer = _solve(items, capacity)
    return [None if place < 0 else int(place) for place in places[answer.taken]]


def _lay_out(
    classes: Sequence[tuple[Sequence[int] | Whole, Sequence[int] | Whole]],
) -> tuple[_Items, Whole]:
    """The items with "nothing" added to each class, and for each its place in the caller's class (-1: nothing)."""
    costs, profits, places = [], [], []
    total = 0
    nothing = np.zeros(1, dtype=np.int64)
    for number, (class_costs, class_profits) in enumerate(classes):
        cost = np.concatenate([nothing, np.asarray(class_costs, dtype=np.int64)])
        profit = np.concatenate([nothing, np.asarray(class_profits, dtype=np.int64)])
        if len(cost) != len(profit) or cost.min() < 0 or profit.min() < 0:
            raise ValueError(f"class {number}: needs as many costs as profits, none of them negative")
        total += max(int(cost.max()), int(profit.max()))
        order = np.argsort(cost, kind="stable")
        costs.append(cost[order])
        profits.append(profit[order])
        places.append(order - 1)
    if total > LARGEST_TOTAL:
        raise ValueError(f"costs or profits add up to {total}; above 2**53 the sums would not be exact")
    sizes = np.array([len(cost) for cost in costs], dtype=np.int64)
    items = _Items(
        cost=np.concatenate([nothing[:0], *costs]),
        profit=np.concatenate([nothing[:0], *profits]),
        first=np.cumsum(sizes) - sizes,
        owner=np.repeat(np.arange(len(costs), dtype=np.int64), sizes),
    )
    return items, np.concatenate([nothing[:0], *places])


def _solve(items: _Items, capacity: int) -> _Answer:
    everything = _best_at(items, Fraction(0))
    if everything.cost <= capacity:
        return everything
    price, below = _straddle(items, capacity, everything)
    reference = _best_at(items, price)
    answer, complete = _improve(items, capacity, price, below, below), False
    answer = _improve(items, capacity, price, reference, answer)
    widest = 250
    while not complete:
        answer, complete = _search(items, capacity, price, answer, widest)
        widest *= 16
    return answer


def _worth(items: _Items, price: Fraction) -> Whole:
    return items.profit * price.denominator - items.cost * price.numerator


def _best_at(items: _Items, price: Fraction) -> _Answer:
    """The best item of each class at a price, the cheapest of equals."""
    worth = _worth(items, price)
    best = np.flatnonzero(worth == np.maximum.reduceat(worth, items.first)[items.owner]) if len(worth) else worth
    taken = best[np.unique(items.owner[best], return_index=True)[1]]
    return _Answer(taken=taken, cost=int(items.cost[taken].sum()), profit=int(items.profit[taken].sum()))


def _straddle(items: _Items, capacity: int, above: _Answer) -> tuple[Fraction, _Answer]:
    """The price at which the best choice changes from fitting to not fitting, and the one that fits.

    Any price gives a valid bound, so one whose products would overflow may be rounded.
    """
    below = _Answer(taken=items.first.copy(), cost=0, profit=0)
    largest = max(1, _LARGEST_PRODUCT // (2 * max(above.cost, above.profit, 1)))
    while True:
        price = _rounded(Fraction(above.profit - below.profit, above.cost - below.cost), largest)
        found = _best_at(items, price)
        value = found.profit * price.denominator - found.cost * price.numerator
        if value == below.profit * price.denominator - below.cost * price.numerator or found.cost == above.cost:
            return price, below
        if found.cost <= capacity:
            if found.cost == below.cost:
                return price, below
            below = found
        else:
            above = found


def _rounded(price: Fraction, largest: int) -> Fraction:
    if price.numerator <= largest and price.denominator <= largest:
        return price
    if price > 1:
        return 1 / (1 / price).limit_denominator(largest)
    return price.limit_denominator(largest)


def _improve(items: _Items, capacity: int, price: Fraction, start: _Answer, incumbent: _Answer) -> _Answer:
    """Change the item of one class or of two where that helps most, again and again: the answer to beat.

    With many items some pair nearly always lands a hair below the capacity, and little is left to search. Of each
    item's possible partners only the most profitable one that fits is tried, so a better pair may be missed.
    """
    taken = start.taken.copy()
    while True:
        extra = items.cost - items.cost[taken][items.owner]
        gain = items.profit - items.profit[taken][items.owner]
        order = np.argsort(extra, kind="stable")
        best_up_to = np.maximum.accumulate(gain[order])
        # The place of that best gain: it is where the running maximum last rose.
        rises = np.flatnonzero(np.diff(best_up_to, prepend=best_up_to[0] - 1))
        left = capacity - int(items.cost[taken].sum())
        fitting = np.searchsorted(extra[order], left - extra, side="right") - 1
        partner = order[rises[np.searchsorted(rises, fitting, side="right") - 1]]
        possible = (fitting >= 0) & (items.owner[partner] != items.owner)
        total = np.where(possible, gain + gain[partner], _NEVER)
        best = int(total.argmax())
        if not possible[best]:
            return incumbent
        taken[items.owner[best]] = best
        taken[items.owner[partner[best]]] = partner[best]
        found = _Answer(taken=taken.copy(), cost=int(items.cost[taken].sum()), profit=int(items.profit[taken].sum()))
        if not found.beats(incumbent):
            return incumbent
        incumbent = found


def _search(items: _Items, capacity: int, price: Fraction, incumbent: _Answer, widest: int) -> tuple[_Answer, bool]:
    """List the choices that could still beat the incumbent, one class at a time, nearest to the price first.

    A state is the whole answer with the classes seen so far decided and the others as the price has them. What can
    follow from it is bounded by how much the classes still to come give for the capacity it has left, or ask for the
    capacity it is over. With more than `widest` states the least promising are let go, and the search is incomplete.
    """
    reference = _best_at(items, price)
    worth = _worth(items, price)
    loss = worth[reference.taken][items.owner] - worth
    bound = reference.profit * price.denominator - reference.cost * price.numerator
    extra = items.cost - items.cost[reference.taken][items.owner]
    gain = items.profit - items.profit[reference.taken][items.owner]

    def room() -> int:
        """How much worth may be lost and still end with more profit."""
        return bound - ((incumbent.profit + 1) * price.denominator - capacity * price.numerator)

    classes = _by_nearness(items, extra, gain, np.flatnonzero((loss <= room()) & ((extra != 0) | (gain > 0))), price)
    cost, profit = np.array([reference.cost]), np.array([reference.profit])
    history: list[tuple[Whole, Whole]] = []
    complete = True
    for alternatives, gives, asks in classes:
        alternatives = alternatives[loss[alternatives] <= room()]
        if not len(alternatives):
            continue
        options = np.concatenate([reference.taken[items.owner[alternatives[:1]]], alternatives])
        costs = np.add.outer(extra[options], cost).ravel()
        profits = np.add.outer(gain[options], profit).ravel()
        order = np.lexsort((-profits, costs))
        order = order[np.diff(np.maximum.accumulate(profits[order]), prepend=-1) > 0]
        hope = _hope(capacity - costs[order], profits[order] - incumbent.profit - 1, gives, asks)
        alive = order[hope >= 0]
        if len(alive) > widest:
            complete = False
            alive = alive[np.sort(np.argpartition(-hope[hope >= 0], widest)[:widest])]
        option, parent = np.divmod(alive, len(cost))
        cost, profit = costs[alive], profits[alive]
        history.append((options[option].astype(np.int32), parent.astype(np.int32)))
        fitting = int(np.searchsorted(cost, capacity, side="right")) - 1
        if fitting >= 0 and profit[fitting] > incumbent.profit:
            taken = _trace(items, reference.taken, history, fitting)
            incumbent = _Answer(taken=taken, cost=int(cost[fitting]), profit=int(profit[fitting]))
        if not len(cost):
            break
    return incumbent, complete


def _by_nearness(
    items: _Items, extra: Whole, gain: Whole, kept: Whole, price: Fraction
) -> list[tuple[Whole, float, float]]:
    """The classes that have alternatives, with what any class after each gives and asks per unit of capacity.

    The nearer an alternative's rate is to the price, the more it matters: those classes come first.
    """
    if not len(kept):
        return []
    owner = items.owner[kept]
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = gain[kept] / extra[kept]
    gives = np.maximum.reduceat(np.where(extra[kept] > 0, rate, 0.0), starts)
    asks = np.minimum.reduceat(np.where(extra[kept] < 0, rate, np.inf), starts)
    order = np.argsort(np.minimum(float(price) - gives, asks - float(price)), kind="stable")
    after_gives = np.append(np.maximum.accumulate(gives[order][::-1])[::-1], 0.0)[1:]
    after_asks = np.append(np.minimum.accumulate(asks[order][::-1])[::-1], np.inf)[1:]
    groups = np.split(kept, starts[1:])
    return [
        (groups[index], float(give), float(ask))
        for index, give, ask in zip(order, after_gives, after_asks, strict=True)
    ]


def _hope(left: Whole, ahead: Whole, gives: float, asks: float) -> npt.NDArray[np.float64]:
    """By how much each state could end ahead; below zero it cannot. The margin is wider than a double's error."""
    with np.errstate(invalid="ignore"):
        change = np.where(left >= 0, left * (gives * (1 + 1e-9)), np.where(left < 0, left, -1) * (asks * (1 - 1e-9)))
    return ahead + change


def _trace(items: _Items, reference: Whole, history: list[tuple[Whole, Whole]], state: int) -> Whole:
    """The items behind a state, read back through the parents."""
    taken = reference.copy()
    for options, parents in reversed(history):
        taken[items.owner[options[state]]] = options[state]
        state = int(parents[state])
    return taken
