"""The brain beside the requests: a thread reads the log and thinks, and requests take what it made of it last.

So nobody who looks waits for the log to be read, however long it is and however much has just been written to it.
"""

import logging
import math
import threading
import time
from collections.abc import Callable

from scheduler_plugin.live.follower import Explained, Follower, Outlook

log = logging.getLogger(__name__)

#: Between two thoughts while somebody looks; or so many times as long as one takes: looking should never fill a core.
THINK_SECONDS = 1.0
THINK_TIMES = 3.0
#: So often it only reads on, when nobody looks: what piles up has to be read by whoever looks next.
FOLLOW_SECONDS = 5.0
#: For so long after a look somebody is taken to be looking.
LOOKING_SECONDS = 10.0
#: A request waits so long for a newer thought, and goes on with the last one.
PATIENCE_SECONDS = 0.3


class Brain:
    """One for each process. `follower` is asked for each time, since the ledger may move."""

    def __init__(self, follower: Callable[[], Follower]) -> None:
        self._follower = follower
        self._outlook: Outlook | None = None
        self._made_at = -math.inf
        self._looked_at = -math.inf
        #: Thoughts from before are of no use: somebody has acted.
        self._wanted_from = -math.inf
        self._made = threading.Condition()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._live, name="freshet-brain", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def think(self) -> None:
        """Reads what is new in the log and makes an outlook of it."""
        began = time.monotonic()
        outlook = self._follower().look(time.time())
        with self._made:
            self._outlook, self._made_at = outlook, began
            self._made.notify_all()

    def hurry(self) -> None:
        """Somebody has acted and wants to see what came of it."""
        self._wanted_from = time.monotonic()
        self._wake.set()

    def outlook(self) -> Outlook | None:
        """What it makes of the whole; None until it has read the log."""
        now = time.monotonic()
        if now - self._looked_at > LOOKING_SECONDS and now - self._made_at > LOOKING_SECONDS:
            self._wanted_from = now
            self._wake.set()
        self._looked_at = now
        if self._thread is not None:
            with self._made:
                self._made.wait_for(lambda: self._made_at >= self._wanted_from, PATIENCE_SECONDS)
        return self._outlook

    def explain(self, name: str) -> Explained | None:
        """Why the object is, or is not, next; None while it is busy reading the log."""
        follower = self._follower()
        return follower.explain(name, time.time(), patience=PATIENCE_SECONDS) if follower.ready else None

    def _live(self) -> None:
        told = ""
        while not self._closed:
            self._wake.clear()
            began = time.monotonic()
            try:
                if self._outlook is None or began - self._looked_at < LOOKING_SECONDS:
                    self.think()
                else:
                    with self._follower().caught_up(time.time()):
                        pass
                told = ""
            except Exception as error:  # the ledger is away or not made yet; whoever looks is told so
                if str(error) != told:
                    log.warning("Freshet's page cannot read the log, and tries again: %s", error)
                told = str(error)
            now = time.monotonic()
            looking = self._outlook is None or now - self._looked_at < LOOKING_SECONDS
            self._wake.wait(max(THINK_SECONDS, THINK_TIMES * (now - began)) if looking else FOLLOW_SECONDS)
