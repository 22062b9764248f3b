"""The proof mode proves what the fast path certifies and refuses what is false: two routes that share no evaluation."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic, Laplace, LocalMechanism
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.rigorous.balls import ball, precision, written
from hubbub.accountant.rigorous.blanket import blanket_delta
from hubbub.accountant.rigorous.proof import NotProvenError
from hubbub.accountant.rigorous.prove import LOOSER, prove, prove_local
from hubbub.accountant.rigorous.statement import claims
from hubbub.accountant.rigorous.two_rr import Effort, two_rr_delta
from support.thoroughness import thinned

quick = settings(deadline=None, max_examples=25)


def certified(mechanism: KRR, reports: int, delta: float, dummies: int = 0) -> float:
    """The ε that a certificate states: rounded up to six digits."""
    return round_up_significant(epsilon_bracket(mechanism, reports, delta, dummies=dummies).epsilon_upper)


def drawn(categories: int, epsilon_local: float) -> KRR:
    """As a task fixes it: γ is a whole number over 2**32, rounded up."""
    gamma = KRR.from_local_epsilon(categories, epsilon_local).gamma
    return KRR.from_numerator(categories, min(2**32, int(gamma * 2**32) + 1))


def scale_of(delta: float) -> Fraction:
    """About `delta`, in the range of what can be asked about."""
    return Fraction(min(max(delta, 1e-80), 0.5))


SAMPLE = [
    (categories, epsilon_local, reports, delta)
    for categories in (2, 3, 16, 10**4)
    for epsilon_local in (0.05, 2.0, 8.0, 20.0)
    for reports in (1, 2, 30, 500)
    for delta in (0.2, 1e-6, 1e-15)
]


@pytest.mark.parametrize(("categories", "epsilon_local", "reports", "delta"), thinned(SAMPLE, 17))
def test_what_the_fast_path_certifies_is_proven_at_the_very_epsilon(
    categories: int, epsilon_local: float, reports: int, delta: float
) -> None:
    mechanism = drawn(categories, epsilon_local)
    stated = certified(mechanism, reports, delta)
    found = prove(mechanism, reports, stated, delta)
    assert (found.stated, found.epsilon, found.delta) == (written(stated), written(stated), written(delta))


MILLION = [
    # Those of two categories take ten seconds or more: `test_a_looser_proof_says_which_epsilon_it_proved` has fewer.
    pytest.param(*(delta, categories, epsilon_local), marks=[pytest.mark.exhaustive] if categories == 2 else [])
    for delta in (1e-6, 1e-15)
    for categories, epsilon_local in [(2, 4.0), (2, 0.5), (3, 1.0), (16, 4.0), (10**6, 4.0), (4, 12.0)]
]


@pytest.mark.sampled("1e-06")
@pytest.mark.parametrize(("delta", "categories", "epsilon_local"), MILLION)
def test_a_million_reports_are_proven_to_one_per_cent_in_epsilon(
    categories: int, epsilon_local: float, delta: float
) -> None:
    mechanism = drawn(categories, epsilon_local)
    found = prove(mechanism, 10**6, certified(mechanism, 10**6, delta), delta)
    assert 0 <= found.looser <= 0.01 + 1e-12
    assert found.looser == 0 or categories == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("categories", "reports", "dummies"), [(2, 40, 9), (3, 300, 50), (16, 500, 2000)])
def test_dummies_are_proven_too(categories: int, reports: int, dummies: int) -> None:
    mechanism = drawn(categories, 3.0)
    stated = certified(mechanism, reports, 1e-6, dummies)
    assert prove(mechanism, reports, stated, 1e-6, dummies=dummies).looser <= 0.01 + 1e-12
    with pytest.raises(NotProvenError):
        prove(mechanism, reports, stated, 1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("categories", "reports"), [(2, 800), (2, 5_000), (3, 800), (16, 20_000), (16, 12)])
def test_claims_that_are_false_are_refuted(categories: int, reports: int) -> None:
    """ε too small by more than the fast path's slack, at fewer reports, at less blanket, at a smaller δ."""
    mechanism = drawn(categories, 2.0)
    stated = certified(mechanism, reports, 1e-4)
    prove(mechanism, reports, stated, 1e-4)
    fewer, bolder = reports * 9 // 10, KRR(categories, mechanism.gamma * Fraction(9, 10))
    for claim in (
        (mechanism, reports, stated * 0.985, 1e-4),
        (mechanism, fewer, stated, 1e-4),
        (bolder, reports, stated, 1e-4),
        (mechanism, reports, stated, 0.8e-4),
    ):
        with pytest.raises(NotProvenError, match="delta is between") as refusal:
            prove(*claim)
        assert refusal.value.refuted


def test_what_stays_undecided_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim within 1e-12 of the truth, and so little effort that no ball decides it."""
    monkeypatch.setattr("hubbub.accountant.rigorous.prove.LOOSER", LOOSER[:1])
    monkeypatch.setattr("hubbub.accountant.rigorous.routes.NODES", (2,))
    mechanism = drawn(3, 2.0)
    found = blanket_delta(mechanism, 5000, Fraction(1, 20), Fraction(1, 10**6), 64)
    with pytest.raises(NotProvenError, match="neither proves nor refutes") as refusal:
        prove(mechanism, 5000, 0.05, float(found.upper) * (1 + 1e-9))
    assert not refusal.value.refuted


def test_a_looser_proof_says_which_epsilon_it_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubbub.accountant.rigorous.prove.TERMS", 40_000)
    mechanism = drawn(2, 2.0)
    stated = certified(mechanism, 20_000, 1e-6)
    found = prove(mechanism, 20_000, stated, 1e-6)
    assert found.epsilon in {written(stated) * multiple for multiple in LOOSER[1:]}
    assert found.looser == pytest.approx(float(found.epsilon / found.stated) - 1)


@quick
@given(
    categories=st.sampled_from([3, 4, 30, 10**5]),
    gamma=st.integers(1, 2**32 - 1),
    reports=st.floats(0, 4).map(lambda exponent: int(10**exponent)),
    share=st.floats(0, 1),
    dummies=st.sampled_from([0, 0, 3, 400]),
)
def test_the_fast_delta_of_the_blanket_is_never_on_the_wrong_side_of_the_balls(
    categories: int, gamma: int, reports: int, share: float, dummies: int
) -> None:
    """Either end of either route would show an error of the other."""
    mechanism = KRR.from_numerator(categories, gamma)
    epsilon = share * mechanism.epsilon_local
    lower, upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon, dummies)
    found = blanket_delta(mechanism, reports, Fraction(epsilon), scale_of(upper), 24, dummies)
    with precision(400):
        assert not bool(found.lower > ball(Fraction(upper)))
        assert not bool(found.upper < ball(Fraction(lower)))


@quick
@given(
    gamma=st.integers(1, 2**32 - 1),
    reports=st.floats(0, 3).map(lambda exponent: int(10**exponent)),
    share=st.floats(0, 1),
    dummies=st.sampled_from([0, 0, 3, 400]),
)
def test_the_fast_delta_of_binary_response_is_never_on_the_wrong_side_of_the_balls(
    gamma: int, reports: int, share: float, dummies: int
) -> None:
    mechanism = KRR.from_numerator(2, gamma)
    epsilon = share * mechanism.epsilon_local
    lower, upper = BOUNDS["2rr"].delta(mechanism, reports, epsilon, dummies)
    found = two_rr_delta(mechanism, reports, Fraction(epsilon), scale_of(upper), Effort(60_000), dummies)
    with precision(400):
        assert not bool(found.lower > ball(Fraction(upper)))
        assert not bool(found.upper < ball(Fraction(lower)))


def test_local_epsilon_is_proven_from_the_exact_gamma_and_not_below_it() -> None:
    for mechanism in (drawn(2, 1e-6), drawn(16, 4.0), drawn(1000, 20.0), KRR(5, Fraction(1))):
        stated = round_up_significant(mechanism.epsilon_local)
        assert prove_local((mechanism,), stated).looser == 0
        assert prove_local((mechanism,) * 3, 3 * stated * (1 + 1e-15)).route == "local"
        if stated:
            with pytest.raises(NotProvenError) as refusal:
                prove_local((mechanism,), stated * (1 - 2e-5))
            assert refusal.value.refuted


UNARY = RAPPOR.from_numerators(5, 3 * 2**30, 2**30)


def test_local_epsilon_of_unary_encoding_is_proven_and_counts_beside_that_of_krr() -> None:
    """E = (3/4 · 3/4)/(1/4 · 1/4) = 9. Left out beside kRR, the sum would seem to be the kRR's alone."""
    assert prove_local((UNARY,), 2.19723).route == "local"
    krr = drawn(16, 1.0)
    together = round_up_significant(krr.epsilon_local + 2.19723)
    assert prove_local((krr, UNARY), together).terms == 2
    for mechanisms, epsilon in (((UNARY,), 2.19722), ((krr, UNARY), together * (1 - 1e-5)), ((krr, UNARY), 1.1)):
        with pytest.raises(NotProvenError) as refusal:
            prove_local(mechanisms, epsilon)
        assert refusal.value.refuted


@pytest.mark.parametrize("mechanism", [Generic(1.0), Laplace(1.0)], ids=repr)
def test_a_local_epsilon_without_an_exact_ratio_is_not_proven_nor_refuted(mechanism: Generic | Laplace) -> None:
    for mechanisms in ((mechanism,), (drawn(3, 1.0), mechanism)):
        with pytest.raises(NotProvenError, match="no exact likelihood ratio") as refusal:
            prove_local(mechanisms, 30.0)
        assert not refusal.value.refuted


def test_every_claim_of_a_certificate_counts_every_mechanism() -> None:
    """The local ε of a round with kRR and unary encoding is that of both, and a smaller one is refuted."""
    terms = Terms(5.0, 1e-6, 20.0, 1.0, 10)
    queries: list[tuple[str, LocalMechanism]] = [("krr", drawn(3, 1.0)), ("unary", UNARY)]
    counts = RoundCounts(0, tuple(QueryCount(name, mechanism, 60, 60, {}) for name, mechanism in queries))
    content = statement(terms, [counts])
    local = [claim for claim in claims(terms, queries, content) if claim.member == "epsilon_local"]
    assert [claim.where for claim in local] == ["krr", "unary", "round_total", "all_rounds"]
    assert all(claim.proof().route == "local" for claim in local)
    content["round_total"]["epsilon_local"] = content["queries"][0]["epsilon_local"]
    lied = [claim for claim in claims(terms, queries, content) if claim.where == "round_total"]
    with pytest.raises(NotProvenError) as refusal:
        lied[0].proof()
    assert refusal.value.refuted


@pytest.mark.parametrize("categories", [2, 3])
def test_without_any_blanket_signal_and_beyond_the_local_epsilon_delta_is_zero(categories: int) -> None:
    assert prove(KRR(categories, Fraction(1)), 10, 0.0, 1e-15).route == "local"
    assert prove(drawn(categories, 2.0), 10, 2.0, 1e-15).route == "local"
    assert prove(drawn(categories, 2.0), 10, 1.999, 0.5).route != "local"


def test_impossible_questions_are_refused() -> None:
    mechanism = drawn(3, 1.0)
    for reports, epsilon, delta in [(0, 0.1, 1e-6), (10, -0.1, 1e-6), (10, 0.1, 0.0), (10, float("nan"), 1e-6)]:
        with pytest.raises(AccountingError, match="; give "):
            prove(mechanism, reports, epsilon, delta)
    for epsilon in (-1.0, float("inf"), float("nan")):
        with pytest.raises(AccountingError, match="; give "):
            prove_local((mechanism,), epsilon)
    with pytest.raises(
        NotProvenError, match="no proof in balls is known for batches of generic, only for krr"
    ) as refusal:
        prove(Generic(1.0), 10, 0.1, 1e-6)
    assert not refusal.value.refuted
    with pytest.raises(OutsideConditions, match="use the blanket"):
        two_rr_delta(mechanism, 10, Fraction(1), Fraction(1, 2), Effort(10))


def test_without_the_library_the_error_names_the_extra() -> None:
    script = "import sys; sys.modules['flint'] = None\nimport hubbub.accountant.rigorous.prove"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "AccountingError: a proof in ball arithmetic needs python-flint (not installed): pip install" in done.stderr
