"""What Alembic runs a store's migrations with: the connection that `schema.bring_forward` has, in its transaction."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"], version_table_schema=context.config.attributes["schema"]
)
with context.begin_transaction():
    context.run_migrations()
