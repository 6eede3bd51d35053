"""The loop, killed when it first comes to a step: `python hurt_loop.py STEP`, which `forked_jobs` says how to spell."""

import signal
import sys
import threading

from scheduler_plugin.live.loop import run_loop
from scheduler_plugin.services.settings import Settings
from tests.spark_jobs.forked_jobs import hurt

#: Against hanging on a busy machine: then it ends by itself, and was not killed.
PATIENCE_SECONDS = 240.0

if __name__ == "__main__":
    hurt(sys.argv[1], signal.SIGKILL)
    run_loop(Settings.load, threading.Event(), PATIENCE_SECONDS)
