"""Defines a ledger's charge and its canonical form: the text that is stored, and chained by digests.

A ledger is append-only, so a charge is read exactly as it was written. A charge names its `format`, and one of an
unknown version is refused with that name. It has no JSON float and escapes as RFC 8785 does, so any canonical form of
JSON gives these bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import read_mechanism
from hubbub.accountant.pairs import Part

CHARGE_FORMAT = "hubbub-charge/1"
"""The format of a charge."""


class LedgerBroken(AccountingError):
    """The chain of digests is broken (an entry was changed, removed or inserted), or a record is not an entry."""


class _OtherVersion(AccountingError):
    """A charge names a format that this version cannot read."""


@dataclass(frozen=True)
class LedgerEntry:
    """One query of one round of a task, at the minimum of reports fixed beforehand (`part.rounds` is 1)."""

    task: str
    round: int
    query: str
    part: Part

    def __post_init__(self) -> None:
        if type(self.round) is not int or not isinstance(self.task, str) or not isinstance(self.query, str):
            raise AccountingError(
                f"an entry is of task {shown(self.task)}, round {shown(self.round)} and query {shown(self.query)}; "
                "give a text, a whole number and a text"
            )
        if not isinstance(self.part, Part):
            raise AccountingError(f"an entry's part is {shown(self.part)}; give a Part(mechanism, reports)")
        if self.part.rounds != 1:
            raise AccountingError(f"an entry has {self.part.rounds} rounds; charge every round by itself")

    @property
    def key(self) -> tuple[int, str]:
        """The pair (round, query) that identifies a charge."""
        return self.round, self.query

    def canonical(self) -> str:
        """Return the entry as canonical JSON: sorted keys, no spaces.

        Raises:
            AccountingError: for a part of random size, or a mechanism that has no written form.
        """
        if self.part.sampling_rate is not None:
            raise AccountingError(
                "sampling_rate is given, but a ledger charges batches of a size fixed beforehand; leave it out"
            )
        fields = {
            "clients": self.part.clients,
            "dummies": self.part.dummies,
            "format": CHARGE_FORMAT,
            "mechanism": self.part.mechanism.content(),
            "query": self.query,
            "reports": self.part.reports,
            "round": self.round,
            "task": self.task,
        }
        return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_canonical(cls, text: str) -> LedgerEntry:
        """Read what `canonical` wrote; raises LedgerBroken for anything else."""
        try:
            entry = _read(json.loads(text))
            same = entry.canonical() == text
            text.encode()  # raises for a lone surrogate, which has no bytes to chain
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as wrong:
            why = f": {wrong}" if isinstance(wrong, _OtherVersion) else ""
            raise LedgerBroken(
                f"entry {shown(text)} cannot be read{why}; restore the newest copy of the ledger"
            ) from wrong
        # Comparing whole texts refuses unknown members, another order and other spellings of a number at once.
        if not same:
            raise LedgerBroken(f"entry {shown(text)} is not in canonical form; restore the newest copy of the ledger")
        return entry


def _read(fields: dict[str, Any]) -> LedgerEntry:
    if fields["format"] != CHARGE_FORMAT:
        raise _OtherVersion(
            f"its format is {shown(fields['format'])}, but this version of hubbub reads {CHARGE_FORMAT}"
        )
    part = Part(read_mechanism(fields["mechanism"]), fields["reports"], 1, fields["dummies"], fields["clients"])
    return LedgerEntry(fields["task"], fields["round"], fields["query"], part)
