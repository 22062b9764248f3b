import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from math import nextafter
from typing import Any

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import EPSILON_LOCAL_LEAST, GAMMA_DENOMINATOR, KRR, RAPPOR, Generic


def real_epsilon(mechanism: KRR) -> Decimal:
    with localcontext() as context:
        context.prec = 100
        ratio = 1 + mechanism.categories * (1 - mechanism.gamma) / mechanism.gamma
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


@pytest.mark.parametrize("categories", [2, 3, 16, 10**6])
@pytest.mark.parametrize("numerator", [1, 2, 17_367_560, 2**31, 2**32 - 1])
def test_epsilon_local_of_a_rational_gamma_is_never_below_the_truth(categories: int, numerator: int) -> None:
    mechanism = KRR.from_numerator(categories, numerator)
    truth = real_epsilon(mechanism)
    assert Decimal(mechanism.epsilon_local) >= truth
    assert Decimal(nextafter(nextafter(mechanism.epsilon_local, 0), 0)) < truth


def test_epsilon_local_is_zero_only_for_the_full_blanket() -> None:
    assert KRR(4, Fraction(1)).epsilon_local == 0.0
    assert KRR.from_numerator(4, GAMMA_DENOMINATOR - 1).epsilon_local > 0
    assert KRR.from_local_epsilon(4, 0.0).gamma == 1


@pytest.mark.parametrize("epsilon_local", [1e-9, 0.5, 2.0, 8.0, 20.0])
@pytest.mark.parametrize("categories", [2, 3, 10**6])
def test_gamma_from_local_epsilon_is_on_the_side_of_less_privacy(categories: int, epsilon_local: float) -> None:
    gamma = KRR.from_local_epsilon(categories, epsilon_local).gamma
    with localcontext() as context:
        context.prec = 120
        exact = Fraction(Decimal(epsilon_local).exp())
    real = Fraction(categories) / (exact + categories - 1)
    assert gamma <= real
    assert real - gamma < real / 10**30


def test_epsilon_local_that_was_asked_for_is_reported_as_it_is() -> None:
    assert KRR.from_local_epsilon(16, 4.0).epsilon_local == 4.0
    assert Generic(4.0).epsilon_local == 4.0


def test_law_sums_to_one_and_its_largest_ratio_is_the_likelihood_ratio() -> None:
    mechanism = KRR.from_numerator(5, 123_456_789)
    first, second = mechanism.law(0), mechanism.law(3)
    assert sum(first) == 1
    assert sum(second) == 1
    assert max(a / b for a, b in zip(first, second, strict=True)) == mechanism.likelihood_ratio
    assert first[0] == mechanism.truthful
    assert first[1] == mechanism.other


@pytest.mark.parametrize(
    ("categories", "gamma"),
    [
        (1, Fraction(1, 2)),
        (2, Fraction(0)),
        (2, Fraction(3, 2)),
        (2, 0.5),
        (True, Fraction(1, 2)),
        (2**40, Fraction(1)),
    ],
)
def test_impossible_krr_is_refused(categories: int, gamma: Fraction) -> None:
    with pytest.raises(AccountingError, match="; give "):
        KRR(categories, gamma)


def test_a_decimal_gamma_is_refused_with_an_example_that_can_be_written_as_it_is() -> None:
    gamma: Any = 0.25
    with pytest.raises(AccountingError, match=r"^gamma is 0\.25; .* such as (Fraction\(1, 4\))$"):
        KRR(16, gamma)


@pytest.mark.parametrize("numerator", [0, -1, 2**32 + 1, True, 1.5])
def test_gamma_numerators_outside_the_range_are_refused(numerator: int) -> None:
    with pytest.raises(AccountingError, match=r"from 1 to 2\*\*32"):
        KRR.from_numerator(2, numerator)


@pytest.mark.parametrize("epsilon_local", [-0.1, float("nan"), float("inf"), 41.0])
def test_impossible_local_epsilon_is_refused(epsilon_local: float) -> None:
    with pytest.raises(AccountingError, match="epsilon_local is"):
        Generic(epsilon_local)
    with pytest.raises(AccountingError, match="epsilon_local is"):
        KRR.from_local_epsilon(3, epsilon_local)


def test_inputs_outside_the_domain_have_no_law() -> None:
    with pytest.raises(AccountingError, match="input is 4"):
        KRR(4, Fraction(1, 2)).law(4)


def test_mechanisms_load_no_numerical_library() -> None:
    script = "import sys, hubbub.accountant.mechanisms; print({'numpy', 'scipy', 'pyarrow'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"


def test_the_smallest_local_epsilon_is_accepted_by_all_that_take_one() -> None:
    """The double 1e-20 lies just below 10⁻²⁰: the limit is the double."""
    krr, rappor = KRR.from_local_epsilon(3, EPSILON_LOCAL_LEAST), RAPPOR.from_local_epsilon(3, EPSILON_LOCAL_LEAST)
    assert krr.epsilon_local == rappor.epsilon_local == EPSILON_LOCAL_LEAST
    assert epsilon_bracket(Generic(EPSILON_LOCAL_LEAST), 3, 1e-30).epsilon_upper <= EPSILON_LOCAL_LEAST
