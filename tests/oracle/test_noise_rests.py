"""What rests on noise of the shuffler: certificates, ledgers, forecasts, Rényi divergences and exported losses."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import inf, log
from typing import Any

import pytest

from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID, lower_of
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import CertificateError
from hubbub.accountant.library.dp_accounting import to_dp_accounting
from hubbub.accountant.mechanisms import KRR, Hashed, LocalMechanism, NoiseLaw, WithNoise
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.renyi import rdp_upper
from hubbub.accountant.spending.budget import forecast, round_entries
from hubbub.accountant.spending.entry import LedgerBroken, LedgerEntry
from hubbub.accountant.spending.ledger import BudgetExceeded, Ledger
from support.noise_pairs import pair_of, product_divergence
from support.noise_views import constant, divergence, released
from support.thoroughness import spread

pytestmark = pytest.mark.usefixtures("composed_once")

HALF, BELL = NoiseLaw("geometric", 2**31, 3), NoiseLaw("gaussian", 3 * 2**31, 3)
TWO, THREE = WithNoise(KRR.from_numerator(2, 2**25), HALF), WithNoise(KRR.from_numerator(3, 2**28), BELL)
NOISY = WithNoise(KRR.from_numerator(16, 22937084), NoiseLaw.of("geometric", Fraction(3, 5), 27))
HASHED = WithNoise(Hashed.from_numerator(16, 4, 2**22), NOISY.noise)
PLAIN = KRR.from_numerator(16, 2**30)

TERMS = Terms(50.0, 1e-6, 50.0, 0.9, 500, epsilon_total=100.0)

Queries = list[tuple[str, LocalMechanism]]

ONE: Queries = [("noisy", NOISY)]
SEVERAL: Queries = [("noisy", NOISY), ("hashed", HASHED), ("plain", PLAIN)]


def counted(queries: Queries, number: int, valid: int = 590) -> RoundCounts:
    return RoundCounts(
        number,
        tuple(
            QueryCount(
                name, mechanism, 600, valid, {"unopenable": 600 - valid}, noise=430 * isinstance(mechanism, WithNoise)
            )
            for name, mechanism in queries
        ),
    )


def certificate(terms: Terms, queries: Queries, rounds: int = 1, valid: int = 590) -> dict[str, Any]:
    history = [counted(queries, number, valid) for number in range(rounds)]
    return {**statement(terms, history), "round": rounds - 1}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", [NOISY, HASHED, TWO])
@pytest.mark.parametrize("valid", [590, 400, 0])
def test_a_statement_with_noise_holds_when_it_is_recomputed(mechanism: WithNoise, valid: int) -> None:
    queries: Queries = [("noisy", mechanism)]
    check_statement(TERMS, queries, certificate(TERMS, queries, valid=valid))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("terms", spread([TERMS, replace(TERMS, horizon=3), replace(TERMS, honest_share=1.0)], 2))
def test_a_statement_of_several_queries_and_rounds_holds(terms: Terms) -> None:
    content = certificate(terms, SEVERAL, rounds=2)
    check_statement(terms, SEVERAL, content)
    for total in (content["round_total"], content["all_rounds"]):
        assert total["epsilon_upper"] <= total[IF_MINIMUM_VALID] <= total[ALONE] < total["epsilon_local"]


def leaves(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value of a certificate and where it is."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from leaves(value, (*path, key))
    else:
        yield path, content


def changed(content: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found = copy.deepcopy(content)
    place: Any = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return found


def wrong_values(path: tuple[Any, ...], value: Any) -> list[Any]:
    """Values that a reader must not accept: a smaller ε, a larger lower end, and any other count or name."""
    if path[-1] == "dummies":
        # What the shuffler drew is compared with its signed record; no ε depends on it.
        return [float(value), -1, None]
    if isinstance(value, bool) or value is None:
        return [1.0]
    if isinstance(value, str):
        return [value + "x"]
    if isinstance(value, int):
        return [value + 1, value - 1, float(value)]
    return [value * (1.01 if is_lower(path) else 0.99), float("nan"), None]


def is_lower(path: tuple[Any, ...]) -> bool:
    """Whether a member is the ε that an attack reaches."""
    return str(path[-1]).startswith("epsilon_lower")


def test_every_changed_number_is_refused() -> None:
    content = certificate(TERMS, ONE)
    check_statement(TERMS, ONE, content)
    accepted = []
    for path, value in leaves(content):
        for other in wrong_values(path, value):
            # A lower end may be left out, as a smaller one may be stated.
            if is_lower(path) and other is None:
                continue
            try:
                check_statement(TERMS, ONE, changed(content, path, other))
            except CertificateError:
                continue
            accepted.append((path, value, other))
    assert accepted == []


@pytest.mark.parametrize("law", [replace(NOISY.noise, reach=26), replace(NOISY.noise, parameter=2**31), None])
def test_another_law_or_none_is_refused(law: NoiseLaw | None) -> None:
    other: LocalMechanism = NOISY.randomizer if law is None else WithNoise(PLAIN, law)
    with pytest.raises(CertificateError):
        check_statement(TERMS, [("noisy", other)], certificate(TERMS, ONE))


@pytest.mark.parametrize("mechanism", [TWO, THREE])
def test_what_is_attested_holds_beside_liars_alone(mechanism: WithNoise) -> None:
    """Nobody else's report is valid: then the pair is what is seen, exactly so for two symbols."""
    terms = Terms(50.0, 0.05, 50.0, 1.0, 20)
    queries: Queries = [("q", mechanism)]
    content = certificate(terms, queries, rounds=2)
    check_statement(terms, queries, content)
    pair = pair_of(mechanism)
    for rounds, where in ((1, content["queries"][0]), (1, content["round_total"]), (2, content["all_rounds"])):
        assert product_divergence([pair] * rounds, where[ALONE]) <= Fraction(terms.delta)
    one = content["queries"][0][ALONE]
    assert product_divergence([pair], 0.99 * one) > Fraction(terms.delta)


def test_a_charge_with_noise_is_read_as_it_was_written() -> None:
    entries = round_entries(TERMS, "flights", 1, [("noisy", NOISY), ("hashed", HASHED)])
    assert [entry.part.mechanism for entry in entries] == [NOISY, HASHED]
    for entry in entries:
        text = entry.canonical()
        assert LedgerEntry.from_canonical(text) == entry
        for old, new in (
            ('"reach":27', '"reach":28'),
            ('"reach":27', '"reach":"27"'),
            ('"reach":27', '"reach":27,"x":1'),
            ('"family":"geometric"', '"family":"gaussian"'),
            ('"mechanism":"with-noise",', ""),
        ):
            assert old in text
            broken = text.replace(old, new)
            try:
                assert LedgerEntry.from_canonical(broken) != entry
            except LedgerBroken:
                continue
    # Nothing exceeds an infinite budget, so nothing is composed.
    charged = Ledger("flights", inf, 1e-6).charge(entries)
    read = Ledger.from_records("flights", 100.0, 1e-6, charged.records())
    assert read.entries == tuple(entries)
    text, digest = charged.records()[0]
    with pytest.raises(LedgerBroken):
        Ledger.from_records("flights", 100.0, 1e-6, [(text.replace('"reach":27', '"reach":28'), digest)])
    assert json.loads(text)["mechanism"] == NOISY.content()


def test_a_budget_pays_for_as_many_rounds_as_compose_within_it() -> None:
    terms = replace(TERMS, epsilon_total=3.0)
    found = forecast(terms, [NOISY], 12)
    assert found.epsilon_of_one == compose_upper([Part(NOISY, 450)], 1e-6)
    # By the noise alone: of a person beside whom nobody's report is valid, in one round and in all.
    assert found.alone_of_one is not None
    assert found.alone_of_all is not None
    assert found.alone_of_one == pytest.approx(compose_upper([Part(NOISY, 1)], 1e-6), rel=1e-5)
    assert found.alone_of_all == pytest.approx(compose_upper([Part(NOISY, 1, 12)], 1e-6), rel=1e-5)
    assert found.alone_of_one >= compose_upper([Part(NOISY, 1)], 1e-6)
    assert found.alone_of_all >= compose_upper([Part(NOISY, 1, 12)], 1e-6)
    assert compose_upper([Part(NOISY, 450, found.within)], 1e-6) <= 3.0
    assert compose_upper([Part(NOISY, 450, found.within + 1)], 1e-6) > 3.0
    ledger = Ledger("flights", 3.0, 1e-6)
    for number in range(found.within):
        ledger = ledger.charge(round_entries(terms, "flights", number, ONE))
    assert ledger.epsilon_spent() == pytest.approx(compose_upper([Part(NOISY, 450, found.within)], 1e-6), rel=1e-9)
    with pytest.raises(BudgetExceeded):
        ledger.charge(round_entries(terms, "flights", found.within, ONE))


@pytest.mark.parametrize("order", [2, 3, 7])
@pytest.mark.parametrize("mechanism", [TWO, THREE, WithNoise(KRR(2, Fraction(1, 2)), BELL)])
def test_the_renyi_divergence_is_that_of_the_exact_pair(mechanism: WithNoise, order: int) -> None:
    moment = sum((p**order / q ** (order - 1) for p, q in pair_of(mechanism)), Fraction(0))
    truth = log(moment) / (order - 1)
    assert truth <= rdp_upper(mechanism, 1, order) <= truth * (1 + 1e-5)


@pytest.mark.parametrize("mechanism", [TWO, THREE])
def test_exported_losses_are_never_below_the_exact_divergence(mechanism: WithNoise) -> None:
    pair = pair_of(mechanism)
    for rounds in (1, 2):
        exported = to_dp_accounting(Part(mechanism, 40, rounds), 1e-3)
        for share in (0.0, 0.05, 0.3, 0.9):
            epsilon = share * rounds * mechanism.epsilon_local
            truth = float(product_divergence([pair] * rounds, epsilon))
            found = exported.get_delta_for_epsilon(epsilon)
            # The ends of the law may be exported as an infinite loss.
            assert truth * (1 - 1e-9) <= found <= 1.1 * truth + 0.1


@pytest.mark.parametrize("delta", [0.003, 0.05])
@pytest.mark.parametrize(
    ("categories", "numerator", "law"), [(2, 2**25, HALF), (2, 2**31, BELL), (3, 2**26, HALF), (3, 2**31, BELL)]
)
def test_both_ends_that_are_stated_of_one_person_alone_are_true_of_what_is_released(
    categories: int, numerator: int, law: NoiseLaw, delta: float
) -> None:
    """Everybody else is known, and so are the draws of all shufflers of a chain but one: none, or any number."""
    mechanism = WithNoise(KRR.from_numerator(categories, numerator), law)
    stated = certificate(replace(TERMS, delta=delta, honest_share=1.0), [("asked", mechanism)])["queries"][0]
    known = [constant(symbol, categories) for symbol in (0, 0, 1)]
    answers = [mechanism.krr.law(x) for x in (0, 1)]
    for beside in ([], known):
        first, second = (released(mechanism, [*beside, law_of_report]) for law_of_report in answers)
        for view in ((first, second), (second, first)):
            assert divergence(*view, stated[ALONE]) <= Fraction(delta)
        if stated[lower_of(ALONE)] is not None:
            assert divergence(first, second, stated[lower_of(ALONE)]) >= Fraction(delta)
    assert stated[lower_of(ALONE)] is not None or stated[ALONE] == 0
