"""What is left where the analyzer's count of valid reports is not true: the worst that the records do not exclude.

The shuffler attests how many submissions it let in and how many dummies it added. It cannot open a report, so nothing
that it signs excludes that all reports but one are of nobody's answer. A hop attests what opened at its own layer: that
bounds the valid reports from above, and not from below, as whoever seals a layer may seal anything. So there are two
numbers beside each ε at the valid reports that are stated, for one person whose own report is valid:

- *attested*: nothing is believed of anybody else's report. The person is hidden by the shuffler's dummies alone, where
  the mechanism's bound counts them; without dummies that is what one report gives, ε_local.
- *if the minimum is valid*: at least `minimum_reports` of each batch are valid, as of every batch that is published,
  also of those that the analyzer says it never counted. All that may be dishonest, by the honest share of the reports
  that the shuffler attests, are taken from these. It is None where the analyzer itself says that fewer were valid.

Both are upper bounds of what a smaller number of valid reports can cost, so a careful reader takes the largest that may
be true: neither is ever below the ε at the valid reports that are stated (accounting-crowds.md, "What the
analyzer claims").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubbub.accountant.certificate.batches import (
    bracket,
    certified_epsilon,
    composed,
    linked_rounds,
    local_of,
    round_part,
)
from hubbub.accountant.certificate.members import ATTESTED, IF_MINIMUM_VALID
from hubbub.accountant.certificate.minimum import parts_of_horizon_at
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.numbers import honest_reports, round_up_significant
from hubbub.accountant.pairs import Part, kept_delta

ROUND_ONLY = 1
"""The reports that are attested to be valid in a batch: the one of the person who is protected."""


def round_attested(terms: Terms, query: QueryCount) -> Part:
    """Return a batch by itself in which nobody else's report is valid."""
    return round_part(terms, query.mechanism, ROUND_ONLY)


def round_if_minimum(terms: Terms, query: QueryCount) -> Part:
    """Return a batch by itself in which as many reports are valid as the task's minimum."""
    return round_part(terms, query.mechanism, honest_if_minimum(terms, query))


def honest_if_minimum(terms: Terms, query: QueryCount) -> int:
    """Return how many reports surely hide a person where the minimum is valid; one at least.

    The dishonest are a share of all reports that came, and not of the minimum: any of them may be among the valid ones.
    That a round was never counted is claimed by the analyzer too, so its dishonest are a share of all it was released
    with.
    """
    came = query.reports if query.released is None else query.released
    return max(ROUND_ONLY, honest_reports(min(terms.minimum_reports, came), came, terms.honest_share))


def claims_fewer(terms: Terms, queries: Sequence[QueryCount]) -> bool:
    """Whether fewer valid reports than the minimum are stated of a batch: then nothing can be said at the minimum."""
    return any(query.valid < terms.minimum_reports for query in queries)


def rounds_attested(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return what rounds cost a person together where nobody else's report is valid in any."""
    return linked_rounds(terms, history, lambda _: ROUND_ONLY)


def rounds_if_minimum(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return what rounds cost a person together where the minimum is valid in each batch."""
    return linked_rounds(terms, history, lambda query: honest_if_minimum(terms, query))


def horizon_attested(terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int) -> tuple[Part, ...]:
    """Return what all rounds of a task cost a person together where nobody else's report is valid in any."""
    return parts_of_horizon_at(terms, mechanisms, rounds, ROUND_ONLY)


def attested_members(
    terms: Terms, stated: float, attested: Sequence[Part], minimum: Sequence[Part] | None
) -> dict[str, Any]:
    """Return both members beside a stated `epsilon_upper`; `minimum` is None where fewer valid reports are stated.

    Raises:
        AccountingError: where a part cannot be bounded.
    """
    # Never below what is stated at more reports: a bound that is evaluated may fall by less than its slack.
    if_minimum = None if minimum is None else max(stated, epsilon_of(terms, minimum))
    least = stated if if_minimum is None else if_minimum
    return {ATTESTED: max(least, epsilon_of(terms, attested)), IF_MINIMUM_VALID: if_minimum}


def epsilon_of(terms: Terms, parts: Sequence[Part]) -> float:
    """Return the ε of all parts together at the task's δ, rounded up to the digits that are stored."""
    return round_up_significant(reached_by(terms, parts), SIGNIFICANT_DIGITS)


def reached_by(terms: Terms, parts: Sequence[Part]) -> float:
    """Return the ε of all parts together at the task's δ, never below the truth.

    Of reports that nothing hides it is ε_local: what composing them would gain by δ is not worth the time. A batch by
    itself is bounded at what its chances leave of δ, as composing it would (`pairs.kept_delta`).
    """
    if all(part.reports == ROUND_ONLY and not part.dummies for part in parts):
        return local_of(parts)
    if len(parts) == 1 and parts[0].rounds == 1:
        return min(bracket(parts[0], kept_delta(parts, terms.delta)).epsilon_upper, local_of(parts))
    return certified_epsilon(parts, composed(parts, terms.delta))


SIGNIFICANT_DIGITS = 6
"""Digits of the ε that are stored; the rounding is always to the safe side."""
