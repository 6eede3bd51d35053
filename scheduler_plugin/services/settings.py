"""Where the services are: the one answer for the command line, the tick, the jobs and the tests.

A variable in the environment wins (the user's own server, or what Freshet hands to Airflow's components); otherwise the
answer comes from the records that `freshet up` left in FRESHET_HOME. Cheap to import and to load: it reads small files.

    FRESHET_HOME                   everything below that is not given
    FRESHET_DATABASE_URL           Postgres for the `freshet` schema
    FRESHET_AIRFLOW_DATABASE_URL   Postgres for Airflow; by default <database>_airflow on the same server
    FRESHET_SPARK_REMOTE           a Spark Connect server, sc://host:port
    FRESHET_SPARK_UI               that server's page, for links to it
    FRESHET_API_URL, FRESHET_API_USERNAME, FRESHET_API_PASSWORD   Airflow's API, for dispatch
    FRESHET_WAREHOUSE, FRESHET_LANDING, FRESHET_ARCHIVE   folders, or any path Spark and fsspec can read
    FRESHET_CATALOG                the catalog; by default include/warehouse.yml
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from scheduler_plugin.services import ServiceError
from scheduler_plugin.services.home import Home, Secrets
from scheduler_plugin.services.process import Record

DRIVER = "postgresql+psycopg2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Load it when needed and do not keep it: a service that restarts may come back on another port."""

    home: Home
    environment: Mapping[str, str]

    @classmethod
    def load(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        return cls(home=Home.find(environment), environment=environment)

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL (psycopg2) of the database that holds the `freshet` schema."""
        if given := self.environment.get("FRESHET_DATABASE_URL"):
            return _with_driver(given, "FRESHET_DATABASE_URL")
        return self._embedded_database("freshet")

    @property
    def airflow_database_url(self) -> str:
        if given := self.environment.get("FRESHET_AIRFLOW_DATABASE_URL"):
            return _with_driver(given, "FRESHET_AIRFLOW_DATABASE_URL")
        if given := self.environment.get("FRESHET_DATABASE_URL"):
            parts = urlsplit(_with_driver(given, "FRESHET_DATABASE_URL"))
            # Not plain `airflow`: on a server of one's own that may be another Airflow's.
            return urlunsplit(parts._replace(path=f"{parts.path}_airflow"))
        return self._embedded_database("airflow")

    @property
    def spark_remote(self) -> str:
        """What `SparkSession.builder.remote(...)` takes."""
        if given := self.environment.get("FRESHET_SPARK_REMOTE"):
            return given
        # The client sends a token without TLS only to a host spelt `localhost`.
        return f"sc://localhost:{self._port('spark')}/;token={Secrets.of(self.home).spark_token}"

    @property
    def spark_ui(self) -> str | None:
        """Spark's own page; None where nobody has said where it is."""
        if given := self.environment.get("FRESHET_SPARK_UI"):
            return given
        record = None if "FRESHET_SPARK_REMOTE" in self.environment else Record.read(self.home, "spark")
        words = record.command if record is not None else ()
        ports = [word.removeprefix("spark.ui.port=") for word in words if word.startswith("spark.ui.port=")]
        return f"http://127.0.0.1:{ports[0]}" if ports else None

    @property
    def api_url(self) -> str:
        """Airflow's page and API, without a slash at the end."""
        if given := self.environment.get("FRESHET_API_URL"):
            return given.rstrip("/")
        return f"http://127.0.0.1:{self._port('api-server')}"

    @property
    def api_username(self) -> str:
        return self.environment.get("FRESHET_API_USERNAME", "admin")

    @property
    def api_password(self) -> str:
        return self.environment.get("FRESHET_API_PASSWORD") or Secrets.of(self.home).airflow_password

    @property
    def catalog(self) -> Path:
        from scheduler_plugin.catalog.load import DEFAULT

        return Path(self.environment.get("FRESHET_CATALOG") or DEFAULT).absolute()

    @property
    def warehouse(self) -> str:
        return self._folder("FRESHET_WAREHOUSE", self.home.warehouse)

    @property
    def landing(self) -> str:
        return self._folder("FRESHET_LANDING", self.home.landing)

    @property
    def archive(self) -> str:
        return self._folder("FRESHET_ARCHIVE", self.home.archive)

    def _folder(self, variable: str, otherwise: Path) -> str:
        given = self.environment.get(variable) or str(otherwise)
        return given if "://" in given else str(Path(given).expanduser().absolute())

    def _embedded_database(self, name: str) -> str:
        password = quote(Secrets.of(self.home).postgres_password, safe="")
        return f"{DRIVER}://freshet:{password}@127.0.0.1:{self._port('postgres')}/{name}"

    def _port(self, service: str) -> int:
        record = Record.read(self.home, service)
        if record is None or record.port is None:
            raise ServiceError(f"{service} has not been started in {self.home.root}: `freshet up` starts it.")
        return record.port


def _with_driver(url: str, variable: str) -> str:
    parts = urlsplit(url)
    if parts.scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise ServiceError(f"{variable} must be a postgresql:// URL, not {parts.scheme or 'a plain word'}://...")
    return urlunsplit(parts._replace(scheme=DRIVER))
