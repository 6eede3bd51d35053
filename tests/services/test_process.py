"""A record of a process tells ours from a stranger's, and stopping reaches every child."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from scheduler_plugin.services import process
from scheduler_plugin.services.home import Home
from scheduler_plugin.services.process import Record

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
#: A parent that starts a child in a session of its own, tells its pid and dies at once, leaving it behind.
ORPHAN = (
    "import subprocess, sys\n"
    f"child = subprocess.Popen({SLEEP!r}, start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
)
#: Ignores being asked to end.
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(600)"
)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(root=tmp_path)
    home.make()
    yield home
    process.end(process.strays(home), first=signal.SIGKILL)


def start(home: Home, command: list[str] = SLEEP) -> Record:
    return process.start(home, "sleeper", command, environment=dict(os.environ))


def test_a_started_process_is_recognised_from_its_record(home: Home) -> None:
    record = start(home)
    assert Record.read(home, "sleeper") == record
    assert record.alive
    process.stop(record)
    assert not record.alive


def test_a_stranger_who_got_the_pid_is_not_taken_for_ours_and_not_stopped(home: Home) -> None:
    record = start(home)
    time.sleep(0.05)  # the system counts births in hundredths of a second
    stranger = subprocess.Popen(SLEEP)
    try:
        stale = replace(record, pid=stranger.pid)
        assert not stale.alive
        process.stop(stale)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_record_of_another_boot_is_dead(home: Home) -> None:
    record = start(home)
    assert not replace(record, birth=f"another-boot/{record.birth.rpartition('/')[2]}").alive
    process.stop(record)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "null"])
def test_a_record_cut_short_tells_nothing(home: Home, text: str) -> None:
    Record.path(home, "sleeper").write_text(text)
    assert Record.read(home, "sleeper") is None


def test_a_child_that_left_its_parent_is_found_by_the_mark_of_the_home(home: Home) -> None:
    record = start(home, [sys.executable, "-c", ORPHAN])
    process.wait(record)
    child = int((home.logs / "sleeper.log").read_text().split()[-1])
    assert [stray.pid for stray in process.strays(home)] == [child]
    process.end(process.strays(home))
    assert not psutil.pid_exists(child)


def test_who_does_not_listen_is_ended_all_the_same(home: Home) -> None:
    record = start(home, [sys.executable, "-c", STUBBORN])
    log = home.logs / "sleeper.log"
    while "ready" not in log.read_text().partition("\n")[2]:
        assert record.alive
    process.stop(record, patience=0.5)
    assert not record.alive


def test_the_preferred_port_is_passed_over_when_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert process.free_port((port,)) != port
    assert process.free_port((port,)) == port


def test_only_the_words_since_the_latest_start_are_told(home: Home) -> None:
    for word in ("first", "second"):
        process.wait(start(home, [sys.executable, "-c", f"print({word!r})"]))
    assert "second" in process.log_tail(home, "sleeper")
    assert "first" not in process.log_tail(home, "sleeper")


def test_records_hold_no_more_than_json(home: Home) -> None:
    record = start(home)
    kept = json.loads(Record.path(home, "sleeper").read_text())
    assert Record(**{**kept, "command": tuple(kept["command"])}) == record
