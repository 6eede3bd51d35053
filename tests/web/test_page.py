"""The page in a real browser: it renders real data in light and dark and narrow windows, and its buttons act."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sqlalchemy import update

from scheduler_plugin.services.airflow import VIEWER
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store import queries
from scheduler_plugin.store.database import Database
from scheduler_plugin.store.models import Query
from tests.conftest import until
from tests.web.conftest import Window

pytestmark = pytest.mark.services


def routes(table: str) -> dict[str, str]:
    """Where to look, and what must be there."""
    return {
        "board": f"tr[data-name={table}] td.num",
        f"graph/{table}": f"a.node[data-name={table}] rect",
        f"object/{table}": ".chart svg path.teeth",
        "decisions": ".decisions li .why",
        "whatif": "h1",
        "quarantine": "h1",
        "qod": ".chart svg",
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_renders_with_real_data_and_without_a_complaint(
    window: Window, loaded: str, theme: str, tmp_path: Path
) -> None:
    window.page.emulate_media(color_scheme=theme)
    window.requests.clear()
    for route, there in routes(loaded).items():
        page = window.open(route)
        page.wait_for_selector(there)
        assert page.locator("html").get_attribute("data-theme") == theme
        picture = tmp_path / f"{route.replace('/', '-')}.png"
        page.screenshot(path=picture)
        assert picture.stat().st_size > 5_000
    assert window.complaints == []
    assert [url for url in window.requests if not url.startswith((window.base, "about:"))] == []


def test_a_narrow_window_shows_the_board_without_scrolling_sideways(window: Window, loaded: str) -> None:
    window.page.set_viewport_size({"width": 480, "height": 800})
    page = window.open("board")
    page.wait_for_selector(f"tr[data-name={loaded}]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    assert page.evaluate(
        "document.querySelector('.rows').scrollWidth <= document.querySelector('.rows').clientWidth + 1"
    )
    window.page.set_viewport_size({"width": 1280, "height": 800})


def test_staleness_ticks_without_asking(window: Window, loaded: str) -> None:
    page = window.open(f"object/{loaded}")
    strong = page.locator("p.lead strong")
    strong.wait_for()
    before = strong.inner_text()
    until("it has ticked", lambda: strong.inner_text() != before)


def test_the_board_is_searched_and_walked_by_keyboard(window: Window, admin: httpx.Client, loaded: str) -> None:
    page = window.open("board")
    page.wait_for_selector(f"tr[data-name={loaded}]")
    page.keyboard.press("/")
    page.keyboard.type(loaded)
    until("only the one is left", lambda: page.locator("tr[data-name]").count() == 1)
    page.keyboard.press("ArrowDown")
    focused = page.locator(f"tr[data-name={loaded}] a:focus")
    focused.wait_for()
    # A row that changes keeps the focus.
    for action in ("pause", "resume"):
        admin.post(f"/freshet/api/v1/objects/{loaded}/{action}", json={"why": "to change the row"})
        paused = page.locator(f"tr[data-name={loaded}] .badge", has_text="paused")
        paused.wait_for(state="attached" if action == "pause" else "detached")
        assert focused.count() == 1
    page.keyboard.press("Enter")
    page.wait_for_selector(".view.object h1")
    assert loaded in page.locator("h1").inner_text()
    page.evaluate("sessionStorage.clear()")


def test_a_tab_keeps_the_focus_and_is_in_sight_in_a_narrow_window(window: Window) -> None:
    window.page.set_viewport_size({"width": 400, "height": 800})
    page = window.open("board")
    last = page.get_by_role("link", name="QoD picture")
    last.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".view.qod h1")
    assert last.evaluate("tab => tab === document.activeElement && tab.ariaCurrent === 'page'")
    page = window.open("qod")
    assert last.evaluate("""tab => {
        const [own, bar] = [tab, tab.parentElement].map((each) => each.getBoundingClientRect());
        return own.left >= bar.left && own.right <= bar.right + 1;
    }""")
    window.page.set_viewport_size({"width": 1280, "height": 800})


def test_the_curve_of_waiting_queries_is_drawn_with_the_point_taken(
    window: Window, stack: Settings, loaded: str
) -> None:
    database = Database(stack.database_url)
    words = {
        "sql": "SELECT 1",
        "by": "admin",
        "objects": [loaded],
        "deadline": None,
        "max_staleness": None,
        "as_of": None,
    }
    number, _ = queries.ask(database, prefer=0.5, **words)
    curve = [{"wait_seconds": wait, "help": spared} for wait, spared in ((0, 0), (2, 30), (8, 40))]
    told = {"objects": [loaded], "queries": [number], "bound_seconds": 4, "curve": curve, "taken": curve[1]}
    with database.transaction() as connection:
        connection.execute(update(Query).where(Query.id == number).values(trade_off=told, state="done"))
    for _ in range(25):  # without a preference, and newer
        other, _ = queries.ask(database, prefer=None, **words)
        queries.note(database, other, state="done")
    database.close()
    page = window.open("whatif")
    page.locator(".whatif select", has_text=f"query {number}").select_option(str(number))
    page.get_by_text("weighed alone. It accepts 4 s of waiting; the point taken costs 2 s of it.").wait_for()
    path = page.locator("figure path.series").get_attribute("d")
    corners = [(float(x), float(y)) for x, y in re.findall(r"L([\d.]+) ([\d.]+)", path)]
    mark = page.locator("figure circle.mark")
    assert len(corners) == 2
    assert [float(mark.get_attribute(side)) for side in ("cx", "cy")] == pytest.approx(corners[0], abs=0.1)


def test_rows_are_asked_for_while_the_board_is_still_being_scrolled(
    window: Window, admin: httpx.Client, loaded: str
) -> None:
    page = window.open("board")
    (row, *_) = admin.get("/freshet/api/v1/board", params={"search": loaded}).json()["objects"]
    asked: list[int] = []

    def five_thousand(route: Any) -> None:
        """The server's answer, as if there were as many rows."""
        query = parse_qs(urlsplit(route.request.url).query)
        first, most = int(query["offset"][0]), int(query["limit"][0])
        asked.append(first)
        rows = [row | {"name": f"object_{number}"} for number in range(first, min(first + most, 5000))]
        route.fulfill(json=route.fetch().json() | {"total": 5000, "offset": first, "objects": rows})

    page.route(re.compile(r"/api/v1/board\?.*sort="), five_thousand)
    page.wait_for_selector("tr[data-name=object_0]")
    asked.clear()
    page.evaluate("""async () => {
        const rows = document.querySelector(".rows");
        const until = performance.now() + 3000;
        while (performance.now() < until) {
            rows.scrollTop += 20;
            await new Promise((done) => { requestAnimationFrame(done); });
        }
    }""")
    assert len({first for first in asked if first}) > 2
    page.unroute_all()


def test_pointing_at_an_object_in_the_graph_tells_its_figures(window: Window, loaded: str) -> None:
    page = window.open(f"graph/{loaded}")
    page.locator(f"a.node[data-name={loaded}]").hover()
    card = page.locator(".card")
    card.get_by_text("staleness").wait_for()
    assert card.locator("strong").inner_text() == loaded


def test_decisions_are_searched_by_object(window: Window, loaded: str) -> None:
    page = window.open("decisions")
    page.get_by_role("searchbox").fill(loaded)
    names = page.locator(".decisions > li .why a")
    until("only its decisions are left", lambda: set(names.all_inner_texts()) == {loaded})
    page.get_by_role("searchbox").fill("nowhere")
    page.get_by_text("No such decision yet.").wait_for()


def test_a_table_is_sorted_by_its_titles(window: Window, loaded: str) -> None:
    page = window.open(f"object/{loaded}")
    columns = page.locator(".panel", has_text="Made of").locator("tbody code")
    columns.first.wait_for()
    for order in (["carrier", "name"], ["name", "carrier"]):
        page.get_by_role("button", name="Column").click()
        assert columns.all_inner_texts() == order


def test_the_buttons_act_and_the_page_shows_it(window: Window, admin: httpx.Client, loaded: str) -> None:
    page = window.open(f"object/{loaded}")
    for button in ("Pause", "Resume"):
        page.get_by_role("button", name=button, exact=True).click()
        page.locator("dialog input[name=why]").fill("the browser's test")
        page.locator("dialog button.primary").click()
        # By its words: the one before may still be there.
        page.locator("#toast", has_text=f"{loaded} is {button.lower()}d").wait_for()
        assert admin.get(f"/api/v2/dags/load__{loaded}").json()["is_paused"] is (button == "Pause")
    page.get_by_role("button", name="Run now").click()
    page.locator("dialog button.primary").click()
    page.locator("#toast", has_text="demand").wait_for()


def test_a_viewer_sees_the_page_and_cannot_act(browser: Any, stack: Settings, loaded: str) -> None:
    window = Window(browser, stack, VIEWER)
    page = window.open(f"object/{loaded}")
    button = page.get_by_role("button", name="Run now")
    button.wait_for()
    assert button.is_disabled()
    # Nor by going around the button.
    status = page.evaluate(
        """async (path) => (await fetch(path, {method: "POST", headers: {"Content-Type": "application/json"},
                                              body: "{}"})).status""",
        f"/freshet/api/v1/objects/{loaded}/run",
    )
    assert status == 403
    window.context.close()


def test_the_page_is_in_airflows_navigation_and_on_the_dag(window: Window, loaded: str) -> None:
    page = window.page
    page.goto(f"{window.base}/plugin/freshet")
    inside = page.frame_locator("iframe[title=Freshet]")
    inside.locator(f"tr[data-name={loaded}]").wait_for()
    page.goto(f"{window.base}/dags/load__{loaded}/plugin/freshness")
    inside = page.frame_locator("iframe[title=Freshness]")
    inside.locator(".view.object h1", has_text=loaded).wait_for()
    # A link of the page leads to Airflow's own, though the page may not leave its frame.
    inside.get_by_text(f"DAG load__{loaded}").click()
    page.wait_for_url(f"**/dags/load__{loaded}")
