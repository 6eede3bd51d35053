"""Start everything: Postgres, Spark and Airflow's four components. What already runs is left alone.

The catalog is checked first. FRESHET_HOME holds the state, FRESHET_DATABASE_URL and FRESHET_SPARK_REMOTE point at
servers of your own, FRESHET_CATALOG names the catalog.
"""

import argparse
import json

from scheduler_plugin.catalog import CatalogError, load_catalog
from scheduler_plugin.cli.main import UserError
from scheduler_plugin.services import stack
from scheduler_plugin.services.progress import Progress
from scheduler_plugin.services.settings import Settings


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print where everything is as JSON")


def run(options: argparse.Namespace) -> int:
    settings = Settings.load()
    try:
        load_catalog(settings.catalog)
    except CatalogError as error:
        raise UserError(str(error)) from None
    with Progress() as progress:
        stack.up(settings, progress)
    where = {
        "page": settings.api_url,
        "username": settings.api_username,
        "password_file": str(settings.home.airflow / "passwords.json"),
        "landing": settings.landing,
        "home": str(settings.home.root),
    }
    if options.json:
        print(json.dumps(where, indent=2))
    else:
        print(f"Airflow   {where['page']}   user {where['username']}, password in {where['password_file']}")
        print(f"Landing   {where['landing']}")
        print("`freshet status` shows how fresh everything is, `freshet down` stops it all.")
    return 0
