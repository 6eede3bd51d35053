"""The migrations make what the models say."""

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from scheduler_plugin.store.models import SCHEMA, Base

pytestmark = pytest.mark.services


def test_a_migrated_database_has_what_the_models_say(database: Any) -> None:
    options = {"include_schemas": True, "include_name": _is_ours, "compare_server_default": True}
    # The user has the schema's name, which makes it the default one; Alembic then takes its tables for nameless ones.
    engine = create_engine(database.url, connect_args={"options": "-csearch_path=public"})
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def _is_ours(name: str | None, kind: str, parents: Any) -> bool:
    if kind == "schema":
        return name == SCHEMA
    return not (kind == "table" and name == "alembic_version")
