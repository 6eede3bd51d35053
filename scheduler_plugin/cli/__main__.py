"""`python -m scheduler_plugin.cli`, which the entry script runs."""

import signal
import sys

from scheduler_plugin.cli.main import main

# Whoever asks a command to end, as a CI does that gives up on it, gets what Ctrl-C gets: nothing is left half done.
signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(main())
