"""Every mechanism has its pairs, found by its type; what is not proven of one is refused, never taken from another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import get_args

import pytest

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import (
    KRR,
    RAPPOR,
    AnyMechanism,
    Common,
    Finite,
    Gaussian,
    Generic,
    Hashed,
    Laplace,
    NoiseLaw,
    Sequence,
    TreeNodes,
    WithNoise,
)
from hubbub.accountant.pairs import LocalPairs, Part, amplification, dominating_grid, local_pairs, pairs_of
from hubbub.accountant.pairs.registry import PAIRS
from support.messages import NOTHING_IS_KNOWN

ONE_EACH: tuple[AnyMechanism, ...] = (
    KRR(2, Fraction(1, 4)),
    KRR(3, Fraction(1, 4)),
    Generic(1.0),
    Common(1.0),
    Laplace(1.0),
    RAPPOR(3, Fraction(3, 4), Fraction(1, 4)),
    Hashed(3, 2, Fraction(1, 4)),
    Finite(((Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 4), Fraction(3, 4)))),
    Sequence(2.0, 1.0, 50),
    TreeNodes(8, 2, 2**30, 2**28),
    Gaussian(1.0),
    WithNoise(KRR(3, Fraction(1, 4)), NoiseLaw("geometric", 2**31, 3)),
    WithNoise(TreeNodes(8, 2, 2**30, 2**28), NoiseLaw("geometric", 2**31, 3)),
)


@dataclass(frozen=True)
class Louder(KRR):
    """A subclass of a mechanism that may do something else to an answer."""


def test_every_mechanism_is_registered() -> None:
    assert set(PAIRS) == set(get_args(AnyMechanism)) == {type(mechanism) for mechanism in ONE_EACH}


@pytest.mark.parametrize("mechanism", ONE_EACH, ids=repr)
def test_pairs_are_of_the_mechanism_and_name_bounds_that_cover_it(mechanism: AnyMechanism) -> None:
    pairs = pairs_of(mechanism)
    assert pairs.mechanism is mechanism
    names = [*pairs.upper_bounds(), pairs.attack_bound(0)]
    # Of one report over many rounds, and beside noise of nodes and of hashes whatever they are, no attack is known.
    unknown = isinstance(mechanism, Sequence)
    if isinstance(mechanism, WithNoise):
        unknown = isinstance(mechanism.randomizer, Hashed | TreeNodes)
    assert (None in names) == unknown
    for name in filter(None, names):
        BOUNDS[name].conditions(mechanism, 100)
    assert isinstance(pairs, LocalPairs) == (pairs.local_epsilon is not None)


@pytest.mark.parametrize("unknown", ["krr", None, 1, Louder(3, Fraction(1, 4))], ids=repr)
def test_an_unknown_mechanism_is_an_error_at_every_lookup(unknown: KRR) -> None:
    for ask in (
        lambda: pairs_of(unknown),
        lambda: amplification(unknown, 0.1),
        lambda: epsilon_bracket(unknown, 100, 1e-6),
    ):
        with pytest.raises(AccountingError, match=NOTHING_IS_KNOWN):
            ask()


def test_a_part_of_an_unknown_mechanism_has_no_grid() -> None:
    """A subclass passes for its parent where types are asked, so the registry must not."""
    with pytest.raises(AccountingError, match=NOTHING_IS_KNOWN):
        dominating_grid(Part(Louder(3, Fraction(1, 4)), 100), 40.0)


def test_gaussian_noise_has_no_pairs_to_compose_and_no_variable() -> None:
    with pytest.raises(OutsideConditions, match="no local epsilon"):
        local_pairs(Gaussian(1.0))
    with pytest.raises(AccountingError, match="not known"):
        amplification(Gaussian(1.0), 0.1)


def test_what_a_mechanism_lacks_it_says() -> None:
    with pytest.raises(OutsideConditions, match="no blanket of its own"):
        pairs_of(Generic(1.0)).blanket_sum(100, 0.1, 0.0)
    with pytest.raises(OutsideConditions, match="no attack of this form"):
        pairs_of(Generic(1.0)).attack_sums(100, 0.1)
    for bound, mechanism in (("2rr", ONE_EACH[1]), ("koskela-strong", ONE_EACH[2]), ("krr-lower", ONE_EACH[0])):
        with pytest.raises(OutsideConditions, match="does not cover"):
            BOUNDS[bound].delta(mechanism, 100, 0.1)
