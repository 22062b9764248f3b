"""A charge of a ledger and its canonical form: the text that is stored, and chained by digests.

There are two versions of that form. A ledger is append-only: what was written stays as it is, so charges of version 1
are read, and their digests checked, exactly as they were written; new charges are written as version 2.

- Version 1 has its own way to write kRR (γ as "1/4") and randomizers known by their ε alone, and no other mechanism.
- Version 2 says so in a member `version`, and writes the mechanism as every other form does (`mechanisms.registry`).

Neither holds a JSON float, and version 2 escapes what RFC 8785 escapes: any canonical form of JSON gives these bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import KRR, Generic, LocalMechanism, read_mechanism
from hubbub.accountant.pairs import Part

VERSION = 2
"""The version that new charges are written in."""


class LedgerBroken(AccountingError):
    """The chain of digests does not hold (an entry was changed, removed or put in), or a record is not an entry."""


@dataclass(frozen=True)
class Entry:
    """One query of one round of a task, at the minimum of reports fixed beforehand (`part.rounds` is 1).

    `version` is that of its written form, 1 or 2. It takes no part in comparisons: the same charge under another
    version is the same charge, and charging it again changes nothing.
    """

    task: str
    round: int
    query: str
    part: Part
    version: int = field(default=VERSION, compare=False)

    def __post_init__(self) -> None:
        if type(self.round) is not int or not isinstance(self.task, str) or not isinstance(self.query, str):
            raise AccountingError(
                f"an entry is of task {shown(self.task)}, round {shown(self.round)} and query {shown(self.query)}, "
                "must be a text, a whole number and a text; name them so"
            )
        if self.part.rounds != 1:
            raise AccountingError(f"an entry has {self.part.rounds} rounds, must be 1; charge every round by itself")
        if type(self.version) is not int or self.version not in (1, VERSION):
            raise AccountingError(f"an entry is of version {shown(self.version)}, must be 1 or 2; use a newer hubbub")

    @property
    def key(self) -> tuple[int, str]:
        """What a charge is known by."""
        return self.round, self.query

    def canonical(self) -> str:
        """Return the entry as canonical JSON of its version: sorted keys, no spaces.

        Raises:
            AccountingError: for a part whose size is left to chance, or a mechanism that has no form in this version.
        """
        if self.part.sampling_rate is not None:
            raise AccountingError("sampling_rate is given, but a ledger counts batches of a size fixed beforehand")
        fields = {
            "clients": self.part.clients,
            "dummies": self.part.dummies,
            "query": self.query,
            "reports": self.part.reports,
            "round": self.round,
            "task": self.task,
        }
        if self.version == 1:
            return _written({**fields, "mechanism": _first_form(self.part.mechanism)}, ascii_only=True)
        return _written({**fields, "mechanism": self.part.mechanism.content(), "version": VERSION}, ascii_only=False)

    @classmethod
    def from_canonical(cls, text: str) -> Entry:
        """Read what `canonical` wrote, in either version; raises LedgerBroken for anything else."""
        try:
            entry = _read(json.loads(text))
            same = entry.canonical() == text
            text.encode()  # a lone surrogate has no bytes to chain
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as wrong:
            raise LedgerBroken(f"entry {shown(text)} cannot be read; restore the ledger from a copy") from wrong
        # Comparing whole texts refuses unknown members, other orders and other spellings of a number at once.
        if not same:
            raise LedgerBroken(f"entry {shown(text)} is not in canonical form; restore the ledger from a copy")
        return entry


def _written(fields: dict[str, Any], *, ascii_only: bool) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only)


def _read(fields: dict[str, Any]) -> Entry:
    version = fields.get("version", 1)
    # Asked by type too: 2.0 and True equal whole numbers, and are not what was written.
    if version == 1:
        mechanism = _read_first_form(fields["mechanism"])
    elif type(version) is int and version == VERSION:
        mechanism = read_mechanism(fields["mechanism"])
    else:
        raise AccountingError(f"version is {shown(version)}, must be 1 or 2")
    part = Part(mechanism, fields["reports"], 1, fields["dummies"], fields["clients"])
    return Entry(fields["task"], fields["round"], fields["query"], part, version)


def _first_form(mechanism: LocalMechanism) -> dict[str, Any]:
    """Return a mechanism as version 1 writes it."""
    if isinstance(mechanism, KRR):
        return {"categories": mechanism.categories, "gamma": str(mechanism.gamma), "kind": KRR.kind}
    if isinstance(mechanism, Generic):
        return {"epsilon_local": mechanism.epsilon_local.hex(), "kind": Generic.kind, "mixed": mechanism.mixed}
    raise AccountingError(
        f"mechanism is {shown(mechanism)}; version 1 of a ledger holds kRR and generic ones, use version 2"
    )


def _read_first_form(fields: dict[str, Any]) -> LocalMechanism:
    if fields["kind"] == KRR.kind:
        numerator, _, denominator = fields["gamma"].partition("/")  # no exponents: "1e999999999" is a huge number
        return KRR(fields["categories"], Fraction(int(numerator), int(denominator or 1)))
    if fields["kind"] == Generic.kind:
        return Generic(float.fromhex(fields["epsilon_local"]), {True: True, False: False}[fields["mixed"]])
    raise AccountingError(f"kind is {shown(fields['kind'])}, must be krr or generic in version 1")
