"""Look at what Freshet needs: what is there, what is missing, and what to do about it. Nothing is started or changed.

The exit code is 0 when nothing stands in the way of `freshet up`, 1 otherwise.
"""

import argparse
import json
from dataclasses import asdict

MARKS = {"ok": "ok  ", "note": "note", "trouble": "BAD "}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(options: argparse.Namespace) -> int:
    from scheduler_plugin.services.examine import examine

    findings = examine()
    bad = [item for item in findings if item.level == "trouble"]
    if options.json:
        print(json.dumps({"ok": not bad, "findings": [asdict(item) for item in findings]}, indent=2))
    else:
        width = max(len(item.what) for item in findings)
        for item in findings:
            print(f"{MARKS[item.level]}  {item.what:<{width}}  {item.found}")
            if item.remedy:
                print(f"{'':<{width + 8}}-> {item.remedy}")
        print("\nNothing stands in the way of `freshet up`." if not bad else f"\n{len(bad)} thing(s) to put right.")
    return 1 if bad else 0
