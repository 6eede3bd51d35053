"""What the API takes and answers with: times are seconds since 1970 in UTC, so that a page can reckon."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field

Time = Annotated[float, Field(description="seconds since 1970, UTC")]
Seconds = Annotated[float, Field(description="a duration in seconds")]
#: As people write it; what is outside these seconds is as good as their end.
_Written = Annotated[AwareDatetime, AfterValidator(lambda at: min(max(at.timestamp(), 0.0), 4e9))]
AskedTime = Annotated[
    Annotated[float, Field(ge=0, le=4e9)] | _Written,
    Field(description="seconds since 1970, or as 2026-01-31T14:05:00Z"),
]
Quality = Literal["ok", "warning", "failing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRow:
    """One object as it stands; no model, since five thousand are made each second that somebody looks."""

    name: str
    kind: Literal["table", "view"]
    virtual: bool
    level: Annotated[int, Field(description="longest way from a table; tables are 0")]
    feed: str | None
    group: str | None
    fresh: bool
    since: Annotated[Time | None, Field(description="since when it is fresh, or is not")]
    current_to: Annotated[Time | None, Field(description="what it is current up to; staleness is now minus this")]
    limit: Annotated[Seconds | None, Field(description="the most it should be behind")]
    breach_at: Annotated[Time | None, Field(description="when it is, or was, past its limit unless it is run before")]
    predicted_start_at: Annotated[Time | None, Field(description="when its next job will probably start")]
    predicted_fresh_at: Annotated[Time | None, Field(description="when it will probably be fresh again")]
    pending: Annotated[int, Field(description="updates that wait or are being loaded")]
    dirty: Annotated[int, Field(description="stale ancestors; above zero it cannot run yet")]
    impact: Annotated[
        float | None,
        Field(description="what is lost by not running it now, by the policy's measure; none where it cannot start"),
    ]
    rank: Annotated[int | None, Field(description="1 runs next; none when it cannot start now")]
    popularity: Annotated[float, Field(description="its own reads a minute and those of everything derived from it")]
    cost: Annotated[Seconds, Field(description="expected slot-seconds of its next job")]
    running: Annotated[str | None, Field(description="the state of its open decision")]
    decision: int | None
    decided_at: Time | None
    last_run: Time | None
    rows: int | None
    held: Annotated[list[str], Field(description="why it may not start")]
    reads: Annotated[int, Field(description="reads in the last hour")]
    reads_met_fresh: int
    quality: Annotated[
        Quality | None,
        Field(description="of its newest batch, a warning where it was loaded all the same; none without expectations"),
    ]
    quarantined: Annotated[int, Field(description="files and rows that were kept out")]
    error: Annotated[str | None, Field(description="why its newest finished job failed")]


class Summary(BaseModel):
    """The whole, at one instant."""

    objects: int
    fresh: int
    qod: float | None = Field(description="share of reads that meet a fresh object now")
    slots: int
    running: int
    backlog: Seconds | None = Field(
        description="expected slot-seconds to make everything fresh; none while the brain reads the log after a "
        "start, and with it ranks, impacts and predictions"
    )
    breached: int
    about_to_breach: int
    policy: str
    tick: dict[str, Any] = Field(description="how the loop does: when it last ticked, and whether it decides")


State = Literal["stale", "fresh", "breached", "about", "running", "held", "failing", "quarantine"]
SortKey = Literal[
    "name",
    "staleness",
    "headroom",
    "next",
    "predicted",
    "pending",
    "dirty",
    "impact",
    "rank",
    "popularity",
    "cost",
    "last",
    "reads",
    "quality",
]


class Board(BaseModel):
    event: int = Field(description="the last event of the log that is in it")
    total: int = Field(description="how many objects match")
    offset: int
    summary: Summary
    objects: list[ObjectRow]


class Ahead(BaseModel):
    object: str
    impact: float | None
    why: str


class WhyNot(BaseModel):
    """Why an object is, or is not, next."""

    state: str
    summary: str
    why: str
    impact: float | None
    rank: int | None
    ingredients: dict[str, float | None]
    dirty_ancestors: list[str]
    ahead: list[Ahead]
    expected_at: Time | None = Field(description="when it will probably start")
    cost_spread: Seconds | None = Field(description="how far its jobs have strayed from what was expected")
    failures: int = Field(description="how often in a row its jobs have failed")


class Waiting(BaseModel):
    path: str
    bytes: int
    release: Time
    state: str


class OverrideOut(BaseModel):
    what: Literal["weight", "limit"]
    value: float
    until: Time | None
    by: str
    why: str


class BackfillOut(BaseModel):
    id: int
    mode: str
    covers_from: Time | None = Field(description="of what the data covers")
    covers_to: Time | None
    state: str
    who: str
    why: str
    started_at: Time
    finished_at: Time | None
    pieces: int
    pieces_done: int
    next: str | None = Field(description="what its next or running job does")


class ObjectPage(BaseModel):
    """One object: how it stands, what it is, why it does not run."""

    row: ObjectRow
    dag_id: str | None
    may_edit: bool
    parents: list[str]
    children: list[str]
    sql: str | None
    columns: list[tuple[str, str]]
    expectations: list[dict[str, Any]]
    weight: float
    access: float
    period: Seconds | None
    explanation: WhyNot | None = Field(description="none while the brain reads the log after a start")
    waiting: list[Waiting]
    overrides: list[OverrideOut] = Field(description="what somebody has set for a while")
    backfills: list[BackfillOut] = Field(description="its newest, the newest first")


class SpellOut(BaseModel):
    since: Time
    until: Time | None
    fresh: bool
    current_to: Time | None


class RunOut(BaseModel):
    decision: int
    state: str
    decided_at: Time
    finished_at: Time | None
    error: str | None


class Breach(BaseModel):
    since: Time
    until: Time | None


class SawtoothOut(BaseModel):
    """The staleness of one object over a window and what happened to it."""

    object: str
    since: Time
    until: Time
    limit: Seconds | None
    spells: list[SpellOut]
    arrivals: list[Time]
    runs: list[RunOut]
    breaches: list[Breach]
    truncated: bool


class VersionOut(BaseModel):
    snapshot_id: str = Field(description="an Iceberg snapshot; as text, since browsers round such numbers")
    decision: int
    committed_at: Time
    rows: int
    reads: dict[str, str | None] = Field(description="parent: the snapshot it was computed from")


class CostOut(BaseModel):
    decision: int
    at: Time
    slot_seconds: Seconds
    units: int
    bytes_in: int
    bytes_out: int
    stages: dict[str, float]


class QualityOut(BaseModel):
    batch: int
    at: Time
    expectation: str = Field(description="with its arguments, such as expect_column_values_to_not_be_null(carrier)")
    on_fail: str
    passed: bool
    message: str
    samples: list[str] = Field(description="offending values")


class DecisionOut(BaseModel):
    id: int
    object: str
    kind: str
    run_id: str
    state: str
    policy: str
    slot: int
    impact: float
    why: str
    ingredients: dict[str, float | None]
    candidates: int | None
    passed_over: list[Ahead]
    updates: int | None
    decided_at: Time
    claimed_at: Time | None
    finished_at: Time | None
    error: str | None


class Node(BaseModel):
    name: str
    kind: Literal["table", "view"]
    virtual: bool
    level: int
    fresh: bool
    running: str | None
    held: bool
    current_to: Time | None
    limit: Seconds | None
    pending: int
    dirty: int
    cost: Seconds
    hidden: int = Field(description="neighbours that are not shown")


class Neighbourhood(BaseModel):
    centre: str
    nodes: list[Node]
    edges: list[tuple[str, str]]


class BucketOut(BaseModel):
    at: Time
    qod: float | None
    fresh: float | None


class QodOut(BaseModel):
    since: Time
    until: Time
    buckets: list[BucketOut]


class ShareOut(BaseModel):
    """One object's part in the QoD of a window."""

    object: str
    access: float
    reads: int
    reads_met_fresh: int
    seconds: Seconds
    stale_seconds: Seconds
    running_seconds: Seconds
    lost: float = Field(description="how much of the QoD it cost")


class PictureOut(BaseModel):
    since: Time
    until: Time
    qod: float | None
    objects: list[ShareOut]
    others: int = Field(description="objects that are left out because they cost the least")
    others_lost: float
