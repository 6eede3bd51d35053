"""The exact knapsack with classes: at most one item of each class, the most profit within a capacity.

Paper 001 fills a table of (items x capacity); this needs neither. A price per unit of capacity turns every item into
one number, profit - price * cost, and the best item of each class at that price bounds what any choice can reach. At
the right price that choice sits next to the capacity. What is left is small: items that lose more against it than
could still be gained are dropped, and choices among the rest are listed class by class, those nearest to the price
first, keeping only choices in which more cost buys more profit. A first, narrow pass finds an answer that is nearly
always the best; a wider one proves it. The same search with costs and profits trading places then finds the cheapest
way to that profit.

>>> choose([([2, 5], [3, 9]), ([4], [8])], capacity=6)
[0, 0]
>>> choose([([2, 5], [3, 9]), ([4], [8])], capacity=8)
[0, 0]
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]

#: Above this, sums are not exact in an IEEE double, which is what results are written in.
LARGEST_TOTAL = 2**53
#: Wider than the error of any sum of doubles here, relative to the total; a bound that is looser by this still holds.
_MARGIN = 1e-12
#: How many choices the first pass keeps, and how many times more each further pass.
_NARROW, _WIDER = 250, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Items:
    """All classes end to end, the cheapest item of a class first, the most profitable of equals first."""

    cost: Whole
    profit: Whole
    #: Which class each item belongs to.
    owner: Whole
    #: Where each class begins.
    first: Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """One item of each class, as indexes into the items, and what they add up to."""

    taken: Whole
    cost: int
    profit: int


def choose(classes: Sequence[tuple[Sequence[int] | Whole, Sequence[int] | Whole]], capacity: int) -> list[int | None]:
    """For each class (costs, profits) the index of the item taken, or None.

    Profit is the largest possible and cost the smallest that reaches it. Costs and profits are whole and not negative.
    """
    if capacity < 0:
        raise ValueError(f"a capacity is never negative, and this one is {capacity}")
    if not classes:
        return []
    items, places = _lay_out(classes)
    best = _most_profit(items, capacity)
    mirrored, order = _mirror(items)
    lost = int(np.maximum.reduceat(items.profit, items.first).sum()) - best.profit
    taken = order[_most_profit(mirrored, lost).taken]
    return [None if place < 0 else int(place) for place in places[taken]]


def _lay_out(
    classes: Sequence[tuple[Sequence[int] | Whole, Sequence[int] | Whole]],
) -> tuple[_Items, Whole]:
    """The items with "nothing" added to each class, and for each its place in the caller's class (-1: nothing)."""
    count = len(classes)
    costs = [np.asarray(each, dtype=np.int64) for each, _ in classes]
    profits = [np.asarray(each, dtype=np.int64) for _, each in classes]
    sizes = np.array([len(each) for each in costs])
    nothing = np.zeros(count, dtype=np.int64)
    number = np.arange(count)
    owner = np.concatenate([number, np.repeat(number, sizes)])
    cost, profit = np.concatenate([nothing, *costs]), np.concatenate([nothing, *profits])
    uneven = sizes != [len(each) for each in profits]
    wrong = number[uneven] if uneven.any() else owner[(cost < 0) | (profit < 0)]
    if len(wrong):
        raise ValueError(f"class {wrong[0]}: needs as many costs as profits, none of them negative")
    items, order = _in_order(cost, profit, owner)
    largest = np.maximum.reduceat(np.maximum(items.cost, items.profit), items.first)
    total = sum(largest.tolist())
    if total > LARGEST_TOTAL:
        raise ValueError(f"costs or profits add up to {total}; above 2**53 the sums would not be exact")
    places = np.concatenate([nothing - 1, np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)])
    return items, places[order]


def _in_order(cost: Whole, profit: Whole, owner: Whole) -> tuple[_Items, Whole]:
    order = np.lexsort((-profit, cost, owner))
    owner = owner[order]
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    return _Items(cost=cost[order], profit=profit[order], owner=owner, first=first), order


def _mirror(items: _Items) -> tuple[_Items, Whole]:
    """The profit given up in the place of the cost, and the cost saved in the place of the profit."""
    given_up = np.maximum.reduceat(items.profit, items.first)[items.owner] - items.profit
    saved = np.maximum.reduceat(items.cost, items.first)[items.owner] - items.cost
    return _in_order(given_up, saved, items.owner)


def _most_profit(items: _Items, capacity: int) -> _Answer:
    everything = _best_at(items, 0.0)
    if everything.cost <= capacity:
        return everything
    # In common units a bound rounds down further, which ends most searches among alike items at once.
    unit, profit_unit = int(np.gcd.reduce(items.cost)), int(np.gcd.reduce(items.profit))
    scaled = replace(items, cost=items.cost // unit, profit=items.profit // profit_unit)
    price, answer = _straddle(scaled, capacity // unit, _answer(scaled, everything.taken))
    complete, widest = False, _NARROW
    while not complete:
        answer, complete = _search(scaled, capacity // unit, price, answer, widest)
        widest *= _WIDER
    return _answer(items, answer.taken)


def _answer(items: _Items, taken: Whole) -> _Answer:
    return _Answer(taken=taken, cost=int(items.cost[taken].sum()), profit=int(items.profit[taken].sum()))


def _best_at(items: _Items, price: float) -> _Answer:
    """The best item of each class at a price, the cheapest of equals."""
    worth = items.profit - price * items.cost
    best = np.flatnonzero(worth == np.maximum.reduceat(worth, items.first)[items.owner])
    return _answer(items, best[np.flatnonzero(np.diff(items.owner[best], prepend=-1))])


def _straddle(items: _Items, capacity: int, above: _Answer) -> tuple[float, _Answer]:
    """The price at which the best choice changes from fitting to not fitting, and one that fits."""
    below = _answer(items, items.first)
    while True:
        price = (above.profit - below.profit) / (above.cost - below.cost)
        found = _best_at(items, price)
        if capacity >= found.cost > below.cost:
            below = found
        elif capacity < found.cost < above.cost:
            above = found
        else:
            return price, below


def _search(items: _Items, capacity: int, price: float, incumbent: _Answer, widest: int) -> tuple[_Answer, bool]:
    """List the choices that could still beat the incumbent, one class at a time, nearest to the price first.

    A state is the whole answer with the classes seen so far decided and the others as the price has them. What can
    follow from it is bounded by how much the classes still to come give for the capacity it has left, or ask for the
    capacity it is over. With more than `widest` states the least promising are let go, and the search is incomplete.
    """
    reference = _best_at(items, price)
    extra = items.cost - items.cost[reference.taken][items.owner]
    gain = items.profit - items.profit[reference.taken][items.owner]
    loss = price * extra - gain
    margin = _MARGIN * (reference.profit + price * (capacity + reference.cost))

    def affordable(some: Whole) -> Whole:
        """Of some items, those that lose no more than may be lost and still end with more profit."""
        room = reference.profit - incumbent.profit - 1 + price * (capacity - reference.cost)
        return some[loss[some] <= room + margin]

    cost, profit = np.array([reference.cost]), np.array([reference.profit])
    history: list[tuple[Whole, Whole]] = []
    complete = True
    for alternatives, gives, asks in _by_nearness(items, extra, gain, affordable(np.flatnonzero(extra != 0)), price):
        alternatives = affordable(alternatives)
        if not len(alternatives):
            continue
        options = np.concatenate([reference.taken[items.owner[alternatives[:1]]], alternatives])
        costs = np.add.outer(extra[options], cost).ravel()
        profits = np.add.outer(gain[options], profit).ravel()
        hope = _hope(capacity - costs, profits - incumbent.profit - 1, gives, asks)
        alive = np.flatnonzero(hope >= 0)
        alive = alive[np.lexsort((-profits[alive], costs[alive]))]
        alive = alive[np.diff(np.maximum.accumulate(profits[alive]), prepend=-1) > 0]
        if len(alive) > widest:
            complete = False
            alive = alive[np.sort(np.argpartition(-hope[alive], widest)[:widest])]
        option, parent = np.divmod(alive, len(cost))
        cost, profit = costs[alive], profits[alive]
        history.append((options[option], parent))
        fitting = int(np.searchsorted(cost, capacity, side="right")) - 1
        if fitting >= 0 and profit[fitting] > incumbent.profit:
            incumbent = _answer(items, _trace(items, reference.taken, history, fitting))
        if not len(cost):
            break
    return incumbent, complete


def _by_nearness(
    items: _Items, extra: Whole, gain: Whole, kept: Whole, price: float
) -> list[tuple[Whole, float, float]]:
    """The classes that have alternatives, each with what the classes after it give and ask per unit of capacity.

    The nearer an alternative's rate is to the price, the more it matters: those classes come first.
    """
    if not len(kept):
        return []
    starts = np.flatnonzero(np.diff(items.owner[kept], prepend=-1))
    rate = gain[kept] / extra[kept]
    gives = np.maximum.reduceat(np.where(extra[kept] > 0, np.maximum(rate, 0.0), 0.0), starts)
    asks = np.minimum.reduceat(np.where(extra[kept] < 0, rate, np.inf), starts)
    order = np.argsort(np.minimum(price - gives, asks - price), kind="stable")
    after_gives = np.append(np.maximum.accumulate(gives[order][::-1])[::-1], 0.0)[1:]
    after_asks = np.append(np.minimum.accumulate(asks[order][::-1])[::-1], np.inf)[1:]
    groups = np.split(kept, starts[1:])
    return [
        (groups[index], float(give), float(ask))
        for index, give, ask in zip(order, after_gives, after_asks, strict=True)
    ]


def _hope(left: Whole, ahead: Whole, gives: float, asks: float) -> npt.NDArray[np.float64]:
    """By how much each state could end ahead; below zero it cannot. The rates' margin covers a double's error."""
    over = np.minimum(left, 0)
    paid = np.where(over < 0, np.where(over < 0, over, -1) * (asks * (1 - 1e-9)), 0.0)
    hope: npt.NDArray[np.float64] = ahead + np.maximum(left, 0) * (gives * (1 + 1e-9)) + paid
    return hope


def _trace(items: _Items, reference: Whole, history: list[tuple[Whole, Whole]], state: int) -> Whole:
    """The items behind a state, read back through the parents."""
    taken = reference.copy()
    for options, parents in reversed(history):
        taken[items.owner[options[state]]] = options[state]
        state = int(parents[state])
    return taken
