"""What can go wrong, done on purpose. Each fault is a function of the installation and a source of chance."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import psutil

from scheduler_plugin.services import airflow, postgres, process, spark
from scheduler_plugin.services.process import Record
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.decisions import Outgoing, workers
from scheduler_plugin.store.reports import latest_decisions

#: Seconds for which something is frozen; a minute in a long run, less in a short one.
FROZEN = (4.0, 60.0)

Fault = Callable[[Settings, random.Random, float], str]


def kill(service: str) -> Fault:
    def fault(settings: Settings, chance: random.Random, longest: float) -> str:
        record = Record.read(settings.home, service)
        if record is None or not record.alive:
            return f"{service} was not there to be killed"
        os.kill(record.pid, signal.SIGKILL)
        return f"kill -9 of {service} (pid {record.pid})"

    return fault


def kill_two(settings: Settings, chance: random.Random, longest: float) -> str:
    """A pair at once."""
    pair = chance.sample(("triggerer", "scheduler", "api-server", spark.SERVICE, postgres.SERVICE), 2)
    return " and ".join(kill(service)(settings, chance, longest) for service in pair)


def spark_away(settings: Settings, chance: random.Random, longest: float) -> str:
    """Nobody brings it back for a while."""
    told, seconds = kill(spark.SERVICE)(settings, chance, longest), chance.uniform(4.0, max(5.0, longest))
    time.sleep(seconds)
    return f"{told}, and away for {seconds:.0f} s"


def kill_a_job(settings: Settings, chance: random.Random, longest: float) -> str:
    found = _jobs(settings)
    if not found:
        return "no job was there to be killed"
    job = chance.choice(found)
    with suppress(psutil.NoSuchProcess):
        job.kill()
    return f"kill -9 of a job (pid {job.pid})"


def freeze_a_job(settings: Settings, chance: random.Random, longest: float) -> str:
    """It gives no sign of life, is replaced, and comes back from the dead."""
    found = _jobs(settings)
    if not found:
        return "no job was there to be frozen"
    job = chance.choice(found)
    seconds = chance.uniform(12.0, max(13.0, longest))
    with suppress(psutil.NoSuchProcess):
        job.suspend()
        time.sleep(seconds)
        job.resume()
    return f"a job (pid {job.pid}) frozen for {seconds:.0f} s"


def freeze_postgres(settings: Settings, chance: random.Random, longest: float) -> str:
    """As if the network to it were gone for a while: connections stay open and nobody answers."""
    record = Record.read(settings.home, postgres.SERVICE)
    if record is None or not record.alive:
        return "Postgres was not there to be frozen"
    seconds = chance.uniform(FROZEN[0], max(FROZEN[0] + 1, longest))
    members = process.family(record)
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.suspend()
    time.sleep(seconds)
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.resume()
    return f"Postgres frozen for {seconds:.0f} s"


def two_loops(settings: Settings, chance: random.Random, longest: float) -> str:
    """A second loop by mistake: it must wait for the lease, or take it and be the only one."""
    from scheduler_plugin.live.loop import run_loop

    stop = threading.Event()
    second = threading.Thread(target=run_loop, args=(lambda: settings, stop, 600.0), daemon=True)
    second.start()
    time.sleep(5)
    stop.set()
    second.join(30)
    return "a second loop for 5 s"


def fail_a_run(settings: Settings, chance: random.Random, longest: float) -> str:
    """Somebody marks a running DAG run as failed in the UI."""
    return _by_hand(settings, chance, "marked failed by hand", lambda client, dag, run: client.give_up(dag, run))


def clear_a_run(settings: Settings, chance: random.Random, longest: float) -> str:
    """Somebody clears a DAG run in the UI."""
    return _by_hand(settings, chance, "cleared by hand", lambda client, dag, run: client.clear(dag, run))


def _by_hand(settings: Settings, chance: random.Random, told: str, act: Callable[[Any, str, str], None]) -> str:
    from scheduler_plugin.live.dispatch import Airflow, DispatchError

    database, client = Database(settings.database_url), Airflow(settings)
    try:
        newest = latest_decisions(database, 6)
        if not newest:
            return "no run was there"
        decision = chance.choice([each for each in newest if each.state == "claimed"] or newest)
        kind = "table" if decision.object in TABLES else "view"
        run = Outgoing(id=decision.id, object=decision.object, kind=kind, attempt=decision.attempt, why="")
        act(client, run.dag_id, run.run_id)
        return f"{run.run_id} of {run.dag_id} ({decision.state}) {told}"
    except DispatchError as error:
        return f"no run could be {told}: {error}"
    finally:
        client.close()
        database.close()


def _jobs(settings: Settings) -> "list[psutil.Process]":
    """Processes of jobs at work; waits a little for one to be there."""
    database = Database(settings.database_url)
    try:
        for _ in range(100):
            found = []
            for _, worker in workers(database):
                with suppress(psutil.Error, ValueError):
                    found.append(psutil.Process(int(worker.rpartition(":")[2])))
            if found:
                return found
            time.sleep(0.1)
        return []
    finally:
        database.close()


#: The tables of the chaos catalog; the rest are views.
TABLES = ("trips", "cities")
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        **{f"kill {service}": kill(service) for service in (*airflow.COMPONENTS, spark.SERVICE, postgres.SERVICE)},
        "kill two": kill_two,
        "spark away": spark_away,
        "kill a job": kill_a_job,
        "freeze a job": freeze_a_job,
        "freeze postgres": freeze_postgres,
        "two loops": two_loops,
        "fail a run": fail_a_run,
        "clear a run": clear_a_run,
    }
)
