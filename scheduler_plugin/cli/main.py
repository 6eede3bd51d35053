"""`freshet COMMAND`: finds the command's module, imports that one alone, and runs it.

A command is a module of this package with two functions: `arguments(parser)` declares its options, and `run(options)`
does the work and returns the exit code. With OTHER_WORDS_GO_ON, `options.others` has the words it did not declare.
Adding one touches the table below and one file.
"""

import argparse
import difflib
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from scheduler_plugin import __version__
from scheduler_plugin.services import ServiceError


class UserError(Exception):
    """Something the person at the keyboard can put right; the message names the culprit and the way out."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


#: Command -> one line for `freshet --help`. The module has the command's name.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "demo": "start everything and watch it keep New York's flights of 2013 fresh",
        "up": "start Postgres, Spark and Airflow, or what is missing of them",
        "down": "stop them all; data stays",
        "status": "show the services, how fresh each object is, and the latest decisions",
        "explain": "say why an object is, or is not, next; now or at a past time",
        "decisions": "list what was decided, with outcome and cost",
        "pause": "start no new jobs on an object, a group or everything",
        "resume": "let jobs start again on what was paused",
        "set": "change an object's weight or staleness limit for a while",
        "whatif": "replay what was recorded with another policy or number of slots",
        "logs": "show the services' logs; -f follows them",
        "doctor": "say what is there, what is missing, and what to do about it",
        "run": "run an object now, before everything else",
        "query": "read with a deadline, a staleness limit, or as of a time",
        "versions": "list the versions of an object and when each was true",
        "access": "announce reads that others have done",
        "check": "check the catalog and show what it holds",
        "announce": "tell of files for a feed, wherever they lie",
        "quarantine": "list what was kept out and why; release, retry or drop it",
        "backfill": "load an interval of a table again, or compute a view again",
        "chaos": "break things on purpose and see that nothing is lost",
        "simulate": "run one policy over one workload and print the result",
        "policies": "list the policies the simulator and the scheduler know",
        "experiment": "run one of the papers' experiments again",
        "bench": "measure something and print the figures",
        "test": "run the tests; --fast runs the pure ones only",
    }
)


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {purpose}" for name, purpose in COMMANDS.items())
    return (
        "usage: freshet COMMAND [options]\n\n"
        "Keeps a warehouse's tables and views as fresh as the slots allow.\n\n"
        f"commands:\n{lines}\n\n"
        "`freshet COMMAND --help` tells more; `freshet --version` prints the version."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] == "--version":
        print(f"freshet {__version__}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" Did you mean `{close[0]}`?" if close else " `freshet --help` lists them."
        print(f"freshet: there is no command `{name}`.{hint}", file=sys.stderr)
        return 2
    command = importlib.import_module(f"scheduler_plugin.cli.{name.replace('-', '_')}")
    parser = argparse.ArgumentParser(prog=f"freshet {name}", description=command.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    command.arguments(parser)
    options, others = parser.parse_known_args(words[1:])
    if getattr(command, "OTHER_WORDS_GO_ON", False):
        options.others = others
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    try:
        return int(command.run(options) or 0)
    except UserError as error:
        print(f"freshet {name}: {error}", file=sys.stderr)
        return error.exit_code
    except ServiceError as error:
        print(f"freshet {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"freshet {name}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader (`| head`) has gone; say nothing more on a closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
