"""Noise of the shuffler over time: units beside noise cover every two streams, in fractions, outcome by outcome.

Others are known or honest, and streams may react to what was shown. The views follow from the law's table and the
node's law alone.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import delta_bracket, epsilon_bracket
from hubbub.accountant.composition import compose, compose_delta
from hubbub.accountant.mechanisms import TreeNodes, WithNoise, exp_decimal, one_round, paid_rounds
from hubbub.accountant.mechanisms.longitudinal import Horizon, Node
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part
from support.thoroughness import usually

View = dict[tuple[int, ...], Fraction]
Pair = tuple[tuple[Fraction, Fraction], ...]

ONE, TWO, BELL = (
    NoiseLaw("geometric", 2**31, 1),
    NoiseLaw("geometric", 2**32 - 2**29, 2),
    NoiseLaw("gaussian", 2**33, 2),
)
EVEN, FEW = 1431655765, 2**27
"""A uniform blanket of three values, and one with little mass beside 0."""

SHARES = (0.0, 0.1, 0.4, 0.9)
"""Of the local ε over all rounds: where the divergence is looked at."""


def power(epsilon: float) -> Fraction:
    return Fraction(exp_decimal(epsilon)) if epsilon else Fraction(1)


@cache
def released(node: Node, law: NoiseLaw, values: tuple[int, ...]) -> View:
    """What one round shows of people with these values: the counts of −1 and +1, whose sum with those of 0 is known."""
    chances, view = [Fraction(weight, 2**128) for weight in law.weights], View()
    drawn = range(law.largest + 1)
    for minus, plus in itertools.product(drawn if node.signed else (0,), drawn):
        view[minus, plus] = chances[plus] * (chances[minus] if node.signed else 1)
    for value in values:
        after: View = defaultdict(Fraction)
        row = node.law[node.values.index(value)]
        for ((minus, plus), mass), (sent, chance) in itertools.product(
            view.items(), zip(node.values, row, strict=True)
        ):
            after[minus + (sent < 0), plus + (sent > 0)] += mass * chance
        view = after
    return view


@cache
def joined(node: Node, law: NoiseLaw, first: tuple[int, ...], second: tuple[int, ...]) -> Pair:
    """The pair of two rounds, with outcomes of one ratio added up."""
    p, q = released(node, law, first), released(node, law, second)
    found: dict[Fraction, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for at in p.keys() | q.keys():
        one, other = p.get(at, Fraction(0)), q.get(at, Fraction(0))
        if one or other:
            both = found[one / (one + other)]
            both[0], both[1] = both[0] + one, both[1] + other
    return tuple((one, other) for one, other in found.values())


def composed(pairs: list[Pair]) -> Pair:
    """The pair of independent rounds, whose ratios multiply."""
    whole: dict[Fraction, list[Fraction]] = {Fraction(1, 2): [Fraction(1), Fraction(1)]}
    for pair in pairs:
        after: dict[Fraction, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        for (a, b), (c, d) in itertools.product(whole.values(), pair):
            if a * c or b * d:
                both = after[a * c / (a * c + b * d)]
                both[0], both[1] = both[0] + a * c, both[1] + b * d
        whole = after
    return tuple((a, b) for a, b in whole.values())


def beyond(pair: Pair, epsilon: float) -> Fraction:
    """δ of a pair."""
    factor = power(epsilon)
    return sum((max(Fraction(0), a - factor * b) for a, b in pair), Fraction(0))


def divergence(pairs: list[Pair], epsilon: float) -> Fraction:
    """δ of independent rounds."""
    return beyond(composed(pairs), epsilon)


def streams(horizon: Horizon) -> list[tuple[int, ...]]:
    """All streams of at most so many changes, from 0."""
    every = itertools.product((0, 1), repeat=horizon.periods)
    return [each for each in every if sum(a != b for a, b in itertools.pairwise((0, *each))) <= horizon.changes]


def sent(states: tuple[int, ...]) -> list[int]:
    whole = (0, *states)
    return [whole[period] - whole[period & (period - 1)] for period in range(1, len(whole))]


def above(upper: float, truth: Fraction) -> bool:
    return Fraction(float(upper)) >= truth


def nodes(periods: int, changes: int, gamma: int, side: int, law: NoiseLaw) -> WithNoise:
    return WithNoise(TreeNodes(periods, changes, gamma, side), law)


CASES = [
    nodes(1, 1, 2**25, 2**31, TWO),
    nodes(2, 1, 2**25, 2**31, BELL),
    nodes(4, 1, 2**20, FEW, ONE),
    nodes(4, 1, 2**31, 2**31, TWO),
    nodes(2, 2, 2**25, EVEN, TWO),
    nodes(2, 2, 2**20, 2**31 - 2**20, ONE),
    nodes(3, 2, 2**25, EVEN, ONE),
    nodes(3, 3, 2**31, FEW, ONE),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", CASES)
def test_units_beside_noise_cover_every_two_streams_if_everybody_else_is_known(mechanism: WithNoise) -> None:
    tree = mechanism.randomizer
    assert isinstance(tree, TreeNodes)
    parts = [Part(mechanism, 1, paid_rounds(mechanism, tree.periods))]
    known = []
    for first, second in itertools.permutations(streams(tree.horizon), 2):
        rounds = zip(sent(first), sent(second), strict=True)
        known.append(composed([joined(tree.node, mechanism.noise, (a,), (b,)) for a, b in rounds]))
    for share in SHARES:
        epsilon = share * paid_rounds(mechanism, tree.periods) * mechanism.epsilon_local
        worst = max(beyond(pair, epsilon) for pair in known)
        assert above(compose_delta(parts, epsilon).delta_upper, worst)
        if worst and share:
            assert compose(parts, float(worst)).epsilon_upper >= epsilon * (1 - 1e-9)


@pytest.mark.sampled("mechanism0", "True")
@pytest.mark.parametrize("mechanism", [nodes(2, 1, 2**31, 2**31, ONE), nodes(2, 2, 2**31, EVEN, ONE)])
@pytest.mark.parametrize("lying", [False, True])
def test_units_cover_every_two_streams_beside_two_others_honest_or_not(mechanism: WithNoise, lying: bool) -> None:
    """Honest others send by the node's law and count as people; liars send what they like, and count as nobody."""
    tree = mechanism.randomizer
    assert isinstance(tree, TreeNodes)
    known = streams(tree.horizon)
    # A liar's report is known, and is subtracted: that is one person's view.
    others = [()] if lying else list(itertools.combinations_with_replacement(known, 2))
    parts = [Part(mechanism, 1 if lying else 3, paid_rounds(mechanism, 2))]
    certified = {epsilon: compose_delta(parts, epsilon).delta_upper for epsilon in (0.0, 0.5, 1.5)}
    for beside in others:
        for first, second in itertools.permutations(known, 2):
            values = [zip(*map(sent, [one, *beside]), strict=True) for one in (first, second)]
            rounds = composed([joined(tree.node, mechanism.noise, a, b) for a, b in zip(*values, strict=True)])
            for epsilon, upper in certified.items():
                assert above(upper, beyond(rounds, epsilon))


def played(mechanism: WithNoise, epsilon: float) -> Fraction:
    """δ of an adversary who chooses both streams' next states by all that was shown."""
    tree = mechanism.randomizer
    assert isinstance(tree, TreeNodes)
    factor, node = power(epsilon), tree.node

    def allowed(states: tuple[int, ...]) -> bool:
        return sum(a != b for a, b in itertools.pairwise((0, *states))) <= tree.changes

    @cache
    def value(first: tuple[int, ...], second: tuple[int, ...], ratio: Fraction) -> Fraction:
        """What is still reached at most, divided by the sum of both chances so far; `ratio` is the first one's part."""
        if len(first) == tree.periods:
            return max(Fraction(0), ratio - factor * (1 - ratio))
        best = Fraction(0)
        for a, b in itertools.product((0, 1), repeat=2):
            one, other = (*first, a), (*second, b)
            if not (allowed(one) and allowed(other)):
                continue
            found = Fraction(0)
            for p, q in joined(node, mechanism.noise, (sent(one)[-1],), (sent(other)[-1],)):
                mass = ratio * p + (1 - ratio) * q
                if mass:
                    found += mass * value(one, other, ratio * p / mass)
            best = max(best, found)
        return best

    return 2 * value((), (), Fraction(1, 2))


@pytest.mark.sampled("mechanism0", "mechanism1", "mechanism2")
@pytest.mark.parametrize(
    "mechanism",
    [
        nodes(2, 1, 2**25, 2**31, ONE),
        nodes(2, 2, 2**25, EVEN, ONE),
        nodes(3, 1, 2**30, 2**31, TWO),
        nodes(3, 2, 2**28, EVEN, ONE),
    ],
)
def test_units_cover_streams_that_react_to_what_was_published(mechanism: WithNoise) -> None:
    tree = mechanism.randomizer
    assert isinstance(tree, TreeNodes)
    units = paid_rounds(mechanism, tree.periods)
    for share in SHARES:
        epsilon = share * units * mechanism.epsilon_local
        assert above(compose_delta([Part(mechanism, 1, units)], epsilon).delta_upper, played(mechanism, epsilon))


def unit(odds: Fraction, law: NoiseLaw) -> Pair:
    """The pair of a unit by its definition: one number moves by one, or not, by a two-valued response of these odds."""
    own, other = odds / (odds + 1), 1 / (odds + 1)
    chances = [Fraction(weight, 2**128) for weight in law.weights]
    both = zip([Fraction(0), *chances], [*chances, Fraction(0)], strict=True)
    return tuple((own * moved + other * stayed, own * stayed + other * moved) for moved, stayed in both)


@settings(max_examples=usually(15, 30))
@given(
    st.integers(1, 2**32 - 1),
    st.integers(1, 2**31 - 1),
    st.sampled_from([ONE, TWO, BELL, NoiseLaw("geometric", 1, 1)]),
    st.floats(0.0, 1.2),
)
def test_two_units_are_never_below_a_difference_by_two(gamma: int, side: int, law: NoiseLaw, share: float) -> None:
    node = Node(gamma, side)
    once, twice = unit(max(node.ratio(0, 1), node.ratio(1, 0)), law), [joined(node, law, (1,), (-1,))]
    for epsilon in (share * node.single, 2 * share * node.single):
        for one in ((1,), (0,)), ((0,), (-1,)):
            assert divergence([once], epsilon) >= divergence([joined(node, law, *one)], epsilon)
        assert divergence([once, once], epsilon) >= divergence(twice, epsilon)
    mechanism = WithNoise(TreeNodes(2, 2, gamma, side), law)
    assert above(compose_delta([Part(mechanism, 1, 2)], epsilon).delta_upper, divergence(twice, epsilon))


@pytest.mark.parametrize("mechanism", CASES)
def test_a_round_by_itself_covers_any_difference_of_values(mechanism: WithNoise) -> None:
    tree, alone = mechanism.randomizer, one_round(mechanism)
    assert isinstance(tree, TreeNodes)
    for share in SHARES:
        epsilon = share * mechanism.epsilon_local
        found = delta_bracket(alone, 1, epsilon)
        assert found.delta_lower is None
        for a, b in itertools.permutations(tree.node.values, 2):
            truth = divergence([joined(tree.node, mechanism.noise, (a,), (b,))], epsilon)
            assert above(found.delta_upper, truth)
            if truth:
                assert epsilon_bracket(alone, 1, float(truth)).epsilon_upper >= epsilon * (1 - 1e-9)
