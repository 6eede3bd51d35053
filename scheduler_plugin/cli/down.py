"""Stop everything `freshet up` started, to the last process. Data stays where it is."""

import argparse

from scheduler_plugin.services import stack
from scheduler_plugin.services.home import Home
from scheduler_plugin.services.progress import Progress


def arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(options: argparse.Namespace) -> int:
    with Progress() as progress:
        stack.down(Home.find(), progress)
    return 0
