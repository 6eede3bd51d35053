"""Runs jobs on request, each in a fork of this process, and signals them at a step: the program behind `Jobs`.

A step is `before` or `after` and the name of a function that the job calls, or `on result` and one that answers with
something, as it does not each time; the real function runs, and the process is killed or stopped right there.
"""

import importlib
import json
import logging
import os
import resource
import signal
import sys
from typing import Any

from scheduler_plugin.live import job
from scheduler_plugin.services.settings import Settings
from spark_jobs.warm import warm_imports


def hurt(at: str, sent: int) -> None:
    when, _, where = at.rpartition(" ")
    module, _, path = where.partition(":")
    *owners, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    real = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), sent)
        answer = real(*arguments, **named)
        if when == "after" or (when == "on result" and answer):
            os.kill(os.getpid(), sent)
        return answer

    setattr(owner, name, wrapped)


def start(words: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        if words["most_bytes"] is not None:
            # No file may grow beyond this: a write fails as it does when the disk is full.
            resource.setrlimit(resource.RLIMIT_FSIZE, (words["most_bytes"], words["most_bytes"]))
        if words["at"]:
            hurt(words["at"], words["signal"])
        job.run(Settings.load(), words["decision"], words["attempt"])
        os._exit(0)
    except BaseException:
        logging.exception("the job failed")
        os._exit(1)


def wait(pid: int) -> str:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return "stopped"
    if os.WIFSIGNALED(status):
        return "killed"
    return "failed" if os.WEXITSTATUS(status) else "done"


def go_on(pid: int) -> str:
    os.kill(pid, signal.SIGCONT)
    return wait(pid)


if __name__ == "__main__":
    warm_imports()
    alive: set[int] = set()
    for line in sys.stdin:
        words = json.loads(line)
        answer: object = None
        if words["do"] == "start":
            answer = pid = start(words)
            alive.add(pid)
        if words["do"] == "wait":
            answer = wait(words["pid"])
        if words["do"] == "go on":
            answer = go_on(words["pid"])
        if answer in ("killed", "failed", "done"):
            alive.discard(words["pid"])
        print(json.dumps(answer), flush=True)
    # What a test that failed has left standing.
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
