"""QoD over time, and the picture of it (paper 004, section 4.2): which objects cost how much of it.

An object's fresh share of a window comes from the freshness history. Its weight is how often it was read in the window;
where nobody has been counted reading anything, how often the catalog says it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, func, select, text

from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Access, Decision, Freshness, Object


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """One stretch of the window."""

    at: datetime
    #: Share of accesses that meet a fresh object; None where there is no history.
    qod: float | None
    #: Mean share of objects that were fresh, each counting the same.
    fresh: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One object's part in the QoD of a window."""

    object: str
    #: Share of all accesses that are its own; all of them add up to 1.
    access: float
    reads: int
    reads_met_fresh: int
    #: Seconds of the window in which it was known, and in which it was stale.
    seconds: float
    stale_seconds: float
    #: Of those, with a job of its own under way: what refreshing costs. The rest is waiting.
    running_seconds: float


def over_time(database: Database, since: datetime, until: datetime, buckets: int) -> list[Bucket]:
    """QoD in equal stretches of the window, oldest first."""
    # One pass over the spells; those that span several stretches are cut at their edges.
    statement = text("""
        WITH edges AS (
            SELECT n, CAST(:since AS timestamptz) + n * :step * interval '1 second' AS a,
                   CAST(:since AS timestamptz) + (n + 1) * :step * interval '1 second' AS b
            FROM generate_series(0, :buckets - 1) AS n
        ), read AS (
            SELECT object, sum(count)::float8 AS reads FROM freshet.access
            WHERE minute >= CAST(:since AS timestamptz) AND minute < CAST(:until AS timestamptz) GROUP BY object
        ), weight AS (
            SELECT o.name, CASE WHEN EXISTS (SELECT FROM read) THEN coalesce(r.reads, 0)
                           ELSE (o.spec->>'access')::float8 END AS w
            FROM freshet.object o LEFT JOIN read r ON r.object = o.name WHERE o.removed_at IS NULL
        ), piece AS (
            SELECT e.n, e.a, w.w, f.fresh,
                   extract(epoch FROM least(coalesce(f.until, now()), e.b, now()) - greatest(f.since, e.a)) AS s
            FROM freshet.freshness f JOIN weight w ON w.name = f.object
            JOIN edges e ON f.since < e.b AND coalesce(f.until, now()) > e.a
            WHERE f.since < CAST(:until AS timestamptz)
              AND coalesce(f.until, now()) > CAST(:since AS timestamptz)
        )
        SELECT e.a,
               sum(w * s) FILTER (WHERE fresh) / nullif(sum(w * s), 0) AS qod, sum(w * s) AS known,
               sum(s) FILTER (WHERE fresh) / nullif(sum(s), 0) AS fresh, sum(s) AS seconds
        FROM edges e LEFT JOIN piece p ON p.n = e.n AND p.s > 0
        GROUP BY e.n, e.a ORDER BY e.n
    """)
    step = (until - since).total_seconds() / buckets
    with database.transaction() as connection:
        rows = connection.execute(statement, {"since": since, "until": until, "step": step, "buckets": buckets}).all()
    return [
        Bucket(
            at=at,
            qod=float(qod or 0) if known else None,
            fresh=float(fresh or 0) if seconds else None,
        )
        for at, qod, known, fresh, seconds in rows
    ]


def picture(database: Database, since: datetime, until: datetime) -> list[Share]:
    """Every object's part in what readers lost in the window, the largest loss first."""
    now = func.now()
    begin = func.greatest(Freshness.since, since)
    length = func.extract("epoch", func.least(func.coalesce(Freshness.until, now), until) - begin)
    job_length = func.extract(
        "epoch",
        func.least(func.coalesce(Decision.finished_at, now), until) - func.greatest(Decision.claimed_at, since),
    )
    with database.transaction() as connection:
        declared = connection.execute(
            select(Object.name, Object.spec["access"].as_float()).where(
                Object.removed_at.is_(None), Object.kind != "backfill"
            )
        ).all()
        reads = {
            name: (int(count), int(met))
            for name, count, met in connection.execute(
                select(Access.object, func.sum(Access.count), func.sum(Access.met_fresh))
                .where(Access.minute >= since, Access.minute < until)
                .group_by(Access.object)
            )
        }
        spells = {
            name: (float(seconds or 0), float(stale or 0))
            for name, seconds, stale in connection.execute(
                select(Freshness.object, func.sum(length), func.sum(case((~Freshness.fresh, length), else_=0)))
                .where(Freshness.since < until, func.coalesce(Freshness.until, now) > since)
                .group_by(Freshness.object)
            )
        }
        running = {
            name: float(seconds or 0)
            for name, seconds in connection.execute(
                select(Decision.object, func.sum(job_length))
                .where(Decision.claimed_at < until, func.coalesce(Decision.finished_at, now) > since)
                .group_by(Decision.object)
            )
        }
    weights = {name: float(reads.get(name, (0, 0))[0]) if reads else float(access) for name, access in declared}
    return _by_loss(weights, reads, spells, running)


def _by_loss(
    weights: dict[str, float],
    reads: dict[str, tuple[int, int]],
    spells: dict[str, tuple[float, float]],
    running: dict[str, float],
) -> list[Share]:
    total = sum(weights.values())
    found = []
    for name, weight in weights.items():
        seconds, stale = spells.get(name, (0.0, 0.0))
        count, met = reads.get(name, (0, 0))
        found.append(
            Share(
                object=name,
                access=weight / total if total else 0.0,
                reads=count,
                reads_met_fresh=met,
                seconds=seconds,
                stale_seconds=stale,
                running_seconds=min(running.get(name, 0.0), stale),
            )
        )
    return sorted(found, key=lambda each: (-each.access * each.stale_seconds, each.object))


def qod(shares: Sequence[Share]) -> float | None:
    """The QoD of a window, from its picture; None without history or accesses."""
    known = [each for each in shares if each.seconds > 0 and each.access > 0]
    weight = sum(each.access for each in known)
    return sum(each.access * (1 - each.stale_seconds / each.seconds) for each in known) / weight if weight else None
