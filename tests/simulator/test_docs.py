"""The pages in docs/simulator: every command shown there prints what is shown, and every policy is named."""

import re
import shlex
from pathlib import Path

import pytest

from scheduler_plugin.cli.main import main
from scheduler_plugin.simulator import MODELS, model

DOCS = Path(__file__).resolve().parents[2] / "docs" / "simulator"


@pytest.mark.parametrize("name", MODELS)
def test_the_commands_on_a_models_page_print_what_is_shown(name, tmp_path, monkeypatch, capsys):
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    (workload,) = re.findall(r"^```json\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / f"{name}.json").write_text(workload)
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^```console\n\$ \./freshet (.*?)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert shown
    for command, printed in shown:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == printed


@pytest.mark.parametrize("name", MODELS)
def test_the_index_and_the_models_page_name_every_policy(name):
    (row,) = [line for line in (DOCS / "README.md").read_text().splitlines() if f"]({name}.md)" in line]
    assert sorted(re.findall(r"`(\w+)`", row)) == sorted(model(name).POLICIES)
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert [policy for policy in model(name).POLICIES if f"`{policy}`" not in page] == []
