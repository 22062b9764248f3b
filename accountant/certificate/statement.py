"""Certificates: what a round really promises everyone in it, as numbers that anyone can recompute.

`statement` makes the numbers from what was counted; `check_statement` recomputes them from scratch and says what does
not hold. Signatures and canonical form are `protos.signed`'s business; `hubbub verify` joins the two.

What is stated, for one person whose reports are honest (δ is the task's, everywhere):
- per query: `epsilon_local` (holds even if both services collude) and `epsilon_upper` (of the shuffled batch, at
  the honest number of valid reports), each rounded up to 6 significant digits; `epsilon_lower`, rounded down: no valid
  ε lies below it (null where no attack is known);
- `round_total`: all queries of the round composed;
- `all_rounds`: all rounds so far composed, at the reports that came (`epsilon_upper`) and at the minimum that was fixed
  beforehand (`epsilon_upper_at_minimum`): the second holds even where how many came depends on earlier releases.
  `budget` is the task's cap on ε over all its rounds, null where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from hubbub.accountant.bounds import delta_bracket, epsilon_bracket
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.certificate.members import check_members
from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.errors import CertificateError as CertificateError
from hubbub.accountant.mechanisms import GAMMA_DENOMINATOR, KRR, LocalMechanism
from hubbub.accountant.numbers import honest_reports, round_up_significant
from hubbub.accountant.pairs import Part

CERTIFICATE_FORMAT = "hubbub-certificate/2"
"""The form of new certificates; `protos.forms` names those that are read."""

SIGNIFICANT_DIGITS = 6
"""Digits of the ε that are stored; the rounding is always to the safe side."""


class Promising(Protocol):
    """What promises privacy: a task, or a draft. The accountant imports neither and needs these two members only."""

    @property
    def minimum_reports(self) -> int:
        """Fewest reports a round is released with."""

    @property
    def privacy(self) -> object:
        """What has an attribute for each of the `Terms` but the minimum."""


@dataclass(frozen=True)
class Terms:
    """What a task promises: (ε, δ) for everything one person sends in a round, the cap on ε_local, who is honest, n.

    `dummies` uniform reports are in each query's batch beside those of people; `epsilon_total` caps ε at δ over all
    rounds of the task, None is no cap.
    """

    epsilon: float
    delta: float
    epsilon_local: float
    honest_share: float
    minimum_reports: int
    dummies: int = 0
    epsilon_total: float | None = None

    @classmethod
    def of(cls, task: Promising) -> Terms:
        """Take them from a task, or a draft of one."""
        names = ("epsilon", "delta", "epsilon_local", "honest_share", "dummies", "epsilon_total")
        return cls(minimum_reports=task.minimum_reports, **{name: getattr(task.privacy, name) for name in names})


@dataclass(frozen=True)
class QueryCount:
    """One query's batch: reports delivered, the valid ones, and the others by reason."""

    name: str
    mechanism: KRR
    reports: int
    valid: int
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class RoundCounts:
    """One round's batches, in the task's order of queries."""

    round: int
    queries: tuple[QueryCount, ...]


def check_minimum(terms: Terms, mechanisms: Sequence[KRR]) -> None:
    """Return only if a round at the minimum gives everyone the (ε, δ) and the ε_local that the task promises.

    Raises:
        AccountingError: with what is reached, what was promised, and what to change.
    """
    local = _local_sum(mechanisms)
    if not local <= terms.epsilon_local:
        raise AccountingError(
            f"the queries' epsilon_local add up to {local:.6g}, the cap is {terms.epsilon_local:g}; "
            "raise gamma or minimum_reports, or the cap"
        )
    reached = compose(parts_at_minimum(terms, mechanisms), terms.delta).epsilon_upper
    if not reached <= terms.epsilon:
        raise AccountingError(
            f"at minimum_reports = {terms.minimum_reports} a round is ({reached:.6g}, {terms.delta:g})-private, "
            f"({terms.epsilon:g}, {terms.delta:g}) is promised; raise minimum_reports or gamma"
        )
    if terms.epsilon_total is not None and reached > terms.epsilon_total:
        raise AccountingError(
            f"one round spends epsilon {reached:.6g} at delta {terms.delta:g}, epsilon_total is "
            f"{terms.epsilon_total:g}: not even the first would be released; raise it, or lower epsilon"
        )


def parts_at_minimum(terms: Terms, mechanisms: Sequence[KRR]) -> tuple[Part, ...]:
    """Each query of one round, at the honest share of the minimum reports: what a round costs at most, fixed before."""
    honest = honest_reports(terms.minimum_reports, terms.minimum_reports, terms.honest_share)
    return tuple(Part(mechanism, max(1, honest), dummies=terms.dummies) for mechanism in mechanisms)


def statement(terms: Terms, history: Sequence[RoundCounts]) -> dict[str, Any]:
    """Return the certificate's numbers for the last round of `history`, all rounds so far in order, as JSON members.

    Raises:
        AccountingError: where the counts are impossible.
    """
    latest = history[-1]
    return {
        "all_rounds": _all_rounds(terms, history),
        "honest_share": terms.honest_share,
        "queries": [_query(terms, query) for query in latest.queries],
        "round_total": _total(terms, [_part(terms, query) for query in latest.queries]),
    }


def _honest(terms: Terms, query: QueryCount) -> int:
    return honest_reports(query.valid, query.reports, terms.honest_share)


def _part(terms: Terms, query: QueryCount) -> Part:
    # A person without any other honest report still has the local guarantee, which is what one report gives.
    return Part(query.mechanism, max(1, _honest(terms, query)), dummies=terms.dummies)


def _part_at_minimum(terms: Terms, query: QueryCount) -> Part:
    least = honest_reports(terms.minimum_reports, terms.minimum_reports, terms.honest_share)
    return Part(query.mechanism, max(1, min(least, _honest(terms, query))), dummies=terms.dummies)


def _query(terms: Terms, query: QueryCount) -> dict[str, Any]:
    part = _part(terms, query)
    bracket = _bracket(part, terms.delta)
    gamma = query.mechanism.gamma * GAMMA_DENOMINATOR
    if gamma.denominator != 1:
        raise AccountingError(f"gamma of {query.name} is not a multiple of 1/{GAMMA_DENOMINATOR}; a task's always is")
    return {
        **_counts(terms, query),
        "bound": bracket.bound,
        "categories": query.mechanism.categories,
        "delta": terms.delta,
        "dummies": terms.dummies,
        "epsilon_local": round_up_significant(query.mechanism.epsilon_local, SIGNIFICANT_DIGITS),
        "epsilon_lower": _round_down(bracket.epsilon_lower),
        "epsilon_upper": round_up_significant(bracket.epsilon_upper, SIGNIFICANT_DIGITS),
        "gamma": [gamma.numerator, GAMMA_DENOMINATOR],
        "left_out": dict(query.left_out),
        "mechanism": "krr",
        "name": query.name,
        "numerical_slack": bracket.numerical_slack,
        "source": bracket.source,
        "state": "published" if query.valid >= terms.minimum_reports else "withheld",
    }


def _bracket(part: Part, delta: float) -> EpsilonBracket:
    return epsilon_bracket(part.mechanism, part.reports, delta, dummies=part.dummies)


def _counts(terms: Terms, query: QueryCount) -> dict[str, int]:
    return {"honest_reports": _honest(terms, query), "reports": query.reports, "valid": query.valid}


def _round_down(value: float | None) -> float | None:
    if value is None or value <= 0:
        return None
    rounded = float(Context(prec=SIGNIFICANT_DIGITS, rounding=ROUND_FLOOR).create_decimal(Decimal(value)))
    return rounded if rounded <= value else math.nextafter(value, 0.0)


def _local_sum(mechanisms: Sequence[LocalMechanism]) -> float:
    """Σ ε_local, never below the exact sum."""
    total = sum((Fraction(mechanism.epsilon_local) for mechanism in mechanisms), Fraction(0))
    result = float(total)
    return result if Fraction(result) >= total else math.nextafter(result, math.inf)


@lru_cache(maxsize=32)
def _composed(parts: tuple[Part, ...], delta: float) -> EpsilonBracket:
    """Compose, once for what a certificate states several times: a first round is also all rounds so far."""
    return compose(parts, delta)


def _total(terms: Terms, parts: Sequence[Part]) -> dict[str, Any]:
    composed = _composed(_merged(parts), terms.delta)
    return {
        "bound": composed.bound,
        "delta": terms.delta,
        "epsilon_local": round_up_significant(_local_of(parts), SIGNIFICANT_DIGITS),
        "epsilon_lower": _round_down(composed.epsilon_lower),
        "epsilon_upper": round_up_significant(_covering(parts, composed), SIGNIFICANT_DIGITS),
        "source": composed.source,
    }


def _covering(parts: Sequence[Part], composed: EpsilonBracket) -> float:
    return min(composed.epsilon_upper, _local_of(parts))


def _local_of(parts: Sequence[Part]) -> float:
    return _local_sum([part.mechanism for part in parts for _ in range(part.rounds)])


def _merged(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Equal parts as one with more rounds: the same composition, cheaper."""
    rounds: dict[Part, int] = {}
    for part in parts:
        single = Part(part.mechanism, part.reports, dummies=part.dummies)
        rounds[single] = rounds.get(single, 0) + part.rounds
    return tuple(Part(part.mechanism, part.reports, count, part.dummies) for part, count in rounds.items())


def _all_rounds(terms: Terms, history: Sequence[RoundCounts]) -> dict[str, Any]:
    queries = [query for counts in history for query in counts.queries]
    total = _total(terms, [_part(terms, query) for query in queries])
    minimum = _total(terms, [_part_at_minimum(terms, query) for query in queries])
    return {
        "bound": total["bound"],
        "budget": terms.epsilon_total,
        "delta": terms.delta,
        "epsilon_local": total["epsilon_local"],
        "epsilon_upper": total["epsilon_upper"],
        "epsilon_upper_at_minimum": max(minimum["epsilon_upper"], total["epsilon_upper"]),
        "history": [
            {"queries": [_counts(terms, query) for query in counts.queries], "round": counts.round}
            for counts in history
        ],
        "source": total["source"],
    }


# Checking


def check_statement(terms: Terms, queries: Sequence[tuple[str, KRR]], content: Mapping[str, Any]) -> None:
    """Return only if every number of a statement holds for a task of those `terms` and `queries` (name, mechanism).

    Each stored ε is checked by the bound itself, at ε or at δ; nothing is compared for equality but counts and names.

    Raises:
        CertificateError: naming the first member that does not hold.
    """
    try:
        check_members(content)
        history = _read_history(queries, content)
        _check_members(terms, history, content)
        for query, stated in zip(history[-1].queries, content["queries"], strict=True):
            _check_query(terms, query, stated)
        _check_total(
            terms, [_part(terms, query) for query in history[-1].queries], content["round_total"], "round_total"
        )
        _check_all_rounds(terms, history, content["all_rounds"])
    except CertificateError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise CertificateError(f"the certificate is not of {CERTIFICATE_FORMAT}: {error!r}") from error


def _read_history(queries: Sequence[tuple[str, KRR]], content: Mapping[str, Any]) -> list[RoundCounts]:
    history = []
    for entry in content["all_rounds"]["history"]:
        if len(entry["queries"]) != len(queries):
            raise CertificateError(
                f"round {entry['round']} counts {len(entry['queries'])} queries, the task {len(queries)}"
            )
        counts = [
            QueryCount(name, mechanism, _count(stated["reports"]), _count(stated["valid"]), {})
            for (name, mechanism), stated in zip(queries, entry["queries"], strict=True)
        ]
        history.append(RoundCounts(_count(entry["round"]), tuple(counts)))
    rounds = [counts.round for counts in history]
    if rounds != sorted(set(rounds)) or rounds[-1:] != [content["round"]]:
        raise CertificateError(
            f"the rounds so far are {rounds}; they must rise and end with round {shown(content['round'])}"
        )
    return history


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise CertificateError(f"a count is {shown(value)}; it must be a whole number")
    return value


def _check_members(terms: Terms, history: Sequence[RoundCounts], content: Mapping[str, Any]) -> None:
    share = content["honest_share"]
    if share != terms.honest_share or type(share) is not float:
        raise CertificateError(f"honest_share is {shown(share)}, the task says {terms.honest_share}")
    for entry, counts in zip(content["all_rounds"]["history"], history, strict=True):
        for query, stated in zip(counts.queries, entry["queries"], strict=True):
            _check_equal(f"round {counts.round}, {query.name}", _counts(terms, query), stated)


def _check_equal(where: str, expected: Mapping[str, Any], stated: Mapping[str, Any]) -> None:
    for name, value in expected.items():
        if stated[name] != value or type(stated[name]) is not type(value):
            raise CertificateError(f"{where}: {name} is {shown(stated[name])}, it must be {value!r}")


def _check_query(terms: Terms, query: QueryCount, stated: Mapping[str, Any]) -> None:
    left_out = {reason: _count(count) for reason, count in stated["left_out"].items()}
    gamma = query.mechanism.gamma * GAMMA_DENOMINATOR
    expected = {
        **_counts(terms, query),
        "categories": query.mechanism.categories,
        "delta": terms.delta,
        "dummies": terms.dummies,
        "gamma": [gamma.numerator, GAMMA_DENOMINATOR],
        "mechanism": "krr",
        "name": query.name,
        "state": "published" if query.valid >= terms.minimum_reports else "withheld",
    }
    _check_equal(query.name, expected, stated)
    if sum(left_out.values()) != query.reports - query.valid:
        raise CertificateError(f"{query.name}: {query.reports} reports are not {query.valid} valid and those left out")
    part = _part(terms, query)
    _check_local(query.name, [part], stated)
    _check_upper(query.name, terms, part, stated["epsilon_upper"])
    _check_lower(query.name, terms, part, stated["epsilon_lower"], stated["epsilon_upper"])


def _check_local(where: str, parts: Sequence[Part], stated: Mapping[str, Any]) -> None:
    if not stated["epsilon_local"] >= _local_of(parts):
        raise CertificateError(
            f"{where}: epsilon_local is {stated['epsilon_local']}, it is at least {_local_of(parts)}"
        )


def _check_upper(where: str, terms: Terms, part: Part, epsilon: float) -> None:
    if epsilon >= part.mechanism.epsilon_local:
        return
    reached = delta_bracket(part.mechanism, part.reports, epsilon, dummies=part.dummies).delta_upper
    # Within the slack of that evaluation the search for ε, which evaluates more finely, decides.
    if reached > terms.delta and _bracket(part, terms.delta).epsilon_upper > epsilon:
        raise CertificateError(
            f"{where}: at epsilon_upper = {epsilon} delta is bounded by {reached:.6g} only, {terms.delta:g} is stated"
        )


def _check_lower(where: str, terms: Terms, part: Part, lower: float | None, upper: float) -> None:
    if lower is None:
        return
    if not 0 < lower <= upper:
        raise CertificateError(f"{where}: epsilon_lower is {lower}, it must be above 0 and at most {upper}")
    attained = delta_bracket(part.mechanism, part.reports, lower, dummies=part.dummies).delta_lower
    if attained is None or not (attained >= terms.delta or _lower_found(part, terms.delta) >= lower):
        raise CertificateError(f"{where}: no attack known here shows that epsilon is at least {lower}")


def _lower_found(part: Part, delta: float) -> float:
    """The ε below which the search finds none; it evaluates more finely than one bracket of δ does."""
    return _bracket(part, delta).epsilon_lower or 0.0


def _check_total(terms: Terms, parts: Sequence[Part], stated: Mapping[str, Any], where: str) -> None:
    composed = _composed(_merged(parts), terms.delta)
    _check_equal(where, {"bound": composed.bound, "delta": terms.delta, "source": composed.source}, stated)
    _check_local(where, parts, stated)
    _check_composed(where, terms, parts, stated["epsilon_upper"])
    lower = stated["epsilon_lower"]
    if lower is not None:
        known = composed.epsilon_lower
        if known is None or not 0 < lower <= known:
            raise CertificateError(f"{where}: no attack known here shows that epsilon is at least {lower}")


def _check_composed(where: str, terms: Terms, parts: Sequence[Part], epsilon: float) -> None:
    reached = _covering(parts, _composed(_merged(parts), terms.delta))
    if not reached <= epsilon:
        raise CertificateError(f"{where}: the epsilon stated is {epsilon}, {reached:.6g} is what can be certified")


def _check_all_rounds(terms: Terms, history: Sequence[RoundCounts], stated: Mapping[str, Any]) -> None:
    queries = [query for counts in history for query in counts.queries]
    parts = [_part(terms, query) for query in queries]
    at_minimum = [_part_at_minimum(terms, query) for query in queries]
    composed = _composed(_merged(parts), terms.delta)
    expected = {"budget": terms.epsilon_total, "delta": terms.delta}
    _check_equal("all_rounds", {**expected, "bound": composed.bound, "source": composed.source}, stated)
    _check_local("all_rounds", parts, stated)
    _check_composed("all_rounds", terms, parts, stated["epsilon_upper"])
    _check_composed("all_rounds at the minimum", terms, at_minimum, stated["epsilon_upper_at_minimum"])
