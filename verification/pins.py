"""What whoever checks a certificate knows out of band, and holds it to."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.protos.errors import SignatureError, UsageError
from hubbub.protos.identity.documents import from_hex
from hubbub.protos.identity.keys import HASH_BYTES, Role


@dataclass(frozen=True)
class Pins:
    """The identities (32 bytes each) that must have signed a certificate, as far as they are known out of band."""

    operator: bytes | None = None
    shuffler: bytes | None = None
    analyzer: bytes | None = None
    hops: tuple[bytes, ...] | None = None
    """Those of the shufflers behind the first one, in their order; None where they are not known."""
    task_id: bytes | None = None
    """The id (32 bytes) of the task that it must be of; None where any will do."""

    def of(self, role: Role) -> bytes | None:
        """The identity of a role; None where it is not pinned."""
        return {Role.OPERATOR: self.operator, Role.SHUFFLER: self.shuffler, Role.ANALYZER: self.analyzer}[role]


def task_id(digits: str | None) -> bytes | None:
    """Return the id of a task (32 bytes) from its hex digits; None where none is given.

    Raises:
        UsageError: where they are something else.
    """
    if digits is None:
        return None
    try:
        return from_hex(digits, HASH_BYTES, "--task")
    except SignatureError as error:
        raise UsageError(f"{error}; `hubbub sign` prints a task's id, and so does `hubbub verify`") from error
