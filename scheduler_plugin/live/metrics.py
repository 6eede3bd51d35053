"""Freshet's figures in Airflow's own metrics: StatsD, Datadog or OpenTelemetry, as Airflow's `[metrics]` settings say.

freshet.tick.seconds          how long a tick took (timing)
freshet.decisions, .failures  counters
freshet.queue                 objects that could start
freshet.stale                 objects that are stale
freshet.slots, .slots_in_use  room, and how much of it is taken
freshet.qod                   share of accesses that meet a fresh object, as it stands
freshet.breaches              objects over their staleness limit
freshet.quarantined_rows      counter
freshet.staleness.<object>    seconds
"""

import math
from collections.abc import Mapping
from datetime import timedelta

from scheduler_plugin.live.scheduler import Scheduler
from scheduler_plugin.live.watch import Watch


class Metrics:
    """Begins anew in each process: a forked one must not share its forerunner's socket."""

    def __init__(self) -> None:
        from airflow.configuration import conf
        from airflow.observability import stats
        from airflow.observability.metrics import stats_utils

        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
        self.on = any(conf.getboolean("metrics", each) for each in ("statsd_on", "statsd_datadog_enabled", "otel_on"))
        self._stats = stats

    def tick(self, *, seconds: float, decided: int, failed: int, quarantined_rows: int) -> None:
        self._stats.timing("freshet.tick.seconds", timedelta(seconds=seconds))
        for name, count in (("decisions", decided), ("failures", failed), ("quarantined_rows", quarantined_rows)):
            if count:
                self._stats.incr(f"freshet.{name}", count)

    def standing(self, gauges: Mapping[str, float], staleness: Mapping[str, float]) -> None:
        for name, value in gauges.items():
            self._stats.gauge(f"freshet.{name}", value)
        for name, seconds in staleness.items():
            self._stats.gauge(f"freshet.staleness.{name}", seconds)


def standing(scheduler: Scheduler, watch: Watch, now: float) -> tuple[dict[str, float], dict[str, float]]:
    """The gauges of the whole, and each object's staleness."""
    warehouse = scheduler.warehouse
    total = sum(warehouse.access)
    fresh = sum(access for access, missing in zip(warehouse.access, warehouse.missing, strict=True) if missing > now)
    gauges = {
        "queue": len(warehouse.ready),
        "stale": sum(missing != math.inf for missing in warehouse.missing),
        "slots": warehouse.slots,
        "slots_in_use": len(scheduler.running),
        "qod": fresh / total if total else 1.0,
        "breaches": sum(kind == "breach" for kind, _ in watch.open),
    }
    return gauges, {name: warehouse.staleness(name, now) for name in scheduler.rows}
