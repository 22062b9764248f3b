"""Schema: the tables of the store, by migrations that Alembic runs at the start, one process at a time.

A change adds a file to `migrations/versions/` with a revision after the last. A database that a newer hubbub wrote is
refused by the name of its revision.
"""

from __future__ import annotations

from importlib import resources

import psycopg
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext, StampStep
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from hubbub.service.errors import StoreError
from hubbub.shuffler.postgres.sessions import SCHEMA, as_store_error, shown


def bring_forward(address: str) -> None:
    """Have the tables of this version in a database, in one transaction, while nobody else does.

    Raises:
        StoreError: where a newer version wrote the database, or the server could not do it; nothing was changed.
    """
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(address), poolclass=NullPool)
    config = Config()
    config.set_main_option("script_location", str(resources.files(__package__) / "migrations"))
    scripts = ScriptDirectory.from_config(config)
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), {"name": SCHEMA})
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
            connection.execute(text(f"SET LOCAL search_path = {SCHEMA}"))

            def steps(revision: object, _context: MigrationContext) -> list[StampStep]:
                return scripts._upgrade_revs("head", revision)  # type: ignore[arg-type,return-value]

            context = MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA, "fn": steps})
            found = context.get_current_revision()
            _check_known(found, scripts, address)
            if found != scripts.get_current_head():
                with Operations.context(context):
                    context.run_migrations()
    except DBAPIError as error:
        cause = error.orig if isinstance(error.orig, psycopg.Error) else error
        raise as_store_error(cause, address) from error
    finally:
        engine.dispose()


def _check_known(found: str | None, scripts: ScriptDirectory, address: str) -> None:
    known = [script.revision for script in scripts.walk_revisions()]
    if found is not None and found not in known:
        raise StoreError(
            f"the store {shown(address)} is of version {found}, this hubbub knows {known[0]}; nothing was touched: "
            "install the newer hubbub that wrote it, or one newer than that"
        )
