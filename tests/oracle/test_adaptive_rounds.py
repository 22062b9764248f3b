"""Two rounds of any kind, the second chosen by what the first showed: no composed bound is below the best choice.

After each outcome of the first round the adversary picks what the others of the second one send, the victim's two
answers, and which of them counts as the first. Everything is summed in fractions, outcome by outcome. Noise of the
shuffler, uniform dummies and people alone are in one composition.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from loop.exact_cases import Case, Pair, case

from hubbub.accountant import compose, compose_delta, composition
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.mechanisms import exp_decimal
from hubbub.accountant.pairs import Part, dominating_grid
from support.thoroughness import usually

KINDS = ("krr", "krr-dummies", "rappor", "finite", "hashed", "places", "common", "noise", "noise")
"""Noise twice as often: it is the newest, and beside each of the others."""

CASES = usually(8, 300)
SHARES = (0.0, 0.1, 0.5, 0.9)
"""Of the local ε of both rounds together: where δ is asked."""

MOST = 3000
"""Most outcomes of both rounds together, over all data sets."""

Masses = list[tuple[Fraction, Fraction]]


def both_ways(pairs: Sequence[Pair]) -> list[Masses]:
    """Each view's masses for one answer and for the other, joined where their ratio is one, in both orders."""
    found: dict[tuple[tuple[Fraction, Fraction], ...], None] = {}
    for one, two in pairs:
        for first, second in ((one, two), (two, one)):
            by_ratio: dict[Fraction | None, tuple[Fraction, Fraction]] = {}
            for at in {*first, *second}:
                p, q = first.get(at, Fraction(0)), second.get(at, Fraction(0))
                ratio = p / q if q else None
                before = by_ratio.get(ratio, (Fraction(0), Fraction(0)))
                by_ratio[ratio] = before[0] + p, before[1] + q
            found[tuple(sorted(by_ratio.values()))] = None
    return [list(masses) for masses in found]


def best_choice(first: Sequence[Masses], second: Sequence[Masses], epsilon: float) -> Fraction:
    """Return δ if every choice of the second round may depend on the first one's outcome."""
    factor = Fraction(exp_decimal(epsilon))

    def reached(masses: Masses, p: Fraction, q: Fraction) -> Fraction:
        return sum((max(Fraction(0), p * mine - q * other) for mine, other in masses), Fraction(0))

    return max(
        sum((max(reached(masses, p, factor * q) for masses in second) for p, q in view), Fraction(0)) for view in first
    )


def drawn(number: int) -> tuple[Case, Case, list[Masses], list[Masses]]:
    draw = random.Random(f"adaptive:{number}")
    while True:
        one, two = (case(draw.choice(KINDS), draw) for _ in range(2))
        views = [both_ways(each.pairs) for each in (one, two)]
        if sum(map(len, views[0])) * sum(map(len, views[1])) <= MOST:
            return one, two, *views


@pytest.mark.parametrize("number", range(CASES))
def test_a_second_round_that_is_chosen_by_the_first_is_covered(number: int) -> None:
    one, two, first, second = drawn(number)
    parts = (*one.parts, *two.parts)
    local = sum(part.mechanism.epsilon_local for part in parts)
    for share in SHARES:
        epsilon = min(share * local, 100.0)
        assert Fraction(compose_delta(parts, epsilon).delta_upper) >= best_choice(first, second, epsilon)
    for delta in (1e-9, 1e-3):
        assert best_choice(first, second, compose(parts, delta).epsilon_upper) <= Fraction(delta)


def test_a_bound_that_is_a_tenth_too_small_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def smaller(part: Part, log_tail: float) -> LossGrid:
        grid = dominating_grid(part, log_tail)
        return replace(grid, masses=grid.masses * 0.9, infinite=grid.infinite * 0.9)

    monkeypatch.setattr(composition, "dominating_grid", smaller)
    below = []
    for number in range(4):
        one, two, first, second = drawn(number)
        epsilon = 0.1 * sum(each.parts[0].mechanism.epsilon_local for each in (one, two))
        found = compose_delta((*one.parts, *two.parts), epsilon).delta_upper
        below.append(Fraction(found) < best_choice(first, second, epsilon))
    assert any(below)
