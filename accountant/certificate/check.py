"""Checks every number of a certificate: recomputes it from the task and the counts alone.

The bound itself checks each stored ε, at ε or at δ; only counts and names are compared for equality. A statement may
state a larger ε than needed, never a smaller one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from hubbub.accountant.bounds import delta_bracket, epsilon_upper
from hubbub.accountant.brackets import DeltaBracket
from hubbub.accountant.certificate.alone import (
    claims_fewer,
    ends_of,
    horizon_alone,
    nothing_hides,
    round_alone,
    round_if_minimum,
    rounds_alone,
    rounds_if_minimum,
)
from hubbub.accountant.certificate.batches import (
    any_below_minimum,
    bracket,
    certified_epsilon,
    charges_at_actual,
    charges_at_minimum,
    composed,
    counts_of,
    derived_members,
    local_of,
    part_of_round,
)
from hubbub.accountant.certificate.ladder import ALONE, AT_MINIMUM, IF_MINIMUM_VALID, ladder_words, lower_of
from hubbub.accountant.certificate.members import check_members
from hubbub.accountant.certificate.minimum import parts_of_horizon
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.composed_claims import shows_lower, shows_upper
from hubbub.accountant.errors import CertificateError, OutsideConditions, listed, shown
from hubbub.accountant.mechanisms import LocalMechanism, WithNoise
from hubbub.accountant.pairs import Part

COMPOSITION = "composition"
"""The name of a bound by composing the losses of several batches."""

NONE_UNCOUNTED: Mapping[int, int] = MappingProxyType({})
"""For a history in which every round was counted."""


def check_statement(
    terms: Terms,
    queries: Sequence[tuple[str, LocalMechanism]],
    content: Mapping[str, Any],
    uncounted: Mapping[int, int] = NONE_UNCOUNTED,
) -> None:
    """Return only if every number of a statement is true for a task of those `terms` and `queries` (name, mechanism).

    `uncounted` maps each round that is claimed never to have been counted to the number of reports in its release.

    Raises:
        CertificateError: names the first member that fails.
    """
    try:
        check_members(content)
        history = _read_history(queries, content, uncounted)
        _check_share_and_counts(terms, history, content)
        latest = history[-1].queries
        for query, stated in zip(latest, content["queries"], strict=True):
            _check_query(terms, query, stated)
        parts = [part_of_round(terms, query) for query in latest]
        _check_total(terms, parts, content["round_total"], "round_total")
        _check_all_rounds(terms, history, content["all_rounds"])
        _check_horizon(terms, history, content)
        _check_beside(terms, history, content)
        _check_words(terms, history, content)
    except CertificateError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise CertificateError(f"the certificate does not have the expected form: {error!r}") from error


def _read_history(
    queries: Sequence[tuple[str, LocalMechanism]], content: Mapping[str, Any], uncounted: Mapping[int, int]
) -> list[RoundCounts]:
    history = []
    for entry in content["all_rounds"]["history"]:
        if len(entry["queries"]) != len(queries):
            raise CertificateError(
                f"round {entry['round']} counts {len(entry['queries'])} queries, but the task has {len(queries)}"
            )
        released = uncounted.get(_count(entry["round"]))
        counts = [
            QueryCount(name, mechanism, _count(stated["reports"]), _count(stated["valid"]), {}, released)
            for (name, mechanism), stated in zip(queries, entry["queries"], strict=True)
        ]
        history.append(RoundCounts(_count(entry["round"]), tuple(counts)))
    rounds = [counts.round for counts in history]
    # The order of releases is not checked here: the shuffler's records attest it.
    if len(set(rounds)) != len(rounds) or rounds[-1:] != [content["round"]]:
        raise CertificateError(
            f"the rounds so far are {listed(rounds)}; they must list each round once, and round "
            f"{shown(content['round'])} last"
        )
    return history


def _count(value: Any) -> int:
    # `True` is an int in Python but not in JSON, and JSON is what the analyzer signed.
    if type(value) is not int or value < 0:
        raise CertificateError(f"a count is {shown(value)}; it must be a whole number from 0")
    return value


def _check_share_and_counts(terms: Terms, history: Sequence[RoundCounts], content: Mapping[str, Any]) -> None:
    share = content["honest_share"]
    if share != terms.honest_share or type(share) is not float:
        raise CertificateError(f"honest_share is {shown(share)}, but the task states {terms.honest_share}")
    for entry, counts in zip(content["all_rounds"]["history"], history, strict=True):
        for query, stated in zip(counts.queries, entry["queries"], strict=True):
            _check_equal(f"round {counts.round}, {query.name}", counts_of(terms, query), stated)


def _check_words(terms: Terms, history: Sequence[RoundCounts], content: Mapping[str, Any]) -> None:
    """Check δ, and the words that say who must be honest for which ε: they follow from the task."""
    mechanisms = {query.name: query.mechanism for query in history[-1].queries}
    words = ladder_words(terms, mechanisms, len(history))
    _check_equal("the certificate", {"delta": terms.delta, "ladder": words}, content)


def _check_equal(where: str, expected: Mapping[str, Any], stated: Mapping[str, Any]) -> None:
    # Types too: 1.0 == 1 in Python, but their JSON differs, and the signature covers the JSON.
    for name, value in expected.items():
        if not _is_same(stated[name], value):
            raise CertificateError(f"{where}: {name} is {shown(stated[name])}; it must be {shown(value)}")


def _is_same(stated: Any, value: Any) -> bool:
    """Whether two JSON values are equal in their types too, at every depth."""
    if type(stated) is not type(value):
        return False
    if isinstance(value, dict):
        return stated.keys() == value.keys() and all(_is_same(stated[name], each) for name, each in value.items())
    if isinstance(value, list):
        return len(stated) == len(value) and all(map(_is_same, stated, value))
    return bool(stated == value)


def _check_query(terms: Terms, query: QueryCount, stated: Mapping[str, Any]) -> None:
    left_out = {reason: _count(count) for reason, count in stated["left_out"].items()}
    # The sum of the noise is the shufflers' statement: the certificate's check compares it with the signed records.
    noise = _count(stated["dummies"]) if isinstance(query.mechanism, WithNoise) else 0
    _check_equal(query.name, derived_members(terms, replace(query, noise=noise)), stated)
    if sum(left_out.values()) != query.reports - query.valid:
        raise CertificateError(
            f"{query.name}: {query.reports} reports are not the sum of {query.valid} valid and those left out"
        )
    part = part_of_round(terms, query)
    _check_local(query.name, [part], stated)
    _check_upper(query.name, terms, part, stated["epsilon_upper"], stated["bound"])
    _check_lower(query.name, terms, part, stated["epsilon_lower"], stated["epsilon_upper"])


def _check_local(where: str, parts: Sequence[Part], stated: Mapping[str, Any]) -> None:
    if not stated["epsilon_local"] >= local_of(parts):
        raise CertificateError(
            f"{where}: epsilon_local is {stated['epsilon_local']}; it must be at least {local_of(parts)}"
        )


def _check_upper(where: str, terms: Terms, part: Part, epsilon: float, bound: str) -> None:
    """Check that the bound that is stated gives the ε: it says whether noise or other people hide a person."""
    mechanism, reports, dummies = part.mechanism, part.reports, part.dummies
    try:
        reached = _delta_at(part, epsilon, bound).delta_upper
    except OutsideConditions as error:
        raise CertificateError(f"{where}: its bound {bound} does not apply: {error}") from error
    # This evaluation has slack; the search for ε evaluates more finely, so it decides.
    finer = epsilon_upper(mechanism, reports, terms.delta, bound=bound, dummies=dummies) if reached > terms.delta else 0
    if finer > epsilon:
        raise CertificateError(
            f"{where}: at epsilon_upper = {epsilon} the bound {bound} certifies delta = {reached:.6g}, but "
            f"{terms.delta:g} is stated"
        )


def _check_lower(where: str, terms: Terms, part: Part, lower: float | None, upper: float) -> None:
    if lower is None:
        return
    if not 0 < lower <= upper:
        raise CertificateError(f"{where}: epsilon_lower is {lower}; it must be above 0 and at most {upper}")
    attained = _delta_at(part, lower, "best").delta_lower
    if attained is None or not (attained >= terms.delta or _lower_found(part, terms.delta) >= lower):
        raise CertificateError(f"{where}: no attack known here shows that epsilon is at least {lower}")


@lru_cache(maxsize=64)
def _delta_at(part: Part, epsilon: float, bound: str) -> DeltaBracket:
    """Return both ends of one batch's δ at ε; once for the queries of a round that are asked and answered alike."""
    return delta_bracket(part.mechanism, part.reports, epsilon, bound=bound, dummies=part.dummies)


def _lower_found(part: Part, delta: float) -> float:
    """Return the lower end that the search for ε finds; it evaluates more finely than one bracket of δ."""
    return bracket(part, delta).epsilon_lower or 0.0


def _check_total(terms: Terms, parts: Sequence[Part], stated: Mapping[str, Any], where: str) -> None:
    _check_local(where, parts, stated)
    if stated["bound"] == COMPOSITION and _is_shown(terms, parts, stated["epsilon_upper"], stated["epsilon_lower"]):
        return
    together = composed(parts, terms.delta)
    _check_equal(where, {"bound": together.bound}, stated)
    _check_composed(where, terms, parts, stated["epsilon_upper"])
    _check_attack(where, stated["epsilon_lower"], together.epsilon_lower)


def _is_shown(terms: Terms, parts: Sequence[Part], upper: float, lower: float | None) -> bool:
    """Return whether one look at the composition of several batches shows both ends; if not, they are looked for.

    An upper end below the local ε is then that of a composition, whatever the smallest one is.
    """
    return (
        sum(part.rounds for part in parts) > 1
        and 0 < upper < local_of(parts)
        and (lower is None or 0 < lower <= upper)
        and shows_upper(parts, terms.delta, upper)
        and (lower is None or shows_lower(parts, terms.delta, lower))
    )


def _check_attack(where: str, lower: float | None, known: float | None) -> None:
    """Check what an attack reaches against what is found here; no attack need be stated."""
    if lower is not None and (known is None or not 0 < lower <= known):
        raise CertificateError(f"{where}: no attack known here shows that epsilon is at least {lower}")


def _check_composed(where: str, terms: Terms, parts: Sequence[Part], epsilon: float) -> None:
    reached = certified_epsilon(parts, composed(parts, terms.delta))
    # "not ... <=" also refuses a stated NaN: every comparison with NaN is false.
    if not reached <= epsilon:
        raise CertificateError(f"{where}: epsilon is stated as {epsilon}, but at least {reached:.6g} can be certified")


def _check_all_rounds(terms: Terms, history: Sequence[RoundCounts], stated: Mapping[str, Any]) -> None:
    _check_equal("all_rounds", {"budget": terms.epsilon_total}, stated)
    _check_total(terms, charges_at_actual(terms, history), stated, "all_rounds")
    _check_at_minimum(terms, history, stated[AT_MINIMUM], stated[lower_of(AT_MINIMUM)])


def _check_at_minimum(terms: Terms, history: Sequence[RoundCounts], epsilon: float | None, lower: float | None) -> None:
    """Check the ε at the minimum: it is null if, and only if, a batch was below the minimum."""
    if (epsilon is None) != any_below_minimum(terms, history):
        raise CertificateError(
            f"all_rounds: {AT_MINIMUM} must be null if a batch was below the minimum, and a number otherwise"
        )
    where, known = "all_rounds at the minimum", None
    if epsilon is not None:
        parts = charges_at_minimum(terms, history)
        if _is_shown(terms, parts, epsilon, lower):
            return
        _check_composed(where, terms, parts, epsilon)
        known = composed(parts, terms.delta).epsilon_lower
    _check_attack(where, lower, known)


def _check_horizon(terms: Terms, history: Sequence[RoundCounts], content: Mapping[str, Any]) -> None:
    """Check the horizon, the cost of all rounds of the task: stated if, and only if, a query is longitudinal."""
    if (terms.horizon is None) == ("horizon" in content):
        raise CertificateError("horizon must be stated if a query is longitudinal, and left out otherwise")
    if terms.horizon is None:
        return
    stated = content["horizon"]
    parts = parts_of_horizon(terms, [query.mechanism for query in history[-1].queries], terms.horizon)
    together = composed(parts, terms.delta)
    _check_equal("horizon", {"bound": together.bound, "rounds": terms.horizon}, stated)
    _check_local("horizon", parts, stated)
    if stated["epsilon_upper"] is not None:
        _check_composed("horizon", terms, parts, stated["epsilon_upper"])
    _check_attack(
        "horizon", stated["epsilon_lower"], None if stated["epsilon_upper"] is None else together.epsilon_lower
    )
    # No number fixed beforehand covers a batch below the minimum, so none may be stated.
    if (stated["epsilon_upper"] is None) != any_below_minimum(terms, history):
        raise CertificateError(
            "horizon: epsilon_upper must be null if a batch was below the minimum, and a number otherwise"
        )


def _check_beside(terms: Terms, history: Sequence[RoundCounts], content: Mapping[str, Any]) -> None:
    """Check the ε that are stated for the case that the numbers of valid reports are false."""
    latest = history[-1].queries
    groups = [(query.name, [query], stated) for query, stated in zip(latest, content["queries"], strict=True)]
    for where, queries, stated in [*groups, ("round_total", latest, content["round_total"])]:
        _check_reached(where, terms, [round_alone(terms, each) for each in queries], stated, ALONE)
        parts = [round_if_minimum(terms, each) for each in queries]
        _check_if_minimum(where, terms, parts, stated, claims_fewer(terms, queries))
    stated, fewer = content["all_rounds"], any(claims_fewer(terms, counts.queries) for counts in history)
    _check_reached("all_rounds", terms, rounds_alone(terms, history), stated, ALONE)
    _check_if_minimum("all_rounds", terms, rounds_if_minimum(terms, history), stated, fewer)
    if terms.horizon is not None:
        whole = horizon_alone(terms, [query.mechanism for query in latest], terms.horizon)
        _check_reached("horizon", terms, whole, content["horizon"], ALONE)
        _check_order("horizon", content["horizon"])


def _check_if_minimum(where: str, terms: Terms, parts: Sequence[Part], stated: Mapping[str, Any], fewer: bool) -> None:
    """Check the ε if the minimum is valid; it is null if, and only if, `fewer` valid reports are stated."""
    epsilon = stated[IF_MINIMUM_VALID]
    if (epsilon is None) != fewer:
        raise CertificateError(
            f"{where}: {IF_MINIMUM_VALID} must be null if fewer valid reports than the minimum are stated, "
            "and a number otherwise"
        )
    if epsilon is None:
        _check_attack(f"{where}, {IF_MINIMUM_VALID}", stated[lower_of(IF_MINIMUM_VALID)], None)
    else:
        _check_reached(where, terms, parts, stated, IF_MINIMUM_VALID)
    _check_order(where, stated)


def _check_order(where: str, stated: Mapping[str, Any]) -> None:
    """Check that an ε that rests on fewer claims is not the smaller one: a careful reader relies on it."""
    names = ("epsilon_upper", IF_MINIMUM_VALID, ALONE)
    numbers = [(name, stated[name]) for name in names if stated.get(name) is not None]
    for (name, number), (careful, other) in pairwise(numbers):
        if not other >= number:
            raise CertificateError(f"{where}: {careful} is {other}; it must be at least {name}, which is {number}")


def _check_reached(where: str, terms: Terms, parts: Sequence[Part], stated: Mapping[str, Any], member: str) -> None:
    """Check the ε of a member, and what an attack reaches under the same assumptions."""
    where, epsilon, lower = f"{where}, {member}", stated[member], stated[lower_of(member)]
    # The local ε is true for any batch, so there is nothing to compose.
    if epsilon >= local_of(parts) and lower is None:
        return
    if not nothing_hides(parts) and _is_shown(terms, parts, epsilon, lower):
        return
    reached, known = ends_of(terms, parts)
    if not reached <= epsilon:
        raise CertificateError(f"{where}: epsilon is stated as {epsilon}, but at least {reached:.6g} can be certified")
    _check_attack(where, lower, known)
