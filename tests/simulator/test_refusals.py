"""What `freshet simulate` says of files, parameters and graphs that are out of the ordinary."""

import json

import pytest

from tests.simulator.test_fuzz import VALID, simulated

#: Deeper than Python's own limit on calls within calls.
DEEP = 1200


@pytest.fixture
def workload(tmp_path):
    def write(content):
        file = tmp_path / "workload.json"
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(json.dumps(content))
        return file

    return write


def refused(found):
    code, out, err = found
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"model": "append", "horizon": 1' + b"0" * 5000 + b"}", "not JSON"),
        (b'"append"', 'must be a JSON object, not the text "append"'),
        (b"null", "must be a JSON object, not null"),
        ({}, "model is missing"),
        ({"model": 3}, "model must be one of"),
        ({"model": "apend"}, "Did you mean append?"),
        (
            b'{"model": "append", "tables": [{"id": "a", "alpha": 1, "releases": [1, NaN]}]}',
            "tables[0].releases[1] must",
        ),
        (b'{"model": "append", "tables": [], "note": {"x": [0, -Infinity]}}', "note.x[1] must be a finite number"),
        (
            b'{"model": "append", "tables": [{"id": "a", "alpha": 1, "releases": [1e999]}]}',
            "tables[0].releases[0] must",
        ),
    ],
)
def test_what_is_no_workload(workload, content, words):
    assert words in refused(simulated(workload(content), "myopic"))


def test_a_file_that_cannot_be_read(tmp_path):
    assert "No such file" in refused(simulated(tmp_path / "gone.json", "myopic"))
    assert "Is a directory" in refused(simulated(tmp_path, "myopic"))


def test_a_result_that_cannot_be_written(workload, tmp_path):
    file = workload(VALID["append"])
    assert "cannot write" in refused(simulated(file, "myopic", "--out", str(tmp_path)))
    assert "cannot write" in refused(simulated(file, "myopic", "--out", str(tmp_path / "gone" / "out.json")))


@pytest.mark.parametrize(
    ("word", "culprit"),
    [
        ("B", "NAME=VALUE"),
        ("=3", "NAME=VALUE"),
        ("B=x", "--param B"),
        ("B=-1", "--param B"),
        ("B=1.5", "--param B"),
        ("B=9" + "9" * 30, "--param B"),
        ("schedule=2", "--param schedule"),
        ("seed=soon", "--param seed"),
        ("b=1", "there is no parameter b"),
    ],
)
def test_a_parameter_that_cannot_be_used(workload, word, culprit):
    assert culprit in refused(simulated(workload(VALID["queries"]), "pareto", "--param", word))


def test_a_parameter_given_twice(workload):
    found = simulated(workload(VALID["queries"]), "pareto", "--param", "B=1", "--param", "B=2")
    assert "given twice" in refused(found)


@pytest.mark.parametrize("name", VALID)
def test_a_policy_of_another_model(workload, name):
    err = refused(simulated(workload(VALID[name]), "nonsuch"))
    assert f"the policy of model {name} must be one of" in err


def chain(first):
    return [{"id": f"v{n}", "cost": 0.001, "access": 1, "parents": [f"v{n - 1}" if n else first]} for n in range(DEEP)]


def deep(name, first):
    if name == "mixed":
        tables = [{"id": "r", "fixed": 1, "per_update": 0, "releases": [1, 3]}]
        return {"model": "mixed", "horizon": 9, "tables": tables, "views": chain(first)}
    views = [{"kind": "view", "materialized": True, **view} for view in chain(first)]
    objects = [{"id": "r", "kind": "relation", "cost": 1}, *views]
    return {"model": "refresh", "horizon": 9, "objects": objects, "updates": [{"t": 1, "relation": "r"}]}


@pytest.mark.parametrize(("name", "policy"), [("refresh", "fifo"), ("refresh", "qoda"), ("mixed", "default")])
def test_views_may_be_thousands_deep(workload, name, policy):
    code, out, _ = simulated(workload(deep(name, "r")), policy)
    assert code == 0
    assert json.loads(out)["metrics"]["qod"] > 0


@pytest.mark.parametrize("name", ["refresh", "mixed"])
def test_a_circle_may_be_thousands_long(workload, name):
    assert "circle" in refused(simulated(workload(deep(name, f"v{DEEP - 1}")), "qoda"))


def test_many_updates_are_worked_off(workload):
    tables = [{"id": f"t{n}", "alpha": 0.2, "releases": [n / 10 + k + 1 for k in range(2000)]} for n in range(10)]
    code, out, _ = simulated(workload({"model": "append", "slots": 2, "tables": tables}), "myopic")
    assert code == 0
    assert sum(ran["updates"] for ran in json.loads(out)["schedule"]) == 20_000


@pytest.mark.parametrize("policy", ["fifo", "fifo_pop", "qoda"])
def test_a_long_queue_behind_busy_views_is_worked_off(workload, policy):
    """Relations run far ahead of their views here, so that every update has work left until the end."""
    objects = [{"id": f"r{n}", "kind": "relation", "cost": 0} for n in range(2)]
    views = [{"id": f"v{n}", "kind": "view", "cost": 1, "access": 1, "parents": [f"r{n % 2}"]} for n in range(3)]
    updates = [{"t": n / 10, "relation": f"r{n % 2}"} for n in range(10_000)]
    given = {"model": "refresh", "slots": 2, "horizon": 9, "objects": objects + views, "updates": updates}
    code, out, _ = simulated(workload(given), policy, "--param", "relation_order=any")
    assert code == 0
    ran = [entry["object"] for entry in json.loads(out)["schedule"]]
    assert [ran.count(f"r{n}") for n in range(2)] == [5000, 5000]
    if policy != "qoda":
        assert [ran.count(f"v{n}") for n in range(3)] == [5000, 5000, 5000]


def test_a_reader_that_holds_on_to_thousands_of_versions_lets_them_go(workload):
    updates = [[0.001 * n, 0] for n in range(1, 20_001)]
    given = {"model": "versions", "base": 1, "views": [[0]], "updates": updates, "transactions": [[0, 100, [1] * 2000]]}
    for policy in ("orad", "odrtb"):
        code, out, _ = simulated(workload(given), policy, "--param", "schedule=0")
        assert code == 0
        assert json.loads(out)["metrics"]["p_success"] == 1
