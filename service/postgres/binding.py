"""Binds a database to its keyring, so that neither is ever used with another store's."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from hubbub.service.errors import StoreError
from hubbub.service.postgres.keyring import KeyringFile
from hubbub.service.postgres.schema import Schema
from hubbub.service.postgres.server_errors import as_store_error, shown
from hubbub.service.postgres.sessions import Connection, lock

_NEWEST = "restore the newest copy of both, or end the store's tasks and start new ones in a new store"


def is_kept(address: str, schema: Schema) -> bool:
    """Return whether a database belongs to a keyring.

    Raises:
        StoreError: if the server cannot be used.
    """
    try:
        with psycopg.connect(address, autocommit=True) as connection:
            statement = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema.name, "keyring"))
            row = connection.execute(statement).fetchone()
    except psycopg.Error as error:
        raise as_store_error(error, address, running=False) from error
    return row is None or bool(row[0])


def check_new(address: str, schema: Schema, whose: str) -> None:
    """Check that a database belongs to no keyring yet; `whose` names the store in errors.

    Raises:
        StoreError: if it belongs to one, or the server cannot be used.
    """
    if is_kept(address, schema):
        raise StoreError(
            f"{shown(address)} has {whose} store, so nothing was created. --create-store is for the first start "
            "only; remove it from the command that starts the service, or name another database"
        )


def bind(connection: Connection, keyring: KeyringFile[Any], address: str) -> None:
    """Check that the database belongs to the keyring; if both are new, bind them.

    Raises:
        StoreError: if one of them belongs to another, or is lost.
    """
    lock(connection, "keyring", "")
    row = connection.execute("SELECT id FROM keyring").fetchone()
    if row is None and keyring.rounds:
        raise StoreError(
            f"{shown(address)} has no store, but the keyring {keyring.path} belongs to one. Name the right database in "
            f"`store`; if it was lost, {_NEWEST}"
        )
    if row is None:
        connection.execute("INSERT INTO keyring (id) VALUES (%s)", (keyring.id,))
    elif row[0] != keyring.id:
        raise StoreError(
            f"{shown(address)} is the store of another keyring than {keyring.path}; name its own database in `store`, "
            f"or its own folder in `data`. If one of them was lost, {_NEWEST}"
        )
