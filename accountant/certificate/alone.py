"""Bounds ε if the analyzer or other people lie: the worst cases that the signed records do not exclude.

The shuffler attests how many submissions it admitted and how many dummies it added. It cannot open a report, so its
signature does not exclude that only one report contains an answer. A hop attests how many reports opened at its own
layer. That bounds the valid reports from above, but not from below: a sender may seal anything in a layer. So each ε at
the stated valid reports comes with two more numbers, for one person whose own report is valid:

- *alone*: assumes nothing about any other report, so it is valid if everybody else lies. Only a shuffler's noise or
  dummies hide the person, if the mechanism's bound counts them; without them it is the ε of one report, ε_local.
- *if the minimum is valid*: at least `minimum_reports` of each batch are valid, as in every batch that is published,
  and also in batches that the analyzer claims never to have counted. All reports that may be dishonest, by the honest
  share of the reports that the shuffler attests, are subtracted from these. It is None if the analyzer itself states
  fewer.

Both bound the cost of a smaller number of valid reports from above. Neither is ever below the ε at the stated valid
reports, so a careful reader takes the largest that may be true (accounting-crowds.md, "What the analyzer claims").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.accountant.certificate.batches import (
    bracket,
    certified_epsilon,
    composed,
    honest_of,
    linked_rounds,
    local_of,
    round_part,
)
from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID, ladder_words, lower_of
from hubbub.accountant.certificate.minimum import parts_of_horizon_at
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.mechanisms import LocalMechanism, WithNoise
from hubbub.accountant.numbers import round_down_significant, round_up_significant
from hubbub.accountant.pairs import Part, kept_delta

ROUND_ONLY = 1
"""Number of valid reports in a batch that needs no claim: the report of the protected person."""


def round_alone(terms: Terms, query: QueryCount) -> Part:
    """Return one batch in which only the protected person's report is valid."""
    return round_part(terms, query.mechanism, ROUND_ONLY)


def round_if_minimum(terms: Terms, query: QueryCount) -> Part:
    """Return one batch in which exactly the task's minimum of reports is valid."""
    return round_part(terms, query.mechanism, honest_if_minimum(terms, query))


def honest_if_minimum(terms: Terms, query: QueryCount) -> int:
    """Return how many reports surely hide a person if the minimum is valid; at least one.

    The dishonest reports are a share of all reports that came, not of the minimum: any of them may be among the valid
    ones. If the analyzer claims that it never counted a round, they are a share of all reports in that round's release.
    """
    came = query.reports if query.released is None else query.released
    return max(ROUND_ONLY, honest_of(min(terms.minimum_reports, came), came, terms.honest_share))


def claims_fewer(terms: Terms, queries: Sequence[QueryCount]) -> bool:
    """Whether any batch states fewer valid reports than the minimum: then no ε at the minimum can be stated."""
    return any(query.valid < terms.minimum_reports for query in queries)


def rounds_alone(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return the joint cost of rounds to a person if nobody else's report is valid in any round."""
    return linked_rounds(terms, history, lambda _: ROUND_ONLY)


def rounds_if_minimum(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return the joint cost of rounds to a person if the minimum is valid in each batch."""
    return linked_rounds(terms, history, lambda query: honest_if_minimum(terms, query))


def horizon_alone(terms: Terms, mechanisms: Sequence[LocalMechanism], rounds: int) -> tuple[Part, ...]:
    """Return the joint cost of all rounds of a task to a person if nobody else's report is valid in any round."""
    return parts_of_horizon_at(terms, mechanisms, rounds, ROUND_ONLY)


def members_beside(
    terms: Terms, stated: float, attested: Sequence[Part], minimum: Sequence[Part] | None
) -> dict[str, Any]:
    """Return what accompanies an `epsilon_upper`: both ε, and what attacks reach under the same assumptions.

    `minimum` is None if fewer valid reports are stated.

    Raises:
        AccountingError: if a part cannot be bounded.
    """
    # The maximum with the ε at more reports: an evaluated bound may fall by less than its slack.
    least, if_minimum, lower = stated, None, None
    if minimum is not None:
        least = if_minimum = max(stated, epsilon_of(terms, minimum))
        lower = lower_end(ends_of(terms, minimum)[1])
    return {
        ALONE: max(least, epsilon_of(terms, attested)),
        lower_of(ALONE): lower_end(ends_of(terms, attested)[1]),
        IF_MINIMUM_VALID: if_minimum,
        lower_of(IF_MINIMUM_VALID): lower,
    }


def hides_alone(part: Part) -> bool:
    """Whether noise of the shuffler hides a person whose report is the only valid one."""
    return isinstance(part.mechanism, WithNoise)


def keeps_alone(terms: Terms, mechanisms: Sequence[LocalMechanism]) -> bool:
    """Return whether a round keeps the task's (ε, δ) for a person whose report is the only valid one."""
    return _reached_alone(terms, mechanisms) <= terms.epsilon


def weak_noise(terms: Terms, mechanisms: Mapping[str, LocalMechanism]) -> str | None:
    """Return in a sentence who must be honest for a promise that the shuffler's noise by itself does not keep.

    None if there is no noise, or if it keeps the promise. No fault of a task: its people may keep it.
    """
    laws = list(mechanisms.values())
    if not any(isinstance(each, WithNoise) for each in laws) or keeps_alone(terms, laws):
        return None
    alone = round_up_significant(_reached_alone(terms, laws), SIGNIFICANT_DIGITS)
    noise = "the shuffler's noise" if terms.shufflers == 1 else "the noise of one shuffler"
    return (
        f"{noise} by itself keeps only ε ≤ {alone:.6g} in a round: ε ≤ {terms.epsilon:g} holds "
        f"{ladder_words(terms, mechanisms, 1)[IF_MINIMUM_VALID]}"
    )


def _reached_alone(terms: Terms, mechanisms: Sequence[LocalMechanism]) -> float:
    return reached_by(terms, [round_part(terms, each, ROUND_ONLY) for each in mechanisms])


def epsilon_of(terms: Terms, parts: Sequence[Part]) -> float:
    """Return the composed ε of all parts at the task's δ, rounded up to the digits that are stored."""
    return round_up_significant(reached_by(terms, parts), SIGNIFICANT_DIGITS)


def reached_by(terms: Terms, parts: Sequence[Part]) -> float:
    """Return an upper bound of the composed ε of all parts at the task's δ."""
    return ends_of(terms, parts)[0]


def nothing_hides(parts: Sequence[Part]) -> bool:
    """Whether no other report, no dummy and no noise hides any of the reports."""
    return all(part.reports == ROUND_ONLY and not part.dummies and not hides_alone(part) for part in parts)


def ends_of(terms: Terms, parts: Sequence[Part]) -> tuple[float, float | None]:
    """Return an upper bound of the composed ε of all parts at the task's δ, and what a known attack reaches.

    For reports that nothing hides it is ε_local: composing them at δ would gain too little for the time it takes. No
    attack is then stated: whoever reads the reports reaches ε_local. A single batch is bounded at the δ that its
    chances leave (`pairs.kept_delta`), as composition would do; no attack is known on mechanisms that have any.
    """
    if nothing_hides(parts):
        return local_of(parts), None
    if len(parts) == 1 and parts[0].rounds == 1:
        found = bracket(parts[0], kept_delta(parts, terms.delta))
    else:
        found = composed(parts, terms.delta)
    return certified_epsilon(parts, found), found.epsilon_lower


def lower_end(value: float | None) -> float | None:
    """Return an ε that an attack reaches, rounded down to the digits that are stored; None if none is above 0."""
    if value is None or value <= 0:
        return None
    return round_down_significant(value, SIGNIFICANT_DIGITS)


SIGNIFICANT_DIGITS = 6
"""Significant digits of a stored ε; rounding is always to the safe side."""
