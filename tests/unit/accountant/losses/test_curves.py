"""Where the curve of a pair is evaluated, and which of two bounds is asked there."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

import pytest

from hubbub.accountant import composition, rdp_upper
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.losses import curves
from hubbub.accountant.losses.curves import blanket_curve, grid_above
from hubbub.accountant.losses.smaller_curve import SmallerCurve
from hubbub.accountant.mechanisms import RAPPOR, Finite
from hubbub.accountant.pairs import Part, pairs_of
from hubbub.accountant.pairs.curve import CurvedPairs

PEOPLE = 100
DEVIATION = 0.1
"""Of the loss among so many people, if one report has the variance 1."""


@dataclass(eq=False)
class Falling:
    """Curves that fall as a Gaussian loss does; `less` is subtracted from ln δ. It notes where it was asked."""

    less: dict[float, float] = field(default_factory=dict)
    asked: list[float] = field(default_factory=list)

    def variance(self) -> float:
        return 1.0

    def sum_at_zero(self, people: int) -> IidSum:
        raise NotImplementedError

    def near(self, people: int, delta: float) -> None:
        raise NotImplementedError

    def log_delta(self, people: int, epsilon: float) -> LogBracket:  # noqa: ARG002 - one number of people
        self.asked.append(epsilon)
        z = epsilon / DEVIATION
        less = next((less for until, less in self.less.items() if z <= until), 0.0)
        return LogBracket(-z * z / 2 - less, -z * z / 2 - less)

    def ends(self, people: int, epsilon: float, precision: float) -> LogBracket:  # noqa: ARG002 - a protocol's
        return self.log_delta(people, epsilon)

    def log_upper(self, people: int, epsilon: float, precision: float) -> float:  # noqa: ARG002 - a protocol's
        return self.log_delta(people, epsilon).upper

    def log_lower(self, people: int, epsilon: float, precision: float) -> float:  # noqa: ARG002 - a protocol's
        return self.log_delta(people, epsilon).lower


def test_between_two_places_where_one_bound_is_smaller_it_alone_is_asked() -> None:
    """The blanket is smaller up to 0.7 deviations and beyond 4, the whole law between."""
    blanket = Falling({0.7: 1.0, 4.0: -1.0, math.inf: 1.0})
    whole = Falling()
    curve = SmallerCurve(whole, blanket, math.inf)  # type: ignore[arg-type]
    curve.log_upper(PEOPLE, 0.0, 0.01)
    whole.asked.clear()
    blanket.asked.clear()
    for z in (0.2, 0.8, 1.5, 3.0, 4.5, 6.0, 30.0):
        lowest = min(whole.log_delta(PEOPLE, z * DEVIATION).upper, blanket.log_delta(PEOPLE, z * DEVIATION).upper)
        whole.asked.pop()
        blanket.asked.pop()
        assert curve.log_upper(PEOPLE, z * DEVIATION, 0.01) == lowest
    asked_of = [[round(each / DEVIATION, 3) for each in bound.asked] for bound in (whole, blanket)]
    # Between 0.5 and 1 deviations, and 3.5 and 5, either may be the smaller one.
    assert asked_of == [[0.8, 1.5, 3.0, 4.5], [0.2, 0.8, 4.5, 6.0, 30.0]]


def test_nothing_is_asked_beyond_the_local_epsilon_and_both_are_just_before_it() -> None:
    """A deviation may be so far beyond it that e^ε is no double there."""
    blanket, whole = Falling({math.inf: 1.0}), Falling()
    local = 3 * DEVIATION
    curve = SmallerCurve(whole, blanket, local)  # type: ignore[arg-type]
    curve.log_upper(PEOPLE, 0.0, 0.01)
    assert max(whole.asked + blanket.asked) == 2 * DEVIATION
    curve.log_upper(PEOPLE, 2.5 * DEVIATION, 0.01)
    assert whole.asked[-1] == blanket.asked[-1] == 2.5 * DEVIATION


def test_few_people_of_a_large_local_epsilon_have_a_curve() -> None:
    """Seven deviations of the loss are beyond e^709 here."""
    law = ((Fraction(1) - Fraction(1, 10**9), Fraction(1, 10**9)), (Fraction(1, 10**9), 1 - Fraction(1, 10**9)))
    found = composition.compose([Part(Finite(law), 2, 2)], 1e-6)
    assert 0 < found.epsilon_lower <= found.epsilon_upper <= 2 * Finite(law).epsilon_local


@pytest.mark.parametrize("local", [0.5, 3.0, 1e5])
def test_a_finer_curve_has_the_points_of_the_coarser_and_those_in_the_middle(local: float) -> None:
    coarse, fine = (blanket_curve(Falling(), local, PEOPLE, 40.0, finely=finely) for finely in (False, True))
    assert fine.step == coarse.step / 2
    assert (fine.places[::2] == 2 * coarse.places).all()
    assert (fine.places[1::2] == coarse.places[1:] + coarse.places[:-1]).all()
    assert (fine.upper[::2] == coarse.upper).all()


def test_points_are_an_eighteenth_of_a_deviation_apart_where_sums_of_losses_come_from() -> None:
    curve = blanket_curve(Falling(), 5.0, PEOPLE, 40.0)
    at = curve.places * curve.step / DEVIATION
    assert math.isclose(len(at[at < 3.3]), 3.3 * 18, rel_tol=0.02)
    # Farther out they are at most a sixteenth of ε apart, and a step more by rounding.
    assert (at[1:] - at[:-1] <= at[:-1] / 16 + 1 / 18 + curve.step / DEVIATION).all()
    # Everywhere an eighteenth apart, they were 167.
    assert len(at) < 110


@pytest.mark.parametrize("rounds", [2, 3, 10, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_chords_add_less_than_a_thousandth_to_epsilon(
    rounds: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a curve of four times as many points, equally far apart."""
    pairs = pairs_of(RAPPOR(4, Fraction(1, 2), Fraction(3, 10)))
    assert isinstance(pairs, CurvedPairs)
    tail = composition.log_tail([Part(pairs.mechanism, 1000, rounds)], delta)

    def upper() -> float:
        curve = blanket_curve(pairs.evaluated(), pairs.local_epsilon, 1000, tail)
        composed = composition._curve([(grid_above(curve), rounds)], composition._for_delta(delta))
        return composition._smallest_epsilon(composed, delta, rounds * pairs.local_epsilon)

    usual = upper()
    for name, value in (("PER_DEVIATION", 72), ("STEPS", 256), ("USUAL", 100.0)):
        monkeypatch.setattr(curves, name, value)
    assert 0.9999 * upper() <= usual <= 1.001 * upper()


@pytest.mark.parametrize(
    ("law", "delta"),
    [
        (((Fraction(302, 305), Fraction(3, 305)), (Fraction(1, 350), Fraction(349, 350))), 5e-6),
        ((tuple(Fraction(each, 19) for each in (3, 7, 1, 8)), tuple(Fraction(each, 7) for each in (1, 3, 1, 2))), 3e-5),
    ],
)
def test_an_attack_near_the_local_epsilon_reaches_what_it_says(
    law: tuple[tuple[Fraction, ...], ...], delta: float
) -> None:
    """Two reports that nobody hides. A curve whose last two points are at 0 was raised before them."""
    found = composition.compose([Part(Finite(law), 1, 2)], delta).epsilon_lower
    assert found is not None

    def reached(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> float:
        pairs = [(float(a * b), float(c * d)) for (a, c), (b, d) in product(zip(one, other, strict=True), repeat=2)]
        return sum(max(0.0, p - math.exp(found) * q) for p, q in pairs)

    assert max(reached(*law), reached(*law[::-1])) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("categories", [2, 40])
def test_bits_that_say_nothing_compose(categories: int) -> None:
    """Their local ε is 0, so the curve has one place, at which neither bound is asked."""
    third = Fraction(1, 3)
    nothing = Part(RAPPOR(categories, third, third), 5, rounds=3)
    assert composition.compose([nothing], 1e-6).epsilon_upper == 0.0
    assert composition.compose_delta([nothing], 0.0).delta_upper <= 1e-9
    known = Part(RAPPOR(2, Fraction(1, 2), third), 1000, rounds=2)
    alone, beside = (composition.compose(parts, 1e-6).epsilon_upper for parts in ([known], [nothing, known]))
    assert alone <= beside <= 1.001 * alone
    assert math.isclose(rdp_upper(nothing.mechanism, 5, 2.0), 0.0, abs_tol=1e-9)


def test_from_the_local_epsilon_on_no_bound_is_asked() -> None:
    whole, blanket = Falling(), Falling()
    curve = SmallerCurve(whole, blanket, 0.25)  # type: ignore[arg-type]
    assert curve.log_upper(PEOPLE, 0.25, 1.0) == curve.log_lower(PEOPLE, 0.3, 1.0) == -math.inf
    assert whole.asked == blanket.asked == []
