"""`freshet simulate` over the append and refresh models: what a person sees for good and for malformed workloads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler_plugin.cli.main import main
from scheduler_plugin.simulator import MODELS, model
from tests.simulator.test_fuzz import VALID

ROOT = Path(__file__).resolve().parents[2]

APPEND = """{"model": "append", "slots": 2, "horizon": 9, "tables": [
  {"id": "a", "alpha": 0.3, "releases": [1, 2.1, 5]}, {"id": "b", "alpha": 0.7, "weight": 3, "releases": [2, 2.5]}]}"""
REFRESH = """{"model": "refresh", "horizon": 9, "objects": [
  {"id": "r", "kind": "relation", "cost": 0.1}, {"id": "q", "kind": "relation", "cost": 0.2},
  {"id": "v", "kind": "view", "materialized": true, "cost": 0.3, "access": 0.6, "parents": ["r"]},
  {"id": "w", "kind": "view", "materialized": true, "cost": 0.3, "access": 0.4, "parents": ["v", "q"]}],
  "updates": [{"t": 0.5, "relation": "r"}, {"t": 0.7, "relation": "q"}, {"t": 0.7, "relation": "r"}]}"""


def simulated(tmp_path, capsys, text, policy, *more):
    """(exit code, stdout, stderr)"""
    workload = tmp_path / "workload.json"
    workload.write_text(text)
    code = main(["simulate", "--workload", str(workload), "--policy", policy, *more])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize(
    ("text", "policy", "culprit"),
    [
        (APPEND.replace("0.3", "NaN"), "myopic", "NaN"),
        (APPEND.replace("0.3", "-0.3"), "myopic", "tables[0].alpha"),
        (APPEND.replace("5]", "2]"), "lifo", "tables[0].releases[2]"),
        (APPEND.replace('"b"', '"a"'), "myopic", "the id a"),
        (APPEND.replace("2, 2.5", "2, null"), "myopic", "tables[1].releases[1]"),
        (APPEND, "qoda", "the policy of model append"),
        (REFRESH.replace("0.6", "Infinity"), "qoda", "Infinity"),
        (REFRESH.replace("0.1", "-1"), "fifo", "objects[0].cost"),
        (REFRESH.replace('["r"]', '["w"]'), "qoda", "v reads w reads v"),
        (REFRESH.replace('["r"]', '["v"]'), "qoda", "v reads v"),
        (REFRESH.replace('["v", "q"]', '["v", "gone"]'), "qoda", "objects[3].parents[1]"),
        (REFRESH.replace('"id": "q"', '"id": "r"'), "qoda", "the id r"),
        (REFRESH.replace('0.7, "relation": "q"', '0.7, "relation": "w"'), "qoda", "updates[1].relation"),
        (REFRESH.replace('"horizon": 9', '"horizon": "late"'), "optimal", "horizon"),
        (REFRESH[:-1], "qoda", "not JSON"),
        ("[]", "qoda", "must be a JSON object"),
    ],
)
def test_a_malformed_workload_exits_with_2_and_prints_nothing(tmp_path, capsys, text, policy, culprit):
    code, out, err = simulated(tmp_path, capsys, text, policy)
    assert (code, out) == (2, "")
    assert culprit in err
    assert err.count("\n") == 1


def test_an_unknown_relation_order_is_refused(tmp_path, capsys):
    code, out, err = simulated(tmp_path, capsys, REFRESH, "qoda", "--param", "relation_order=arival")
    assert (code, out) == (2, "")
    assert "Did you mean arrival?" in err


EVERYTHING = """
import sys
from scheduler_plugin.cli.main import main
from scheduler_plugin.simulator import MODELS, model
for name in MODELS:
    for policy in model(name).POLICIES:
        main(["simulate", "--workload", f"{sys.argv[1]}/{name}.json", "--policy", policy])
"""


def test_the_same_input_gives_the_same_bytes_in_every_process(tmp_path):
    """Whatever the order in which this process walks its sets."""
    for name, workload in VALID.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(workload))
    runs = [
        subprocess.run(
            [sys.executable, "-c", EVERYTHING, str(tmp_path)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].count(b'"policy"') == sum(len(model(name).POLICIES) for name in MODELS)


def test_updates_after_the_horizon_and_without_end_are_worked_off(tmp_path, capsys):
    """Work runs past the horizon: the schedule holds all of it, whatever the load."""
    updates = [{"t": number / 100, "relation": "r"} for number in range(5000)]
    workload = {**json.loads(REFRESH), "updates": updates}
    code, out, _ = simulated(tmp_path, capsys, json.dumps(workload), "fifo")
    assert code == 0
    assert len(json.loads(out)["schedule"]) == 3 * 5000
