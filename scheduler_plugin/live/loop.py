"""The tick: take in what happened, decide, record, dispatch. One loop in the whole installation.

    log ──► Scheduler (brain) ──► decisions ──► Courier ──► Airflow
     ▲           │
     │           └──► freshness history
    LandingWatcher, jobs, people

Woken by NOTIFY and at the latest after the tick interval. Whoever holds the lease decides; when anything goes wrong the
loop throws its state away, and the next one learns it again from the log.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler_plugin.catalog import CatalogError, catalog_path, load_catalog
from scheduler_plugin.catalog.rows import catalog_row
from scheduler_plugin.live import memory, waiting
from scheduler_plugin.live.announce import landings
from scheduler_plugin.live.courier import Courier
from scheduler_plugin.live.holds import PARENT_BLOCKED, PAUSED
from scheduler_plugin.live.landing import LandingWatcher
from scheduler_plugin.live.listing import LandingLister
from scheduler_plugin.live.metrics import Metrics, standing
from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.live.watch import Watch
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import (
    accesses,
    checkpoints,
    decisions,
    freshness,
    incidents,
    lease,
    objects,
    quarantine,
)
from scheduler_plugin.store.database import Database, Listener, log_events
from scheduler_plugin.store.freshness import LoggedEvent
from scheduler_plugin.store.models import EventKind

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=6)
LEARN_ACCESS_SECONDS = 5.0
#: A checkpoint is written every so many events.
CHECKPOINT_EVENTS = 5000
WATCH_SECONDS = 5.0
TICK_DAG = "freshet_tick"


def run_loop(load_settings: Callable[[], Settings], stop: threading.Event, seconds: float) -> None:
    """Runs until `stop` is set or the time is over; survives what a restart of a service can do to it."""
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    until = time.monotonic() + seconds
    while not stop.is_set() and time.monotonic() < until:
        try:
            with ExitStack() as stack:
                settings = load_settings()
                database = Database(settings.database_url)
                stack.callback(database.close)
                epoch = lease.take(database, holder, LEASE)
                if epoch is None:
                    stop.wait(0.5)
                    continue
                stack.callback(lease.give_back, database, holder)
                log.info("This loop decides from now on (epoch %d).", epoch)
                Loop(settings, database, holder, epoch).run(stop, until)
        except lease.LeaseLostError as error:
            log.warning("Another loop has taken over: %s", error)
        except Exception:
            log.exception("The loop failed and starts again from the log.")
            stop.wait(1)


class Loop:
    """One term of office: from taking the lease to losing it, or to the first error."""

    def __init__(self, settings: Settings, database: Database, holder: str, epoch: int) -> None:
        self._settings = settings
        self._database = database
        self._holder = holder
        self._epoch = epoch
        self._renewed = time.monotonic()
        self._learn_next = 0.0
        self._look_next = 0.0
        self._catalog = load_catalog(catalog_path())
        self._catalog_problem: str | None = None
        self._landing: list[LandingWatcher | LandingLister] = []
        self._courier = Courier(settings, database, self._catalog.slots)
        self._courier.alerts = bool(self._catalog.alerts)
        self._courier.outdated = objects.take_in(database, catalog_row(self._catalog))
        self._seen = 0
        self._kept = checkpoints.last_id(database)
        self._changes: list[freshness.Change] = []
        self._scheduler = self._rebuilt()
        self._watch = Watch(incidents.open_keys(database))
        self._watch_next = 0.0
        self._metrics = Metrics()

    def run(self, stop: threading.Event, until: float) -> None:
        with ExitStack() as stack:
            listener = stack.enter_context(self._database.listener())
            stack.callback(self._stop_landing)
            self._watch_landing()
            self._courier.start()
            stack.callback(self._courier.stop)
            while not stop.is_set() and time.monotonic() < until:
                if not self._tick():
                    self._wait(listener, stop)

    def _wait(self, listener: Listener, stop: threading.Event) -> None:
        """Until something is logged, the tick interval is over, or the loop shall stop."""
        until = time.monotonic() + self._catalog.tick_seconds
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            if listener.wait(min(left, 0.25)):
                return

    def _tick(self) -> bool:
        """True when it decided something, so that there is news to take in at once."""
        began = time.monotonic()
        self._keep_lease()
        self._follow_catalog()
        events = freshness.events_after(self._database, self._seen)
        self._take_in(events)
        self._log_holds()
        self._learn_access()
        self._end_demands()
        state = self._state()
        chosen = self._scheduler.choose(time.time()) if state == "deciding" else []
        decided = decisions.record(self._database, self._epoch, chosen)
        if decided:
            self._courier.wake()
            for identity, choice in zip(decided, chosen, strict=True):
                log.info("Decision %d: %s. %s", identity, choice.object, choice.why)
        changes, self._changes = self._changes, []
        freshness.note(
            self._database,
            self._epoch,
            changes,
            event_seen=self._seen,
            last_tick={
                "at": time.time(),
                "seconds": round(time.monotonic() - began, 4),
                "state": state,
                "events": len(events),
                "decided": len(decided),
                "ready": len(self._scheduler.warehouse.ready),
                "running": len(self._scheduler.running),
                "slots": self._scheduler.warehouse.slots,
                "holder": self._holder,
            },
        )
        self._keep_checkpoint()
        self._keep_watch()
        self._metrics.tick(
            seconds=time.monotonic() - began,
            decided=len(decided),
            failed=sum(event.kind == EventKind.JOB_FAILED for event in events),
            quarantined_rows=sum(event.body.get("quarantined_rows", 0) for event in events),
        )
        return bool(decided)

    def _keep_watch(self) -> None:
        """Every few seconds: is every promise kept, and will it be? It costs as much as the warehouse is large."""
        began = time.monotonic()
        if began < self._watch_next:
            return
        now = max(time.time(), self._scheduler.warehouse.now)
        begun, over = self._watch.look(self._scheduler, now)
        incidents.change(self._database, self._epoch, begun, over)
        if self._watch.other_overload is not None:
            incidents.retell(self._database, self._epoch, self._watch.other_overload)
        for each in begun:
            log.warning("%s", each.summary)
        if self._metrics.on:
            self._metrics.standing(*standing(self._scheduler, self._watch, now))
        # In a large warehouse less often, so that the tick keeps most of its time.
        self._watch_next = time.monotonic() + max(WATCH_SECONDS, 10 * (time.monotonic() - began))

    def _state(self) -> str:
        if self._courier.paused is None:
            return f"waiting for Airflow: {self._courier.trouble or 'no answer yet'}"
        if TICK_DAG in self._courier.paused:
            return f"paused: {TICK_DAG} is paused in Airflow"
        if self._scheduler.stopped is not None:
            return f"paused: everything is paused {self._scheduler.stopped}".strip()
        return "deciding"

    # What happened ----------------------------------------------------------------------------------------------

    def _take_in(self, events: list[LoggedEvent]) -> None:
        for event in events:
            if event.kind == EventKind.CATALOG_CHANGED and event.id > self._seen:
                self._scheduler = self._rebuilt(upto=event.id)
            else:
                self._changes += self._scheduler.apply(event)
            self._seen = event.id

    def _rebuilt(self, upto: int | None = None) -> Scheduler:
        """The catalog in force with the log replayed as far as its consequences are written down, or to `upto`."""
        catalog = objects.in_force(self._database, backfills=True)
        assert catalog is not None, "a loop takes its catalog in before it looks for it"
        if upto is None:
            first, *_ = freshness.events_after(self._database, 0, limit=1)
            upto = max(freshness.last_noted_event(self._database), first.id)
        scheduler = memory.at_event(self._database, upto, catalog=catalog)
        at = datetime.fromtimestamp(scheduler.warehouse.now, UTC)
        # Where the catalog changed what an object is, its history gets a new spell.
        told = freshness.open_spells(self._database)
        self._changes = [change for change in self._changes if change.object in scheduler.rows]
        for change in scheduler.standing(at):
            if told.get(change.object) != (change.fresh, change.current_to):
                self._changes.append(change)
        self._seen = upto
        return scheduler

    def _keep_checkpoint(self) -> None:
        """Now and then, so that neither a new loop nor a question about the past replays much of the log."""
        if self._seen - self._kept >= CHECKPOINT_EVENTS:
            at = datetime.fromtimestamp(self._scheduler.warehouse.now, UTC)
            state = memory.dump(self._scheduler)
            checkpoints.write(self._database, self._epoch, event_id=self._seen, at=at, state=state)
            self._kept = self._seen

    def _keep_lease(self) -> None:
        if time.monotonic() - self._renewed < LEASE.total_seconds() / 3:
            return
        epoch = lease.take(self._database, self._holder, LEASE)
        if epoch != self._epoch:
            raise lease.LeaseLostError("the lease ran out before it was renewed")
        self._renewed = time.monotonic()

    # The catalog ------------------------------------------------------------------------------------------------

    def _follow_catalog(self) -> None:
        began = time.monotonic()
        if began < self._look_next:
            return
        if not self._catalog.unchanged_on_disk():
            self._read_catalog()
        # A look costs as much as the catalog has files.
        self._look_next = time.monotonic() + 20 * (time.monotonic() - began)

    def _read_catalog(self) -> None:
        try:
            changed = load_catalog(catalog_path())
        except CatalogError as error:
            if str(error) != self._catalog_problem:
                log.error("The catalog was changed and is not sound; the one before stays in force.\n%s", error)
            self._catalog_problem = str(error)
            return
        self._catalog, self._catalog_problem = changed, None
        if objects.take_in(self._database, catalog_row(changed)):
            log.info("A changed catalog is in force.")
            self._courier.slots, self._courier.alerts = changed.slots, bool(changed.alerts)
            self._courier.outdated = True
            self._stop_landing()
            self._watch_landing()

    def _watch_landing(self) -> None:
        places = landings(self._catalog, self._settings.landing)
        self._landing = [LandingWatcher(self._database, places), LandingLister(self._database, places)]
        for watcher in self._landing:
            watcher.start()

    def _stop_landing(self) -> None:
        for watcher in self._landing:
            watcher.stop()

    # What people did --------------------------------------------------------------------------------------------

    def _log_holds(self) -> None:
        if self._courier.paused is None:
            return
        blocked = quarantine.blocked_tables(self._database) if self._scheduler.waits_for_tables else ()
        events: list[tuple[EventKind, str | None, Mapping[str, Any]]] = []
        for reason, (held, released) in (
            (PAUSED, self._scheduler.to_hold(self._courier.paused)),
            (PARENT_BLOCKED, self._scheduler.to_hold_above(blocked)),
        ):
            events += [(EventKind.HELD, name, {"by": reason}) for name in held]
            events += [(EventKind.RELEASED, name, {"by": reason}) for name in released]
        if events:
            with self._database.logging_transaction() as (connection, now):
                log_events(connection, now, events)
            self._take_in(freshness.events_after(self._database, self._seen))

    def _end_demands(self) -> None:
        if waiting.tell(self._database, self._epoch, self._scheduler, time.time()):
            self._take_in(freshness.events_after(self._database, self._seen))

    def _learn_access(self) -> None:
        began = time.monotonic()
        if began < self._learn_next:
            return
        half_life = self._catalog.access_half_life
        prior_share = 0.5 ** ((time.time() - self._scheduler.since) / half_life)
        per_minute = accesses.per_minute(self._database, timedelta(seconds=half_life))
        self._scheduler.hot = accesses.hot(self._database, accesses.HOT_PLACES)
        learnt = self._scheduler.accesses(per_minute, prior_share)
        if learnt:
            accesses.learn(self._database, learnt)
            self._take_in(freshness.events_after(self._database, self._seen))
        # It costs as much as there are objects that people read: the more, the less often.
        self._learn_next = time.monotonic() + max(LEARN_ACCESS_SECONDS, 20 * (time.monotonic() - began))
