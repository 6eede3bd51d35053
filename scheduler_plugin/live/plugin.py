"""What Airflow loads at start, by the `airflow.plugins` entry point."""

import threading
from asyncio import to_thread
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin


class Page:
    """Freshet's page and API. Every process of Airflow's loads plugins; only the api-server needs this."""

    def __init__(self) -> None:
        self._app: Any = None
        self._making = threading.Lock()

    def app(self) -> Any:
        with self._making:
            if self._app is None:
                from scheduler_plugin.web.app import make_app

                self._app = make_app()
            return self._app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = self._app or await to_thread(self.app)
        await app(scope, receive, send)

    def made_ready(self, around: Any) -> Any:
        """A middleware that is none: the api-server, and nobody else, sets its middlewares up as it starts."""
        threading.Thread(target=self.app, name="freshet-page", daemon=True).start()
        return around


PAGE = Page()


class FreshetPlugin(AirflowPlugin):
    """Freshet in Airflow: a page in the navigation, and a tab on every DAG that shows the DAG's object."""

    name = "freshet"
    fastapi_apps: ClassVar[list[Any]] = [{"name": "freshet", "app": PAGE, "url_prefix": "/freshet"}]
    fastapi_root_middlewares: ClassVar[list[Any]] = [{"name": "freshet", "middleware": PAGE.made_ready}]
    external_views: ClassVar[list[Any]] = [
        {
            "name": "Freshet",
            "href": "/freshet/",
            "icon": "/freshet/static/icon.svg",
            "icon_dark_mode": "/freshet/static/icon-dark.svg",
            "url_route": "freshet",
            "destination": "nav",
            "nav_top_level": True,
        },
        {
            "name": "Freshness",
            "href": "/freshet/?dag={DAG_ID}",
            "icon": "/freshet/static/icon.svg",
            "icon_dark_mode": "/freshet/static/icon-dark.svg",
            "url_route": "freshness",
            "destination": "dag",
        },
    ]
