import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from hubbub.accountant.bounds import BOUNDS
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, Gaussian, Generic
from hubbub.accountant.pairs.renyi import excess, rdp_lower, rdp_upper
from support.source_tree import ROOT

VECTORS = ROOT / "tests" / "vectors" / "accountant.json"


def exact_moment(reports: int, categories: int, gamma: Fraction, order: int) -> Fraction:
    """E_Q[r^λ] of the blanket pair, from the ratio of the blanket pair, all outcomes."""
    total, share = Fraction(0), Fraction(1, categories)
    for blankets in range(reports):
        weight = math.comb(reports - 1, blankets) * gamma**blankets * (1 - gamma) ** (reports - 1 - blankets)
        shown = blankets + 1
        for first in range(shown + 1):
            for second in range(shown - first + 1):
                rest = shown - first - second
                ways = math.factorial(shown) // (math.factorial(first) * math.factorial(second) * math.factorial(rest))
                mass = weight * ways * share ** (first + second) * (1 - 2 * share) ** rest
                p, q = (mass * categories / shown * (n * (1 - gamma) + gamma * share * shown) for n in (first, second))
                if q:
                    total += p**order / q ** (order - 1)
    return total


@pytest.mark.parametrize(("reports", "categories", "gamma"), [(3, 3, "1/2"), (8, 4, "1/5"), (6, 10, "2/3")])
@pytest.mark.parametrize("order", [2, 7])
def test_upper_covers_the_exact_divergence_of_the_blanket(
    reports: int, categories: int, gamma: str, order: int
) -> None:
    mechanism = KRR(categories, Fraction(gamma))
    exact = float(mpmath.log(mpmath.mpf(1) * exact_moment(reports, categories, mechanism.gamma, order))) / (order - 1)
    assert exact <= rdp_upper(mechanism, reports, order) <= exact * (1 + 1e-6)
    lower = rdp_lower(mechanism, reports, order)
    assert lower is not None
    assert 0 < lower <= exact


def test_binary_response_brackets_the_reference() -> None:
    reference = json.loads(VECTORS.read_text())["renyi_2rr"][0]
    mechanism = KRR.from_local_epsilon(2, reference["local_epsilon"])
    lower = rdp_lower(mechanism, reference["reports"], reference["order"])
    upper = rdp_upper(mechanism, reference["reports"], reference["order"])
    assert lower is not None
    assert reference["exact"] * (1 - 1e-3) <= lower <= upper <= reference["exact"] * 1.03
    assert upper < reference["girgis_upper_5"]


def test_generic_is_bracketed_and_far_below_local() -> None:
    lower, upper = rdp_lower(Generic(0.5), 10**6, 19.0), rdp_upper(Generic(0.5), 10**6, 19.0)
    assert lower is not None
    assert 0 < lower < upper < 1e-5


@pytest.mark.parametrize("order", [1.0001, 1.5, 3.7, 1000.0, 1e6])
def test_real_orders_rise_and_stay_below_local(order: float) -> None:
    mechanism = KRR.from_local_epsilon(5, 3.0)
    here, above = rdp_upper(mechanism, 200, order), rdp_upper(mechanism, 200, min(2 * order, 1e6))
    assert 0 < here <= above * (1 + 1e-6)
    assert above <= 3.0 + 1e-12
    lower = rdp_lower(mechanism, 200, order)
    assert lower is not None
    assert lower <= here


def test_dummies_have_no_known_attack_and_never_hurt() -> None:
    mechanism = KRR.from_local_epsilon(5, 3.0)
    assert rdp_lower(mechanism, 200, 2.0, dummies=10) is None
    assert rdp_upper(mechanism, 200, 2.0, dummies=50) < rdp_upper(mechanism, 200, 2.0)


@pytest.mark.parametrize("x", [-1 + 1e-9, -0.99, -0.3, -1e-3, -1e-9, 1e-12, 1e-4, 5e-3, 0.4, 50.0])
@pytest.mark.parametrize("order", [1 + 2.0**-40, 1.0001, 1.25, 2.0, 10.0, 64.5])
def test_excess_is_accurate(x: float, order: float) -> None:
    with mpmath.workdps(60):
        exact = (1 + mpmath.mpf(x)) ** order - 1 - mpmath.mpf(order) * x
        assert float(excess(np.array([x]), order)[0]) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize("order", [1.0, 0.5, math.nan, 1e7])
def test_an_impossible_order_is_refused(order: float) -> None:
    with pytest.raises(AccountingError, match="order"):
        rdp_upper(Generic(1.0), 10, order)


@pytest.mark.parametrize("part", [(KRR(3, Fraction(1, 2)), 100), (KRR(2, Fraction(1, 3)), 60), (Generic(1.0), 60)])
def test_towards_order_one_both_ends_have_a_limit(part: tuple[KRR | Generic, int]) -> None:
    lowers, uppers = zip(*((rdp_lower(*part, 1 + h), rdp_upper(*part, 1 + h)) for h in (1e-6, 2.0**-52)), strict=True)
    assert lowers[1] == pytest.approx(lowers[0], rel=1e-5)
    assert uppers[1] == pytest.approx(uppers[0], rel=1e-5)


@pytest.mark.parametrize("epsilon_local", [20.0, 30.0, 40.0])
@pytest.mark.parametrize("order", [1.5, 3.0])
def test_binary_response_with_hardly_a_lie_is_bracketed(epsilon_local: float, order: float) -> None:
    """Two people, the other one holds a zero: three outcomes."""
    with mpmath.workdps(80):
        p = 1 / (mpmath.exp(epsilon_local) + 1)
        zeros = [(1 - p) ** 2, 2 * p * (1 - p), p * p]
        one = [p * (1 - p), p * p + (1 - p) ** 2, p * (1 - p)]
        both = ((zeros, one), (one, zeros))
        moments = [mpmath.fsum(a**order / b ** (order - 1) for a, b in zip(*side, strict=True)) for side in both]
        exact = float(mpmath.log(max(moments)) / (order - 1))
    mechanism = KRR.from_local_epsilon(2, epsilon_local)
    lower = rdp_lower(mechanism, 2, order)
    assert lower is not None
    assert exact * (1 - 1e-6) <= lower <= exact <= rdp_upper(mechanism, 2, order)


@pytest.mark.parametrize("name", ["blanket", "stronger-clones", "krr-lower", "local"])
def test_every_bound_offers_its_divergence_on_its_own_side(name: str) -> None:
    mechanism, bound = KRR.from_local_epsilon(4, 1.0), BOUNDS[name]
    found, best = bound.rdp(mechanism, 200, 3.0), BOUNDS["blanket"].rdp(mechanism, 200, 3.0)
    assert (0 < found <= best) if bound.direction == "lower" else (best <= found <= 1.0)


def test_a_divergence_outside_the_conditions_is_refused() -> None:
    with pytest.raises(OutsideConditions, match="2rr"):
        BOUNDS["2rr"].rdp(KRR.from_local_epsilon(4, 1.0), 200, 3.0)
    with pytest.raises(OutsideConditions, match="dummies"):
        BOUNDS["krr-lower"].rdp(KRR.from_local_epsilon(4, 1.0), 200, 3.0, dummies=5)


@pytest.mark.parametrize("mechanism", [KRR(4, Fraction(1, 4)), Generic(1.0), Gaussian(1.0)])
@pytest.mark.parametrize("kind", [Decimal, Fraction, np.float64, np.int64])
def test_numbers_of_any_type_are_the_floats_that_they_are(mechanism: Any, kind: Any) -> None:
    """Sums of decimals and floats were a TypeError, and a result was of numpy's type."""
    for divergence in (rdp_upper, rdp_lower):
        found = divergence(mechanism, kind(30), kind(2))
        assert (found, type(found)) == (divergence(mechanism, 30, 2.0), float)
