"""People at Freshet's API and page, in the real Airflow of the session's stack, and a real browser."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler_plugin.services.airflow import VIEWER
from scheduler_plugin.services.home import Secrets
from scheduler_plugin.services.settings import Settings
from tests.conftest import until

BROWSER_WORDS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: Against hanging on a busy machine; not a measure.
MILLISECONDS = 120_000.0


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


class Window:
    """Somebody's browser window, and everything it complained about or asked other hosts for."""

    def __init__(self, browser: Any, stack: Settings, who: str, **options: Any) -> None:
        self.base = stack.api_url
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(MILLISECONDS)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.goto(f"{self.base}/auth/login")
        self.page.fill("input[name=username]", who)
        self.page.fill("input[name=password]", passwords(stack)[who])
        self.page.press("input[name=password]", "Enter")
        self.page.wait_for_url(lambda url: "/auth/login" not in url, wait_until="commit")
        self.page.on(
            "console", lambda message: self.complaints.append(message.text) if message.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, route: str) -> Any:
        """The page by itself, without Airflow around it."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.base}/freshet/#/{route}")
        self.page.wait_for_selector("section.view")
        return self.page


@pytest.fixture(scope="module")
def window(browser: Any, stack: Settings, loaded: str) -> Iterator[Window]:
    window = Window(browser, stack, stack.api_username, viewport={"width": 1280, "height": 800})
    yield window
    window.context.close()
