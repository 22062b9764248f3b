"""What is proven, and what the paper plots."""

from fractions import Fraction
from math import comb, exp, inf, log

import pytest

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.bounds.poisson_sampling import ORDERS, as_plotted, assess_sampled
from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part

KRR_3 = KRR.from_local_epsilon(3, 1.0)
HALF = Fraction(1, 2)


def test_the_exact_pair_is_proven_and_stands_above_its_attack() -> None:
    exact, attack, plotted = assess_sampled(KRR_3, 100, 1e-3, HALF)
    composed = compose([Part(KRR_3, 100, sampling_rate=HALF)], 1e-3)
    assert (exact.chosen, exact.proven, exact.epsilon_upper) == (False, True, composed.epsilon_upper)
    assert attack.epsilon_lower is not None
    assert attack.epsilon_lower < composed.epsilon_upper
    assert (plotted.chosen, plotted.proven, plotted.applies) == (False, False, True)


def test_what_the_paper_plots_is_in_no_catalog_that_certificates_use() -> None:
    assert not {"girgis-sampled", "sampled-blanket"} & set(CATALOG)


def test_what_is_plotted_is_the_formula_of_the_sampling_theorem() -> None:
    """Recomputed with plain sums; all terms are representable here."""
    q, rounds, delta = 0.5, 10, 1e-2
    rho = {order: CATALOG["girgis-upper-1"].rdp(KRR_3, 50, float(order)) for order in range(2, 20)}
    best = inf
    for order in range(2, 20):
        inside = (1 - q) ** (order - 1) * (order * q - q + 1)
        for taken in range(2, order + 1):
            term = comb(order, taken) * (1 - q) ** (order - taken) * q**taken * exp((taken - 1) * rho[taken])
            inside += term * (3 if taken > 2 else 1)
        total = rounds * log(inside) / (order - 1)
        best = min(best, total + log(1 - 1 / order) + (log(1 / delta) - log(order)) / (order - 1))
    assert as_plotted(KRR_3, 100, delta, HALF, rounds) == pytest.approx(best, rel=1e-9)
    assert ORDERS >= 20


def test_without_sampling_it_is_the_paper_s_rdp_bound() -> None:
    plain = CATALOG["girgis-upper-1"].epsilon(KRR_3, 10_000, 1e-6).upper
    assert as_plotted(KRR_3, 10_000, 1e-6, Fraction(1)) >= plain * (1 - 1e-9)


def test_other_mechanisms_have_no_exact_pair_and_are_told_so() -> None:
    exact, plotted = assess_sampled(Generic(1.0), 1000, 1e-6, HALF)
    assert (exact.applies, exact.epsilon_upper, exact.chosen) == (False, None, False)
    assert "kRR" in str(exact.why_not)
    assert plotted.epsilon_upper is not None


def test_two_categories_have_no_attack() -> None:
    found = assess_sampled(KRR.from_local_epsilon(2, 1.0), 100, 1e-3, HALF)
    assert [each.applies for each in found] == [True, False, True]


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(3, 2)])
def test_a_rate_outside_its_range_is_refused(rate: Fraction) -> None:
    with pytest.raises(AccountingError, match="sampling_rate"):
        assess_sampled(KRR_3, 100, 1e-3, rate)
    with pytest.raises(AccountingError, match="sampling_rate"):
        as_plotted(KRR_3, 100, 1e-3, rate)


def test_a_mean_batch_of_nobody_says_nothing() -> None:
    with pytest.raises(OutsideConditions, match="mean batch"):
        as_plotted(KRR_3, 100, 1e-3, Fraction(1, 1000))
    assert not assess_sampled(KRR_3, 100, 1e-3, Fraction(1, 1000))[-1].applies
