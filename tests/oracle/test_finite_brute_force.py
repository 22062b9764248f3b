"""Exact rational enumeration, one round and several."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product

import pytest

from hubbub.accountant.bounds import BOUNDS, delta_bracket
from hubbub.accountant.composition import compose_delta
from hubbub.accountant.mechanisms import Finite, exp_decimal
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.renyi import rdp_upper
from support.exact_batches import View, batch_view

PairOfViews = tuple[View, View]


def random_law(seed: int, inputs: int, outputs: int, spread: int) -> Finite:
    """A law whose probabilities differ up to `spread`-fold between inputs, or more; some pairs of neighbors."""
    draws = random.Random(seed)
    base = [draws.randint(1, 6) for _ in range(outputs)]
    rows = []
    for _ in range(inputs):
        weights = [each * draws.randint(1, spread) for each in base]
        rows.append(tuple(Fraction(weight, sum(weights)) for weight in weights))
    neighbors = None if seed % 2 else ((0, 1), (inputs - 1, 0)) if inputs > 2 else None
    return Finite(tuple(rows), None, neighbors, rows[0])


def views(mechanism: Finite, people: int, dummies: int = 0) -> list[PairOfViews]:
    """Both views of every two neighbors among every choice of the others' inputs."""
    hidden = (mechanism.dummy,) * dummies if mechanism.dummy else ()
    found = []
    for others in combinations_with_replacement(mechanism.law, people - 1):
        for x, other in mechanism.neighboring:
            batch = (*others, *hidden)
            found.append((batch_view((*batch, mechanism.law[x])), batch_view((*batch, mechanism.law[other]))))
    return found


def divergence(pair: PairOfViews, power: Fraction) -> Fraction:
    first, second = pair
    return sum((max(Fraction(0), first[at] - power * second.get(at, Fraction(0))) for at in first), Fraction(0))


def twice(one: PairOfViews, two: PairOfViews) -> PairOfViews:
    """Views of two rounds together."""
    joined = [
        {(*a, *b): p * q for (a, p), (b, q) in product(first.items(), second.items())}
        for first, second in zip(one, two, strict=True)
    ]
    return joined[0], joined[1]


CASES = [(1, 2, 2, 4), (2, 3, 2, 6), (3, 3, 3, 5), (4, 4, 3, 9), (5, 2, 4, 30), (6, 3, 4, 3)]
SHARES = (0.0, 0.1, 0.4, 0.8)


@pytest.mark.parametrize("people", [1, 2, 3, 4])
@pytest.mark.parametrize(("seed", "inputs", "outputs", "spread"), CASES)
def test_every_data_set_lies_below_the_blanket_and_the_attack_below_the_worst(
    seed: int, inputs: int, outputs: int, spread: int, people: int
) -> None:
    mechanism = random_law(seed, inputs, outputs, spread)
    every = views(mechanism, people)
    for share in SHARES:
        epsilon = share * mechanism.epsilon_local
        truth = max(divergence(pair, Fraction(exp_decimal(epsilon))) for pair in every)
        assert BOUNDS["blanket"].delta(mechanism, people, epsilon)[1] >= truth
        assert BOUNDS["stronger-clones"].delta(mechanism, people, epsilon)[1] >= truth
        assert BOUNDS["finite-lower"].delta(mechanism, people, epsilon)[0] <= truth
        assert compose_delta([Part(mechanism, people)], epsilon).delta_upper >= truth


def blanket_by_hand(mechanism: Finite, people: int, power: Fraction) -> Fraction:
    """The largest (1/n)·E(ΣY)₊, Y listed output by output and not joined."""
    worst = Fraction(0)
    for x, other in mechanism.neighboring:
        columns = zip(mechanism.law[x], mechanism.law[other], mechanism.masses, strict=True)
        drawn = [((first - power * second) / mass, mass) for first, second, mass in columns]
        drawn.append((Fraction(0), 1 - mechanism.gamma))
        total = Fraction(0)
        for chosen in product(drawn, repeat=people):
            mass = Fraction(1)
            for _, chance in chosen:
                mass *= chance
            total += mass * max(Fraction(0), sum((value for value, _ in chosen), Fraction(0)))
        worst = max(worst, total / people)
    return worst


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("seed", "inputs", "outputs", "spread"), CASES)
def test_the_blanket_is_the_sum_of_its_lemma(seed: int, inputs: int, outputs: int, spread: int) -> None:
    mechanism = random_law(seed, inputs, outputs, spread)
    for people, share in product((1, 2, 4), SHARES):
        epsilon = share * mechanism.epsilon_local
        exact = float(blanket_by_hand(mechanism, people, Fraction(exp_decimal(epsilon))))
        low, high = BOUNDS["blanket"].delta(mechanism, people, epsilon)
        assert low * (1 - 1e-9) <= exact <= high
        assert high <= exact * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize(("people", "dummies"), [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize(("seed", "inputs", "outputs", "spread"), CASES[:4])
def test_beside_dummies_every_data_set_lies_below(
    seed: int, inputs: int, outputs: int, spread: int, people: int, dummies: int
) -> None:
    mechanism = random_law(seed, inputs, outputs, spread)
    every = views(mechanism, people, dummies)
    for share in SHARES:
        epsilon = share * mechanism.epsilon_local
        truth = max(divergence(pair, Fraction(exp_decimal(epsilon))) for pair in every)
        assert delta_bracket(mechanism, people, epsilon, dummies=dummies).delta_upper >= truth


@pytest.mark.parametrize(("seed", "inputs", "outputs", "spread"), CASES[:3])
def test_two_rounds_of_any_two_data_sets_and_neighbors_lie_below(
    seed: int, inputs: int, outputs: int, spread: int
) -> None:
    """Other people, and other inputs of the victim, in every round: which are the worst may differ between rounds."""
    mechanism = random_law(seed, inputs, outputs, spread)
    rounds = _distinct(views(mechanism, 2))
    for share in (0.05, 0.3):
        epsilon = share * mechanism.epsilon_local
        power = Fraction(exp_decimal(epsilon))
        truth = max(divergence(twice(one, two), power) for one, two in combinations_with_replacement(rounds, 2))
        assert compose_delta([Part(mechanism, 2, 2)], epsilon).delta_upper >= truth


def _distinct(pairs: Sequence[PairOfViews]) -> list[PairOfViews]:
    return list({str(sorted(pair[0].items()) + sorted(pair[1].items())): pair for pair in pairs}.values())


def test_the_worst_mix_of_neighbors_over_rounds_lies_below() -> None:
    """Rounds of which some differ by one step and others by two: each kind of round has its own neighbors."""
    rows = tuple(
        tuple(map(Fraction, row)) for row in (("0.9", "0.08", "0.02"), ("0.1", "0.8", "0.1"), ("0.02", "0.08", "0.9"))
    )
    near, far = Finite(rows, neighbors=((0, 1), (1, 2))), Finite(rows, neighbors=((0, 2),))
    for epsilon in (0.5, 2.0, 4.0):
        power = Fraction(exp_decimal(epsilon))
        truth = max(
            divergence(twice(one, two), power)
            for one, two in product(_distinct(views(near, 2)), _distinct(views(far, 2)))
        )
        mixed = compose_delta([Part(near, 2), Part(far, 2)], epsilon).delta_upper
        assert truth <= mixed <= compose_delta([Part(far, 2, 2)], epsilon).delta_upper * (1 + 1e-3)


@pytest.mark.parametrize(("seed", "inputs", "outputs", "spread"), CASES[:4])
def test_renyi_divergences_of_every_data_set_lie_below(seed: int, inputs: int, outputs: int, spread: int) -> None:
    mechanism = random_law(seed, inputs, outputs, spread)
    for people, order in product((1, 2, 3), (2, 5)):
        moments = (
            sum(p**order / second[at] ** (order - 1) for at, p in first.items())
            for first, second in views(mechanism, people)
        )
        truth = max(moments)
        upper = rdp_upper(mechanism, people, float(order))
        assert Fraction(exp_decimal(upper * (order - 1))) >= truth
