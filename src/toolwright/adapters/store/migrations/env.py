"""Run by alembic: applies the revisions on the connection that `schema` hands over."""

from alembic import context

from toolwright.adapters.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
