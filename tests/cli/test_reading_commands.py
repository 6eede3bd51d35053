"""`query`, `versions`, `run`, `set` and `access` at the keyboard: what is wrong is said before anything is asked."""

from pathlib import Path

import pytest

from scheduler_plugin.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["query", "SELECT 1", "--prefer", "2"], "--prefer is a number from 0 to 1"),
        (["query", "SELECT 1", "--deadline", "soon"], "--deadline"),
        (["query", "SELECT 1", "--max-staleness", "0s"], "--max-staleness"),
        (["query", "SELECT 1", "--as-of", "yesterday"], "`yesterday` is not a time"),
        (["query", "SELECT 1", "--version", "flights"], "--version takes OBJECT=N"),
        (["query", "SELECT 1", "--limit", "0"], "--limit is a number from 1 to 10000"),
        (["query", "SELECT 1", "--limit", "10001"], "--limit is a number from 1 to 10000"),
        (["versions", "board", "--limit", "-1"], "--limit is at least 1"),
        (["decisions", "--limit", "-1"], "--limit is at least 1"),
        (["set", "board", "--limit", "0s", "--until", "1h"], "--limit must be longer than 0s"),
        (["access"], "name an object, or give a log"),
        (["access", "board", "--log", "x"], "name an object, or give a log"),
        (["access", "board", "--count", "0"], "--count is at least 1"),
    ],
)
def test_a_mistake_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["run", "v"],
        ["query", "SELECT 1"],
        ["versions", "v"],
        ["access", "v"],
        ["explain", "v"],
        ["decisions"],
        ["whatif"],
        ["pause", "v"],
        ["resume", "v"],
        ["set", "v", "--limit", "catalog"],
        ["announce", "flights", "x.csv"],
        ["quarantine", "list"],
        ["backfill", "list"],
    ],
    ids=lambda words: words[0],
)
def test_a_ledger_that_does_not_answer_is_said_in_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FRESHET_HOME", str(tmp_path))
    monkeypatch.setenv("FRESHET_DATABASE_URL", "postgresql://nobody@localhost:1/nowhere")
    assert main(words) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"freshet {words[0]}: the ledger cannot be used")
    assert len(said.splitlines()) == 1


@pytest.mark.services
def test_objects_are_run_read_and_counted_by_name(
    database: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from scheduler_plugin.store import objects
    from scheduler_plugin.store.database import Database
    from tests.store.conftest import TABLE, VIEW

    assert isinstance(database, Database)
    monkeypatch.setenv("FRESHET_DATABASE_URL", database.url)
    objects.take_in(database, objects.CatalogRow(settings={"slots": 1}, objects=[TABLE, VIEW]))
    assert main(["run", "v", "--why", "look", "--json"]) == 0
    assert '"object": "v"' in capsys.readouterr().out
    assert main(["versions", "t"]) == 0
    assert "t has no version yet" in capsys.readouterr().out
    log = tmp_path / "queries.log"
    log.write_text("SELECT * FROM v\nnothing\n")
    assert main(["access", "--log", str(log), "--json"]) == 0
    assert '"v": 1' in capsys.readouterr().out
    assert main(["access", "t", "--count", "3"]) == 0
    assert "t: 3 read(s) counted" in capsys.readouterr().out
    for words in (["run", "nowhere"], ["versions", "nowhere"], ["access", "nowhere"]):
        assert main(words) == 1
        assert "no object of the catalog is called nowhere" in capsys.readouterr().err
    assert main(["query", "SELECT * FROM parquet.`/etc`"]) == 2
    assert "the SQL is refused" in capsys.readouterr().err
