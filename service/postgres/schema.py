"""Creates and migrates the tables of a store with Alembic at the start, one process at a time.

A change adds a file to the store's `migrations/versions/`, with a revision after the last. A database of a newer hubbub
is refused, and the error names its revision.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import resources

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from hubbub.service.errors import StoreError
from hubbub.service.postgres.server_errors import as_store_error, shown

_ALONE = threading.Lock()
"""Alembic passes a migration its connection in a module variable, so a process runs one migration at a time."""


@dataclass(frozen=True)
class Schema:
    """A store's schema: its name in the database, and the package whose `migrations/versions` make its tables."""

    name: str
    package: str


def bring_forward(address: str, schema: Schema) -> None:
    """Migrate the tables of a database to this version, in one transaction and under a lock.

    Raises:
        StoreError: if a newer version wrote the database, or the server fails; nothing was changed.
    """
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(address), poolclass=NullPool)
    try:
        with _ALONE, engine.begin() as connection:
            name = {"name": schema.name}
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), name)
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {schema.name}"))
            connection.execute(text(f"SET LOCAL search_path = {schema.name}"))
            _upgrade(connection, schema, address)
    except DBAPIError as error:
        cause = error.orig if isinstance(error.orig, psycopg.Error) else error
        raise as_store_error(cause, address, running=False) from error
    finally:
        engine.dispose()


def _upgrade(connection: Connection, schema: Schema, address: str) -> None:
    config = Config(attributes={"connection": connection, "schema": schema.name})
    for option, package in (("script_location", __package__), ("version_locations", schema.package)):
        folder = resources.files(package) / "migrations" / ("versions" if option == "version_locations" else "")
        config.set_main_option(option, str(folder).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    scripts = ScriptDirectory.from_config(config)
    context = MigrationContext.configure(connection, opts={"version_table_schema": schema.name})
    found = context.get_current_revision()
    _check_known(found, scripts, address)
    if found != scripts.get_current_head():
        command.upgrade(config, "head")


def _check_known(found: str | None, scripts: ScriptDirectory, address: str) -> None:
    known = [script.revision for script in scripts.walk_revisions()]
    if found is not None and found not in known:
        raise StoreError(
            f"the store {shown(address)} is of version {found}, but this hubbub knows {known[0]}; nothing was "
            "touched: install the hubbub that wrote it, or a newer one"
        )
