"""docs/catalog.md tells the truth: its example is a sound catalog with every field, its messages are real ones."""

import re
from pathlib import Path

import pytest

from scheduler_plugin.catalog import load_catalog
from scheduler_plugin.catalog.problems import Fields

DOCS = Path(__file__).resolve().parents[2] / "docs" / "catalog.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS.read_text(), re.MULTILINE | re.DOTALL)


def test_the_example_is_sound_and_has_every_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, expectations = blocks("yaml")
    (tmp_path / "warehouse.yml").write_text(catalog)
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "orders_by_day.sql").write_text("SELECT * FROM orders JOIN customers ON name = customer")
    (tmp_path / "expectations").mkdir()
    (tmp_path / "expectations" / "orders.yml").write_text(expectations)
    asked: set[str] = set()
    written: set[str] = set()
    done = Fields.done

    def watched(fields: Fields) -> None:
        asked.update(fields._asked)
        written.update(map(str, fields.values))
        done(fields)

    monkeypatch.setattr(Fields, "done", watched)
    found = load_catalog(tmp_path / "warehouse.yml")
    assert found.groups["slow"].slots == 1
    assert asked <= written


def test_every_message_is_one_that_a_test_provokes() -> None:
    tests = Path(__file__).with_name("test_complaints.py").read_text()
    provoked = re.sub(r'"\s*\n\s*f?"', "", tests).replace("{HERE}", "include/warehouse.yml")
    [messages] = blocks("text")
    for message in messages.splitlines():
        assert message in provoked
