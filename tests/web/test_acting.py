"""What people do on the page, in a real browser: each button acts, and its effect is in the ledger and on the page."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import backfill_plan, backfills, quarantine
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Action, Event, EventKind, QuarantinedRow
from spark_jobs.tables import Tables
from tests.conftest import until
from tests.web.conftest import Window

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def ledger(stack: Settings) -> Iterator[Database]:
    database = Database(stack.database_url)
    yield database
    database.close()


def answer(page: Any, button: str, **words: str) -> None:
    """Fills in what a dialog asks and presses its button."""
    for name, value in words.items():
        page.locator(f"dialog input[name={name}]").fill(value)
    page.locator("dialog button.primary", has_text=button).click()


def overridden(ledger: Database, name: str) -> list[dict[str, Any]]:
    """What somebody has set for a while, the newest last."""
    wanted = select(Event.body).where(Event.kind == EventKind.OVERRIDDEN, Event.object == name).order_by(Event.id)
    with ledger.transaction() as connection:
        return [dict(body) for body in connection.execute(wanted).scalars()]


def test_a_weight_counts_for_a_while_and_is_taken_back(window: Window, ledger: Database, loaded: str) -> None:
    page = window.open(f"object/{loaded}")
    page.get_by_role("button", name="Weight").click()
    answer(page, "Set", weight="7", minutes="30", why="the month ends")
    page.locator("p.warn", has_text="Weighs 7 instead of 1 for").wait_for()
    told = overridden(ledger, loaded)[-1]
    assert (told["what"], told["value"], told["by"], told["why"]) == ("weight", 7, "admin", "the month ends")
    assert told["until"] is not None

    page.get_by_role("button", name="take it back").click()
    page.locator("p.warn", has_text="Weighs 7").wait_for(state="detached")
    assert overridden(ledger, loaded)[-1]["value"] is None


def test_a_backfill_is_previewed_and_then_seen_to_its_end(window: Window, ledger: Database, loaded: str) -> None:
    before = len(backfills.reports(ledger, object=loaded))
    files = backfill_plan.preview(ledger, loaded).files
    assert files
    page = window.open(f"object/{loaded}")
    page.get_by_role("button", name="Backfill").click()
    answer(page, "Preview", why="a rule was wrong")
    page.get_by_text(f"It loads {files} file(s) again").wait_for()
    assert len(backfills.reports(ledger, object=loaded)) == before, "a preview changes nothing"

    answer(page, "Start")
    panel = page.locator(".panel", has_text="Backfills")
    panel.get_by_text("admin: a rule was wrong").wait_for()
    until("it is done", lambda: backfills.reports(ledger, object=loaded)[0].state == "done")
    (report, *_) = backfills.reports(ledger, object=loaded)
    assert (report.who, report.why, report.mode) == ("admin", "a rule was wrong", "reload")
    panel.locator("tbody tr").first.locator(".badge.good").wait_for()


@pytest.fixture(scope="module")
def held(stack: Settings, ledger: Database) -> dict[str, str]:
    """Airports whose codes are none, kept out of their table: code -> id in quarantine."""
    landing = Path(stack.landing) / "airports"
    landing.mkdir(exist_ok=True)
    codes = ("to release", "to retry", "to drop")
    rest = {"lat": 1.0, "lon": 1.0, "alt": 1, "tz": -5, "dst": "A", "tzone": "America/New_York"}
    rows = [{"faa": code, "name": f"<i>{code}</i>", **rest} for code in ("QQQ", *codes)]
    (landing / "airports_for_the_page.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def found() -> dict[str, str]:
        items = quarantine.items(ledger, table="airports")
        return {code: item.id for item in items for code in codes if code in (item.raw or "")}

    until("three rows are in quarantine", lambda: len(found()) == len(codes))
    return found()


def take(window: Window, code: str, action: str) -> Any:
    """Finds the row on the page, chooses it, and acts with a reason."""
    page = window.open("quarantine")
    # The reason names offenders of the whole batch; what is in the row itself finds the one.
    page.get_by_role("searchbox").fill(f"<i>{code}")
    until("only the one is left", lambda: page.locator("tbody tr").count() == 1)
    assert f"<i>{code}</i>" in page.locator("tbody code").inner_text(), "the offending value, as text"
    page.locator("tbody input[type=checkbox]").check()
    page.get_by_role("button", name=action).click()
    page.locator("dialog button.primary").click()
    assert page.locator("dialog").is_visible(), "a reason is needed"
    answer(page, action, why=f"{action} it, says the test")
    return page


def resolution(ledger: Database, identity: str) -> str | None:
    with ledger.transaction() as connection:
        wanted = select(QuarantinedRow.resolution).where(QuarantinedRow.id == int(identity[1:]))
        return connection.execute(wanted).scalar_one()


def codes_in_the_table(stack: Settings) -> set[str]:
    with Tables(stack.database_url, stack.warehouse) as tables:
        found = tables.open("airports").scan(selected_fields=("faa",)).to_arrow()
        return set(found["faa"].to_pylist())


def test_what_is_released_is_loaded_after_all(
    window: Window, stack: Settings, ledger: Database, held: dict[str, str]
) -> None:
    page = take(window, "to release", "Release")
    page.get_by_text("Nothing held is like that.").wait_for()
    assert resolution(ledger, held["to release"]) == "released"
    until("it is in the table", lambda: "to release" in codes_in_the_table(stack))


def test_what_is_retried_is_judged_again(window: Window, ledger: Database, held: dict[str, str]) -> None:
    page = take(window, "to retry", "Retry")
    page.locator("#toast", has_text="retried").wait_for()
    assert resolution(ledger, held["to retry"]) == "retried"

    def again() -> list[str]:
        return [each.id for each in quarantine.items(ledger, table="airports") if "to retry" in (each.raw or "")]

    until("the gate has kept it out once more", again)
    assert again() != [held["to retry"]]
    page.locator("tbody code", has_text="to retry").wait_for()


def test_what_is_dropped_is_gone_with_who_and_why_on_record(
    window: Window, stack: Settings, ledger: Database, held: dict[str, str]
) -> None:
    page = take(window, "to drop", "Drop")
    page.get_by_text("Nothing held is like that.").wait_for()
    assert resolution(ledger, held["to drop"]) == "dropped"
    with ledger.transaction() as connection:
        done = connection.execute(select(Action).order_by(Action.id.desc()).limit(1)).one()
    assert (done.who, done.what, done.object) == ("admin", "quarantine drop", "airports")
    assert done.why == "Drop it, says the test"
    assert "to drop" not in codes_in_the_table(stack)
