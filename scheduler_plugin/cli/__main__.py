"""`python -m scheduler_plugin.cli`, which the entry script runs."""

import sys

from scheduler_plugin.cli.main import main

sys.exit(main())
