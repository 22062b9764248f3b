"""Cases of `million.py` about certificates: every ε of a statement against the exact composition of its small batches.

A statement is made from generated batches, and accepted. None of its ε may be below the truth. Then one at a time is
stated as too small, a millionth below the exact one, and the check must refuse it.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from typing import Any

from loop.adaptive_cases import Choices, Game
from loop.found import Claims
from loop.over_rounds_cases import law_of_noise, numerator

from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.ladder import ALONE, AT_MINIMUM, IF_MINIMUM_VALID, lower_of
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.errors import CertificateError
from hubbub.accountant.mechanisms import KRR, RAPPOR, Finite, Hashed, LocalMechanism, WithNoise, exp_decimal
from hubbub.accountant.numbers import round_down_significant
from support.exact_batches import Law, batch_view
from support.noise_views import released

TWO_TO_32 = 2**32

MOST_LEAVES = 3000
"""Most ends of a composition: each ε that is stated as too small is searched for by some thirty evaluations."""

DELTAS = (1e-100, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.99)

UPPER = "epsilon_upper"

NEAR = Fraction(1, 10**9)
"""A lower end is rounded down, and its δ is compared just below it."""


@dataclass(frozen=True)
class Batch:
    """What of a batch an ε rests on: its honest people, and the uniform dummies beside them."""

    mechanism: LocalMechanism
    people: int
    dummies: int


@dataclass(frozen=True)
class Stated:
    """An ε of a statement: where it is, and the batches that it is of."""

    place: tuple[str | int, ...]
    member: str
    batches: tuple[Batch, ...]

    def of(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the members beside it."""
        found: Any = content
        for step in self.place:
            found = found[step]
        assert isinstance(found, dict)
        return found


def _mechanism(draw: random.Random) -> LocalMechanism:
    kind = draw.choice(("krr", "krr", "krr", "rappor", "hashed", "finite", "noise", "noise"))
    if kind == "rappor":
        truthful = max(2, numerator(draw))
        return RAPPOR.from_numerators(2, truthful, draw.randint(1, truthful - 1))
    if kind == "hashed":
        return Hashed.from_numerator(3, 1, numerator(draw))
    if kind == "finite":
        whole = 64
        rows = [draw.randint(1, whole - 1) for _ in range(2)]
        law = tuple((Fraction(each, whole), Fraction(whole - each, whole)) for each in rows)
        return Finite(law, dummy=law[0])
    krr = KRR.from_numerator(draw.choice((2, 2, 3)), draw.choice((1, TWO_TO_32 - 1, numerator(draw), numerator(draw))))
    return WithNoise(krr, law_of_noise(draw, 2 if krr.categories == 2 else 1)) if kind == "noise" else krr


def _laws(mechanism: LocalMechanism) -> list[Law]:
    if isinstance(mechanism, Hashed):
        return [mechanism.law((place,)) for place in range(mechanism.cells)]
    if isinstance(mechanism, Finite):
        return list(mechanism.law)
    assert isinstance(mechanism, KRR | RAPPOR)
    return [mechanism.law(x) for x in range(mechanism.categories)]


@lru_cache(maxsize=256)
def _choices(batch: Batch) -> Choices:
    """Return the views of every data set of a batch, for any two answers of the victim."""
    noisy = batch.mechanism if isinstance(batch.mechanism, WithNoise) else None
    laws = _laws(noisy.randomizer if noisy is not None else batch.mechanism)
    dummy = _dummy(batch.mechanism, laws)
    pairs = []
    for others in combinations_with_replacement(laws, batch.people - 1):
        held = [*others, *[dummy] * batch.dummies]
        for two in combinations(laws, 2):
            views = [released(noisy, [law, *held]) if noisy else batch_view((law, *held)) for law in two]
            pairs.append((views[0], views[1]))
    return Choices.of(pairs)


def _dummy(mechanism: LocalMechanism, laws: Sequence[Law]) -> Law:
    if isinstance(mechanism, Finite):
        assert mechanism.dummy is not None
        return mechanism.dummy
    # Uniform, or a report of a uniform answer: that is the same for kRR and for cells.
    return tuple(sum(column) / len(laws) for column in zip(*laws, strict=True))


def _drawn(draw: random.Random) -> tuple[Terms, list[RoundCounts]]:
    """Draw a task's terms, and the counts of its rounds."""
    mechanisms = [_mechanism(draw) for _ in range(draw.choice((1, 1, 2)))]
    terms = Terms(
        50.0,
        draw.choice(DELTAS),
        100.0,
        draw.choice((1.0, 1.0, 0.75, 0.5)),
        draw.randint(1, 3),
        draw.choice((0, 0, 1, 2)),
    )
    rounds = []
    for number in range(draw.choice((1, 1, 2))):
        queries = []
        for place, mechanism in enumerate(mechanisms):
            reports = draw.choice((0, 1, 1, 2, 2, 3, 4))
            valid = draw.choice((reports, reports, draw.randint(0, reports)))
            left_out = {"unopenable": reports - valid} if valid < reports else {}
            queries.append(QueryCount(f"q{place}", mechanism, reports, valid, left_out))
        rounds.append(RoundCounts(number, tuple(queries)))
    return terms, rounds


def _less(valid: int, reports: int, share: float) -> int:
    """Return how many of the valid reports are surely honest."""
    return max(0, valid - math.ceil((1 - Fraction(share)) * reports))


def _batch(terms: Terms, query: QueryCount, people: int) -> Batch:
    counts = query.mechanism.counts_dummies and not isinstance(query.mechanism, WithNoise)
    return Batch(query.mechanism, max(1, people), terms.dummies if counts else 0)


def _stated(terms: Terms, history: Sequence[RoundCounts]) -> Iterator[Stated]:
    """Yield every upper ε of a statement with its batches."""
    share, least = terms.honest_share, terms.minimum_reports

    def at(query: QueryCount, rule: str) -> Batch:
        came = _less(query.valid, query.reports, share)
        people = {
            UPPER: came,
            IF_MINIMUM_VALID: _less(min(least, query.reports), query.reports, share),
            ALONE: 1,
            AT_MINIMUM: min(_less(least, least, share), came),
        }
        return _batch(terms, query, people[rule])

    latest = history[-1].queries
    whole = [query for counts in history for query in counts.queries]
    for member in (UPPER, IF_MINIMUM_VALID, ALONE):
        yield from (Stated(("queries", place), member, (at(query, member),)) for place, query in enumerate(latest))
        yield Stated(("round_total",), member, tuple(at(query, member) for query in latest))
        yield Stated(("all_rounds",), member, tuple(at(query, member) for query in whole))
    yield Stated(("all_rounds",), AT_MINIMUM, tuple(at(query, AT_MINIMUM) for query in whole))


def certificates(draw: random.Random, claims: Claims) -> None:
    """Draw batches, make their statement, and claim every ε of it, and that smaller ones are refused."""
    while True:
        terms, history = _drawn(draw)
        every = list(_stated(terms, history))
        games = {each.batches: Game(tuple(map(_choices, each.batches))) for each in every}
        if max(math.prod(choice.leaves for choice in game.rounds) for game in games.values()) <= MOST_LEAVES:
            break
    queries = [(query.name, query.mechanism) for query in history[-1].queries]
    content = {**json.loads(json.dumps(statement(terms, history))), "round": history[-1].round}
    claims.holds("accepted", _is_accepted(terms, queries, content), f"{terms}, {history}: the statement is refused")
    for each in every:
        _claim(claims, terms, queries, content, each, games[each.batches])
    _claim_local(claims, terms, queries, content)


Queries = list[tuple[str, LocalMechanism]]


def _claim(claims: Claims, terms: Terms, queries: Queries, content: dict[str, Any], stated: Stated, game: Game) -> None:
    """Claim one ε, the attack beside it, and that a smaller one is refused."""
    members, delta, words = stated.of(content), Fraction(terms.delta), f"{terms}, {stated}"
    epsilon = members[stated.member]
    if epsilon is None:
        return
    claims.above(stated.member, terms.delta, game.delta(epsilon), f"at epsilon {epsilon!r}: {words}")
    lower = members[lower_of(stated.member)]
    if lower is not None and all(isinstance(each.mechanism, KRR | RAPPOR | Finite) for each in stated.batches):
        reached = game.delta(lower * float(1 - NEAR)) * (1 + NEAR)
        claims.holds(lower_of(stated.member), reached >= delta, f"{lower!r} is not reached: {words}")
    false = round_down_significant(_exact_epsilon(game, delta, epsilon) * (1 - 1e-6))
    if false <= 0 or game.delta(false) <= delta:
        return
    lie = copy.deepcopy(content)
    # No attack need be stated; a stated one above the ε would be refused for that.
    stated.of(lie).update({stated.member: false, lower_of(stated.member): None})
    claims.holds("refused", not _is_accepted(terms, queries, lie), f"{false!r} is accepted for {epsilon!r}: {words}")


def _exact_epsilon(game: Game, delta: Fraction, most: float) -> float:
    """Return an ε that is just below the exact one, or 0."""
    low, high = 0.0, most
    if game.delta(0.0) <= delta:
        return 0.0
    for _ in range(34):
        middle = (low + high) / 2
        low, high = (middle, high) if game.delta(middle) > delta else (low, middle)
    return low


def _claim_local(claims: Claims, terms: Terms, queries: Queries, content: dict[str, Any]) -> None:
    """Claim the local ε of each query, against the law's largest ratio, and that a smaller one is refused."""
    for place, (_, mechanism) in enumerate(queries):
        laws = _laws(mechanism.randomizer if isinstance(mechanism, WithNoise) else mechanism)
        ratio = max(max(column) / min(column) for column in zip(*laws, strict=True))
        local = content["queries"][place]["epsilon_local"]
        grown = Fraction(exp_decimal(local))
        claims.holds("epsilon_local", grown >= ratio, f"{local!r} is below {float(ratio)!r} of {mechanism}")
        if ratio > 1:
            lie = copy.deepcopy(content)
            lie["queries"][place]["epsilon_local"] = local * (1 - 1e-5)
            refused = not _is_accepted(terms, queries, lie)
            claims.holds("refused", refused, f"a local epsilon below {local!r} is accepted of {mechanism}")


def _is_accepted(terms: Terms, queries: Queries, content: dict[str, Any]) -> bool:
    try:
        check_statement(terms, queries, content)
    except CertificateError:
        return False
    return True
