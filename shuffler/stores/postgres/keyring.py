"""Keeps data that must be erasable for good in a small SQLite file at the leader.

These are a round's secret, its private key and its pseudonym key; and for enrollment the redeemed tickets, revoked
devices and master keys. None of it is ever in the database. A round's row stays, without keys, when they are destroyed:
so a round that is being erased differs from one whose keys were lost.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from hubbub.protos.cluster import KeyringRow
from hubbub.protos.sqlite_layout import Layout, checksum_column
from hubbub.service.observability.incidents import Incidents
from hubbub.service.postgres.keyring import KEYRING_TABLE, KeyringFile
from hubbub.service.postgres.sealing import SECRET_BYTES
from hubbub.service.sqlite.secure_delete import pad_for_erasure, unpad
from hubbub.shuffler.records import RoundId
from hubbub.shuffler.stores.postgres.replication import changes
from hubbub.shuffler.stores.postgres.sealing import RoundCipher
from hubbub.shuffler.stores.postgres.secrets import DESTROYED, StorageSecrets
from hubbub.shuffler.stores.sqlite.enrollment import ADMISSION_TABLES, masters

T = TypeVar("T")


LAYOUT = Layout(
    what="shuffler's keyring",
    version=1,
    script=KEYRING_TABLE
    + f"""
-- Which copy of the keyring this is: those that follow have the id of the one that they follow.
CREATE TABLE copy (id BLOB NOT NULL, {checksum_column("id")}) STRICT;
INSERT INTO copy VALUES (randomblob(16));
-- How many changes were made, here or in the keyring that this one follows. The database has how many were answered:
-- a copy with fewer has forgotten some, such as who is revoked.
CREATE TABLE progress (
    one INTEGER PRIMARY KEY CHECK (one = 1), changes INTEGER NOT NULL, {checksum_column("one", "changes")}
) STRICT;
INSERT INTO progress VALUES (1, 0);
-- A round's secret (what is stored of it is enciphered under keys from it), private and pseudonym key; none: destroyed.
CREATE TABLE secret (
    key INTEGER PRIMARY KEY, task BLOB NOT NULL, number INTEGER NOT NULL,
    storage BLOB, private_key BLOB, pseudonym_key BLOB,
    {checksum_column("task", "number", "storage", "pseudonym_key")},
    UNIQUE (task, number)
) STRICT;
"""  # noqa: S608 - names of columns
    + ADMISSION_TABLES,
)


class KeyringReplication(Protocol):
    """The copies of a keyring, which get every change."""

    def tell(self, changes: Sequence[KeyringRow]) -> None:
        """Record a change; called in order, and returns at once."""

    def check(self) -> None:
        """Return at once if enough copies follow for a change to be answered.

        Raises:
            StoreError: if they do not.
        """

    def wait(self) -> None:
        """Return once every copy that must have the changes so far has them on disk.

        Raises:
            StoreError: if a copy that is needed is away.
        """


class ShufflerKeyring(KeyringFile[StorageSecrets]):
    """The shuffler's keyring: secrets of rounds, and the data of enrollment.

    `sqlite.enrollment` reads and writes the latter, on the connection that `read` and `change` give to their work.
    """

    layout = LAYOUT

    @staticmethod
    def _load(connection: sqlite3.Connection) -> dict[RoundId, StorageSecrets]:
        found = {}
        for task, number, *stored in connection.execute(
            "SELECT task, number, storage, private_key, pseudonym_key FROM secret"
        ):
            storage, private, pseudonym = (unpad(value) if value else b"" for value in stored)
            found[task, number] = (
                StorageSecrets(RoundCipher.of_secret(storage, task, number), private, pseudonym)
                if storage
                else DESTROYED
            )
        return found

    def __init__(
        self,
        folder: Path,
        *,
        connection: type[sqlite3.Connection] = sqlite3.Connection,
        incidents: Incidents | None = None,
    ) -> None:
        """Open the keyring in `folder`; see `KeyringFile`."""
        self._copies: KeyringReplication | None = None
        super().__init__(folder, connection=connection, incidents=incidents)
        try:
            self.copy: bytes = self.read(lambda reader: reader.execute("SELECT id FROM copy").fetchone()[0])
        except BaseException:
            self.close()
            raise

    def is_new(self) -> bool:
        """Return whether it has no secret of a round, and no master key."""
        return not self.rounds and not self.read(masters)

    @property
    def changes(self) -> int:
        """How many changes it has."""
        return int(self.read(lambda reader: reader.execute("SELECT changes FROM progress").fetchone()[0]))

    # Copies

    def replicate_to(self, copies: KeyringReplication) -> None:
        """Send every change from now on to the copies, and answer changes only once they have them."""
        with self.lock, self._failing():
            changes.watch(self._database.writer)
            self._copies = copies

    def whole(self, position: Callable[[], T]) -> tuple[list[KeyringRow], T]:
        """Return all rows, and the result of `position` at that moment, between two changes."""
        with self.lock, self._failing():
            return list(changes.every(self._database.writer)), position()

    def follow(self, changed: Sequence[KeyringRow], keyring: bytes = b"") -> None:
        """Make rows as they are in another keyring; data that was destroyed there leaves no trace.

        With the id of a `keyring`, the rows are its whole content, and this is a copy of it from now on.
        """

        def work(writer: sqlite3.Connection) -> None:
            changes.apply(writer, changed, anew=bool(keyring))
            if keyring:
                writer.execute("UPDATE keyring SET id = ?", (keyring,))

        with self.lock:
            self._change(work)
            with self._failing():
                self._secrets = self._load(self._database.writer)
            self.id = keyring or self.id
            if keyring or any(map(changes.destroys, changed)):
                self.clean()

    def _gathered(self) -> Callable[[], None]:
        if self._copies is None:
            return super()._gathered()
        writer, copies = self._database.writer, self._copies
        changed = changes.changed(writer)
        if changed:
            writer.execute("UPDATE progress SET changes = changes + 1")
            changed += changes.changed(writer)
        return lambda: copies.tell(changed) if changed else None

    def check_everywhere(self) -> None:
        """Refuse a change for which too few copies follow, before anything of it is written."""
        if self._copies is not None:
            self._copies.check()

    def _everywhere(self) -> None:
        """Return once the copies have the change. Without the lock, so that other changes go on meanwhile."""
        if self._copies is not None:
            self._copies.wait()

    # Rounds

    def begin(self, round_: RoundId) -> None:
        """Make a secret for a round, unless it has one."""
        self.check_everywhere()
        with self.lock:
            if round_ not in self._secrets:
                secret = os.urandom(SECRET_BYTES)
                statement = "INSERT INTO secret (task, number, storage) VALUES (?, ?, ?)"
                self._change(lambda writer: writer.execute(statement, (*round_, pad_for_erasure(secret))))
                self._secrets[round_] = StorageSecrets(RoundCipher.of_secret(secret, *round_))
        self._everywhere()

    def install(self, round_: RoundId, private_key: bytes, pseudonym_key: bytes) -> None:
        """Store a round's keys, in place of keys that no device was ever shown."""
        values = (pad_for_erasure(private_key), pad_for_erasure(pseudonym_key) if pseudonym_key else None, *round_)
        self.check_everywhere()
        statement = "UPDATE secret SET private_key = ?, pseudonym_key = ? WHERE task = ? AND number = ?"
        with self.lock:
            self._change(lambda writer: writer.execute(statement, values))
            self._secrets[round_] = replace(self.of(round_), private_key=private_key, pseudonym_key=pseudonym_key)
        self._everywhere()

    def destroy_private(self, round_: RoundId) -> None:
        """Destroy a round's private key, so that it is in no file."""
        with self.lock:
            statement = "UPDATE secret SET private_key = NULL WHERE task = ? AND number = ?"
            self._change(lambda writer: writer.execute(statement, round_))
            self._secrets[round_] = replace(self.of(round_), private_key=b"")
            self.clean()
        self._everywhere()

    def destroy(self, round_: RoundId) -> None:
        """Destroy all keys of a round, so that they are in no file and the data under them is unreadable."""
        with self.lock:
            statement = "UPDATE secret SET storage = NULL, private_key = NULL, pseudonym_key = NULL "
            which = "WHERE task = ? AND number = ?"
            self._change(lambda writer: writer.execute(statement + which, round_))
            self._secrets[round_] = DESTROYED
            self.clean()
        self._everywhere()
