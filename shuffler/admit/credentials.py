"""Keeps in memory the master keys and revoked devices, by which the shuffler checks proofs.

A check takes about two microseconds and reads no disk. It finds the device that sent a submission; this is used to
compute the device's pseudonym in the round, and stored nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hubbub.protos.enrollment.credentials import (
    CREDENTIAL_BYTES,
    CredentialId,
    Keyed,
    bound_to,
    credential_keys,
    is_proven,
    oblivious_seed,
)
from hubbub.protos.messages import KeyState, Submission
from hubbub.protos.oblivious.encapsulation import ObliviousKey, ObliviousKeys
from hubbub.protos.sealing.envelope import Destination
from hubbub.shuffler.records import MasterSecret, Revoked
from hubbub.shuffler.stores.protocol import IngestStore

_GENERATION = slice(0, 4)
_NUMBER = slice(-16, None)


class Credentials:
    """The master keys and the revoked devices, as they were last read from the store."""

    def __init__(self, outdated: Callable[[], bool] = lambda: False) -> None:
        """Start without keys; `outdated` returns whether the store may have a newer master key than this object."""
        self._outdated = outdated
        # The key derivation of each master key, by its generation: the ids of credentials begin with it.
        self._keys: dict[bytes, Keyed] = {}
        self._active: MasterSecret | None = None
        self.revoked = Revoked()
        self.oblivious_keys = ObliviousKeys()
        """The keys that open encapsulated requests: each follows from a master key, and lives as long."""
        self.oblivious_records = b""
        """The signed key, as devices get it; empty if nobody who has the shuffler's identity gave one."""

    @property
    def outdated(self) -> bool:
        """Whether a master key may be missing here. Until it is read, no device is refused as unknown."""
        return self._outdated()

    async def read(self, store: IngestStore) -> None:
        """Read the store; called at the start and after each change."""
        masters = await store.masters()
        self._keys = {master.generation.to_bytes(4, "big"): credential_keys(master.secret) for master in masters}
        self._active = next((master for master in masters if master.state is KeyState.ACTIVE), None)
        self.revoked = await store.revoked()
        # The active one first: devices use it. The others open what was sealed before or elsewhere, so there is an
        # overlap at every change, and it ends when the operator has the retired master key forgotten.
        first = sorted(masters, key=lambda master: master.state is not KeyState.ACTIVE)
        self.oblivious_keys = ObliviousKeys(
            ObliviousKey.derived(master.generation % 256, oblivious_seed(master.secret)) for master in first
        )

    def numbers(self, to: Destination, submissions: Sequence[Submission]) -> list[bytes | None]:
        """Return the number of the device that is proven to have sent each submission, or None."""
        prefix, keys = bound_to(to), self._keys
        numbers: list[bytes | None] = []
        for submission in submissions:
            credential = submission.credential
            known = keys.get(credential[_GENERATION]) if len(credential) == CREDENTIAL_BYTES else None
            proven = known is not None and is_proven(known.of(credential), prefix, submission)
            numbers.append(credential[_NUMBER] if proven else None)
        return numbers

    @property
    def can_issue(self) -> bool:
        """Whether there is an active master key."""
        return self._active is not None

    def issue(self, number: bytes, expires: int, authority: bytes) -> tuple[bytes, bytes] | None:
        """Return id and key of a device's credential under the active master key; None if there is none."""
        if self._active is None:
            return None
        credential = CredentialId(self._active.generation, expires, authority, number).encode()
        return credential, self._keys[credential[_GENERATION]].of(credential)
