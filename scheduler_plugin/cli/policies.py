"""List the policies' names, one per line; --json says which models know which."""

import argparse
import json


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="model -> names, as one JSON object")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.simulator import MODELS, model

    known = {name: list(model(name).POLICIES) for name in MODELS}
    if options.json:
        print(json.dumps(known, indent=2))
    else:
        print("\n".join(sorted({policy for names in known.values() for policy in names})))
    return 0
