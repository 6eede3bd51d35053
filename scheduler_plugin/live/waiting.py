"""What becomes of demands at a tick: the met are written down, the late are given up, what queries like is weighed.

A query that was told what it would wait for sees its own demands end; nothing else passes between it and the loop.
"""

from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.store import demands, queries
from scheduler_plugin.store.database import Database


def tell(database: Database, epoch: int, scheduler: Scheduler, now: float) -> bool:
    """Writes down what the scheduler knows of demands; True when that is news for itself, to be read in the log."""
    ended, scheduler.ended = scheduler.ended, []
    demands.end(database, epoch, ended)
    overdue = scheduler.demands.overdue(now)
    if overdue:
        demands.withdraw(database, overdue, "missed")
    weighed = scheduler.weigh(now)
    if weighed is not None:
        queries.weighed(database, epoch, weighed.queries, weighed.as_json())
        demands.withdraw(database, weighed.declined, "declined")
    return bool(overdue) or weighed is not None
