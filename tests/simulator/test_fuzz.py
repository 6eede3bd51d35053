"""Whatever a workload says, `freshet simulate` prints a finite result, or one line on what is wrong."""

import contextlib
import copy
import io
import json
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_plugin.cli.main import main
from scheduler_plugin.simulator import MODELS, model

#: One side of a join of two streams.
MEET = {"join": "both", "time": 2, "matches": 1.5}

#: A small valid workload of each model.
VALID = {
    "refresh": {
        "model": "refresh",
        "slots": 2,
        "horizon": 9,
        "objects": [
            {"id": "r", "kind": "relation", "cost": 1},
            {"id": "v", "kind": "view", "materialized": True, "cost": 2, "access": 0.6, "parents": ["r"]},
            {"id": "w", "kind": "view", "materialized": False, "access": 0.4, "parents": ["v", "r"]},
        ],
        "updates": [{"t": 0.5, "relation": "r"}, {"t": 2, "relation": "r"}],
    },
    "append": {
        "model": "append",
        "slots": 2,
        "horizon": 9,
        "tables": [
            {"id": "a", "alpha": 0.3, "period": 2, "releases": [1, 2.5, 5]},
            {"id": "b", "alpha": 0.7, "weight": 3, "releases": [2, 3]},
        ],
    },
    "mixed": {
        "model": "mixed",
        "slots": 2,
        "horizon": 9,
        "tables": [
            {"id": "a", "fixed": 1, "per_update": 0.5, "weight": 1, "period": 2, "releases": [1, 2.5, 5]},
            {"id": "b", "fixed": 1, "per_update": 0.25, "releases": [2, 3]},
        ],
        "views": [
            {"id": "v", "cost": 1, "access": 0.6, "parents": ["a", "b"]},
            {"id": "w", "cost": 2, "access": 0.4, "parents": ["v"]},
        ],
    },
    "queries": {
        "model": "queries",
        "queries": [{"id": "q1", "e": 3, "qos": 0.25, "parts": ["x"]}, {"id": "q2", "e": 1, "qos": 1, "parts": ["y"]}],
        "updates": [{"id": "u1", "c": 2, "p": 4, "parts": ["x", "y"]}, {"id": "u2", "c": 1, "p": 1, "parts": ["y"]}],
    },
    "versions": {
        "model": "versions",
        "base": 2,
        "views": [[0, 1]],
        "updates": [[0.001, 0], [0.004, 1]],
        "transactions": [[0, 1, [0, 2]], [0.005, 0.03, [2, 1]]],
        "params": {"servers": 1, "tio": 5, "tcpu": 1, "tver": 2, "recompute": "full", "delta": 10, "nmax": 2},
        "horizon": 3,
    },
    "operators": {
        "model": "operators",
        "horizon": 9,
        "paths": [
            {"id": "p", "points": [[0, 1], [1, 0.2], [3, 0]]},
            {"id": "q", "points": [[0, 1], [2, 0]]},
            {"id": "r", "rate": 2, "operators": [{"time": 1, "selectivity": 0.5}, MEET, {"time": 1}]},
            {"id": "s", "rate": 1, "operators": [MEET, {"time": 2, "selectivity": 0}]},
        ],
        "arrivals": [
            {"t": 0, "path": "p", "n": 2},
            {"t": 1, "path": "q"},
            {"t": 1, "path": "s"},
            {"t": 2, "path": "r"},
        ],
        "joins": [{"left": {"path": "p", "operator": 1}, "right": {"path": "q", "operator": 0}}],
    },
}

ODD = [
    None,
    True,
    False,
    "",
    "x",
    "1",
    "r",
    "v",
    [],
    [[]],
    {},
    {"id": "a"},
    0,
    -0.0,
    -1,
    0.5,
    1.5,
    7,
    2**53,
    2**70,
    10**400,
    5e-324,
    1e-9,
    1e17,
    1e154,
    1.7e308,
    -1e308,
    math.nan,
    math.inf,
    -math.inf,
]


def places(node):
    """Every (container, key) of a JSON value."""
    for key in node if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from places(node[key])


def mutated(workload, dice):
    """A copy with one to three things changed, left out, doubled or put elsewhere."""
    workload = copy.deepcopy(workload)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        found = [(node, key) for node, key in places(workload) if key != "model"]
        if not found:
            break
        node, key = dice.choice(found)
        change = dice.randrange(5)
        if change == 0:
            del node[key]
        elif change == 1 and isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        elif change == 2:
            other, other_key = dice.choice(found)
            node[key] = copy.deepcopy(other[other_key])
        elif type(node[key]) in (int, float) and dice.random() < 0.6:
            node[key] = dice.choice([each for each in ODD if type(each) in (int, float)])
        else:
            node[key] = copy.deepcopy(dice.choice(ODD))
    return workload


def simulated(workload_file, policy, *more):
    """(exit code, stdout, stderr)"""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["simulate", "--workload", str(workload_file), "--policy", policy, *more])
    return code, out.getvalue(), err.getvalue()


def all_finite(value):
    if isinstance(value, dict):
        return all(map(all_finite, value.values()))
    if isinstance(value, list):
        return all(map(all_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def check(workload_file, policy):
    code, out, err = simulated(workload_file, policy)
    if code == 0:
        found = json.loads(out)
        assert all_finite(found)
        assert list(found)[:4] == ["policy", "model", "schedule", "metrics"]
        assert err == ""
    else:
        assert (code, out) == (2, "")
        assert err.startswith("freshet simulate: ")
        assert err.count("\n") == 1
    return code


@pytest.mark.parametrize("name", MODELS)
def test_the_fuzzed_workloads_are_valid_to_begin_with(name, tmp_path):
    file = tmp_path / "workload.json"
    file.write_text(json.dumps(VALID[name]))
    for policy in model(name).POLICIES:
        assert check(file, policy) == 0


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_mutated_workload_gives_a_finite_result_or_one_line(name, seed, tmp_path_factory):
    dice = Random(seed)
    file = tmp_path_factory.getbasetemp() / f"fuzz-{name}.json"
    file.write_text(json.dumps(mutated(VALID[name], dice)))
    check(file, dice.choice(list(model(name).POLICIES)))
