"""Checks what the operator and the shuffler sign together: a task, or an entry of a feed of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import check_signature, fingerprint
from hubbub.protos.identity.formats import Kind
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.lineage import Lineage, leading
from hubbub.protos.identity.successions import Succession


def not_named(role: Role, own: bytes, *named: bytes) -> str:
    """Return the error for a party whose identity (32 bytes) is not one of those that a task names in its role."""
    others = " or ".join(map(fingerprint, named)) or "nobody"
    return (
        f"this {role.value}'s identity is {fingerprint(own)}, and the task names {others} as {role.value}: put the "
        "right identity.pem there, or have the task planned with this one's public key"
    )


@dataclass(frozen=True)
class TwoSigned:
    """The signed bytes of a statement, and its two signatures; None for a party that has not signed yet."""

    kind: Kind
    body: bytes
    operator_signature: bytes | None
    shuffler_signature: bytes | None

    def check(
        self,
        operator: bytes,
        shuffler: bytes,
        known: Mapping[Role, bytes],
        successions: Sequence[Succession],
        own: Role | None,
    ) -> Lineage | None:
        """Check that both signed, `operator` and `shuffler` (32 bytes each), whom the statement itself names.

        They must be the `known` identities of their roles, or related to them by `successions`; return the lineage
        that shows this, None without successions. `own` is the role of the caller itself, if it has one.

        Raises:
            SignatureError: naming the party with the wrong identity or signature, or the succession.
        """
        # The statement names its own signers, so a valid signature alone proves nothing: anybody can sign one that
        # names them. The identities must be those that the caller knew beforehand.
        # Successions of other deployments do not concern this statement.
        ours = leading(successions, known.items())
        lineage = Lineage.of(known, ours) if ours else None
        pairs = ((Role.OPERATOR, operator, self.operator_signature), (Role.SHUFFLER, shuffler, self.shuffler_signature))
        what = self.kind.called
        for role, named, signature in pairs:
            if named != known[role] and not (lineage and lineage.holds(role, named)):
                if role is own:
                    raise SignatureError(not_named(role, known[role], named))
                raise SignatureError(
                    f"the {what} names another {role.value} than the one that is trusted here: {fingerprint(named)}, "
                    f"not {fingerprint(known[role])}; ask the {role.value} which is its own, and replace the key or "
                    f"the {what}"
                )
            if signature is None:
                raise SignatureError(f"the {role.value} has not signed the {what}; `hubbub sign` signs it")
            check_signature(self.kind.format, self.body, signature, named)
        return lineage
