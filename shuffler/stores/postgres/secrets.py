"""What is held of a round in memory, whoever holds it: the leader, from its keyring, or a front end of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hubbub.shuffler.records import RoundId
from hubbub.shuffler.stores.postgres.sealing import RoundCipher


@dataclass(frozen=True)
class StorageSecrets:
    """What is held of a round; all of it is empty, and `cipher` None, once the round's keys are destroyed."""

    cipher: RoundCipher | None = field(repr=False)
    private_key: bytes = field(default=b"", repr=False)
    pseudonym_key: bytes = field(default=b"", repr=False)


DESTROYED = StorageSecrets(None)


class SecretsOf(Protocol):
    """Where secrets are; from any thread."""

    def of(self, round_: RoundId, /) -> StorageSecrets:
        """Return what is held of a round.

        Raises:
            StoreError: if there is nothing of it, and should be.
        """
