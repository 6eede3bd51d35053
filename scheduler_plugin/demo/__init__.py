"""The demo: New York's flights of 2013 land as files, much faster than they happened, and readers look at the views.

What will happen is planned first, as plain values (`plan.py`, `reader.py`); `replay.py` then only writes files on time.
"""
