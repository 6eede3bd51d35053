"""The page's files: no markup made from values, nothing from another host, and JavaScript that parses."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "scheduler_plugin" / "web" / "static"
SCRIPTS = sorted(STATIC.glob("*.js"))
#: Ways to make markup or code out of a string; text nodes and attributes are enough.
FORBIDDEN = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.cssText|srcdoc|javascript:"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_makes_no_markup_and_no_code_from_strings(script: Path) -> None:
    assert re.findall(FORBIDDEN, script.read_text()) == []


def test_nothing_comes_from_another_host() -> None:
    addresses = {
        address
        for path in STATIC.iterdir()
        for address in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", path.read_text())
    }
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_the_page_has_no_script_or_style_of_its_own_that_the_policy_would_refuse() -> None:
    page = (STATIC / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", page)


def test_the_scripts_import_only_each_other_and_what_is_there() -> None:
    for script in SCRIPTS:
        text = script.read_text()
        for names, other in re.findall(r"import \{([^}]*)\} from \"\./(.*?)\"", text):
            exported = set(
                re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", (STATIC / other).read_text(), re.M)
            )
            wanted = {name.strip() for name in names.split(",") if name.strip()}
            assert wanted <= exported, (script.name, other)
            unused = {name for name in wanted if len(re.findall(rf"\b{name}\b", text)) < 2}
            assert unused == set(), script.name


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_parses(script: Path) -> None:
    """Where there is no node the browser says the same, later."""
    node = shutil.which("node")
    if node is not None:
        told = subprocess.run([node, "--check", str(script)], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
    assert script.stat().st_size < 20_000
