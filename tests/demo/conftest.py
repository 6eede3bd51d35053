"""The demo's catalog, its source and one plan of the storm's week, read once for all tests."""

import pytest

from scheduler_plugin.catalog import Catalog, load_catalog
from scheduler_plugin.catalog.load import DEFAULT
from scheduler_plugin.demo.outside import Outside
from scheduler_plugin.demo.plan import Drop, choose_window, plan
from scheduler_plugin.demo.source import EVENTS, REGISTERS, read


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return load_catalog(DEFAULT)


@pytest.fixture(scope="session")
def source():
    return {feed: read(feed) for feed in EVENTS + REGISTERS}


@pytest.fixture(scope="session")
def week(source) -> list[Drop]:
    return plan(source, *choose_window(minutes=4))


@pytest.fixture(scope="session")
def outside(catalog: Catalog, week: list[Drop]) -> Outside:
    return Outside(catalog, week)
