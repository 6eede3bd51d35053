"""What a warehouse is declared to hold: tables that feeds fill, and views derived from them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A base table. Loading n updates that cover `length` takes fixed + per_update * n + per_length * length."""

    name: str
    fixed: float = 0.0
    per_update: float = 0.0
    #: Slot-seconds per second of data; the alpha of paper 000.
    per_length: float = 0.0
    #: How much its staleness matters against other tables'.
    weight: float = 1.0
    #: Share of all reads that go to the table itself.
    access: float = 0.0
    #: Usual time between updates; None when only the past can tell.
    period: float | None = None
    #: How stale it may become; None where nobody has said.
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An object derived from others: refreshed by a job, or virtual and computed by whoever reads it."""

    name: str
    parents: tuple[str, ...]
    #: Slot-seconds of one refresh; means nothing for a virtual view.
    cost: float = 0.0
    access: float = 0.0
    materialized: bool = True
    #: How stale it may become; None where nobody has said.
    limit: float | None = None


Declared = Table | View
