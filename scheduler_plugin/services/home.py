"""FRESHET_HOME: the one folder that holds everything a running Freshet keeps on this machine.

postgres/   the embedded database          landing/    where feeds drop files
spark/      Spark's scratch space          archive/    files that have been loaded
airflow/    Airflow's own files            warehouse/  the Iceberg tables' files
logs/       one log for each service       run/        what runs: process and port records, the lock
experiments/  figures and pictures of `freshet experiment`
secrets.json  generated once, readable by its owner alone
"""

import base64
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Names the folders; `make` creates them."""

    root: Path

    @classmethod
    def find(cls, environment: Mapping[str, str] = os.environ) -> "Home":
        given = environment.get("FRESHET_HOME")
        return cls(root=Path(given).expanduser().absolute() if given else REPOSITORY / ".freshet")

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def spark(self) -> Path:
        return self.root / "spark"

    @property
    def airflow(self) -> Path:
        return self.root / "airflow"

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def warehouse(self) -> Path:
        return self.root / "warehouse"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        return self.root / "run"

    def make(self) -> None:
        # `postgres` is made by postgres.py: it may belong to another user, or live elsewhere.
        for folder in (self.spark, self.airflow, self.landing, self.archive, self.warehouse, self.logs, self.run):
            folder.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Made on first use and then kept: changing one would lock Freshet out of its own services."""

    postgres_password: str
    airflow_password: str
    #: Of the user `viewer`, who may look and not touch.
    viewer_password: str
    #: Signs Airflow's API tokens; all its components must share it.
    jwt_secret: str
    #: Encrypts connections and variables in Airflow's database.
    fernet_key: str
    #: Signs the login session of Airflow's page.
    api_secret_key: str
    #: Keeps other users of this machine off the Spark Connect port.
    spark_token: str

    @classmethod
    def of(cls, home: Home) -> "Secrets":
        path = home.root / "secrets.json"
        kept = json.loads(path.read_text()) if path.exists() else {}
        missing = [field.name for field in fields(cls) if field.name not in kept]
        whole = cls(**{name: _generate(name) for name in missing}, **kept)
        if missing:
            write_private(path, json.dumps(asdict(whole), indent=1))
        return whole


def _generate(name: str) -> str:
    if name == "fernet_key":
        return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return secrets.token_urlsafe(16 if name.endswith("password") else 48)


def write_private(path: Path, text: str) -> None:
    """Replaces the file in one step, readable by its owner alone from the first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)
