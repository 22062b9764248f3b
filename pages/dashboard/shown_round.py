"""What pages keep of a round: its numbers, packed, and what its certificate states of privacy; not the certificate.

A certificate lists every round before it, so those of a year have 80 megabytes. A page needs some kilobytes of each.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from hubbub.accountant.certificate.ladder import AT_MINIMUM, Ladder, ladders
from hubbub.protos.records.results import QueryResult, SumResult
from hubbub.results import PublishedRow, ResultsTable, Trust
from hubbub.verification.certificate import stated


@dataclass(frozen=True)
class QueryFacts:
    """A query of a round but for its numbers: how many reports came and were counted, and what to know of them.

    The counts of reports are None for a sum by digits, which has none of its own.
    """

    name: str
    reports: int | None
    valid: int | None
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    takes_texts: bool

    @classmethod
    def of(cls, result: QueryResult | SumResult) -> QueryFacts:
        """Return the facts of a query's result."""
        notes = result.estimates.notes if result.estimates else ()
        if isinstance(result, SumResult):
            return cls(result.name, None, None, {}, notes, False)
        table = bool(result.estimates and result.estimates.table)
        return cls(result.name, result.reports, result.valid, dict(result.left_out), notes, table)


@dataclass(frozen=True)
class ShownRound:
    """A round as pages show it.

    Attributes:
        number: the round's number.
        digest: the SHA-256 of its certificate, in hex.
        trust: what was checked; pages say so if that is not all.
        facts: its queries in the order of its rows.
        ladders: who must be honest for which ε, of the round, of all rounds so far, and of the whole task.
        withheld: the names of the queries that are withheld.
        spent: ε of all rounds so far, as a budget is charged.
        delta: δ of each of these.
    """

    number: int
    digest: str
    trust: Trust
    facts: tuple[QueryFacts, ...]
    ladders: tuple[Ladder, ...]
    withheld: tuple[str, ...]
    spent: float
    delta: float
    _packed: Mapping[str, bytes]

    @classmethod
    def of(cls, table: ResultsTable) -> ShownRound:
        """Return the round of a table of one round.

        Raises:
            VerificationError: if its certificate has not the form of one.
        """
        (results,) = table.results
        content = stated(results.certificate)
        every = content["all_rounds"]
        # A budget is charged at the minimum; where a batch was below it, at what came.
        at_minimum = every.get(AT_MINIMUM)
        spent = every["epsilon_upper"] if at_minimum is None else at_minimum
        every_result: tuple[QueryResult | SumResult, ...] = (*results.sums, *results.queries)
        facts = {each.name: QueryFacts.of(each) for each in every_result}
        return cls(
            number=results.id.round,
            digest=sha256(results.certificate).hexdigest(),
            trust=table.trust,
            facts=tuple(facts[name] for name in table.queries),
            ladders=tuple(each for each in ladders(content) if each.query is None),
            withheld=tuple(dict.fromkeys(row.query for row in table if row.withheld)),
            spent=spent,
            delta=content["delta"],
            _packed={name: _pack([row for row in table if row.query == name]) for name in table.queries},
        )

    @property
    def verified(self) -> bool:
        """Whether all of it was checked."""
        return self.trust.verified

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of its queries."""
        return tuple(self._packed)

    def rows(self, query: str) -> list[PublishedRow]:
        """Return the rows of a query; none if the round has no such query."""
        return _unpacked(self._packed[query]) if query in self._packed else []


def _pack(rows: Sequence[PublishedRow]) -> bytes:
    # As objects, the rows of a year with 20 queries take 80 MB.
    return zlib.compress(pickle.dumps(list(rows), pickle.HIGHEST_PROTOCOL), 1)


def _unpacked(packed: bytes) -> list[PublishedRow]:
    found: list[PublishedRow] = pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed by this process
    return found


def in_words(numbers: Sequence[int]) -> str:
    """Return numbers of rounds as people write them: "0 to 7, 9"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(map(str, run)) for run in runs)
