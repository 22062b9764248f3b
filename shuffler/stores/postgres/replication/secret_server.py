"""Sends front ends secrets of the leader's keyring; they keep these in memory alone, as long as they need them."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence

from hubbub.protos.enrollment.admitted import (
    VERSION_BYTES,
    Admitted,
    MasterSecret,
    RedeemedTicket,
    Revoked,
    RoundSecrets,
)
from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason, Refusal
from hubbub.service.errors import StoreError, with_fault
from hubbub.shuffler.records import Round, is_over
from hubbub.shuffler.stores.postgres.secrets import StorageSecrets
from hubbub.shuffler.stores.protocol import ShufflerStore

AGAIN_SECONDS = 1.0
"""Seconds until a front end may ask again for the secrets of a round that has none yet."""


class SecretServer:
    """Answers front ends (`LeaderHandler`) from a leader's store; `secrets_of` returns a round's secrets."""

    def __init__(self, store: ShufflerStore, secrets_of: Callable[[Round], StorageSecrets]) -> None:
        self._store = store
        self._secrets_of = secrets_of
        self.damaged: Collection[int] = frozenset()
        """The `Round.key` of each round whose private key is damaged: front ends get none of its secrets."""
        self.oblivious_records: Callable[[], bytes] = bytes
        """Returns the signed oblivious key."""
        # Keyed, so that a version reveals nothing of the content, even to a reader who knows a part of it.
        self._key = os.urandom(32)

    async def get_secrets(self, task_id: bytes, round_number: int) -> RoundSecrets:
        """Return a round's secrets: all while it is OPEN, and those that recognize retries until it is over.

        Raises:
            Refusal: UNKNOWN_ROUND, NOT_READY if it has no usable keys or the store cannot be used now, ERASED if it is
                over.
        """
        with refused_for_now():
            round_ = await self._store.find(task_id, round_number)
        if round_ is None:
            raise Refusal(
                Reason.UNKNOWN_ROUND, f"the leader has not begun round {round_number}; install the same tasks on both"
            )
        secrets = self._secrets_of(round_)
        if is_over(round_) or secrets.cipher is None:
            raise Refusal(Reason.ERASED, f"round {round_number} is over, and its secrets are destroyed")
        if round_.keys is None or round_.key in self.damaged:
            # With a damaged key a front end would refuse every submission for good, as one that does not open.
            raise Refusal(
                Reason.NOT_READY, f"round {round_number} has no usable keys now; ask again shortly", AGAIN_SECONDS
            )
        if round_.state is RoundState.OPEN:
            return RoundSecrets(secrets.cipher.shared(), secrets.pseudonym_key, secrets.private_key)
        return RoundSecrets(secrets.cipher.without_blocks().shared(), secrets.pseudonym_key)

    async def get_admitted(self, version: bytes) -> Admitted | None:
        """Return master keys, revoked devices and the oblivious key, or None if the caller already has this version."""
        with refused_for_now():
            masters, revoked = await self._store.masters(), await self._store.revoked()
        records = self.oblivious_records()
        found = self._version(masters, revoked, records)
        return None if found == version else Admitted(found, tuple(masters), revoked, records)

    async def redeem(self, tickets: Sequence[RedeemedTicket]) -> list[RedeemedTicket]:
        with refused_for_now():
            return await self._store.redeem(tickets)

    def _version(self, masters: Sequence[MasterSecret], revoked: Revoked, records: bytes) -> bytes:
        told = hashlib.blake2b(hashlib.sha256(records).digest(), key=self._key, digest_size=VERSION_BYTES)
        for each in masters:
            told.update(f"{each.generation} {each.state.value} {each.since} ".encode() + each.secret)
        for part in (revoked.devices, revoked.numbers):
            told.update(b"".join([len(part).to_bytes(8, "big"), *sorted(part)]))
        return told.digest()


@contextlib.contextmanager
def refused_for_now() -> Iterator[None]:
    """Refuse with the store's fault and error, so that callers try the other leaders, and know what to say."""
    try:
        yield
    except StoreError as error:
        raise Refusal(Reason.NOT_READY, with_fault(error), AGAIN_SECONDS) from error
