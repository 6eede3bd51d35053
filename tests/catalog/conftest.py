"""A small catalog on disk that a test can bend: `files` maps a path below include/ to its text."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_plugin.catalog import Catalog, CatalogError, load_catalog


def small() -> dict[str, Any]:
    """Two feeds and a diamond: flights and weather; by_hour and by_carrier; board over both."""
    return {
        "slots": 4,
        "feeds": {
            "flights": {
                "format": "csv",
                "columns": {"time_hour": "timestamp", "carrier": "string", "delay": "int"},
                "period": "1h",
            },
            "weather": {"format": "json", "columns": {"time_hour": "timestamp", "wind": "double"}, "period": "1h"},
        },
        "views": {"by_hour": {}, "by_carrier": {}, "board": {}},
    }


SQL = {
    "views/by_hour.sql": "SELECT time_hour, count(*) FROM flights JOIN weather USING (time_hour) GROUP BY time_hour",
    "views/by_carrier.sql": "SELECT carrier, avg(delay) AS delay FROM flights GROUP BY carrier",
    "views/board.sql": "SELECT * FROM by_hour CROSS JOIN by_carrier",
}


@pytest.fixture
def catalog_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a catalog below the working folder and gives its path: `include/warehouse.yml`."""
    monkeypatch.chdir(tmp_path)

    def write(content: Mapping[str, Any] | str, files: Mapping[str, str] | None = None) -> Path:
        include = tmp_path / "include"
        for name, text in {**SQL, **(files or {})}.items():
            (include / name).parent.mkdir(parents=True, exist_ok=True)
            (include / name).write_text(text)
        path = include / "warehouse.yml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(dict(content), sort_keys=False))
        return path

    return write


@pytest.fixture
def bent(catalog_file: Callable[..., Path]) -> Callable[..., Catalog]:
    """Loads the small catalog after `change` has had its way with it."""

    def load(change: Callable[[dict[str, Any]], Any] = lambda _: None, **more: Any) -> Catalog:
        content = small()
        change(content)
        return load_catalog(catalog_file(content, more.pop("files", None)), **more)

    return load


@pytest.fixture
def complaints(bent: Callable[..., Catalog]) -> Callable[..., tuple[str, ...]]:
    """The problems of the small catalog after `change`."""

    def problems(change: Callable[[dict[str, Any]], Any] = lambda _: None, **more: Any) -> tuple[str, ...]:
        with pytest.raises(CatalogError) as caught:
            bent(change, **more)
        return caught.value.problems

    return problems
