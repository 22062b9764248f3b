"""Laplace, Gaussian and RAPPOR as values: exact laws, blankets, and what they refuse."""

import itertools
from fractions import Fraction
from math import exp

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket
from hubbub.accountant.divergence.gaussian import (
    exceeding_delta,
    exceeding_epsilon,
    gaussian_delta,
    gaussian_epsilon,
)
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Gaussian, Laplace, LocalMechanism
from hubbub.accountant.mechanisms import rappor as rappor_module
from hubbub.accountant.mechanisms.gaussian import normal_below
from hubbub.accountant.pairs import Part, amplification
from hubbub.accountant.spending.entry import LedgerEntry
from support.thoroughness import thinned

RAPPORS = [
    RAPPOR(categories, truthful, other)
    for categories in (2, 3, 5)
    for truthful, other in ((Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 2), Fraction(1, 9)), (Fraction(9, 10),) * 2)
]
NOISES = [Laplace(0.01), Laplace(1.0), Laplace(6.0), Gaussian(0.3), Gaussian(1.0), Gaussian(20.0)]


@pytest.mark.parametrize("mechanism", RAPPORS, ids=repr)
def test_rappor_similarity_and_local_epsilon_are_those_of_its_listed_laws(mechanism: RAPPOR) -> None:
    laws = [mechanism.law(x) for x in range(mechanism.categories)]
    assert all(sum(law) == 1 for law in laws)
    assert sum(min(column) for column in zip(*laws, strict=True)) == mechanism.gamma
    assert max(max(column) / min(column) for column in zip(*laws, strict=True)) == mechanism.likelihood_ratio
    if mechanism.epsilon_local:
        assert mpmath.exp(mpmath.mpf(mechanism.epsilon_local)) >= mpmath.mpf(float(mechanism.likelihood_ratio)) * (
            1 - 1e-15
        )


@pytest.mark.parametrize("mechanism", RAPPORS, ids=repr)
def test_rappor_has_four_points_with_the_masses_that_enumeration_gives(mechanism: RAPPOR) -> None:
    laws = [mechanism.law(x) for x in range(mechanism.categories)]
    masses: dict[tuple[Fraction, Fraction], Fraction] = {}
    for column in zip(*laws, strict=True):
        least = min(column)
        place = (column[0] / least, column[1] / least)
        masses[place] = masses.get(place, Fraction(0)) + least
    stated: dict[tuple[Fraction, Fraction], Fraction] = {}
    for first, second, mass in mechanism.kinds:
        if mass:
            stated[first, second] = stated.get((first, second), Fraction(0)) + mass
    assert stated == masses


def test_a_power_that_is_too_long_to_write_is_rounded_to_the_safe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = RAPPOR(40, Fraction(97, 100), Fraction(9, 10))
    wanted = exact.all_ones
    monkeypatch.setattr(rappor_module, "_EXACT_BITS", 1)
    rounded = RAPPOR(40, Fraction(97, 100), Fraction(9, 10))
    assert 0 < wanted - rounded.all_ones < wanted / 10**50
    assert 0 < exact.gamma - rounded.gamma < exact.gamma / 10**50
    for mechanism in (exact, rounded):
        assert sum(first * mass for first, _, mass in mechanism.kinds) == 1
        assert sum(second * mass for _, second, mass in mechanism.kinds) == 1


def test_symmetric_and_optimized_rappor_have_the_local_epsilon_that_was_asked_for() -> None:
    for mechanism in (RAPPOR.from_local_epsilon(9, 2.0), RAPPOR.from_local_epsilon(9, 2.0, Fraction(1, 2))):
        assert mechanism.epsilon_local == 2.0
        assert 0 < mechanism.likelihood_ratio / Fraction(exp(2.0)) - 1 + Fraction(1, 10**15) < Fraction(1, 10**14)
    symmetric = RAPPOR.from_local_epsilon(9, 2.0)
    assert symmetric.truthful + symmetric.other == 1


@pytest.mark.parametrize(
    ("truthful", "other"),
    [
        (Fraction(1), Fraction(1, 2)),
        (Fraction(1, 2), Fraction(0)),
        (Fraction(1, 4), Fraction(3, 4)),
        (0.5, Fraction(1, 4)),
    ],
)
def test_impossible_rappor_is_refused(truthful: Fraction, other: Fraction) -> None:
    with pytest.raises(AccountingError, match="; give "):
        RAPPOR(4, truthful, other)


def test_impossible_noise_is_refused() -> None:
    for local in (0.0, -1.0, float("nan"), 41.0):
        with pytest.raises(AccountingError, match="epsilon_local is"):
            Laplace(local)
    for sigma in (0.0, 0.01, float("inf"), float("nan"), 1e7):
        with pytest.raises(AccountingError, match="sigma is"):
            Gaussian(sigma)
    with pytest.raises(AccountingError, match="answer is 2"):
        Laplace(1.0).density(Fraction(2), Fraction(0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mechanism", NOISES, ids=repr)
def test_noise_has_the_blanket_of_lemma_5_1(mechanism: Laplace | Gaussian) -> None:
    def least(y: float) -> float:
        """The smallest density of `y` over all answers: that of the farther end of [0, 1]."""
        return min(float(mechanism.density(Fraction(x), Fraction(y))) for x in (0, 1))

    total = mpmath.quad(
        lambda y: least(float(y)),
        [mpmath.mpf(1) / 2, 1, 2, 10, 100, 3000 if isinstance(mechanism, Laplace) else 200],
    )
    assert float(2 * total) == pytest.approx(float(mechanism.gamma), rel=1e-6)


@pytest.mark.parametrize("z", [0.1, 3.0, -0.1, -3.0, -9.0, -25.0])
def test_the_normal_law_is_right_to_sixty_digits(z: float) -> None:
    with mpmath.workdps(80):
        assert abs(mpmath.mpf(str(normal_below(Fraction(z)))) / mpmath.ncdf(mpmath.mpf(z)) - 1) < mpmath.mpf(10) ** -60


def test_gaussian_noise_has_no_local_epsilon_and_only_the_blanket() -> None:
    assert not hasattr(Gaussian(1.0), "epsilon_local")
    assert not isinstance(Gaussian(1.0), LocalMechanism)
    found = epsilon_bracket(Gaussian(2.0), 500, 1e-5)
    assert (found.bound, found.epsilon_local) == ("blanket", None)
    for name in BOUNDS:
        if name != "blanket":
            refused = OutsideConditions if BOUNDS[name].direction == "upper" else AccountingError
            with pytest.raises(refused):
                epsilon_bracket(Gaussian(1.0), 100, 1e-6, bound=name)
    with pytest.raises(OutsideConditions, match="no local epsilon"):
        Part(Gaussian(1.0), 100)  # type: ignore[arg-type]  # the type checker refuses it too


def test_too_little_gaussian_noise_is_an_error_not_a_number() -> None:
    with pytest.raises(OutsideConditions, match="raise one of them"):
        epsilon_bracket(Gaussian(0.05), 100, 1e-6)


def test_a_ledger_holds_no_batches_of_random_size() -> None:
    part = Part(KRR(4, Fraction(1, 2)), 100, sampling_rate=Fraction(1, 10))
    with pytest.raises(AccountingError, match="fixed beforehand"):
        LedgerEntry("00" * 32, 1, "steps", part).canonical()


def test_one_laplace_report_alone_is_bounded_by_its_own_law() -> None:
    """n = 1: δ is the hockey stick of two Laplace laws, 1 − e^((ε−ε₀)/2); the ends of the bracket are within 1e-4."""
    for local, epsilon in ((1.0, 0.2), (4.0, 1.0), (0.01, 0.001)):
        exact = -mpmath.expm1((epsilon - local) / 2)
        found = delta_bracket(Laplace(local), 1, epsilon, bound="blanket")
        assert exact * (1 - 1e-12) <= found.delta_upper <= exact * (1 + 2e-3)


def test_one_gaussian_report_alone_is_bounded_by_its_own_law() -> None:
    for sigma, epsilon in ((0.5, 1.0), (1.0, 0.2), (5.0, 0.0)):
        exact = mpmath.ncdf(1 / (2 * sigma) - epsilon * sigma) - mpmath.exp(epsilon) * mpmath.ncdf(
            -1 / (2 * sigma) - epsilon * sigma
        )
        found = delta_bracket(Gaussian(sigma), 1, epsilon)
        assert exact * (1 - 1e-12) <= found.delta_upper <= exact * (1 + 2e-3)
        assert found.delta_lower is not None
        assert found.delta_lower <= exact * (1 + 1e-12)


def test_equal_probabilities_say_nothing() -> None:
    found = epsilon_bracket(RAPPOR(4, Fraction(1, 3), Fraction(1, 3)), 10, 1e-9)
    assert (found.epsilon_upper, found.epsilon_local) == (0.0, 0.0)


@pytest.mark.parametrize("mechanism", RAPPORS, ids=repr)
@pytest.mark.parametrize("epsilon", [0.0, 0.7])
def test_rappors_amplification_variable_is_that_of_its_listed_laws(mechanism: RAPPOR, epsilon: float) -> None:
    laws = [mechanism.law(x) for x in range(mechanism.categories)]
    values = [
        (float(mechanism.gamma * (column[0] - Fraction(exp(epsilon)) * column[1]) / min(column)), float(min(column)))
        for column in zip(*laws, strict=True)
    ]
    known = amplification(mechanism, epsilon)
    assert known.gamma <= float(mechanism.gamma)
    assert known.lowest <= min(value for value, _ in values) + 1e-12
    assert known.highest >= max(value for value, _ in values) - 1e-12
    second = sum(value**2 * mass for value, mass in values) / float(mechanism.gamma)
    assert known.second_moment == pytest.approx(second, rel=1e-12, abs=1e-15)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("local", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_no_two_answers_exceed_the_laplace_moments_of_lemma_5_8(local: float, epsilon: float) -> None:
    mechanism, known = Laplace(local), amplification(Laplace(local), epsilon)

    def moment(x: float, other: float) -> float:
        def value(y: float) -> float:
            blanket = mpmath.exp(-local * abs(y - 0.5))
            return (mpmath.exp(-local * abs(y - x)) - mpmath.exp(epsilon - local * abs(y - other))) / blanket

        edges = sorted({-30 / local, 0.0, 0.5, 1.0, x, other, 1 + 30 / local})
        return float(
            mpmath.quad(lambda y: value(y) ** 2 * local / 2 * mpmath.exp(-local * abs(y - 0.5)), edges, maxdegree=5)
        )

    ends = moment(0.0, 1.0)
    assert known.second_moment == pytest.approx(ends, rel=1e-6)
    for x, other in ((0.0, 0.5), (0.3, 0.3), (0.2, 0.9), (1.0, 0.0), (0.5, 0.5)):
        assert moment(x, other) <= known.second_moment * (1 + 1e-9)
    assert known.gamma <= float(mechanism.gamma)


def _chances(sigma: float, reports: int) -> list[tuple[mpmath.mpf, mpmath.mpf]]:
    """The event's exact chances at many places: with the victim's answer 1, and with 0."""

    def tail(place: mpmath.mpf) -> mpmath.mpf:
        return mpmath.erfc(place / sigma / mpmath.sqrt(2)) / 2

    def exceeded(*logs: mpmath.mpf) -> mpmath.mpf:
        return -mpmath.expm1(sum(logs))

    found = []
    for step in range(1501):
        place = mpmath.mpf(step) / 1500 * 38 * sigma
        below, near = mpmath.log1p(-tail(place)), mpmath.log1p(-tail(place - 1))
        found.append((exceeded((reports - 1) * below, near), exceeded(reports * below)))
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sigma", "reports"), thinned([*itertools.product((0.1, 0.3, 1.0, 20.0), (1, 2, 1000, 10**7))], 6)
)
def test_a_report_that_exceeds_a_place_shows_no_more_than_the_event_does(sigma: float, reports: int) -> None:
    """What is claimed is that of its own best place, which is hardly better than the best of many others."""
    with mpmath.workdps(40):
        chances = _chances(sigma, reports)
        for epsilon in (0.0, 0.5, 4.0, 30.0):
            shown = max(one - mpmath.exp(epsilon) * both for one, both in chances)
            assert exceeding_delta(Gaussian(sigma), reports, epsilon) <= max(shown, 0) * (1 + mpmath.mpf("1e-3"))
        for delta in (1e-12, 1e-6, 0.01):
            shown = max((one - delta) / both for one, both in chances)
            lower = exceeding_epsilon(Gaussian(sigma), reports, delta)
            assert mpmath.exp(lower) <= max(shown, 1) * (1 + mpmath.mpf("1e-3"))


@pytest.mark.parametrize(("sigma", "delta"), [(0.3, 1e-6), (1.0, 1e-6), (3.0, 1e-3)])
def test_an_event_of_one_report_alone_shows_nearly_all_and_never_more(sigma: float, delta: float) -> None:
    mechanism = Gaussian(sigma)
    least = gaussian_epsilon(mechanism, delta)
    assert 0.99 * least <= exceeding_epsilon(mechanism, 1, delta) <= least
    for epsilon in (0.1 * least, 0.9 * least):
        assert 0 < exceeding_delta(mechanism, 1, epsilon) <= gaussian_delta(mechanism, epsilon)


@pytest.mark.parametrize("sigma", [0.2, 0.5, 2.0])
def test_an_event_of_two_reports_shows_no_more_than_both_reports_do(sigma: float) -> None:
    """Both reports in any order, laid on a fine grid: their divergence is that of the data set itself, or just less."""
    ends = np.linspace(-9 * sigma, 1 + 9 * sigma, 1501)
    zero, one = (np.diff(ndtr((ends - answer) / sigma)) for answer in (0.0, 1.0))
    first = np.multiply.outer(one, zero) + np.multiply.outer(zero, one)
    second = 2 * np.multiply.outer(zero, zero)
    for epsilon in (0.0, 1.0, 3.0, 8.0):
        true = float(np.maximum(first - np.exp(epsilon) * second, 0.0).sum()) / 2
        assert exceeding_delta(Gaussian(sigma), 2, epsilon) <= true * (1 + 1e-3) + 1e-12


def test_little_noise_and_few_reports_have_a_lower_end() -> None:
    found = epsilon_bracket(Gaussian(0.3), 1000, 1e-6)
    assert found.epsilon_lower is not None
    assert 13.8 < found.epsilon_lower < found.epsilon_upper < 18.9
    assert 0 < delta_bracket(Gaussian(0.3), 1000, found.epsilon_lower).delta_lower <= 1e-6 * (1 + 1e-6)
