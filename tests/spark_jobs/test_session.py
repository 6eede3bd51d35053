"""Sessions on Spark: whose they are, and when one is left to a later job."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scheduler_plugin.services.home import REPOSITORY
from scheduler_plugin.services.settings import Settings
from spark_jobs import session
from spark_jobs.query import prepared
from spark_jobs.session import spark_session

pytestmark = pytest.mark.services

#: A process that has a session of the folder and does not give it back.
HOLDER = """
import sys, time
from pathlib import Path
from spark_jobs.session import spark_session
with spark_session(sys.argv[1], kept=Path(sys.argv[2])) as spark:
    print(spark.session_id, spark.range(3).count(), flush=True)
    time.sleep(600)
"""


def used(settings: Settings, folder: Path) -> str:
    with spark_session(settings.spark_remote, kept=folder) as spark:
        assert spark.range(3).count() == 3
        return str(spark.session_id)


def test_a_session_that_ended_well_is_used_again_and_never_by_two_at_once(settings: Settings, tmp_path: Path) -> None:
    first = used(settings, tmp_path)
    with spark_session(settings.spark_remote, kept=tmp_path) as spark:
        assert spark.session_id == first
        second = used(settings, tmp_path)
        assert second != first
    assert {used(settings, tmp_path), used(settings, tmp_path)} == {first}


def test_a_session_that_ended_badly_is_used_by_nobody(settings: Settings, tmp_path: Path) -> None:
    first = used(settings, tmp_path)
    with pytest.raises(RuntimeError), spark_session(settings.spark_remote, kept=tmp_path) as spark:
        assert spark.session_id == first
        raise RuntimeError
    assert used(settings, tmp_path) != first


def test_the_session_of_a_job_that_is_frozen_or_was_killed_is_used_by_nobody(
    settings: Settings, tmp_path: Path
) -> None:
    first = used(settings, tmp_path)
    command = [sys.executable, "-c", HOLDER, settings.spark_remote, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline().split() == [first, "3"]
        job.send_signal(signal.SIGSTOP)
        while_frozen = used(settings, tmp_path)
        job.kill()
    assert while_frozen != first
    assert used(settings, tmp_path) not in (first, while_frozen)


def test_a_session_is_left_before_the_server_forgets_it(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = used(settings, tmp_path)
    later = time.time() + session.KEPT_SECONDS
    monkeypatch.setattr(session.time, "time", lambda: later)
    assert used(settings, tmp_path) != first


def test_what_an_earlier_user_of_a_session_meant_by_a_name_is_forgotten(spark_connect: Any, tables: Any) -> None:
    for number in (1, 2):
        virtual = {"later_one": "SELECT x FROM early_one", "early_one": f"SELECT {number} AS x"}
        frame, _ = prepared(spark_connect, tables, "SELECT x FROM later_one", {}, virtual)
        assert frame.collect()[0].x == number
