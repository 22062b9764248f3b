"""Secrets: what is held of a round in memory, whoever holds it: the keeper, from its keyring, or a replica of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from hubbub.shuffler.records import RoundId
from hubbub.shuffler.stores.postgres.sealing import RoundCipher


@dataclass(frozen=True)
class Secrets:
    """What is held of a round; all of it is empty, and `cipher` None, once the round's keys are destroyed."""

    cipher: RoundCipher | None = field(repr=False)
    private_key: bytes = field(default=b"", repr=False)
    place_key: bytes = field(default=b"", repr=False)


DESTROYED = Secrets(None)


class SecretsOf(Protocol):
    """Where secrets are; from any thread."""

    def of(self, round_: RoundId, /) -> Secrets:
        """Return what is held of a round.

        Raises:
            StoreError: where there is nothing of it, and should be.
        """
