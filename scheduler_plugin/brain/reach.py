"""What is below every object at once, where walking down from each would take the square of a deep graph.

Each object's descendants are the bits of one whole number, the union of its children's; a row of them against the
weights is a product of matrices. Weights are split into parts short enough for a column of them to add up without
rounding, so the sums are those of `math.fsum`, to the last bit.
"""

import math
from array import array
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

#: More objects than this are not taken at once: a row of bits for each would take too long.
MOST_OBJECTS = 100_000
#: Rows that are multiplied together.
_ROWS = 64

Numbers = npt.NDArray[np.float64]


def counts_below(order: Sequence[int], children: Sequence[tuple[int, ...]]) -> "array[int]":
    """How many descendants each object has. `order`: every object after its parents."""
    found = array("i", bytes(4 * len(order)))
    for position, below in _rows(order, children):
        found[position] = below.bit_count()
    return found


def sums_below(order: Sequence[int], children: Sequence[tuple[int, ...]], weights: Sequence[float]) -> "array[float]":
    """The weight of each object and its descendants, each once, rounded only at the end."""
    parts = exact_parts(np.array(weights, dtype=np.float64))
    found = array("d", bytes(8 * len(order)))
    size = (len(order) + 7) // 8
    batch: list[tuple[int, int]] = []
    for position, below in _rows(order, children):
        batch.append((position, below | 1 << position))
        if len(batch) == _ROWS or position == order[0]:
            packed = np.frombuffer(b"".join(row.to_bytes(size, "little") for _, row in batch), dtype=np.uint8)
            bits = np.unpackbits(packed.reshape(len(batch), size), axis=1, count=len(order), bitorder="little")
            for (each, _), sums in zip(batch, (bits.astype(np.float64) @ parts).tolist(), strict=True):
                found[each] = math.fsum(sums)
            batch.clear()
    return found


def _rows(order: Sequence[int], children: Sequence[tuple[int, ...]]) -> Iterator[tuple[int, int]]:
    """(object, its descendants as bits), children first; a row is let go once its last parent has been made."""
    waiting = array("i", bytes(4 * len(order)))
    for below in children:
        for child in below:
            waiting[child] += 1
    rows: dict[int, int] = {}
    for position in reversed(order):
        row = 0
        for child in children[position]:
            row |= rows[child] | 1 << child
            waiting[child] -= 1
            if not waiting[child]:
                del rows[child]
        if waiting[position]:
            rows[position] = row
        yield position, row


def exact_parts(weights: Numbers) -> Numbers:
    """Columns that add up to the weights; any sum within one column is exact.

    >>> parts = exact_parts(np.array([0.1, 1e16, 3.0]))
    >>> float(math.fsum(parts.sum(axis=0))) == math.fsum([0.1, 1e16, 3.0])
    True
    """
    width = 52 - len(weights).bit_length()
    left, columns = weights.copy(), []
    while left.any():
        _, exponent = math.frexp(float(np.abs(left).max()))
        unit = math.ldexp(1.0, max(exponent - width, -1074))
        column = np.trunc(left / unit) * unit
        columns.append(column)
        left -= column
    return np.column_stack(columns) if columns else np.zeros((len(weights), 1))
