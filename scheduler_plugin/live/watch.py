"""Keeps watch: what is wrong with the promises, and what soon will be.

Looks at the Scheduler every few seconds and answers with what has begun and what is over. Something has to be seen
twice in a row to begin, and to be gone twice in a row to be over, so that what flickers makes no alerts.
"""

import math
from collections.abc import Collection
from datetime import UTC, datetime

from scheduler_plugin.brain import Candidate
from scheduler_plugin.live.outlook import Breach, breaches, silent_feeds
from scheduler_plugin.live.scheduler import AWAY_PAUSE, Scheduler
from scheduler_plugin.store.incidents import Condition

Key = tuple[str, str | None]

OVERLOAD: Key = ("overload", None)
#: So many failures in a row are worth telling.
FAILURES = 3
#: How many are looked at to find those that are given up first.
MOST_WEIGHED = 200
#: How many of those that are given up are named.
NAMED = 5


class Watch:
    """Remembers what it has seen; begins with the incidents that are open."""

    def __init__(self, open_incidents: Collection[Key]) -> None:
        self.open: set[Key] = set(open_incidents)
        self._seen_once: set[Key] = set()
        self._missed_once: set[Key] = set()
        #: The open overload as it stands now, where it is another one than at the last look: who is given up changes.
        self.other_overload: Condition | None = None
        self._given_up: object = None

    def look(self, scheduler: Scheduler, now: float) -> tuple[list[Condition], list[Key]]:
        """What has begun, and what is over."""
        found = {each.key: each for each in conditions(scheduler, now)}
        new = {key for key in found if key not in self.open}
        gone = {key for key in self.open if key not in found}
        begun = [found[key] for key in sorted(new & self._seen_once, key=str)]
        over = sorted(gone & self._missed_once, key=str)
        self._seen_once, self._missed_once = new, gone
        self.open |= {each.key for each in begun}
        self.open -= set(over)
        overload = found.get(OVERLOAD) if OVERLOAD in self.open else None
        given_up = None if overload is None else overload.body["given_up"]
        self.other_overload = overload if given_up != self._given_up else None
        self._given_up = given_up
        return begun, over


def conditions(scheduler: Scheduler, now: float) -> list[Condition]:
    """Everything that is the case now."""
    expected = breaches(scheduler, now)
    found = [_breach(each, now) for each in expected]
    for name, waited in silent_feeds(scheduler, now).items():
        period = float(scheduler.rows[name].spec["period"])
        told = f"Nothing has arrived for {name} since {_clock(now - waited)}; its feed comes about every {period:g} s."
        found.append(_condition("silent_feed", name, told, waited=waited, period=period))
    for name, trouble in scheduler.troubles.items():
        if trouble.failures >= FAILURES:
            told = f"The last {trouble.failures} jobs on {name} failed; it is tried again with growing pauses."
            found.append(_condition("failing", name, told, failures=trouble.failures, until=trouble.until))
    if scheduler.spark_away:
        told = f"No Spark answers: no job can run. It is asked again every {AWAY_PAUSE:.0f} s."
        found.append(_condition("failing", None, told))
    for name, files in scheduler.blocked.items():
        told = f"{files} file(s) of the last batch of {name} went to quarantine: `freshet quarantine list` says why."
        found.append(_condition("blocked_batch", name, told, files=files))
    if (load := [each for each in expected if each.cause == "load"]) and scheduler.stopped is None:
        found.append(_overload(scheduler, load, now))
    return found


def _breach(breach: Breach, now: float) -> Condition:
    left = breach.at - now
    kind = "breach" if left <= 0 else "predicted_breach"
    if breach.at == -math.inf:
        happens = f"holds nothing yet, with a limit of {breach.limit:g} s"
    elif kind == "breach":
        happens = f"passed its limit of {breach.limit:g} s at {_clock(breach.at)}"
    else:
        happens = f"will breach its limit of {breach.limit:g} s in {span(left)}, at {_clock(breach.at)}"
    told = f"{breach.object} {happens}: {breach.why}."
    return _condition(kind, breach.object, told, at=breach.at, limit=breach.limit, cause=breach.cause)


def _overload(scheduler: Scheduler, load: list[Breach], now: float) -> Condition:
    """Not all limits can be kept. Whom the policy gives up it says itself; else it is who stands last in its order."""
    warehouse, policy = scheduler.warehouse, scheduler.policy
    given_up = policy.given_up(warehouse, now)
    if not given_up:
        # The soonest are enough to choose from: there may be thousands.
        names = {each.object for each in load[:MOST_WEIGHED]}
        given_up = [
            Candidate(object=name, impact=policy.impact(warehouse, name, now), why=policy.why(warehouse, name, now))
            for name in names
        ]
        given_up.sort(key=lambda each: (each.impact, each.object))
    first = given_up[:NAMED]
    words = "; ".join(f"{each.object} (impact {each.impact:.3g}: {each.why})" for each in first)
    work = f"{warehouse.work.backlog:.0f} s of work wait for {warehouse.slots} slots"
    return _condition(
        "overload",
        None,
        f"The load makes it impossible to keep all limits: {work}. Given up first, as running them now helps readers "
        f"least: {words}.",
        given_up=[each.object for each in first],
        impacts=[each.impact for each in first],
        backlog=warehouse.work.backlog,
        slots=warehouse.slots,
    )


def _condition(kind: str, name: str | None, summary: str, **body: object) -> Condition:
    return Condition(kind=kind, object=name, summary=summary, body=body)


def span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _clock(at: float) -> str:
    """What is told stands for as long as the incident lasts, and in messages for longer."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
