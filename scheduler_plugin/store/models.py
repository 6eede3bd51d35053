"""The tables of the `freshet` schema.

Every timestamp is aware. A state is an enum written as text. The table `event` is the brain's log: one row for
everything that changes what the scheduler must know, in one order. The other tables are what people and jobs ask about.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    DateTime,
    Enum,
    ForeignKey,
    Identity,
    Index,
    MetaData,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import Text

SCHEMA = "freshet"


class UpdateState(StrEnum):
    PENDING = "pending"
    LOADING = "loading"
    LOADED = "loaded"
    QUARANTINED = "quarantined"
    #: A file of the same name with other content came after it, so nobody waits for this one any more.
    REPLACED = "replaced"
    #: Somebody took it out of quarantine for good.
    DROPPED = "dropped"


class DecisionState(StrEnum):
    """A decision's life. The first three are open: at most one open decision per object."""

    DECIDED = "decided"
    DISPATCHED = "dispatched"
    CLAIMED = "claimed"
    DONE = "done"
    FAILED = "failed"


class BackfillState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    DONE = "done"


OPEN_STATES = (DecisionState.DECIDED, DecisionState.DISPATCHED, DecisionState.CLAIMED)


class EventKind(StrEnum):
    """What the brain hears of; each becomes one event of `scheduler_plugin.brain.events`."""

    CATALOG_CHANGED = "catalog_changed"
    UPDATE_ARRIVED = "update_arrived"
    JOB_STARTED = "job_started"
    JOB_FINISHED = "job_finished"
    JOB_FAILED = "job_failed"
    HELD = "held"
    RELEASED = "released"
    ACCESS_LEARNT = "access_learnt"
    OVERRIDDEN = "overridden"
    DEMANDED = "demanded"
    DEMAND_ENDED = "demand_ended"


def _text_enum(kind: type[StrEnum]) -> Enum:
    """Text with a check, not a Postgres enum: a new state is then an ordinary migration."""
    return Enum(
        kind,
        native_enum=False,
        length=20,
        values_callable=lambda states: [state.value for state in states],
        create_constraint=True,
        name=kind.__name__.lower(),
    )


class Base(DeclarativeBase):
    metadata = MetaData(
        schema=SCHEMA,
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        },
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        int: BigInteger,
        str: Text,
        dict[str, Any]: JSONB,
        list[str]: ARRAY(Text),
        UpdateState: _text_enum(UpdateState),
        DecisionState: _text_enum(DecisionState),
        EventKind: _text_enum(EventKind),
        BackfillState: _text_enum(BackfillState),
        list[int]: ARRAY(BigInteger),
    }


class Object(Base):
    """One table or view of the catalog, as last taken in. A removed one keeps its row, and so its history."""

    __tablename__ = "object"

    name: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    materialized: Mapped[bool]
    #: What the catalog said of it: columns or SQL, weight, limits, format.
    spec: Mapped[dict[str, Any]]
    parents: Mapped[list[str]]
    #: Declaration order, which breaks ties.
    position: Mapped[int]
    taken_in_at: Mapped[datetime]
    #: The event from which its present definition holds; what a view held before that counts for nothing.
    defined_at_event: Mapped[int]
    removed_at: Mapped[datetime | None]

    __table_args__ = (
        # A backfill is an object to the brain while it runs, so that one policy shares the slots among all.
        CheckConstraint("kind IN ('table', 'view', 'backfill')", name="kind"),
        # Who derives from an object is asked at every arrival.
        Index("ix_object_parents", "parents", postgresql_using="gin"),
    )


class CatalogVersion(Base):
    """A catalog as it was taken in; the newest row is the one in force."""

    __tablename__ = "catalog"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    fingerprint: Mapped[str]
    #: The event of the log from which it is in force.
    event_id: Mapped[int]
    #: Policy, its params, slots and groups.
    settings: Mapped[dict[str, Any]]
    #: Every object as it was then, in declaration order: the past is explained by the catalog of its time.
    objects: Mapped[list[Any]] = mapped_column(JSONB)
    taken_in_at: Mapped[datetime]


class Event(Base):
    """The brain's log. Ids are given and committed in one order, and `at` never goes back along it."""

    __tablename__ = "event"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    at: Mapped[datetime]
    kind: Mapped[EventKind]
    object: Mapped[str | None]
    body: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'::jsonb"))

    __table_args__ = (Index("ix_event_at", "at"),)


class Checkpoint(Base):
    """What the brain knew after an event, so that the log need not be replayed from its beginning."""

    __tablename__ = "checkpoint"

    event_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    state: Mapped[dict[str, Any]]


class Incident(Base):
    """Something that people should know of, from when it began until it was over: one alert each, not one per tick."""

    __tablename__ = "incident"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    #: predicted_breach, breach, silent_feed, failing, blocked_batch, overload.
    kind: Mapped[str]
    #: None: the whole warehouse.
    object: Mapped[str | None]
    opened_at: Mapped[datetime]
    closed_at: Mapped[datetime | None]
    #: For a person; and what it was made of.
    summary: Mapped[str]
    body: Mapped[dict[str, Any]]
    #: When the alert that it has begun, and the one that it is over, were handed to Airflow.
    alerted_at: Mapped[datetime | None]
    recovery_alerted_at: Mapped[datetime | None]

    __table_args__ = (
        Index(
            "uq_incident_open",
            "kind",
            "object",
            unique=True,
            postgresql_where=text("closed_at IS NULL"),
            postgresql_nulls_not_distinct=True,
        ),
        Index("ix_incident_opened_at", "opened_at"),
    )


class Update(Base):
    """One arrived file of a table."""

    __tablename__ = "update"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    table_name: Mapped[str] = mapped_column(ForeignKey("object.name"))
    path: Mapped[str]
    size_bytes: Mapped[int]
    content_hash: Mapped[str]
    #: The scheduler's clock: the update covers (start, release] of it.
    start: Mapped[datetime]
    release: Mapped[datetime]
    #: What the data itself covers, by its file name or column; for backfills and for people.
    covers_from: Mapped[datetime | None]
    covers_to: Mapped[datetime | None]
    state: Mapped[UpdateState] = mapped_column(default=UpdateState.PENDING)
    batch_id: Mapped[int | None] = mapped_column(ForeignKey("batch.id"))
    rows: Mapped[int | None]
    #: Why it is in quarantine.
    reason: Mapped[str | None]
    settled_at: Mapped[datetime | None]
    #: When the file was last changed, so that a loop that starts anew need not read it again.
    modified_ns: Mapped[int | None]
    #: Other names under which the same content was delivered.
    also_as: Mapped[list[str]] = mapped_column(server_default=text("'{}'"))
    #: Where upkeep has put the file; None while it lies at `path`.
    archived: Mapped[str | None]
    #: Somebody has released it: expectations are not asked.
    ungated: Mapped[bool] = mapped_column(server_default=text("false"))
    #: For a file made of rows that were let out of quarantine: the update they came with.
    origin_id: Mapped[int | None] = mapped_column(ForeignKey("update.id"))

    __table_args__ = (
        # The same content twice is one update, under any name.
        UniqueConstraint("table_name", "content_hash"),
        Index("ix_update_pending", "table_name", "id", postgresql_where=text("state = 'pending'")),
        Index("ix_update_table_name_state", "table_name", "state"),
        Index("ix_update_batch_id", "batch_id"),
        Index("ix_update_table_name_path", "table_name", "path"),
    )


class Decision(Base):
    """One object to run, with why. Recorded before it is dispatched; its id names the Airflow run."""

    __tablename__ = "decision"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    object: Mapped[str] = mapped_column(ForeignKey("object.name"))
    state: Mapped[DecisionState] = mapped_column(default=DecisionState.DECIDED)
    policy: Mapped[str]
    slot: Mapped[int]
    impact: Mapped[float]
    why: Mapped[str]
    #: What the impact was made of, and the candidates that were passed over.
    figures: Mapped[dict[str, Any]]
    #: For a refresh: parent -> the snapshot it must read.
    reads: Mapped[dict[str, Any]]
    #: For a load: the batch it loads.
    batch_id: Mapped[int | None] = mapped_column(ForeignKey("batch.id"))
    #: The epoch of the loop that decided it.
    epoch: Mapped[int]
    #: Seconds after which its job is taken to hang, from what such jobs have taken.
    time_limit: Mapped[float]
    #: Grows each time the decision is sent to Airflow under a new run id.
    attempt: Mapped[int] = mapped_column(default=1)
    decided_at: Mapped[datetime]
    dispatched_at: Mapped[datetime | None]
    claimed_at: Mapped[datetime | None]
    #: The running job's last sign of life.
    heartbeat_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    error: Mapped[str | None]

    __table_args__ = (
        Index(
            "uq_decision_open_object",
            "object",
            unique=True,
            postgresql_where=text("state IN ('decided', 'dispatched', 'claimed')"),
        ),
        Index("ix_decision_object_decided_at", "object", "decided_at"),
        Index("ix_decision_decided_at", "decided_at"),
    )


class Batch(Base):
    """The updates of a table that are loaded together.

    A batch keeps its updates and its id until it is settled, through any number of decisions: the id marks the table's
    snapshot, so a job that comes back from the dead can only commit what its successor would have committed.
    """

    __tablename__ = "batch"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    table_name: Mapped[str] = mapped_column(ForeignKey("object.name"))
    updates: Mapped[int]
    bytes_in: Mapped[int]
    rows_loaded: Mapped[int | None]
    rows_quarantined: Mapped[int | None]
    snapshot_id: Mapped[int | None]
    settled_at: Mapped[datetime | None]

    __table_args__ = (
        Index("uq_batch_open_table", "table_name", unique=True, postgresql_where=text("settled_at IS NULL")),
        Index("ix_batch_table_name_settled_at", "table_name", "settled_at"),
    )


class Job(Base):
    """One attempt at a decision: when it ran, where its time went, how it ended."""

    __tablename__ = "job"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    decision_id: Mapped[int] = mapped_column(ForeignKey("decision.id"))
    attempt: Mapped[int]
    worker: Mapped[str]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    #: Seconds by stage: read, gate, write, commit.
    stages: Mapped[dict[str, Any] | None]
    error: Mapped[str | None]

    __table_args__ = (UniqueConstraint("decision_id", "attempt"),)


class Freshness(Base):
    """The history of one object's freshness: spells without holes or overlaps, the open one without an end."""

    __tablename__ = "freshness"

    object: Mapped[str] = mapped_column(ForeignKey("object.name"), primary_key=True)
    since: Mapped[datetime] = mapped_column(primary_key=True)
    until: Mapped[datetime | None]
    fresh: Mapped[bool]
    #: The release the object is current up to; staleness is now minus this.
    current_to: Mapped[datetime | None]

    __table_args__ = (
        Index("uq_freshness_open", "object", unique=True, postgresql_where=text("until IS NULL")),
        CheckConstraint("until IS NULL OR until >= since", name="ends_after_it_begins"),
    )


class Version(Base):
    """One committed snapshot of an object, and the scheduler-clock interval in which it is the newest truth.

    [valid_from, valid_to): from the arrival of the newest update it holds to that of the first it lacks. None is
    unbounded: nothing newer has arrived, or it was computed before anything had.
    """

    __tablename__ = "version"

    object: Mapped[str] = mapped_column(ForeignKey("object.name"), primary_key=True)
    snapshot_id: Mapped[int] = mapped_column(primary_key=True)
    decision_id: Mapped[int] = mapped_column(ForeignKey("decision.id"))
    committed_at: Mapped[datetime]
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    rows: Mapped[int]
    #: Parent -> snapshot it was computed from.
    reads: Mapped[dict[str, Any]]
    #: From then on nobody may begin to read it: its snapshot is being removed, or is gone.
    expired_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_version_object_committed_at", "object", "committed_at"),
        Index("ix_version_open", "object", postgresql_where=text("valid_to IS NULL")),
        Index("ix_version_kept", "object", postgresql_where=text("expired_at IS NULL")),
    )


class Pin(Base):
    """A version that an active reader holds: nothing may remove it before the reader is done, or given up for dead."""

    __tablename__ = "pin"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    #: Who reads: "query-12".
    reader: Mapped[str]
    object: Mapped[str] = mapped_column(ForeignKey("object.name"))
    snapshot_id: Mapped[int]
    expires_at: Mapped[datetime]

    __table_args__ = (Index("ix_pin_object", "object"), Index("ix_pin_reader", "reader"))


class Demand(Base):
    """Somebody, or a query, wants an object run before all else. Ended when that has happened, or is given up."""

    __tablename__ = "demand"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    object: Mapped[str] = mapped_column(ForeignKey("object.name"))
    by: Mapped[str]
    why: Mapped[str]
    deadline: Mapped[datetime | None]
    #: True: it is to run, fresh or not. False: it is to hold all that had arrived when this was made.
    run: Mapped[bool]
    made_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    #: How it ended: met, failed, missed, declined, withdrawn.
    outcome: Mapped[str | None]

    __table_args__ = (Index("ix_demand_open", "id", postgresql_where=text("ended_at IS NULL")),)


class Query(Base):
    """One read that somebody asked for, what it was promised and what it got."""

    __tablename__ = "query"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    sql: Mapped[str]
    by: Mapped[str]
    asked_at: Mapped[datetime]
    deadline: Mapped[datetime | None]
    #: Seconds.
    max_staleness: Mapped[float | None]
    #: 0: as fast as can be, 1: as fresh as can be.
    prefer: Mapped[float | None]
    as_of: Mapped[datetime | None]
    #: Tables and materialized views it reads.
    objects: Mapped[list[str]]
    #: waiting (for work it depends on), ready, running; done, refused, missed, failed.
    state: Mapped[str]
    #: The last sign of life of whoever asked.
    seen_at: Mapped[datetime]
    #: The instant at which all versions read were valid.
    instant: Mapped[datetime | None]
    #: Object -> snapshot.
    versions: Mapped[dict[str, Any] | None]
    #: Object -> current_to, staleness, fresh, valid_from, valid_to.
    freshness: Mapped[dict[str, Any] | None]
    #: The trade-off between waiting and freshness, and the point taken.
    trade_off: Mapped[dict[str, Any] | None]
    #: Seconds it took Spark.
    spark_seconds: Mapped[float | None]
    rows: Mapped[int | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    error: Mapped[str | None]

    __table_args__ = (
        Index("ix_query_asked_at", "asked_at"),
        Index("ix_query_active", "id", postgresql_where=text("state IN ('waiting', 'ready', 'running')")),
    )


class Cost(Base):
    """What one finished job cost, for learning the next one's."""

    __tablename__ = "cost"

    decision_id: Mapped[int] = mapped_column(ForeignKey("decision.id"), primary_key=True)
    object: Mapped[str] = mapped_column(ForeignKey("object.name"))
    at: Mapped[datetime]
    slot_seconds: Mapped[float]
    #: Updates in the batch; 1 for a refresh.
    units: Mapped[int]
    bytes_in: Mapped[int]
    bytes_out: Mapped[int]
    #: Of a refresh: "full" or "difference".
    way: Mapped[str | None]

    __table_args__ = (Index("ix_cost_object_at", "object", "at"),)


class Access(Base):
    """Reads of an object, counted by the minute."""

    __tablename__ = "access"

    object: Mapped[str] = mapped_column(ForeignKey("object.name"), primary_key=True)
    minute: Mapped[datetime] = mapped_column(primary_key=True)
    count: Mapped[int]
    #: How many of them met the object fresh.
    met_fresh: Mapped[int]


class QualityResult(Base):
    """One expectation on one batch."""

    __tablename__ = "quality_result"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    batch_id: Mapped[int] = mapped_column(ForeignKey("batch.id"))
    table_name: Mapped[str] = mapped_column(ForeignKey("object.name"))
    at: Mapped[datetime]
    expectation: Mapped[str]
    on_fail: Mapped[str]
    passed: Mapped[bool]
    #: Counts, samples of offending values, and the sentence for a person.
    detail: Mapped[dict[str, Any]]

    __table_args__ = (Index("ix_quality_result_table_name_at", "table_name", "at"),)


class QuarantinedRow(Base):
    """A row that was kept out of its table while the rest of its file was loaded."""

    __tablename__ = "quarantined_row"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    table_name: Mapped[str] = mapped_column(ForeignKey("object.name"))
    update_id: Mapped[int] = mapped_column(ForeignKey("update.id"))
    row_number: Mapped[int | None]
    reason: Mapped[str]
    raw: Mapped[str | None]
    at: Mapped[datetime]
    #: What became of it: released, retried, dropped, replaced; None while it waits for somebody.
    resolution: Mapped[str | None]

    __table_args__ = (
        Index("ix_quarantined_row_table_name_at", "table_name", "at"),
        Index("ix_quarantined_row_update_id", "update_id"),
    )


class Action(Base):
    """What a person did to the data, and why."""

    __tablename__ = "action"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    at: Mapped[datetime]
    who: Mapped[str]
    what: Mapped[str]
    object: Mapped[str]
    why: Mapped[str]
    detail: Mapped[dict[str, Any]]

    __table_args__ = (Index("ix_action_object_at", "object", "at"),)


class Backfill(Base):
    """An interval that is loaded anew, or a view computed anew, piece by piece. Object `backfill/<id>` of the brain."""

    __tablename__ = "backfill"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    object: Mapped[str] = mapped_column(ForeignKey("object.name"))
    mode: Mapped[str]
    #: Half open, by the time the data covers, or by arrival where that is not known; None is without end.
    covers_from: Mapped[datetime | None]
    covers_to: Mapped[datetime | None]
    weight: Mapped[float]
    state: Mapped[BackfillState]
    who: Mapped[str]
    why: Mapped[str]
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]

    __table_args__ = (
        Index("uq_backfill_open", "object", unique=True, postgresql_where=text("state IN ('running', 'paused')")),
    )


class BackfillPiece(Base):
    """One job of a backfill: load some files aside, put them in the table's place, or compute a view."""

    __tablename__ = "backfill_piece"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    backfill_id: Mapped[int] = mapped_column(ForeignKey("backfill.id"))
    position: Mapped[int]
    #: stage, commit or refresh
    what: Mapped[str]
    object: Mapped[str]
    updates: Mapped[list[int]]
    bytes_in: Mapped[int]
    decision_id: Mapped[int | None] = mapped_column(ForeignKey("decision.id"))
    #: Where a stage left its rows, what a commit found, which snapshot a refresh made.
    outcome: Mapped[dict[str, Any] | None]
    finished_at: Mapped[datetime | None]

    __table_args__ = (UniqueConstraint("backfill_id", "position"),)


class Lease(Base):
    """Who runs the one loop of the installation. The loop's writes carry its epoch; an old one's are refused."""

    __tablename__ = "lease"

    id: Mapped[int] = mapped_column(primary_key=True)
    holder: Mapped[str]
    epoch: Mapped[int]
    expires_at: Mapped[datetime]
    #: The last event whose consequences are in the freshness history.
    event_seen: Mapped[int]
    #: For people: when the loop last ticked, how long it took, why it does not decide.
    last_tick: Mapped[dict[str, Any]]

    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)
