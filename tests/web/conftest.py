"""People at Freshet's API and page, in the real Airflow of the session's stack, and a real browser."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_plugin.services.airflow import VIEWER
from scheduler_plugin.services.home import Secrets
from scheduler_plugin.services.settings import Settings

#: Against hanging on a busy machine; not a measure.
PATIENCE_SECONDS = 240.0
BROWSER_WORDS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def until(what: str, ready: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := ready()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.3)
    return found


def passwords(stack: Settings) -> dict[str, str]:
    return {stack.api_username: stack.api_password, VIEWER: Secrets.of(stack.home).viewer_password}


@contextmanager
def person(stack: Settings, name: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.api_url, timeout=60, trust_env=False) as client:
        token = client.post("/auth/token", json={"username": name, "password": passwords(stack)[name]})
        client.headers["Authorization"] = f"Bearer {token.json()['access_token']}"
        yield client


@pytest.fixture(scope="module")
def admin(stack: Settings) -> Iterator[httpx.Client]:
    """Somebody who may do everything."""
    with person(stack, stack.api_username) as client:
        yield client


@pytest.fixture(scope="module")
def viewer(stack: Settings) -> Iterator[httpx.Client]:
    """Somebody who may look."""
    with person(stack, VIEWER) as client:
        yield client


@pytest.fixture(scope="module")
def loaded(stack: Settings, admin: httpx.Client) -> str:
    """The name of a table that has been loaded at least once."""

    def row() -> dict[str, Any]:
        found: list[dict[str, Any]] = admin.get("/freshet/api/v1/board", params={"search": "airlines"}).json()[
            "objects"
        ]
        return next((each for each in found if each["name"] == "airlines"), {})

    until("the table is in the catalog", row)
    if row()["last_run"] is None:
        landing = Path(stack.landing) / "airlines"
        landing.mkdir(exist_ok=True)
        (landing / "airlines_for_the_page.csv").write_text("carrier,name\nZZ,<b>Bold & Brave</b>\n")
    until("the table is loaded", lambda: row()["last_run"])
    return "airlines"


@pytest.fixture(scope="session")
def chromium() -> str:
    """Debian's chromium; installed where that takes no more than asking."""
    found = shutil.which("chromium")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for words in (["update", "-qq"], ["install", "-y", "-qq", "chromium"]):
            subprocess.run(["apt-get", *words], check=False, capture_output=True)
        found = shutil.which("chromium")
    if found is None:
        pytest.skip("no chromium: `apt-get install chromium` and run again")
    return found


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=BROWSER_WORDS)
        yield browser
        browser.close()
