"""A ledger with one table and one view in its catalog."""

from datetime import timedelta

import pytest

from scheduler_plugin.store import lease, objects
from scheduler_plugin.store.database import Database

SPEC = {"weight": 1.0, "access": 1.0, "staleness_limit": None}
TABLE = objects.ObjectRow(name="t", kind="table", materialized=True, parents=(), spec={**SPEC, "period": 1.0})
VIEW = objects.ObjectRow(name="v", kind="view", materialized=True, parents=("t",), spec={**SPEC, "sql": "SELECT 1"})


@pytest.fixture
def ledger(database: Database) -> Database:
    objects.take_in(database, objects.CatalogRow(settings={"slots": 2}, objects=[TABLE, VIEW]))
    return database


@pytest.fixture
def epoch(ledger: Database) -> int:
    taken = lease.take(ledger, "the test's loop", timedelta(minutes=5))
    assert taken is not None
    return taken
