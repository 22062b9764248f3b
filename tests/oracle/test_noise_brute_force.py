"""Noise of the shuffler: no upper end is below the exact divergence of what is released, and no lower end is above it.

The views are summed here in whole numbers, outcome by outcome, from the law's table and the randomizer's law alone.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction

import pytest

from hubbub.accountant.api import group_epsilon
from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket
from hubbub.accountant.composition import compose, compose_delta
from hubbub.accountant.divergence.noise_atoms import dominated_atoms, dominating_atoms
from hubbub.accountant.mechanisms import KRR, Hashed, WithNoise
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part
from support.noise_pairs import pair_of, product_divergence
from support.noise_views import View, above, added, answers_of, constant, divergence, noise_view, power, released

SHARES = (0.0, 0.1, 0.4, 0.8, 0.999)
"""Of the local ε: where the divergence is looked at."""

HALF, FLAT = NoiseLaw("geometric", 2**31, 2), NoiseLaw("geometric", 2**32 - 2**28, 3)
BELL, ONE = NoiseLaw("gaussian", 3 * 2**31, 2), NoiseLaw("geometric", 2**31, 1)


CASES = [
    (2, "1/100", HALF, 2),
    (2, "1/2", FLAT, 3),
    (2, "9/10", BELL, 3),
    (3, "1/100", ONE, 2),
    (3, "1/2", HALF, 1),
    (3, "9/10", BELL, 1),
    (4, "1/3", ONE, 1),
]
LIARS = "others known"
HONEST = "others randomize"


@pytest.mark.parametrize("others", [LIARS, HONEST])
@pytest.mark.parametrize(("categories", "gamma", "law", "people"), CASES)
def test_no_upper_end_is_below_the_exact_divergence(
    categories: int, gamma: str, law: NoiseLaw, people: int, others: str
) -> None:
    """All data sets of the others, who may all be liars; beside them, the people hide nobody."""
    randomizer = KRR(categories, Fraction(gamma))
    mechanism, laws = WithNoise(randomizer, law), answers_of(randomizer)
    reports = [constant(x, categories) for x in range(categories)] if others == LIARS else laws
    views = [
        (released(mechanism, [*beside, laws[0]]), released(mechanism, [*beside, laws[1]]))
        for beside in itertools.combinations_with_replacement(reports, people - 1)
    ]
    for share in SHARES:
        epsilon = share * mechanism.epsilon_local
        truth = max(divergence(*pair, epsilon) for p, q in views for pair in ((p, q), (q, p)))
        assert above(BOUNDS["noise"].delta(mechanism, people, epsilon)[1], truth)
        # What hides only among people is no bound beside liars: everybody else counts as one who is not there.
        assert above(delta_bracket(mechanism, 1 if others == LIARS else people, epsilon).delta_upper, truth)
        if others == LIARS:
            assert Fraction(float(BOUNDS["noise-lower"].delta(mechanism, 1, epsilon)[0])) <= truth
            reached = epsilon_bracket(mechanism, 1, float(truth)).epsilon_upper
            assert reached >= epsilon * (1 - 1e-12)
            if categories == 2:
                assert delta_bracket(mechanism, 1, epsilon).delta_upper == pytest.approx(float(truth), rel=1e-9)


HASHES = [((0,), (1,)), ((0, 1), (1, 0)), ((0, 1), (1, 1))]
"""Hashes of two answers: in one row, apart in two rows, and alike in one of two rows."""


@pytest.mark.parametrize("places", HASHES)
def test_no_upper_end_is_below_that_of_hashes(places: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    mechanism = WithNoise(Hashed.from_numerator(3, len(places[0]), 2**30), ONE)
    first, second = (released(mechanism, [mechanism.randomizer.law(each)]) for each in places)  # type: ignore[arg-type]
    for share in SHARES:
        epsilon = share * mechanism.epsilon_local
        assert above(delta_bracket(mechanism, 1, epsilon).delta_upper, divergence(first, second, epsilon))


def joined(first: View, second: View) -> list[tuple[Fraction, Fraction]]:
    """The pair of two views, with outcomes of one ratio added up."""
    found: dict[object, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for at in first.keys() | second.keys():
        p, q = first.get(at, Fraction(0)), second.get(at, Fraction(0))
        if p or q:
            both = found[p / (p + q)]
            both[0], both[1] = both[0] + p, both[1] + q
    return [(p, q) for p, q in found.values()]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (WithNoise(KRR(2, Fraction(1, 50)), HALF), WithNoise(KRR(2, Fraction(1, 50)), HALF)),
        (WithNoise(KRR(2, Fraction(1, 3)), BELL), WithNoise(KRR(3, Fraction(1, 10)), ONE)),
        (WithNoise(KRR(3, Fraction(1, 10)), ONE), WithNoise(KRR(3, Fraction(1, 10)), ONE)),
    ],
)
def test_two_rounds_compose_to_no_less_than_the_exact_divergence(first: WithNoise, second: WithNoise) -> None:
    pairs = []
    for each in (first, second):
        laws = answers_of(each.krr)
        pairs.append(joined(released(each, [laws[0]]), released(each, [laws[1]])))
    parts = [Part(first, 1), Part(second, 1)]
    for share in SHARES:
        epsilon = share * (first.epsilon_local + second.epsilon_local)
        factor = power(epsilon)
        truth = sum(
            (max(Fraction(0), a * c - factor * b * d) for (a, b), (c, d) in itertools.product(*pairs)), Fraction(0)
        )
        found = compose_delta(parts, epsilon)
        assert above(found.delta_upper, truth)
        assert found.delta_lower is not None
        assert Fraction(float(found.delta_lower)) <= truth
        assert epsilon * (1 - 1e-9) <= compose(parts, float(truth)).epsilon_upper <= max(epsilon * CLOSE, 1e-3)


@pytest.mark.parametrize("delta", [0.4, 0.05])
def test_devices_of_one_batch_share_one_draw_of_the_noise(delta: float) -> None:
    """Both reports of a batch are one person's. The noise is drawn once, so two changes of a count are one of two."""
    randomizer = KRR(2, Fraction(1, 1000))
    mechanism, laws = WithNoise(randomizer, NoiseLaw("geometric", 2**31, 12)), answers_of(randomizer)
    epsilon = group_epsilon(mechanism, 2, 2, delta).epsilon_upper
    truth = divergence(released(mechanism, [laws[0]] * 2), released(mechanism, [laws[1]] * 2), epsilon)
    assert truth <= Fraction(delta) * Fraction(1 + 1e-9)


@pytest.mark.parametrize("people", [2, 4])
def test_no_lower_end_is_above_the_exact_divergence_beside_honest_people(people: int) -> None:
    randomizer = KRR(2, Fraction(1, 2))
    mechanism, laws = WithNoise(randomizer, ONE), answers_of(randomizer)
    truth = max(
        divergence(released(mechanism, [*others, laws[x]]), released(mechanism, [*others, laws[1 - x]]), 0.5)
        for others in itertools.combinations_with_replacement(laws, people - 1)
        for x in (0, 1)
    )
    lower = delta_bracket(mechanism, people, 0.5).delta_lower
    assert lower is None or Fraction(float(lower)) <= truth


def test_the_ends_of_a_bracket_are_ordered() -> None:
    mechanism = WithNoise(KRR.from_numerator(16, 22937084), NoiseLaw.of("geometric", Fraction(3, 5), 25))
    found = epsilon_bracket(mechanism, 10**5, 1e-6)
    assert found.epsilon_lower is None or found.epsilon_lower <= found.epsilon_upper


def test_rounding_does_not_raise_an_attack() -> None:
    """One report of two symbols, with a law so long that the attack sums it itself."""
    randomizer = KRR(2, Fraction(536870137, 536870912))
    mechanism = WithNoise(randomizer, NoiseLaw("gaussian", 623252501032562, 1200))
    weights = mechanism.noise.weights
    rises = sum(max(0, before - after) for before, after in itertools.pairwise((0, *weights, 0)))
    truth = (randomizer.truthful - randomizer.other) * Fraction(rises, 2**128)
    assert Fraction(float(BOUNDS["noise-lower"].delta(mechanism, 1, 0.0)[0])) <= truth


FEW_SHARES = (0.0, 0.3, 0.9)
"""The same where each takes seconds."""

Pair = list[tuple[Fraction, Fraction]]


def composed(first: Pair, seconds: list[Pair], epsilon: float) -> Fraction:
    """δ of two rounds, if the second one's pair is the worst of `seconds` for what the first one showed."""
    factor = power(epsilon)
    return sum(
        (
            max(sum((max(Fraction(0), p * c - factor * q * d) for c, d in each), Fraction(0)) for each in seconds)
            for p, q in first
        ),
        Fraction(0),
    )


def test_the_second_round_may_be_chosen_by_what_the_first_showed() -> None:
    """Its answers, its others' reports, and a law that hides more than the one that is certified, in either part."""
    mechanism = WithNoise(KRR(3, Fraction(1, 10)), ONE)
    chosen = [mechanism, WithNoise(KRR(3, Fraction(1, 2)), ONE), WithNoise(mechanism.randomizer, FLAT)]
    pairs = []
    for each in chosen:
        views = [released(each, [law]) for law in answers_of(each.krr)]
        pairs += [joined(views[0], views[1]), joined(views[2], views[0])]
    parts = [Part(mechanism, 1, 2)]
    for share in FEW_SHARES:
        epsilon = share * 2 * mechanism.epsilon_local
        truth = composed(pairs[0], pairs, epsilon)
        assert above(compose_delta(parts, epsilon).delta_upper, truth)
        assert compose(parts, float(truth)).epsilon_upper >= epsilon * (1 - 1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("noisy", [WithNoise(KRR(2, Fraction(1, 50)), HALF), WithNoise(KRR(3, Fraction(1, 5)), ONE)])
@pytest.mark.parametrize("plain", [KRR(2, Fraction(1, 3)), KRR(3, Fraction(1, 4))])
def test_noise_composes_with_a_plain_part_to_no_less_than_the_exact_divergence(noisy: WithNoise, plain: KRR) -> None:
    """In the batch without noise two others are honest, and what they answer may depend on what the noise showed."""
    laws, bare = answers_of(noisy.krr), answers_of(plain)
    first = joined(released(noisy, [laws[0]]), released(noisy, [laws[1]]))
    seconds = []
    for others in itertools.combinations_with_replacement(bare, 2):
        views = []
        for x in (0, 1):
            view: View = {(0,) * plain.categories: Fraction(1)}
            for report in (*others, bare[x]):
                view = added(view, report)
            views.append(view)
        seconds += [joined(*views), joined(*reversed(views))]
    parts = [Part(noisy, 1), Part(plain, 3)]
    for share in FEW_SHARES:
        epsilon = share * (noisy.epsilon_local + plain.epsilon_local)
        truth = composed(first, seconds, epsilon)
        assert above(compose_delta(parts, epsilon).delta_upper, truth)
        assert compose(parts, float(truth)).epsilon_upper >= epsilon * (1 - 1e-9)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("mechanism", "people"), [(WithNoise(KRR(2, Fraction(1, 3)), HALF), 3), (WithNoise(KRR(3, Fraction(1, 2)), ONE), 2)]
)
def test_rounds_beside_honest_people_compose_to_no_less_than_the_exact_divergence(
    mechanism: WithNoise, people: int
) -> None:
    """The smaller of noise and people is valid, whatever the honest others answer in the second round."""
    laws, pairs = answers_of(mechanism.krr), []
    for others in itertools.combinations_with_replacement(laws, people - 1):
        views = [released(mechanism, [*others, laws[x]]) for x in (0, 1)]
        pairs += [joined(*views), joined(*reversed(views))]
    for share in FEW_SHARES:
        epsilon = share * 2 * mechanism.epsilon_local
        truth = max(composed(first, pairs, epsilon) for first in pairs)
        found = compose_delta([Part(mechanism, people, 2)], epsilon)
        assert above(found.delta_upper, truth)
        assert found.delta_lower is None or Fraction(float(found.delta_lower)) <= truth


def test_parts_of_several_noise_queries_with_dummies_are_no_smaller_than_noise_alone() -> None:
    """The others may all be liars; uniform dummies are not counted beside noise, as its pair knows everybody else."""
    first, second = WithNoise(KRR(2, Fraction(1, 50)), HALF), WithNoise(KRR(2, Fraction(1, 4)), BELL)
    pairs = []
    for each in (first, second):
        laws = answers_of(each.krr)
        pairs.append(joined(*(dummied(released(each, [law]), each.krr) for law in laws)))
    for share in FEW_SHARES:
        epsilon = share * (first.epsilon_local + second.epsilon_local)
        truth = composed(pairs[0], [pairs[1]], epsilon)
        assert above(compose_delta([Part(first, 1, dummies=1), Part(second, 1, dummies=1)], epsilon).delta_upper, truth)


def dummied(view: View, krr: KRR) -> View:
    return added(view, (Fraction(1, krr.categories),) * krr.categories)


GRID = [
    NoiseLaw.of("gaussian", Fraction(10**4), 700),
    NoiseLaw.of("gaussian", Fraction(2160), 601),
    # Steps that grow towards the ends, which a grid of even steps keeps least well.
    NoiseLaw("gaussian", 623252501032562, 1200),
]


def exact_pair_delta(mechanism: WithNoise, epsilon: float, *, told: bool) -> Fraction:
    """δ of a pair by its definition, from the counts of z + 1 and of z in the order of their ratio.

    With three symbols, if it is told whether the report is the third one, no δ is smaller than that of the view; if
    nobody looks at the third count, none is larger.
    """
    weights, factor = mechanism.noise.weights, power(epsilon)
    own, other = mechanism.krr.truthful, mechanism.krr.other
    masses = sorted(zip((0, *weights), (*weights, 0), strict=True), key=lambda each: Fraction(each[0], sum(each)))
    gain, loss = own - factor * other, factor * own - other
    if mechanism.one_moves:
        found = sum((max(Fraction(0), gain * p - loss * q) for p, q in masses), Fraction(0))
        return found / 2**128
    # The third count has the same law in both, but for a top one, which is its own report's.
    hidden = 0 if told else (factor - 1) * other * (1 - Fraction(weights[-1], 2**128))
    scale = gain.denominator * loss.denominator * Fraction(hidden).denominator
    alpha, beta, gamma = (int(each * scale) for each in (gain, loss, hidden))
    # Of (p·q', q·p') the summand is α·p·q' − β·q·p' − γ·q·q'. It is above 0 for all p'/q' below a limit that rises.
    total, place, sums = 0, 0, [0, 0]
    for p, q in masses:
        while place < len(masses) and (alpha * p - gamma * q) * masses[place][1] > beta * q * masses[place][0]:
            sums = [sums[0] + masses[place][0], sums[1] + masses[place][1]]
            place += 1
        total += (alpha * p - gamma * q) * sums[1] - beta * q * sums[0]
    return Fraction(total, scale * 2**256)


def test_the_pair_by_its_definition_is_that_of_the_views() -> None:
    for mechanism in (WithNoise(KRR(2, Fraction(1, 50)), HALF), WithNoise(KRR(2, Fraction(1, 3)), BELL)):
        laws = answers_of(mechanism.krr)
        truth = divergence(released(mechanism, [laws[0]]), released(mechanism, [laws[1]]), 0.3)
        assert exact_pair_delta(mechanism, 0.3, told=True) == truth
    wide = WithNoise(KRR(3, Fraction(1, 2)), HALF)
    views = [released(wide, [law]) for law in answers_of(wide.krr)]
    blind, told = (exact_pair_delta(wide, 0.8, told=told) for told in (False, True))
    assert blind < divergence(views[0], views[1], 0.8) < told
    pairs = [joined(views[x], views[y]) for x, y in ((0, 1), (1, 0), (0, 2))]
    for pair in pairs:
        assert product_divergence([pair], 0.8) == product_divergence([pair_of(wide)], 0.8)


CLOSE = 1.005
"""No ε is larger than the true one by more than half a percent."""

EACH = [
    (3, "1/4", HALF),
    (3, "1/2", BELL),
    (3, "9/10", FLAT),
    (4, "1/20", ONE),
    (4, "3/5", HALF),
    (5, "1/5", ONE),
    (5, "4/5", NoiseLaw("gaussian", 2**33, 1)),
]


@pytest.mark.parametrize(("categories", "gamma", "law"), EACH)
def test_with_more_symbols_than_two_the_epsilon_is_that_of_what_is_released(
    categories: int, gamma: str, law: NoiseLaw
) -> None:
    """Everybody else is known, so their data sets all have one divergence."""
    mechanism = WithNoise(KRR(categories, Fraction(gamma)), law)
    laws = answers_of(mechanism.krr)
    first, second = (released(mechanism, [each]) for each in laws[:2])
    for share in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97):
        epsilon = share * mechanism.epsilon_local
        truth = divergence(first, second, epsilon)
        lower, upper = BOUNDS["noise"].delta(mechanism, 1, epsilon)
        assert Fraction(float(lower)) <= truth
        assert above(upper, truth)
        ends = epsilon_bracket(mechanism, 1, float(truth))
        assert epsilon * (1 - 1e-9) <= ends.epsilon_upper <= epsilon * CLOSE
        assert ends.epsilon_lower is not None
        assert ends.epsilon_lower <= epsilon * (1 + 1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("law", GRID)
@pytest.mark.parametrize("categories", [2, 3])
def test_no_end_on_a_grid_is_on_the_wrong_side_of_the_exact_pair(categories: int, law: NoiseLaw) -> None:
    mechanism = WithNoise(KRR(categories, Fraction(1, 100)), law)
    for epsilon in (0.0, 0.01, 0.1, 0.5, 0.9 * mechanism.epsilon_local):
        # Equal with two symbols.
        blind, told = (exact_pair_delta(mechanism, epsilon, told=told) for told in (False, True))
        lower, upper = BOUNDS["noise"].delta(mechanism, 1, epsilon)
        assert Fraction(float(lower)) <= told
        assert above(upper, blind)
        assert Fraction(float(BOUNDS["noise-lower"].delta(mechanism, 1, epsilon)[0])) <= told
        if categories == 2:
            assert blind == told


@pytest.mark.parametrize("law", GRID)
@pytest.mark.parametrize("categories", [2, 3])
def test_no_mass_of_a_pair_is_counted_twice(categories: int, law: NoiseLaw) -> None:
    """Rounding once made atoms of ratio 1 atoms with a mirror image, so that rounds multiplied too much mass."""
    krr = KRR(categories, Fraction(1, 100))
    for atoms in (dominating_atoms, dominated_atoms):
        parts = atoms(krr, law, categories == 2).parts
        mass = sum(float((2 * found.q + found.gap).sum()) + found.even + found.cut for found in parts)
        assert mass == pytest.approx(1, abs=1e-12)


def joined_draws(one: View, other: View) -> View:
    """What two shufflers add together, each with a draw of its own."""
    found: View = defaultdict(Fraction)
    for (counts, mass), (more, chance) in itertools.product(one.items(), other.items()):
        found[tuple(map(sum, zip(counts, more, strict=True)))] += mass * chance
    return found


@pytest.mark.parametrize(("categories", "law"), [(2, HALF), (2, BELL), (3, ONE)])
@pytest.mark.parametrize("honest", [1, 2])
def test_the_bound_of_one_draw_covers_a_chain_with_one_honest_shuffler_or_more(
    categories: int, law: NoiseLaw, honest: int
) -> None:
    """A chain of two: what a lying shuffler draws is known, and an honest one's draw only hides more."""
    randomizer = KRR(categories, Fraction(1, 3))
    mechanism, laws = WithNoise(randomizer, law), answers_of(randomizer)
    own = noise_view(mechanism)
    known: View = {(2,) * categories: Fraction(1)}
    whole = joined_draws(own, own if honest == 2 else known)
    first, second = added(whole, laws[0]), added(whole, laws[1])
    alone = added(own, laws[0]), added(own, laws[1])
    for share in SHARES:
        epsilon = share * mechanism.epsilon_local
        truth = max(divergence(first, second, epsilon), divergence(second, first, epsilon))
        assert above(BOUNDS["noise"].delta(mechanism, 1, epsilon)[1], truth)
        of_one = max(divergence(*alone, epsilon), divergence(*alone[::-1], epsilon))
        assert truth == of_one if honest == 1 else truth <= of_one
