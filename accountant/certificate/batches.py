"""Turns counts into questions for the accountant, in the same way for making a statement and for checking it.

Only the question is shared. The check finds the answer in another way: it evaluates the bound's δ at the stored ε.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import LocalMechanism, WithNoise, costliest, hiding_reports, one_round
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.pairs import Part


def honest(terms: Terms, query: QueryCount) -> int:
    """Return how many valid reports are surely honest: all that may be dishonest are subtracted from the valid ones."""
    return honest_of(query.valid, query.reports, terms.honest_share)


honest_of = lru_cache(maxsize=16_384)(honest_reports)
"""How many of so many valid reports are surely honest: computed once, as each certificate has all rounds before it."""


def part_of_round(terms: Terms, query: QueryCount) -> Part:
    """Return the batch alone, at its honest number of valid reports."""
    # Without any other honest report a person still has the local guarantee, the one of a batch of one report.
    return round_part(terms, query.mechanism, max(1, honest(terms, query)))


def round_part(terms: Terms, mechanism: LocalMechanism, reports: int) -> Part:
    """Return a batch alone, of so many honest reports; dummies are left out if its bound cannot count them."""
    return _part(one_round(mechanism), reports, terms.uniform_dummies(mechanism))


def linked_part(terms: Terms, mechanism: LocalMechanism, reports: int, missing: int | None = None) -> Part:
    """Return a batch of so many honest reports in one of several rounds; if rounds are linked, steady people hide it.

    `missing` is how many reports all the rounds together lack (`missing_reports`); if None, how many this batch lacks.
    Dummies are made anew in each round, so they hide nobody's reports over linked rounds.
    """
    lacked = missing_reports(terms, [reports]) if missing is None else missing
    hiding = hiding_reports(mechanism, reports, lacked)
    return _part(mechanism, hiding, terms.uniform_dummies(mechanism))


@lru_cache(maxsize=16_384)
def _part(mechanism: LocalMechanism, reports: int, dummies: int) -> Part:
    """Return the part, checked once: the certificate of each round has the batches of all rounds before it."""
    return Part(mechanism, reports, dummies=dummies)


def missing_reports(terms: Terms, reports: Iterable[int]) -> int:
    """Return the sum, over rounds of so many honest `reports`, of how many people each lacks of its honest minimum.

    A task states that `steady` people of one level are among the honest minimum of every round. A round that surely has
    fewer honest people, of all levels, may lack any of them, and another round may lack others. So all steady people
    but that sum are surely honest in every round: the sum counts each of the others at least once.
    """
    least = max(1, _least(terms))
    return sum(max(0, least - each) for each in reports)


def linked_rounds(terms: Terms, history: Sequence[RoundCounts], reports_of: Callable[[QueryCount], int]) -> list[Part]:
    """Return the joint cost of rounds to a person, at so many honest reports of each batch; at least one."""
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
    """Return the batches below the minimum (`is_below_minimum`), by round and query, at the reports that came."""
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
    """Return the cost of several rounds to a person; each round's parts are in the task's order of queries.

    If all of a person's reports to a query are one report, it is charged once, at the smallest batch that hid it. If
    streams differ in few of the rounds, only so many rounds are charged, at the smallest batches.
    """
    paid: list[Counter[int]] = []
    for rounds in zip(*parts, strict=True):
        numbered = list(enumerate(rounds))
        mechanism = rounds[0].mechanism
        paid.append(Counter(number for number, _ in costliest(mechanism, numbered, lambda each: each[1].reports)))
    # Round by round, always: everybody who composes again has to, and another order may round differently.
    return [
        part
        for number, of in enumerate(parts)
        for part, kept in zip(of, paid, strict=True)
        for _ in range(kept[number])
    ]


def is_below_minimum(terms: Terms, query: QueryCount) -> bool:
    """Whether fewer valid honest reports came than the minimum gives.

    Then more reports failed than the task's honest share allows for. Of the numbers fixed beforehand, only the local ε
    covers such a batch.
    """
    return honest(terms, query) < _least(terms)


def any_below_minimum(terms: Terms, history: Sequence[RoundCounts]) -> bool:
    """Whether any batch of these rounds is below the minimum."""
    return any(is_below_minimum(terms, query) for counts in history for query in counts.queries)


def charges_at_actual(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return the joint cost of rounds to a person, at the reports that came."""
    return linked_rounds(terms, history, lambda query: honest(terms, query))


def charges_at_minimum(terms: Terms, history: Sequence[RoundCounts]) -> list[Part]:
    """Return the joint cost of rounds to a person, at the minimum that was fixed beforehand.

    A batch below the minimum is charged at the reports that came. How many came may depend on earlier releases, and
    pairs at such a number need not compose; the minimum does not depend on them.
    """
    return linked_rounds(terms, history, lambda query: min(_least(terms), honest(terms, query)))


def _least(terms: Terms) -> int:
    return honest_of(terms.minimum_reports, terms.minimum_reports, terms.honest_share)


def counts_of(terms: Terms, query: QueryCount) -> dict[str, int]:
    """Return the counts that a certificate states of a batch."""
    return {"honest_reports": honest(terms, query), "reports": query.reports, "valid": query.valid}


def derived_members(terms: Terms, query: QueryCount) -> dict[str, Any]:
    """Return the members of a query that follow exactly from task and counts.

    Raises:
        AccountingError: if the mechanism has no written form.
    """
    return {
        **counts_of(terms, query),
        **query.mechanism.content(),
        "dummies": query.noise if isinstance(query.mechanism, WithNoise) else terms.dummies,
        "name": query.name,
        "state": "published" if query.valid >= terms.minimum_reports else "withheld",
    }


@lru_cache(maxsize=32)
def bracket(part: Part, delta: float) -> EpsilonBracket:
    """Return both ends of one batch's ε at `delta`; cached, as an audit asks for many equal batches."""
    return epsilon_bracket(part.mechanism, part.reports, delta, dummies=part.dummies)


def composed(parts: Sequence[Part], delta: float) -> EpsilonBracket:
    """Return both ends of the composed ε of all `parts` at `delta`."""
    return _composed(_merged(parts), delta)


def certified_epsilon(parts: Sequence[Part], together: EpsilonBracket) -> float:
    """Return the certified ε of all parts: the composed one, or the local one if that is smaller."""
    return min(together.epsilon_upper, local_of(parts))


def local_of(parts: Sequence[Part]) -> float:
    """Return the sum of ε_local over all rounds of all parts, never below the exact sum."""
    rounds: Counter[float] = Counter()
    for part in parts:
        rounds[part.mechanism.epsilon_local] += part.rounds
    return _sum_up(rounds)


def local_sum(mechanisms: Sequence[LocalMechanism]) -> float:
    """Return Σ ε_local, never below the exact sum."""
    return _sum_up(Counter(mechanism.epsilon_local for mechanism in mechanisms))


def _sum_up(times: Mapping[float, int]) -> float:
    """Return the sum of numbers, each so many times, never below the exact sum."""
    # All rounds of a year have the few local ε of its queries.
    total = sum((Fraction(each) * count for each, count in times.items()), Fraction(0))
    result = float(total)
    # A sum of doubles may round down at each step; this rounds once, and up.
    return result if Fraction(result) >= total else math.nextafter(result, math.inf)


@lru_cache(maxsize=32)
def _composed(parts: tuple[Part, ...], delta: float) -> EpsilonBracket:
    """Compose, once for what a certificate states several times: a first round is also all rounds so far (cached)."""
    return compose(parts, delta)


def _merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return equal parts merged into one with more rounds: the same composition, cheaper."""
    rounds: dict[Part, int] = {}
    for part in parts:
        single = _part(part.mechanism, part.reports, part.dummies)
        rounds[single] = rounds.get(single, 0) + part.rounds
    return tuple(Part(part.mechanism, part.reports, count, part.dummies) for part, count in rounds.items())
