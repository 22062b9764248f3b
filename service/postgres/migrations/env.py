"""Runs a store's migrations for Alembic, on the connection and in the transaction of `schema.bring_forward`."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"], version_table_schema=context.config.attributes["schema"]
)
with context.begin_transaction():
    context.run_migrations()
