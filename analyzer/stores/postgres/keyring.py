"""Keeps rounds' private keys, and the secrets that encrypt their delivered data in the database."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass, field

from hubbub.analyzer.stores.postgres.sealing import DeliveryCipher
from hubbub.protos.sqlite_layout import Layout, checksum_column
from hubbub.service.postgres.keyring import KEYRING_TABLE, KeyringFile, RoundId
from hubbub.service.postgres.sealing import SECRET_BYTES
from hubbub.service.sqlite.secure_delete import pad_for_erasure, unpad

LAYOUT = Layout(
    what="analyzer's keyring",
    version=1,
    script=KEYRING_TABLE
    + f"""
-- A round's secret (what is stored of it is enciphered under a key from it) and private key; none: destroyed.
CREATE TABLE secret (
    key INTEGER PRIMARY KEY, task BLOB NOT NULL, number INTEGER NOT NULL,
    storage BLOB, private_key BLOB,
    {checksum_column("task", "number", "storage")},
    UNIQUE (task, number)
) STRICT;
""",
)


@dataclass(frozen=True)
class DeliverySecrets:
    """The secrets of a round; empty, and `cipher` is None, once they are destroyed."""

    cipher: DeliveryCipher | None = field(repr=False)
    private_key: bytes = field(default=b"", repr=False)


DESTROYED = DeliverySecrets(None)


class AnalyzerKeyring(KeyringFile[DeliverySecrets]):
    """The analyzer's keyring."""

    layout = LAYOUT

    @staticmethod
    def _load(connection: sqlite3.Connection) -> dict[RoundId, DeliverySecrets]:
        found = {}
        for task, number, *stored in connection.execute("SELECT task, number, storage, private_key FROM secret"):
            storage, private = (unpad(value) if value else b"" for value in stored)
            found[task, number] = (
                DeliverySecrets(DeliveryCipher(storage, task, number), private) if storage else DESTROYED
            )
        return found

    @property
    def alive(self) -> list[RoundId]:
        """The rounds whose secrets are not destroyed."""
        with self.lock:
            return [round_ for round_, secrets in self._secrets.items() if secrets.cipher is not None]

    def install(self, round_: RoundId, private_key: bytes) -> None:
        """Store a round's private key, in place of one that was never shown, and a new secret for the round."""
        secret = os.urandom(SECRET_BYTES)
        put = (
            "INSERT INTO secret (task, number, storage, private_key) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET storage = excluded.storage, private_key = excluded.private_key"
        )
        with self.lock:
            self.change(
                lambda writer: writer.execute(put, (*round_, pad_for_erasure(secret), pad_for_erasure(private_key)))
            )
            self._secrets[round_] = DeliverySecrets(DeliveryCipher(secret, *round_), private_key)

    def destroy(self, round_: RoundId) -> None:
        """Destroy a round's secrets, so that they are in no file and the data under them is unreadable."""
        which = "UPDATE secret SET storage = NULL, private_key = NULL WHERE task = ? AND number = ?"
        with self.lock:
            if self.of(round_).cipher is not None:
                self.change(lambda writer: writer.execute(which, round_))
                # Recorded only once the files are clean, so that a failed cleaning is repeated.
                self.clean()
                self._secrets[round_] = DESTROYED
