"""Keeps an append-only list of charges that anyone can check.

A ledger is a pure value: a charge returns a new ledger, and the caller stores it. Each charge has the query's `Part` at
the *minimum fixed beforehand*, because the number of reports that came may depend on earlier releases, and then pairs
at that number need not compose (docs/explanation/accounting-rounds.md, "Rounds whose size is not fixed").

The chain of digests shows that an entry was changed, moved, inserted or removed. It does not show that the *last*
entries were removed, or that the whole chain was rewritten. So the owner of a ledger stores its `head`, or the rounds
it released, somewhere else, and compares.

A round with fewer honest reports than that minimum cost more than its charge. The caller that counted it passes its
part as `dearer`. That part counts against the budget; it is not in the chain, which stays as fixed beforehand.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hubbub.accountant.bounds.bound import described
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.composition import compose, compose_upper
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import costliest
from hubbub.accountant.numbers import checked_delta, real
from hubbub.accountant.pairs import Part
from hubbub.accountant.spending.entry import LedgerBroken, LedgerEntry

LABEL = b"hubbub/v1 ledger"
"""Domain separation of the hash chain."""

EXPLAINED = 6
"""Most groups of equally charged rounds that a refusal lists."""


class ChargeConflict(AccountingError):
    """The same round and query already has a different charge."""


class BudgetExceeded(AccountingError):
    """The charge would exceed the task's budget; nothing was charged."""


@dataclass(frozen=True)
class ChainedEntry:
    """A charge and the digest that chains it to all earlier ones: SHA-256, in hex."""

    entry: LedgerEntry
    digest: str


@dataclass(frozen=True)
class Ledger:
    """All charges of one task, oldest first, and its budget (`epsilon`, `delta`) over all its rounds.

    `dearer` maps round and query to the part that was really sent, if it cost more than was fixed beforehand. If
    `epsilon` is infinite nothing exceeds it, so nothing is composed to find out. Raises AccountingError for a budget
    that is not a number from 0, or a δ outside its range.
    """

    task: str
    epsilon: float
    delta: float
    links: tuple[ChainedEntry, ...] = ()
    dearer: Mapping[tuple[int, str], Part] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        checked_delta(self.delta)
        if not real(self.epsilon) >= 0:
            raise AccountingError(f"the budget is {shown(self.epsilon)}; give a number from 0, or infinity for no cap")

    @property
    def head(self) -> str:
        """Return the digest of the last charge, or of the empty ledger: it fixes all charges up to there."""
        return self.links[-1].digest if self.links else _start(self.task)

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return all charges, oldest first."""
        return tuple(link.entry for link in self.links)

    def charge(self, entries: Iterable[LedgerEntry]) -> Ledger:
        """Return the ledger with these charges, all or none; an entry that is charged already changes nothing.

        Raises:
            AccountingError: an entry is of another task.
            ChargeConflict: the same round and query has a different charge.
            BudgetExceeded: the composed ε would exceed the budget; the message lists the spending by round.
        """
        fresh = self._fresh(entries)
        if fresh and self._exceeds(fresh):
            raise BudgetExceeded(self._refusal(fresh))
        return self._appended(fresh)

    def spent(self, delta: float | None = None) -> EpsilonBracket:
        """Return the ε composed over all charges, at `delta` or the budget's δ; `epsilon_upper` is certified."""
        return _composed(self._priced(self.entries), self.delta if delta is None else delta)

    def epsilon_spent(self) -> float:
        """Return the `epsilon_upper` of `spent` alone, at the budget's δ; 0 for no charges."""
        return _upper(self._priced(self.entries), self.delta)

    def verify(self) -> None:
        """Raise LedgerBroken unless every digest follows from the one before and no charge occurs twice."""
        # The first digest covers the task's name, so a chain copied from another task fails at once.
        digest = _start(self.task)
        for place, link in enumerate(self.links):
            digest = _next(digest, link.entry)
            if digest != link.digest or link.entry.task != self.task:
                raise LedgerBroken(
                    f"charge {place} of task {self.task!r} was changed; restore the newest copy of the ledger"
                )
        if len({link.entry.key for link in self.links}) != len(self.links):
            raise LedgerBroken(f"task {self.task!r} has a charge twice; restore the newest copy of the ledger")

    def records(self) -> tuple[tuple[str, str], ...]:
        """Return (entry, digest) of every charge as text, for storage."""
        return tuple((link.entry.canonical(), link.digest) for link in self.links)

    @classmethod
    def from_records(
        cls,
        task: str,
        epsilon: float,
        delta: float,
        records: Iterable[tuple[str, str]],
        dearer: Mapping[tuple[int, str], Part] | None = None,
    ) -> Ledger:
        """Read the output of `records` and verify it; raises LedgerBroken if that fails."""
        links = tuple(ChainedEntry(LedgerEntry.from_canonical(text), digest) for text, digest in records)
        ledger = cls(task, epsilon, delta, links, dearer or {})
        ledger.verify()
        return ledger

    def _fresh(self, entries: Iterable[LedgerEntry]) -> list[LedgerEntry]:
        """Return the entries that are not charged yet, each once."""
        given = tuple(entries) if isinstance(entries, Iterable) else (entries,)
        if not isinstance(entries, Iterable) or not all(isinstance(entry, LedgerEntry) for entry in given):
            raise AccountingError(
                f"entries is {shown(entries)}; give a list of LedgerEntry(task, round, query, part), also of one"
            )
        known = {entry.key: entry for entry in self.entries}
        fresh: list[LedgerEntry] = []
        for entry in given:
            if entry.task != self.task:
                raise AccountingError(
                    f"the entry is of task {entry.task!r}, but the ledger of {self.task!r}; use its own task's ledger"
                )
            earlier = known.get(entry.key)
            if earlier is None:
                known[entry.key] = entry
                fresh.append(entry)
            elif earlier != entry:
                raise ChargeConflict(
                    f"round {entry.round}, query {entry.query!r} is charged for {_said(earlier.part)}, not for "
                    f"{_said(entry.part)}; "
                    "a round is charged once, at the minimum that its task fixed"
                )
        return fresh

    def _exceeds(self, fresh: Sequence[LedgerEntry]) -> bool:
        # Without a budget nothing can exceed it, and composing years of rounds takes seconds.
        if self.epsilon == math.inf:
            return False
        return _upper(self._priced((*self.entries, *fresh)), self.delta) > self.epsilon

    def _priced(self, entries: Iterable[LedgerEntry]) -> tuple[LedgerEntry, ...]:
        """Return the entries that are paid for, each at the part that was really sent if that cost more."""
        return _paid([replace(entry, part=self.dearer.get(entry.key, entry.part)) for entry in entries])

    def _appended(self, fresh: Iterable[LedgerEntry]) -> Ledger:
        links, digest = list(self.links), self.head
        for entry in fresh:
            digest = _next(digest, entry)
            links.append(ChainedEntry(entry, digest))
        return replace(self, links=tuple(links))

    def _refusal(self, fresh: Sequence[LedgerEntry]) -> str:
        after = _upper(self._priced((*self.entries, *fresh)), self.delta)
        rounds = ", ".join(str(number) for number in sorted({entry.round for entry in fresh}))
        return (
            f"charging round {rounds} of task {self.task!r} would bring epsilon to {after:.6g} "
            f"at delta {self.delta:g}, but the budget is {self.epsilon:g}; {self._history()}; "
            "end the task, or start one with a larger budget"
        )

    def _history(self) -> str:
        if not self.links:
            return "nothing is spent yet"
        entries = self._priced(self.entries)
        spent = _upper(entries, self.delta)
        groups = list(_like_rounds(entries))
        told = [f"{_span(rounds)} {_upper(entries, self.delta):.6g}" for rounds, entries in groups[:EXPLAINED]]
        more = f" and {len(groups) - EXPLAINED} further groups" if len(groups) > EXPLAINED else ""
        return f"spent so far: {spent:.6g}, each group alone: {', '.join(told)}{more}"


def _paid(entries: Sequence[LedgerEntry]) -> tuple[LedgerEntry, ...]:
    """Return the entries that are paid for: if a query's rounds are linked, the costliest, some of them twice."""
    by_query: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        by_query.setdefault(entry.query, []).append(entry)
    paid: Counter[tuple[int, str]] = Counter()
    for of in by_query.values():
        paid.update(each.key for each in costliest(of[0].part.mechanism, of, lambda entry: entry.part.reports))
    return tuple(entry for entry in entries for _ in range(paid[entry.key]))


def _said(part: Part) -> str:
    """Return what a charge is for, in words."""
    rounds = f" in each of {part.rounds} rounds" if part.rounds > 1 else ""
    dummies = f" and {part.dummies} dummies" if part.dummies else ""
    return f"{part.reports} reports of {described(part.mechanism)}{dummies}{rounds}"


def _upper(entries: Sequence[LedgerEntry], delta: float) -> float:
    """Return the certified ε alone: deciding on a charge needs no attack."""
    return compose_upper([entry.part for entry in entries], delta) if entries else 0.0


def _composed(entries: Sequence[LedgerEntry], delta: float) -> EpsilonBracket:
    if not entries:
        return EpsilonBracket(0.0, 0.0, 0.0, delta, "composition", "nothing was released", 0.0)
    return compose([entry.part for entry in entries], delta)


def _like_rounds(entries: Sequence[LedgerEntry]) -> Iterable[tuple[list[int], list[LedgerEntry]]]:
    """Yield runs of rounds with equal charges, with their entries."""
    by_round: dict[int, list[LedgerEntry]] = {}
    for entry in entries:
        by_round.setdefault(entry.round, []).append(entry)

    def parts(number: int) -> str:
        return repr(sorted((entry.query, repr(entry.part)) for entry in by_round[number]))

    for _, group in itertools.groupby(sorted(by_round), key=parts):
        numbers = list(group)
        yield numbers, [entry for number in numbers for entry in by_round[number]]


def _span(rounds: Sequence[int]) -> str:
    if len(rounds) == 1:
        return f"round {rounds[0]}"
    return f"rounds {rounds[0]} to {rounds[-1]} ({len(rounds)})"


def _start(task: str) -> str:
    return hashlib.sha256(LABEL + b"\x00" + task.encode()).hexdigest()


def _next(digest: str, entry: LedgerEntry) -> str:
    return hashlib.sha256(LABEL + b"\x01" + bytes.fromhex(digest) + entry.canonical().encode()).hexdigest()
