"""Brings both databases up to date and writes the page's password where Airflow looks for it; then it is done."""

import json
import os
import subprocess
from pathlib import Path

from scheduler_plugin.services import postgres
from scheduler_plugin.services.home import write_private
from scheduler_plugin.services.settings import Settings
from scheduler_plugin.store.migrate import upgrade

settings = Settings.load()
for url in (settings.database_url, settings.airflow_database_url):
    postgres.make_database(url)
upgrade(settings.database_url)
write_private(
    Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"]),
    json.dumps({settings.api_username: settings.api_password}),
)
subprocess.run(["airflow", "db", "migrate"], check=True)
