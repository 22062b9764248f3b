"""Makes and checks successions: signed statements that one identity of a party follows another from a moment on.

A succession is signed by three: the replaced identity, the new one (which proves that its key exists, and vouches for
earlier signatures), and a witness. The witness of a service is the operator, and that of the operator is the shuffler:
the two who sign tasks. A thief of one key alone cannot make a succession.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hubbub.protos.errors import FormatError, HubbubError, SignatureError
from hubbub.protos.identity.documents import (
    IDENTITY_BYTES,
    SIGNATURE_BYTES,
    canonical,
    check_signature,
    fingerprint,
    from_hex,
    key_from_hex,
    parse_canonical,
    sign,
)
from hubbub.protos.identity.formats import SUCCESSION
from hubbub.protos.identity.keys import LATEST_TIME, Identity, Role

LONGEST_SUCCESSION = 2048
"""Bytes of a succession at most; one with three signatures has about 1,100."""

MOST_SUCCESSIONS = 64
"""Successions of a deployment at most: identities are for years, and each device checks all of them."""

WITNESSES = {Role.OPERATOR: Role.SHUFFLER, Role.SHUFFLER: Role.OPERATOR, Role.ANALYZER: Role.OPERATOR}
"""The role whose signature a succession needs in addition to those of the succeeding role's own two identities."""


class SuccessionError(SignatureError):
    """Successions do not form one chain with all required signatures; the message names one, and the reason."""


@dataclass(frozen=True)
class Succession:
    """From `begins` on (seconds since 1970), the identity `new` of a role replaces `old`; `witness` confirms it.

    Identities have 32 bytes each. `signatures` are by signer.
    """

    role: Role
    old: bytes
    new: bytes
    witness: bytes
    begins: int
    signatures: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def name(self) -> str:
        """Its name in errors."""
        return f"the succession of the {self.role.value} from {self.old.hex()[:8]} to {self.new.hex()[:8]}"

    @property
    def body(self) -> dict[str, Any]:
        """The signed content."""
        return {
            "begins": self.begins,
            "format": SUCCESSION.format,
            "new": self.new.hex(),
            "old": self.old.hex(),
            "role": self.role.value,
            "witness": self.witness.hex(),
        }

    @property
    def signers(self) -> dict[bytes, str]:
        """The required signers, and the name of each."""
        return {
            self.old: f"the {self.role.value}'s previous identity",
            self.new: f"the {self.role.value}'s new identity",
            self.witness: f"the {WITNESSES[self.role].value}",
        }

    @property
    def missing(self) -> list[str]:
        """The signers who have not signed yet."""
        signed = dict(self.signatures)
        return [called for signer, called in self.signers.items() if signer not in signed]

    def signed_by(self, identity: Identity) -> Succession:
        """Add the signature of a required signer.

        Raises:
            SuccessionError: if the identity is not one of them.
        """
        if identity.public not in self.signers:
            raise SuccessionError(
                f"{fingerprint(identity.public)} is not one of the three signers of {self.name}; sign with one of "
                f"{', '.join(fingerprint(each) for each in self.signers)}"
            )
        signature = sign(SUCCESSION.format, canonical(self.body), identity.key)
        others = [each for each in self.signatures if each[0] != identity.public]
        return replace(self, signatures=tuple(sorted([*others, (identity.public, signature)])))

    def check(self) -> None:
        """Check that all three have signed.

        Raises:
            SuccessionError: naming a signer who has not.
        """
        signatures = dict(self.signatures)
        for signer, called in self.signers.items():
            if signer not in signatures:
                raise SuccessionError(f"{self.name} is not signed by {called}; sign it with `hubbub sign`")
            try:
                check_signature(SUCCESSION.format, canonical(self.body), signatures[signer], signer)
            except SignatureError as error:
                raise SuccessionError(f"{self.name} is forged, or was changed: {error}") from error

    def as_json(self) -> dict[str, Any]:
        """Return it as a part of a larger document."""
        return {"body": self.body, "signatures": {signer.hex(): each.hex() for signer, each in self.signatures}}

    def encode(self) -> bytes:
        """Return its canonical bytes, which are the content of its file."""
        return canonical(self.as_json())

    @classmethod
    def from_json(cls, value: Any) -> Succession:
        """Read what `as_json` wrote; its signatures are still to be checked.

        Raises:
            SuccessionError: if it is none, or one of another version, by the name of its format.
        """
        try:
            SUCCESSION.check_named(value["body"])
            found = cls._read(value["body"], value["signatures"])
        except FormatError as error:
            raise SuccessionError(str(error)) from error
        except (KeyError, TypeError, ValueError, AttributeError, SignatureError) as error:
            raise SuccessionError(f"not a succession of {SUCCESSION.format}: {error!s:.200}") from error
        if found.as_json() != value:
            raise SuccessionError(f"not a succession of {SUCCESSION.format}: it has members that are not read here")
        return found

    @classmethod
    def decode(cls, document: bytes) -> Succession:
        """Read what `encode` wrote; its signatures are still to be checked.

        Raises:
            SignatureError: if it is none, or not in canonical form.
        """
        if len(document) > LONGEST_SUCCESSION:
            raise SuccessionError(f"not a succession: it has {len(document)} bytes, more than {LONGEST_SUCCESSION}")
        return cls.from_json(parse_canonical(document))

    @classmethod
    def _read(cls, body: Any, signatures: Any) -> Succession:
        begins = body["begins"]
        if type(begins) is not int or not 0 < begins <= LATEST_TIME:
            raise ValueError("begins is not a time")
        old, new, witness = (key_from_hex(body[name], name) for name in ("old", "new", "witness"))
        role = Role(body["role"])
        if role not in WITNESSES:
            raise ValueError("a hop's identity has no successor")
        if len({old, new, witness}) != len(WITNESSES):
            raise ValueError("its three identities are not different")
        pairs = [
            (from_hex(signer, IDENTITY_BYTES, "a signer"), from_hex(signature, SIGNATURE_BYTES, "a signature"))
            for signer, signature in signatures.items()
        ]
        if not {signer for signer, _ in pairs} <= {old, new, witness}:
            raise ValueError("a key that is not one of the three has signed it")
        return cls(role, old, new, witness, begins, tuple(sorted(pairs)))


def read_successions(documents: Iterable[bytes]) -> list[Succession]:
    """Return successions from their bytes; their statements are still to be checked.

    Raises:
        SignatureError: if one is none.
    """
    return [Succession.decode(document) for document in documents]


def load_succession(path: Path) -> Succession:
    """Return the succession in a file, checked to be signed by its three signers.

    Raises:
        SuccessionError: if there is none, or one that is not signed by all three; naming the file.
        HubbubError: if the file cannot be read.
    """
    try:
        found = Succession.decode(path.read_bytes())
        found.check()
    except OSError as error:
        raise HubbubError(f"cannot read {path}: {error.strerror}; name a readable succession file") from error
    except HubbubError as error:
        raise SuccessionError(f"{path}: {error}") from error
    return found
