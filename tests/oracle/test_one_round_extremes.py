"""One-round bounds at the ends of their ranges, against exact values: rare steps, one report, tiny and huge ε."""

from decimal import Context, Decimal
from fractions import Fraction
from math import comb, nextafter

import numpy as np
import pytest
from scipy.stats import binom

from hubbub.accountant.bounds import BOUNDS, delta_bracket, delta_upper, epsilon_bracket
from hubbub.accountant.divergence.binomial_shift import log_delta_ends, shift_at
from hubbub.accountant.divergence.contour import integrated_positive_part
from hubbub.accountant.divergence.sums import blanket_sum
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, Generic, exp_decimal

_PRECISE = Context(prec=60)


def logarithm(value: Fraction) -> Decimal:
    return _PRECISE.ln(_PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator)))


@pytest.mark.parametrize("reports", [10**6, 10**9, 10**12])
@pytest.mark.parametrize("epsilon_local", [30.0, 40.0])
@pytest.mark.parametrize("bound", ["stronger-clones", "clones"])
def test_upper_bound_covers_a_sum_that_hardly_ever_moves(bound: str, epsilon_local: float, reports: int) -> None:
    """If nobody else's report moves, the victim's alone decides: a lower bound that needs no accountant."""
    ratio = Fraction(exp_decimal(epsilon_local))
    moves = 2 / (ratio + 1) if bound == "stronger-clones" else 1 / ratio
    alone = max(Fraction(0), 1 - (reports - 1) * moves) * (ratio - 1) / (ratio + 1)
    lower, upper = BOUNDS[bound].delta(Generic(epsilon_local), reports, 0.0)
    assert alone * (1 - Fraction(1, 10**30)) <= Fraction(upper)
    assert lower <= upper


def exact_blanket(mechanism: KRR, reports: int, epsilon: float) -> Fraction:
    """E[S₊]/n over all counts of the four values of one draw."""
    gamma, k, factor = mechanism.gamma, mechanism.categories, Fraction(exp_decimal(epsilon))
    base, lift = gamma * (1 - factor), (1 - gamma) * k
    values = [(base + lift) / gamma, (base - lift * factor) / gamma, base / gamma]
    masses = [gamma / k, gamma / k, gamma - 2 * gamma / k, 1 - gamma]
    total = Fraction(0)
    for a in range(reports + 1):
        for b in range(reports - a + 1):
            for c in range(reports - a - b + 1):
                rest = reports - a - b - c
                ways = comb(reports, a) * comb(reports - a, b) * comb(reports - a - b, c)
                mass = ways * masses[0] ** a * masses[1] ** b * masses[2] ** c * masses[3] ** rest
                total += mass * max(Fraction(0), a * values[0] + b * values[1] + c * values[2])
    return total / reports


@pytest.mark.parametrize("precision", [0.1, 0.01])
@pytest.mark.parametrize("share", [0.0, 0.3, 1 - 1e-9])
@pytest.mark.parametrize("gamma", [Fraction(1, 2**32), Fraction(1, 3), 1 - Fraction(1, 2**32)])
@pytest.mark.parametrize("categories", [2, 3, 10**6])
def test_contour_alone_encloses_exact_sums_of_few_draws(
    categories: int, gamma: Fraction, share: float, precision: float
) -> None:
    mechanism = KRR(categories, gamma)
    epsilon = share * mechanism.epsilon_local
    for reports in (1, 3):
        seen = integrated_positive_part(blanket_sum(mechanism, reports, epsilon), precision)
        truth = logarithm(exact_blanket(mechanism, reports, epsilon))
        assert Decimal(seen.lower) <= truth <= Decimal(seen.upper)


@pytest.mark.parametrize("epsilon_local", [1e-9, 1.0, 8.0, 20.0])
def test_one_binary_report_next_to_the_local_epsilon_is_covered(epsilon_local: float) -> None:
    """δ is a difference of nearly equal numbers here, and its logarithm's own rounding has to be charged."""
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    for share in (0.5, 1 - 1e-6, 1 - 1e-12, 1 - 3e-13):
        epsilon = share * epsilon_local
        shift = shift_at(mechanism, epsilon, 0)
        assert shift is not None
        lower, upper = log_delta_ends(shift, np.zeros(1), np.zeros(1))
        truth = logarithm(mechanism.truthful - Fraction(exp_decimal(epsilon)) * mechanism.other)
        assert Decimal(float(lower[0])) <= truth <= Decimal(float(upper[0]))


@pytest.mark.parametrize("mechanism", [KRR(2, Fraction(1, 2)), KRR(5, Fraction(1, 9)), Generic(2.0)])
def test_epsilon_is_zero_exactly_where_delta_reaches_its_value_at_zero(mechanism: KRR | Generic) -> None:
    top = delta_upper(mechanism, 40, 0.0)
    assert epsilon_bracket(mechanism, 40, nextafter(top, 1) * (1 + 1e-9)).epsilon_upper == 0
    below = epsilon_bracket(mechanism, 40, top * (1 - 1e-3))
    assert below.epsilon_upper > 0
    assert delta_upper(mechanism, 40, below.epsilon_upper) <= top * (1 - 1e-3) * (1 + 1e-6)


WEIRD = [True, "5", None, float("nan"), float("inf"), -1, 10**400, Decimal("sNaN"), 1j, [1], 10**5000]


@pytest.mark.parametrize("value", WEIRD, ids=lambda value: f"{type(value).__name__}")
@pytest.mark.parametrize("categories", [2, 3])
def test_what_is_no_number_is_refused_by_every_bound(categories: int, value: object) -> None:
    mechanism = KRR(categories, Fraction(1, 2))
    asked: dict[str, list[tuple[object, ...]]] = {
        "delta": [(mechanism, value, 0.1), (mechanism, 9, value), (mechanism, 9, 0.1, value)],
        "epsilon": [(mechanism, value, 0.1), (mechanism, 9, value), (mechanism, 9, 0.1, value)],
    }
    for name in ("2rr" if categories == 2 else "krr-lower", "blanket", "stronger-clones", "clones", "local"):
        for method, questions in asked.items():
            for question in questions:
                with pytest.raises(AccountingError):
                    getattr(BOUNDS[name], method)(*question)


def test_whole_numbers_of_other_types_are_read_as_what_they_are() -> None:
    mechanism = KRR(3, Fraction(1, 2))
    plain = epsilon_bracket(mechanism, 50, 0.01)
    for reports in (50.0, np.int64(50), Decimal(50), Fraction(50)):
        assert epsilon_bracket(mechanism, reports, 0.01) == plain  # type: ignore[arg-type]  # wrong types are the point
    assert delta_bracket(mechanism, 50, np.float64(0.5)) == delta_bracket(mechanism, 50, 0.5)


def test_gammas_that_80_digits_cannot_tell_from_one_are_refused() -> None:
    with pytest.raises(AccountingError, match="too close to 1"):
        KRR(4, 1 - Fraction(1, 10**30))
    with pytest.raises(AccountingError, match="epsilon_local"):
        Generic(1e-30)
    with pytest.raises(AccountingError, match="epsilon_local"):
        KRR.from_local_epsilon(4, 5e-324)


def rare_hits_delta(mechanism: KRR, reports: int, epsilon: float) -> float:
    """The blanket's δ where few reports fall on the victim's values: their counts up to 12, and all other blankets."""
    gamma, k, factor = float(mechanism.gamma), mechanism.categories, float(exp_decimal(epsilon))
    base, lift = gamma * (1 - factor), (1 - gamma) * k
    total = 0.0
    for hits in range(13):
        others = np.arange(reports - hits + 1.0)
        mass = binom.pmf(others, reports - hits, gamma * (k - 2) / k / (1 - 2 * gamma / k))
        for first in range(hits + 1):
            chance = binom.pmf(hits, reports, 2 * gamma / k) * binom.pmf(first, hits, 0.5)
            value = base * (hits + others) + lift * (first - factor * (hits - first))
            total += chance * float(mass @ np.maximum(value, 0.0))
    return total / (gamma * reports)


@pytest.mark.parametrize(
    ("categories", "gamma", "reports", "share"),
    [(1000, Fraction(1, 100), 10_000, 0.1), (10_000, Fraction(1, 10), 1000, 0.6), (100, Fraction(1, 10), 100, 0.1)],
)
def test_blanket_is_narrow_where_hardly_any_report_hides_the_victim(
    categories: int, gamma: Fraction, reports: int, share: float
) -> None:
    """n·2γ/k of about a fifth and a fiftieth: the sum sits on a few points, which one smoothing left 1.4 % wide."""
    mechanism = KRR(categories, gamma)
    epsilon = share * mechanism.epsilon_local
    lower, upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon)
    truth = rare_hits_delta(mechanism, reports, epsilon)
    assert lower * (1 - 1e-9) <= truth <= upper * (1 + 1e-9)
    assert upper - lower <= 1e-4 * upper
