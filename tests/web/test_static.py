"""The page's files: no markup made from values, nothing from another host, and JavaScript that parses."""

import re
import subprocess
from pathlib import Path

import playwright
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


def test_every_script_is_asked_for_at_once_and_not_when_another_has_been_read() -> None:
    told = re.findall(r"(?:href|src)=\"static/(.*?\.js)\"", (STATIC / "index.html").read_text())
    assert sorted(told) == [path.name for path in SCRIPTS]


def test_the_scripts_import_only_each_other_and_what_is_there() -> None:
    for script in SCRIPTS:
        for names, other in re.findall(r"import \{([^}]*)\} from \"\./(.*?)\"", script.read_text()):
            exported = set(
                re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", (STATIC / other).read_text(), re.M)
            )
            assert {name.strip() for name in names.split(",") if name.strip()} <= exported, (script.name, other)


def lint(*scripts: Path) -> list[str]:
    """Playwright brings a node of its own, and that a parser: nobody has to install either."""
    node = Path(playwright.__file__).parent / "driver" / "node"
    words = [node, "--expose-internals", Path(__file__).parent / "lint.mjs", *scripts]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert told.stderr == ""
    return told.stdout.splitlines()


def test_the_scripts_parse_and_use_all_they_declare_and_declare_all_they_use() -> None:
    assert lint(*SCRIPTS) == []


def test_the_linter_finds_what_it_is_for(tmp_path: Path) -> None:
    script = tmp_path / "bad.js"
    script.write_text(
        'import { now } from "./api.js";\nlet a = 1;\nvar b = a;\n'
        "export function f(given) { const c = nowhere; return b == given; }\n"
    )
    assert sorted(lint(script)) == [
        "bad.js:1: `now` is never used",
        "bad.js:2: `a` never changes: use const",
        "bad.js:3: `var`: use const or let",
        "bad.js:4: `==`: use `===`",
        "bad.js:4: `c` is never used",
        "bad.js:4: `nowhere` is declared nowhere",
    ]


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.iterdir()) < 120_000
    assert max(path.stat().st_size for path in SCRIPTS) < 20_000


def colours(theme: str) -> dict[str, list[float]]:
    """The style sheet's colours of a theme, by name: red, green, blue and how opaque, from 0 to 1."""
    sheet = (STATIC / "page.css").read_text()
    found = {}
    for block in re.findall(r":root(?:\[data-theme=\"(\w+)\"\])? \{(.*?)\}", sheet, re.S):
        if block[0] in ("", theme):
            found.update(re.findall(r"--([\w-]+): #(\w+);", block[1]))
    wide = {name: "".join(2 * each for each in code) if len(code) < 6 else code for name, code in found.items()}
    return {
        name: [int(code[at : at + 2], 16) / 255 for at in range(0, 6, 2)] + [int(code[6:] or "ff", 16) / 255]
        for name, code in wide.items()
    }


def luminance(colour: list[float]) -> float:
    red, green, blue = (each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_word_can_be_read_on_what_is_behind_it(theme: str) -> None:
    """WCAG's contrast of 4.5 to 1, also for a word on its own badge."""
    colour = colours(theme)
    behind = colour["bg"]
    for name in ("fg", "muted", "accent", "good", "warn", "bad", "busy"):
        *tint, opaque = colour.get(f"{name}-soft", behind)
        badge = [opaque * over + (1 - opaque) * under for over, under in zip(tint, behind[:3], strict=True)]
        for ground in (behind, colour["soft"], badge):
            dark, light = sorted([luminance(colour[name]), luminance(ground)])
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, theme)
