"""Turns counts into questions for the accountant, alike where a statement is made and where it is checked.

Only the question is shared. The answer is checked in another way than it was found: a stored ε by the bound's δ at it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import LocalMechanism, costliest, hiding_reports, one_round
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.pairs import Part


def honest(terms: Terms, query: QueryCount) -> int:
    """Return how many valid reports are surely honest: all that may be dishonest are taken from the valid ones."""
    return honest_reports(query.valid, query.reports, terms.honest_share)


def part_of_round(terms: Terms, query: QueryCount) -> Part:
    """Return the batch by itself, at its honest number of valid reports."""
    # A person without any other honest report still has the local guarantee, which is what one report gives.
    return round_part(terms, query.mechanism, max(1, honest(terms, query)))


def round_part(terms: Terms, mechanism: LocalMechanism, reports: int) -> Part:
    """Return a batch by itself, of so many honest reports; dummies that its bound cannot count are left out."""
    return Part(one_round(mechanism), reports, dummies=terms.dummies if mechanism.counts_dummies else 0)


def linked_part(terms: Terms, mechanism: LocalMechanism, reports: int, missing: int | None = None) -> Part:
    """Return a batch of so many honest reports as one of several rounds: where these are linked, the steady ones hide.

    `missing` is what all the rounds together lack (`missing_reports`); where it is None, what this batch lacks. Dummies
    are made anew in each round, so that nobody's reports over linked rounds hide among them.
    """
    lacked = missing_reports(terms, [reports]) if missing is None else missing
    hiding = hiding_reports(mechanism, reports, lacked)
    return Part(mechanism, hiding, dummies=terms.dummies if mechanism.counts_dummies else 0)


def missing_reports(terms: Terms, reports: Iterable[int]) -> int:
    """Return how many people rounds of so many honest `reports` lack together of the honest minimum of each.

    `steady` people of one level are among the honest minimum of every round: that is what a task states. A round that
    surely has fewer honest people, of all levels, may lack any of these, and another round others. So of the steady
    ones all but the sum are surely honest in every round: each person who is not was counted in the sum at least once.
    """
    least = max(1, _least(terms))
    return sum(max(0, least - each) for each in reports)


def linked_rounds(terms: Terms, history: Sequence[RoundCounts], reports_of: Callable[[QueryCount], int]) -> list[Part]:
    """Return what rounds cost a person together, at so many honest reports of each batch; one at least."""
    reports = [[max(1, reports_of(query)) for query in counts.queries] for counts in history]
    missing = [missing_reports(terms, of_query) for of_query in zip(*reports, strict=True)]
    return parts_over_rounds(
        [
            [
                linked_part(terms, query.mechanism, each, lacked)
                for query, each, lacked in zip(counts.queries, of_round, missing, strict=True)
            ]
            for counts, of_round in zip(history, reports, strict=True)
        ]
    )


def parts_below_minimum(terms: Terms, counted: Iterable[tuple[int, QueryCount]]) -> dict[tuple[int, str], Part]:
    """Return the batches that are short (`is_short`), by round and query, at what came: dearer than the minimum."""
    batches = list(counted)
    reports: dict[str, list[int]] = {}
    for _, query in batches:
        reports.setdefault(query.name, []).append(max(1, honest(terms, query)))
    missing = {name: missing_reports(terms, each) for name, each in reports.items()}
    return {
        (number, query.name): linked_part(terms, query.mechanism, max(1, honest(terms, query)), missing[query.name])
        for number, query in batches
        if is_below_minimum(terms, query)
    }


def parts_over_rounds(parts: Sequence[Sequence[Part]]) -> list[Part]:
    """Return what several rounds cost a person, of the parts of each round in the task's order of queries.

    Where all of a person's reports to a query are one report, it is paid for once, at the fewest who hid it; where
    streams differ in few of the rounds, these are paid for, at the fewest.
    """
    paid: list[Counter[int]] = []
    for rounds in zip(*parts, strict=True):
        numbered = list(enumerate(rounds))
        mechanism = rounds[0].mechanism
        paid.append(Counter(number for number, _ in costliest(mechanism, numbered, lambda each: each[1].reports)))
    # Round by round, as they always were composed: another order may round otherwise.
    return [
        part
        for number, of in enumerate(parts)
        for part, kept in zip(of, paid, strict=True)
        for _ in range(kept[number])
    ]


def is_below_minimum(terms: Terms, query: QueryCount) -> bool:
    """Whether fewer valid honest reports came than the minimum gives.

    Then more of the crowd failed than the task's honest share allows for. No number that was fixed beforehand covers
    such a batch but the local ε.
    """
    return honest(terms, query) < _least(terms)


def any_below_minimum(terms: Terms, history: Sequence[RoundCounts]) -> bool:
    """Whether any batch of these rounds is short."""
    return any(is_below_minimum(terms, query) for counts in history for query in counts.queries)


def charges_at_actual(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return what rounds cost a person together, at the reports that came."""
    return linked_rounds(terms, history, lambda query: honest(terms, query))


def charges_at_minimum(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return what rounds cost a person together, at the minimum that was fixed beforehand.

    A batch that is short stands at what came. How many came may depend on earlier releases, and pairs at such a number
    need not compose; the minimum does not.
    """
    return linked_rounds(terms, history, lambda query: min(_least(terms), honest(terms, query)))


def _least(terms: Terms) -> int:
    return honest_reports(terms.minimum_reports, terms.minimum_reports, terms.honest_share)


def counts_of(terms: Terms, query: QueryCount) -> dict[str, int]:
    """Return the counts that are stated of a batch."""
    return {"honest_reports": honest(terms, query), "reports": query.reports, "valid": query.valid}


def derived_members(terms: Terms, query: QueryCount) -> dict[str, Any]:
    """Return the members of a query that follow from task and counts alone, to the last digit.

    Raises:
        AccountingError: where the mechanism has no written form.
    """
    return {
        **counts_of(terms, query),
        **query.mechanism.content(),
        "delta": terms.delta,
        "dummies": terms.dummies,
        "name": query.name,
        "state": "published" if query.valid >= terms.minimum_reports else "withheld",
    }


@lru_cache(maxsize=32)
def bracket(part: Part, delta: float) -> EpsilonBracket:
    """Return both ends of one batch's ε at `delta`: once for batches that are alike, as those of an audit are."""
    return epsilon_bracket(part.mechanism, part.reports, delta, dummies=part.dummies)


def composed(parts: Sequence[Part], delta: float) -> EpsilonBracket:
    """Return both ends of the ε of all `parts` together at `delta`."""
    return _composed(_merged(parts), delta)


def certified_epsilon(parts: Sequence[Part], together: EpsilonBracket) -> float:
    """Return the certified ε of all parts: the composed one, or the local one where that is smaller."""
    return min(together.epsilon_upper, local_of(parts))


def local_of(parts: Sequence[Part]) -> float:
    """Return the ε_local of all rounds of all parts together, never below the exact sum."""
    return local_sum([part.mechanism for part in parts for _ in range(part.rounds)])


def local_sum(mechanisms: Sequence[LocalMechanism]) -> float:
    """Return Σ ε_local, never below the exact sum."""
    total = sum((Fraction(mechanism.epsilon_local) for mechanism in mechanisms), Fraction(0))
    result = float(total)
    # A sum of doubles would round at each step, maybe down; this rounds once, and up.
    return result if Fraction(result) >= total else math.nextafter(result, math.inf)


@lru_cache(maxsize=32)
def _composed(parts: tuple[Part, ...], delta: float) -> EpsilonBracket:
    """Compose, once for what a certificate states several times: a first round is also all rounds so far."""
    return compose(parts, delta)


def _merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Equal parts as one with more rounds: the same composition, cheaper."""
    rounds: dict[Part, int] = {}
    for part in parts:
        single = Part(part.mechanism, part.reports, dummies=part.dummies)
        rounds[single] = rounds.get(single, 0) + part.rounds
    return tuple(Part(part.mechanism, part.reports, count, part.dummies) for part, count in rounds.items())
