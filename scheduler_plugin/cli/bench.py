"""Measure something and print the figures. `freshet bench NAME --help` tells what a benchmark does."""

import argparse
import importlib
import json

from scheduler_plugin.benchmarks import BENCHMARKS


def arguments(parser: argparse.ArgumentParser) -> None:
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, purpose in BENCHMARKS.items():
        module = importlib.import_module(f"scheduler_plugin.benchmarks.{name}")
        sub = names.add_parser(
            name, help=purpose, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        sub.add_argument("--json", action="store_true", help="print the figures as JSON")
        module.arguments(sub)
        sub.set_defaults(module=module)


def run(options: argparse.Namespace) -> int:
    report = options.module.run(options)
    print(json.dumps(report.as_json(), indent=2) if options.json else report.as_text())
    return 0
