"""A bar on standard error for what takes long, where a person can see one."""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """Gives a function to be called with how much is done, of how much, and what comes next."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task(what)
        yield lambda done, total, words: shown.update(task, completed=done, total=total, description=words)
