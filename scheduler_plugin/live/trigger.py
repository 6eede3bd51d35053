"""The loop's home: a trigger in Airflow's triggerer, which restarts it wherever a triggerer is alive."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from scheduler_plugin.services.settings import Settings

#: How long one run of the DAG lasts before the next takes over: its log stays readable, the gap is a few seconds.
RUN_SECONDS = 6 * 3600.0


class TickTrigger(BaseTrigger):
    """Runs the loop in a thread until the run is over, or the triggerer takes the trigger away."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from scheduler_plugin.live.loop import run_loop

        stop = threading.Event()
        try:
            await asyncio.to_thread(run_loop, Settings.load, stop, RUN_SECONDS)
        finally:
            stop.set()
        yield TaskSuccessEvent()
