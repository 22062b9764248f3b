"""The keys, the successions and the task id that a verifier knows out of band and compares with a certificate."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.protos.errors import SignatureError, UsageError
from hubbub.protos.identity.documents import from_hex
from hubbub.protos.identity.keys import HASH_BYTES, Role
from hubbub.protos.identity.successions import Succession


@dataclass(frozen=True)
class Pins:
    """The identities (32 bytes each) that must have signed a certificate, as far as they are known out of band."""

    operator: bytes | None = None
    shuffler: bytes | None = None
    analyzer: bytes | None = None
    hops: tuple[bytes, ...] | None = None
    """The identities of the hops, in their order; None if they are not pinned."""
    successions: tuple[Succession, ...] = ()
    """Successions that lead from a pinned identity to those before and after it, beside those in certificates."""
    task_id: bytes | None = None
    """The id (32 bytes) of the task that the certificate must be of; None if any task is accepted."""

    def of(self, role: Role) -> bytes | None:
        """Return the identity of a role; None if it is not pinned."""
        return {Role.OPERATOR: self.operator, Role.SHUFFLER: self.shuffler, Role.ANALYZER: self.analyzer}[role]


def task_id(digits: str | None) -> bytes | None:
    """Return the id of a task (32 bytes) from its hex digits; None if there are none.

    Raises:
        UsageError: if they are not 64 hex digits.
    """
    if digits is None:
        return None
    try:
        return from_hex(digits, HASH_BYTES, "--task")
    except SignatureError as error:
        raise UsageError(f"{error}; `hubbub sign` and `hubbub verify` print a task's id") from error
