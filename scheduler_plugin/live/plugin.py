"""What Airflow loads at start, by the `airflow.plugins` entry point."""

from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin


class Page:
    """Freshet's page and API. Every process of Airflow's loads plugins; only the api-server needs this, when asked."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._app is None:
            from scheduler_plugin.web.app import make_app

            self._app = make_app()
        await self._app(scope, receive, send)


class FreshetPlugin(AirflowPlugin):
    """Freshet in Airflow: a page in the navigation, and a tab on every DAG that shows the DAG's object."""

    name = "freshet"
    fastapi_apps: ClassVar[list[Any]] = [{"name": "freshet", "app": Page(), "url_prefix": "/freshet"}]
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
