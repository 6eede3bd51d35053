"""Carries decisions to Airflow, and back what somebody paused there.

A thread of its own, so that a slow or absent API never holds up the tick. Sending is idempotent: an old courier that
sends once more makes no second run.
"""

import logging
import math
import threading
import time
from datetime import timedelta

from sqlalchemy.exc import OperationalError

from scheduler_plugin.live.dispatch import Airflow, DispatchError, UnreachableError
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import decisions, incidents
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.decisions import run_id

log = logging.getLogger(__name__)

#: A run that no job has claimed by now is lost; twice as long with each attempt. The claim decides between two.
UNCLAIMED_AFTER = timedelta(seconds=15)
#: A job without a sign of life for this long is dead.
DEAD_AFTER = timedelta(seconds=10)
#: A decision that Airflow, though it answers, has not taken by now is given up.
REFUSED_AFTER = timedelta(seconds=90)
#: Seconds between two looks at what is paused, and for what has been lost.
LOOK_SECONDS = 1.0
#: Seconds between two requests to parse the objects' DAGs.
PARSE_SECONDS = 10.0


class Courier:
    """Starts with `start`, ends with `stop`; `wake` makes it send at once."""

    def __init__(self, settings: Settings, database: Database, slots: int) -> None:
        self._airflow = Airflow(settings)
        self._database = database
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="freshet-courier", daemon=True)
        #: How many jobs may run at once; the pool in Airflow follows.
        self.slots = slots
        self._pooled: int | None = None
        #: Whether the catalog names anybody who should be told of incidents.
        self.alerts = False
        #: Whether Airflow knows other objects' DAGs than the catalog has. It parses them by itself only now and then.
        self.outdated = False
        self._parsed = -math.inf
        #: DAGs that somebody has paused; None before the first answer.
        self.paused: frozenset[str] | None = None
        #: Why nothing can be sent, for people; None when all is well.
        self.trouble: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join(timeout=15)
        self._airflow.close()

    def wake(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        looked = 0.0
        while not self._stopping.is_set():
            try:
                if self._pooled != self.slots:
                    slots = self.slots
                    self._airflow.set_pool(slots)
                    self._pooled = slots
                self._parse()
                self._send()
                if time.monotonic() - looked >= LOOK_SECONDS:
                    self.paused = self._airflow.paused()
                    if self.alerts:
                        self._alert()
                    looked = time.monotonic()
                self.trouble = None
            except (DispatchError, OperationalError) as error:
                if self.trouble is None:
                    log.warning("Nothing can be sent for now: %s", error)
                self.trouble = str(error)
                self._stopping.wait(0.5)
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()

    def _parse(self) -> None:
        if self.outdated and time.monotonic() - self._parsed >= PARSE_SECONDS:
            self._parsed = time.monotonic()
            self._airflow.parse_objects()
            self.outdated = False

    def _alert(self) -> None:
        for incident, what in incidents.unalerted(self._database):
            self._airflow.alert(incident, what)
            incidents.mark_alerted(self._database, incident, what)

    def _send(self) -> None:
        """One that Airflow does not take, as while its DAG is still to be parsed, holds up no other."""
        refused = None
        for outgoing in decisions.unsent(self._database, unclaimed_after=UNCLAIMED_AFTER, dead_after=DEAD_AFTER):
            try:
                if outgoing.attempt > 1:
                    # Whatever is left of the one before must not hold a place in the pool, nor work on.
                    self._airflow.give_up(outgoing.dag_id, run_id(outgoing.id, outgoing.attempt - 1))
                self._airflow.send(outgoing)
            except UnreachableError:
                raise
            except DispatchError as error:
                refused = error
                self.outdated = True  # most likely the DAG is not there yet
                decisions.give_up(self._database, [outgoing.id], str(error), after=REFUSED_AFTER)
                continue
            decisions.mark_dispatched(self._database, outgoing)
        if refused is not None:
            raise refused
