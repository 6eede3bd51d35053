"""Run one policy over one workload and print the result as JSON.

    freshet simulate --workload traffic.json --policy qoda --param relation_order=any --param schedule=0

The workload names its model. docs/simulator/ describes the six models, their fields, policies and measures; `freshet
policies --json` lists which model knows which policy. Parameters: `schedule=0` leaves the schedule out (all models),
`relation_order=arrival|any` and `every=S` (refresh), `B=N` (queries), `seed=N` where something is random.
A workload, policy or parameter that cannot be used ends with exit code 2 and one line on what is wrong.
"""

import argparse
import sys
from pathlib import Path

from scheduler_plugin.cli.bar import bar
from scheduler_plugin.cli.main import UserError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workload", required=True, metavar="FILE", help="a JSON file; - reads standard input")
    parser.add_argument("--policy", required=True, metavar="NAME", help="one of `freshet policies` for that model")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="may be given several times")
    parser.add_argument("--out", metavar="FILE", help="write the result there instead of standard output")
    parser.add_argument("--json", action="store_true", help="the result is JSON with or without it")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.simulator import MODELS, model
    from scheduler_plugin.simulator.result import pieces
    from scheduler_plugin.simulator.workload import Fields, WorkloadError, one_of, parse

    try:
        workload = parse(read(options.workload))
        name = Fields(workload).choice("model", MODELS)
        simulated = model(name)
        one_of(options.policy, f"the policy of model {name}", simulated.POLICIES)
        params = parameters(options.param)
        with bar("reading the workload") as progress:
            found = simulated.simulate(
                workload, options.policy, params, lambda done, total: progress(done, total, words(done, total))
            )
    except WorkloadError as error:
        raise UserError(str(error), exit_code=2) from None
    except OverflowError:
        raise UserError("the workload's numbers are too large: a sum is out of range", exit_code=2) from None
    if options.out:
        try:
            with Path(options.out).open("w", encoding="utf-8") as out:
                out.writelines(pieces(found))
        except OSError as error:
            raise UserError(f"cannot write {options.out}: {error.strerror}", exit_code=2) from None
    else:
        sys.stdout.writelines(pieces(found))
    return 0


def words(done: int, total: int) -> str:
    return f"{done:,} of {total:,} have come" if done < total else "all have come; working off what waits"


def read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the workload {name}: {error.strerror}", exit_code=2) from None


def parameters(words: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise UserError(f"--param takes NAME=VALUE, not {word!r}", exit_code=2)
        if name in given:
            raise UserError(f"--param {name} is given twice", exit_code=2)
        given[name] = value
    return given
