"""Defines who may submit to a task, and what that means for privacy.

Without noise of the shuffler, a certificate's n is only as good as admission: an attacker who can make up reports can
fill a batch with known ones, subtract them from the published estimates, and read the remaining report. With noise that
shows nothing of the remaining report; then admission protects accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hubbub.protos.escaping import hex_repr
from hubbub.protos.identity.documents import IDENTITY_BYTES, fingerprint, key_from_hex
from hubbub.queries.errors import FieldError, shown
from hubbub.queries.fields import check_keys


class Mode(StrEnum):
    """How a task admits devices. The value is the mode's name in tasks, batch records and certificates."""

    ENROLLED = "enrolled"
    """Devices with a credential, which the shuffler issues once for an operator's ticket: one submission a round."""
    MTLS = "mtls"
    """Devices with a TLS certificate of an authority that the shuffler trusts: one submission a round for each."""
    OPEN = "open"
    """Anybody who reaches the shuffler, any number of times."""


_FAKES = {
    Mode.ENROLLED: "devices are enrolled, so each made-up report needs a ticket of its own",
    Mode.MTLS: "devices show certificates, so each made-up report needs a certificate of its own",
    Mode.OPEN: "the task is open, so anybody who reaches the shuffler can do so",
}
"""What somebody needs who makes reports up, in words."""

_WORDS = {
    Mode.ENROLLED: (
        "Each device with a ticket of the operator submits once a round. That the tickets went to different people is "
        "the operator's word."
    ),
    Mode.MTLS: (
        "Each device with a TLS certificate of the devices' authority submits once a round. That the certificates went "
        "to different people is that authority's word."
    ),
    Mode.OPEN: "Nobody checked who submitted: anybody who reached the shuffler could make reports up.",
}
"""Who submits in each mode, in words."""

_PRIVACY = "Made-up reports hide nobody: privacy counts on the share of reports that is honest."
_ACCURACY = (
    "Made-up reports can spoil the estimates, and weaken an ε that needs everyone who answers to be honest. They "
    "weaken none that needs only an honest shuffler: its noise hides each person."
)
"""What made-up reports mean, without noise of the shuffler and with it. Certificates contain these texts, so they never
change once a version is released: a better text needs a new form of certificate."""


@dataclass(frozen=True)
class AdmissionPolicy:
    """A task's table `[admission]`: the mode, and a second authority (32 bytes) that must also sign each ticket."""

    __repr__ = hex_repr

    mode: Mode
    second_authority: bytes | None = None

    def content(self) -> dict[str, Any]:
        """Return it as JSON, a member of the signed task."""
        second = self.second_authority
        return {"mode": self.mode.value, "second_authority": None if second is None else second.hex()}

    @property
    def assumed(self) -> bool:
        """Whether nobody checks who submits, so that the honest share is an assumption."""
        return self.mode is Mode.OPEN

    @property
    def fakes(self) -> str:
        """The needs of an attacker who makes up reports, in words."""
        return _FAKES[self.mode]

    @property
    def who_submits(self) -> str:
        """Who submits, and who vouches for it, in words."""
        return _WORDS[self.mode]

    def statement(self, *, noise: bool) -> dict[str, str]:
        """Return a certificate's member `admission`: the mode, and what it means for privacy, in words.

        `noise` is True if the shuffler adds noise to every query.
        """
        return {"mode": self.mode.value, "words": f"{self.who_submits} {_ACCURACY if noise else _PRIVACY}"}


ENROLLED = AdmissionPolicy(Mode.ENROLLED)
"""The policy of a draft without the table."""

OPEN = AdmissionPolicy(Mode.OPEN)
"""Anybody who reaches the shuffler."""


REQUIRED_KEYS, OPTIONAL_KEYS = frozenset({"mode"}), frozenset({"second_authority"})
"""The keys of a draft's table `[admission]`."""


def read_admission(content: Any) -> AdmissionPolicy:
    """Read the output of `AdmissionPolicy.content`.

    Raises:
        SignatureError: if the second authority is not a key.
        KeyError, TypeError, ValueError: if it has another form.
    """
    second = content["second_authority"]
    named = None if second is None else key_from_hex(second, "the second authority")
    return checked(AdmissionPolicy(Mode(content["mode"]), named))


def draft_admission(table: Any) -> AdmissionPolicy:
    """Return the policy in a draft's table `[admission]`.

    Raises:
        FieldError: naming the key, the value, the limit and what to do.
    """
    if not isinstance(table, dict):
        raise FieldError("file", "admission", "must be a table; begin it with [admission]")
    check_keys("admission", table, REQUIRED_KEYS, OPTIONAL_KEYS)
    modes = [mode.value for mode in Mode]
    if table["mode"] not in modes:
        raise FieldError("admission", "mode", f"is {shown(table['mode'])}; it must be {' or '.join(map(repr, modes))}")
    second = table.get("second_authority")
    return checked(AdmissionPolicy(Mode(table["mode"]), None if second is None else _key(second)))


def checked(admission: AdmissionPolicy) -> AdmissionPolicy:
    """Return the policy after a check of its consistency.

    Raises:
        FieldError: if a second authority must sign tickets, but the task uses none.
    """
    if admission.second_authority is not None and admission.mode is not Mode.ENROLLED:
        problem = f"is for enrolled devices, and the mode is '{admission.mode.value}'; leave one of them out"
        raise FieldError("admission", "second_authority", problem)
    return admission


def _key(text: Any) -> bytes:
    """Return a public key from its fingerprint, as `hubbub identity` prints it."""
    if isinstance(text, str):
        try:
            key = bytes.fromhex(text.replace("-", ""))
        except ValueError:
            key = b""
        if fingerprint(key) == text and len(key) == IDENTITY_BYTES:
            return key
    problem = f"is {shown(text)}; give the fingerprint of its public key as `hubbub identity` prints it"
    raise FieldError("admission", "second_authority", problem)
