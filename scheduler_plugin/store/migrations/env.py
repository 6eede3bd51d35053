"""Alembic's way in: our metadata, our schema, and the connection that `migrate.upgrade` holds."""

from alembic import context

from scheduler_plugin.store.models import SCHEMA, Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    version_table_schema=SCHEMA,
    include_schemas=True,
    include_name=lambda name, kind, _parents: kind != "schema" or name == SCHEMA,
)
with context.begin_transaction():
    context.run_migrations()
