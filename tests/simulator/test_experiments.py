"""`freshet experiment`: every experiment in its quick version, and what its notes claim held against its figures."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image

from scheduler_plugin.cli.main import main
from scheduler_plugin.simulator.experiments import EXPERIMENTS

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
#: Differences of sums.
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Name -> what the command printed as JSON; each experiment runs once."""
    known = {}

    def show(name, capsys):
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            assert main(["experiment", name, "--quick", "--json", "--out", str(folder)]) == 0
            printed = capsys.readouterr()
            assert printed.err == ""
            known[name] = json.loads(printed.out)
        return known[name]

    return show


@pytest.fixture
def rows(shown, capsys):
    """`rows(name)`: the table, each row by column; columns of one name get a number."""

    def read(name):
        found = shown(name, capsys)
        seen = defaultdict(int)
        columns = []
        for column in found["columns"]:
            seen[column] += 1
            columns.append(column if seen[column] == 1 else f"{column} {seen[column]}")
        return [dict(zip(columns, row, strict=True)) for row in found["rows"]]

    return read


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_prints_a_table_with_notes_and_draws_a_picture(name, shown, capsys):
    found = shown(name, capsys)
    assert found["rows"]
    assert found["notes"]
    assert all(len(row) == len(found["columns"]) for row in found["rows"])
    picture = Path(found["picture"])
    assert sorted(path.name for path in picture.parent.iterdir()) == [f"{name}.json", f"{name}.png"]
    assert json.loads(picture.with_suffix(".json").read_text())["rows"] == found["rows"]
    with Image.open(picture) as image:
        darkest, lightest = image.convert("L").getextrema()
        assert (image.format, darkest < 30, lightest) == ("PNG", True, 255)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "default"])
def test_pictures_are_grey(name, shown, capsys):
    with Image.open(shown(name, capsys)["picture"]) as image:
        assert all(red == green == blue for _, (red, green, blue) in image.convert("RGB").getcolors())


def test_qoda_is_never_below_fifo_and_gains_with_speed(rows):
    table = rows("qoda-speed")
    for row in table:
        assert row["qoda"] >= row["fifo"]
        assert row["qoda, any order"] >= row["fifo"]
    for slower, faster in pairwise(table):
        assert all(slower[policy] <= faster[policy] for policy in ("fifo", "qoda", "qoda, any order"))


def test_updates_that_come_together_leave_more_fresh(rows):
    for row in rows("qoda-locality"):
        if row["of incoming"] != "100%":  # where the server keeps up they meet
            assert row["together"] > row["random"] > row["apart"]


def test_qoda_comes_back_from_every_surge_and_fifo_from_the_small_one_alone(rows):
    table = {(row["spare"], row["surge"], row["policy"]): row for row in rows("qoda-surges")}
    for (spare, surge, policy), row in table.items():
        assert row["lowest QoD"] <= table[spare, surge, "qoda"]["lowest QoD"]
        comes_back = policy == "qoda" or surge == 2
        assert (row["back to 0.01 (s)"] != "never") == comes_back


def test_group_and_run_keeps_its_bounds_up_to_their_limit_and_nothing_goes_below_the_least_staleness(rows):
    for row in rows("group-and-run"):
        for policy in ("staleness / least: group_and_run", "myopic 2"):
            assert row[policy] >= 1
        assert float(row["other five 2"].split()[0]) >= 1
        if row["of limit"] <= 1:
            assert 1 <= row["stretch: group_and_run"] < 3
            assert row["staleness / least: group_and_run"] <= 9
        elif row["updates"] == "all at once":
            assert row["stretch: group_and_run"] < row["myopic"]


def test_the_knapsack_keeps_the_bound_and_beats_first_come(rows):
    by_workload = defaultdict(list)
    for row in rows("knapsack-tradeoff"):
        by_workload[row["workload"]].append(row)
        assert row["added waiting"] <= float(row["bound (of updates first)"].rstrip("%")) / 100 + ROUNDING
        assert row["QoD"] + ROUNDING >= row["QoD, first come"]
    for table in by_workload.values():
        assert (table[0]["QoD"], table[-1]["QoD"]) == (0, 1)
        gains = [later["QoD"] - earlier["QoD"] for earlier, later in pairwise(table)]
        assert gains == sorted(gains, reverse=True), "each further wait buys less"


def test_the_knapsack_is_as_good_as_the_better_baseline_in_every_phase(rows):
    for row in rows("knapsack-adaptivity"):
        if row["wish"] == "fresh":
            assert row["QoD: knapsack"] == pytest.approx(row["updates first"]) == pytest.approx(1)
            assert row["response (s): knapsack"] <= row["updates first 2"]
        else:
            assert row["response (s): knapsack"] == pytest.approx(row["queries first 2"])


def test_schedules_change_more_when_users_change_their_minds(rows):
    table = rows("knapsack-stability")
    calm, restless = table[0], table[-1]
    assert calm["share of 0 and 1"] > restless["share of 0 and 1"]
    assert calm["mean distance"] < restless["mean distance"]


def test_orad_succeeds_more_and_keeps_and_scans_fewer_versions(rows):
    table = {(row["changed"], row["to"], row["policy"]): row for row in rows("orad")}
    for (what, value, policy), row in table.items():
        if policy == "odrtb":
            ours = table[what, value, "orad"]
            assert ours["p_success"] >= row["p_success"]
            assert ours["n_avg"] <= row["n_avg"]
            assert ours["scans_per_read"] <= row["scans_per_read"]


def test_chain_needs_the_least_memory(rows):
    table = rows("chain")
    for row in table:
        for measure in ("peak", "mean"):
            others = [value for name, value in row.items() if name.startswith(measure)]
            assert row[f"{measure} chain"] <= min(others)
    assert table[0]["peak chain"] == table[0]["peak greedy"]


def test_an_experiment_gives_the_same_bytes_again(shown, capsys, tmp_path):
    first = Path(shown("qoda-locality", capsys)["picture"])
    assert main(["experiment", "qoda-locality", "--quick", "--json", "--out", str(tmp_path)]) == 0
    for name in ("qoda-locality.json", "qoda-locality.png"):
        assert (tmp_path / name).read_bytes() == first.with_name(name).read_bytes()


def test_without_a_name_the_experiments_are_listed(capsys):
    assert main(["experiment"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(EXPERIMENTS)
    assert main(["experiment", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("name", "hint"), [("qoda-surge", "Did you mean qoda-surges?"), ("zzz", "There are qoda-speed,")]
)
def test_an_unknown_name_gets_a_hint(capsys, name, hint):
    assert main(["experiment", name]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert hint in printed.err


def test_a_folder_that_cannot_be_written_is_told_before_the_work(capsys, tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert main(["experiment", "qoda-speed", "--out", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert str(file) in printed.err
    assert "--out" in printed.err


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(tmp_path, asked):
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "scheduler_plugin.cli", "experiment", "qoda-speed", "--out", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        while not folder.exists():  # all is imported by then, and a long run lies before it
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(asked)
        out, err = running.communicate()
    assert (running.returncode, out) == (130, b"")
    assert err.decode().strip() == "freshet experiment: interrupted"
    assert list(folder.iterdir()) == []


def test_the_documentation_covers_every_experiment_with_a_small_picture():
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    for name in EXPERIMENTS:
        assert f"./freshet experiment {name}\n" in page or f"./freshet experiment {name}`" in page
    pictures = re.findall(r"\]\((images/[^)]+)\)", page)
    assert pictures
    for picture in pictures:
        assert (ROOT / "docs" / picture).stat().st_size < 80_000
