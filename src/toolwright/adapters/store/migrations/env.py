"""Run by alembic: applies the revisions on the connection that `schema` hands over."""

from alembic import context

from toolwright.adapters.store.sql.readers import all_tables

context.configure(connection=context.config.attributes["connection"], target_metadata=all_tables())
with context.begin_transaction():
    context.run_migrations()
