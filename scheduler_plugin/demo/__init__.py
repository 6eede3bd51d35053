"""The demo: New York's flights of 2013 land as files, much faster than they happened, and readers look at the views.

What will happen is planned first, as plain values (`plan.py`, `reader.py`); `replay.py` then only writes files on time.
"""

from scheduler_plugin.demo.plan import Drop, Window, choose_window, expected_rows, plan
from scheduler_plugin.demo.reader import Access, plan_accesses
from scheduler_plugin.demo.replay import Replay

__all__ = ["Access", "Drop", "Replay", "Window", "choose_window", "expected_rows", "plan", "plan_accesses"]
