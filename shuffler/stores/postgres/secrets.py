"""The secrets of a round in memory, at the leader (from its keyring) or at a front end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hubbub.shuffler.records import RoundId
from hubbub.shuffler.stores.postgres.sealing import RoundCipher


@dataclass(frozen=True)
class StorageSecrets:
    """A round's secrets; all are empty, and `cipher` is None, once the round's keys are destroyed."""

    cipher: RoundCipher | None = field(repr=False)
    private_key: bytes = field(default=b"", repr=False)
    pseudonym_key: bytes = field(default=b"", repr=False)


DESTROYED = StorageSecrets(None)


class SecretsOf(Protocol):
    """A source of secrets; usable from any thread."""

    def of(self, round_: RoundId, /) -> StorageSecrets:
        """Return a round's secrets.

        Raises:
            StoreError: if they are missing.
        """
