"""What can happen to a warehouse. Each event says when; only `Warehouse.apply` takes them in and changes it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateArrived:
    """New data for a table, covering (start, release]."""

    table: str
    at: float
    #: Where the covered time begins; None means where the table's newest known update ended.
    start: float | None = None
    #: Where it ends; None means `at`.
    release: float | None = None
    #: The update's own id, carried along into the batch.
    update: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """A load or a refresh began; it reads what its inputs hold at this moment."""

    object: str
    at: float
    #: How many pending updates a load takes, oldest first; None means all of them.
    updates: int | None = None
    #: For a refresh that reads older versions of its inputs than they hold now: the time these are current up to, and
    #: when the first update arrived that they lack.
    current_to: float | None = None
    lacks: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFinished:
    """The running job published what it made."""

    object: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailed:
    """The running job ended and published nothing; its batch is pending again."""

    object: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLearnt:
    """A better estimate of what a job costs; None leaves a part as it was."""

    object: str
    at: float
    #: Of one refresh of a view; the fixed part of a table's load.
    cost: float | None = None
    per_update: float | None = None
    per_length: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChanged:
    """The share of reads that go to an object."""

    object: str
    at: float
    access: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChanged:
    """How stale an object may become; None where nobody says any more."""

    object: str
    at: float
    limit: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An operator paused the object: no new job on it until it is released."""

    object: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """The pause is over."""

    object: str
    at: float


Event = (
    UpdateArrived | JobStarted | JobFinished | JobFailed | CostLearnt | AccessChanged | LimitChanged | Held | Released
)
