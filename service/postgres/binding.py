"""A database says which keyring it belongs to, so that neither is ever used with another's."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from hubbub.service.errors import StoreError
from hubbub.service.postgres.keyring import KeyringFile
from hubbub.service.postgres.schema import Schema
from hubbub.service.postgres.sessions import Connection, as_store_error, lock, shown

_NEWEST = "put the newest copy of both back, or end the store's tasks, and start new ones in a new store"


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
        raise as_store_error(error, address) from error
    return row is None or bool(row[0])


def check_new(address: str, schema: Schema, whose: str) -> None:
    """Return only if a database belongs to no keyring yet; `whose` store it is to be, for errors.

    Raises:
        StoreError: if it does, or the server cannot be used.
    """
    if is_kept(address, schema):
        raise StoreError(
            f"{shown(address)} holds {whose} store; nothing was made. --create-store is for a first start alone, "
            "leave it out of what starts the service, or name another database"
        )


def bind(connection: Connection, keyring: KeyringFile[Any], address: str) -> None:
    """Return only if the database belongs to the keyring, from now on where both are new.

    Raises:
        StoreError: if one of them belongs to another, or is lost.
    """
    lock(connection, "keyring", "")
    row = connection.execute("SELECT id FROM keyring").fetchone()
    if row is None and keyring.rounds:
        raise StoreError(
            f"{shown(address)} holds no store, and the keyring {keyring.path} is of one: is another database meant, or "
            f"was it lost? {_NEWEST}"
        )
    if row is None:
        connection.execute("INSERT INTO keyring (id) VALUES (%s)", (keyring.id,))
    elif row[0] != keyring.id:
        raise StoreError(
            f"{shown(address)} is the store of another keyring than {keyring.path}; name its own database in `store`, "
            f"or its own folder in `data`; where one of them was lost, {_NEWEST}"
        )
