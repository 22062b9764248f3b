"""Range and second moment of the privacy amplification variable, against its exact law."""

from fractions import Fraction
from math import exp

import pytest

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import amplification
from support.messages import NOTHING_IS_KNOWN


@pytest.mark.parametrize("categories", [2, 3, 16])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.5])
def test_krr_range_and_second_moment_are_those_of_its_law(categories: int, epsilon: float) -> None:
    krr = KRR(categories, Fraction(2, 7))
    blanket = 1 / categories
    values = [(float(mu) - exp(epsilon) * float(nu)) / blanket for mu, nu in zip(krr.law(0), krr.law(1), strict=True)]
    found = amplification(krr, epsilon)
    assert found.gamma == pytest.approx(2 / 7, rel=1e-15)
    assert found.lowest == pytest.approx(min(values), rel=1e-13)
    assert found.highest == pytest.approx(max(values), rel=1e-13, abs=1e-13)
    assert found.second_moment == pytest.approx(sum(value**2 for value in values) * blanket, rel=1e-13)


@pytest.mark.parametrize("local", [0.01, 0.1, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_generic_moments_cover_krr_of_the_same_local_epsilon(local: float, share: float) -> None:
    generic = amplification(Generic(local), share * local)
    for categories in (2, 3, 5, 100):
        krr = amplification(KRR.from_local_epsilon(categories, local), share * local)
        assert generic.gamma <= krr.gamma
        assert generic.lowest <= krr.lowest
        assert krr.highest <= generic.highest
        assert krr.second_moment <= generic.second_moment


def test_what_is_no_mechanism_has_no_amplification_variable() -> None:
    with pytest.raises(AccountingError, match=NOTHING_IS_KNOWN):
        amplification("krr", 0.1)
