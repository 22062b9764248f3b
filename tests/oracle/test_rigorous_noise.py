"""Noise of the shuffler in balls, against exact views: what is certified is proven, and nothing false is."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import KRR, Hashed, NoiseLaw, TreeNodes, WithNoise
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.pairs import Part
from hubbub.accountant.rigorous import noise, other_symbols
from hubbub.accountant.rigorous.balls import ball, precision, written
from hubbub.accountant.rigorous.composition import prove_composed
from hubbub.accountant.rigorous.noise import noise_curve, noise_delta
from hubbub.accountant.rigorous.proof import NotProvenError
from hubbub.accountant.rigorous.prove import prove
from support.noise_counts import Pair, counted_pair, least_epsilon
from support.noise_pairs import product_divergence
from support.noise_views import answers_of, divergence, released
from support.thoroughness import EXHAUSTIVE, spread

HALF, FLAT = NoiseLaw("geometric", 2**31, 3), NoiseLaw("geometric", 2**32 - 2**28, 4)
BELL = NoiseLaw("gaussian", 3 * 2**31, 3)

TWO = WithNoise(KRR(2, Fraction(1, 50)), HALF)
MECHANISMS = [
    TWO,
    WithNoise(KRR(2, Fraction(1, 3)), BELL),
    WithNoise(KRR(3, Fraction(1, 100)), FLAT),
    WithNoise(KRR(4, Fraction(1, 2)), BELL),
    WithNoise(Hashed.from_numerator(3, 4, 2**28), HALF),
    WithNoise(TreeNodes(4, 1, 2**25, 2**31), HALF),
    WithNoise(TreeNodes(4, 2, 2**25, 2**27, alone=True), BELL),
]


@cache
def pair_of(mechanism: WithNoise) -> Pair:
    return counted_pair(mechanism)


def named(mechanism: WithNoise) -> str:
    return mechanism.noise.family + str(mechanism.krr.categories)


SLACK = Fraction(1, 2**80)
"""What is charged for classes of one ratio is less."""

CLOSE = Fraction(1005, 1000)
"""No proof needs an ε that is larger by more than that, because of the other symbols."""


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
def test_the_ball_has_the_exact_divergence_of_the_view(mechanism: WithNoise) -> None:
    pair = pair_of(mechanism)
    assert sum(p for p, _ in pair) == sum(q for _, q in pair) == 1
    for share in (0.0, 0.1, 0.4, 0.8, 0.99):
        epsilon = Fraction(share * mechanism.epsilon_local)
        truth, found = product_divergence([pair], epsilon), noise_delta(mechanism, epsilon)
        with precision(400):
            assert bool(found.lower <= ball(truth))
            assert bool(found.upper >= ball(truth))
            if mechanism.krr.categories == 2:
                assert bool(found.upper - found.lower <= ball(SLACK))
            assert bool(noise_delta(mechanism, CLOSE * epsilon).upper <= ball(truth + SLACK))


ONE = NoiseLaw("geometric", 2**31, 1)


@pytest.mark.parametrize("mechanism", [WithNoise(KRR(3, Fraction(1, 9)), HALF), WithNoise(KRR(4, Fraction(1, 2)), ONE)])
def test_the_counts_of_both_answers_and_a_sum_tell_all_that_is_released(mechanism: WithNoise) -> None:
    laws, pair = answers_of(mechanism.krr), pair_of(mechanism)
    views = released(mechanism, [laws[0]]), released(mechanism, [laws[2]])
    for epsilon in (0.0, 0.2, 0.9, 2.0):
        assert divergence(*views, epsilon) == product_divergence([pair], epsilon)


LAWS = [
    NoiseLaw("geometric", 2**31, 2),
    NoiseLaw("geometric", 2**32 - 2**28, 2),
    NoiseLaw("gaussian", 3 * 2**31, 2),
    NoiseLaw("gaussian", 2**30, 2),
    NoiseLaw("geometric", 2**28, 2),
]
"""With likely ends, ratios far apart, and nearly none."""


@pytest.mark.parametrize("categories", [3, 4, 5])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.family}{law.parameter}")
def test_no_end_is_on_the_wrong_side_with_few_other_symbols(law: NoiseLaw, categories: int) -> None:
    for gamma in (Fraction(1, 1000), Fraction(1, 5), Fraction(9, 10)):
        mechanism = WithNoise(KRR(categories, gamma), law)
        pair = counted_pair(mechanism)
        for share in (0.0, 0.05, 0.3, 0.6, 0.9, 1.0):
            epsilon = Fraction(share * mechanism.epsilon_local)
            truth, found = product_divergence([pair], epsilon), noise_delta(mechanism, epsilon)
            with precision(400):
                # The divergence takes e^ε as a float.
                assert bool(found.lower <= ball(truth + Fraction(1, 10**15)))
                assert bool(found.upper >= ball(truth - Fraction(1, 10**15)))


PLANNED = [NoiseLaw.of("geometric", Fraction("0.6065"), 27), NoiseLaw.of("gaussian", Fraction("35.7"), 37)]


def epsilon_of(mechanism: WithNoise, end: str) -> float:
    low, high = 0.0, mechanism.epsilon_local
    for _ in range(16):
        middle = (low + high) / 2
        found = getattr(noise_delta(mechanism, Fraction(middle)), end)
        low, high = (low, middle) if bool(found <= ball(Fraction(1, 10**6))) else (middle, high)
    return high


@pytest.mark.parametrize("law", PLANNED, ids=lambda law: law.family)
@pytest.mark.parametrize(("categories", "local"), [(3, 1.0), (16, 4.0), (16, 8.0), (150, 4.0), (1000, 8.0)])
def test_both_ends_meet_with_many_other_symbols(law: NoiseLaw, categories: int, local: float) -> None:
    mechanism = WithNoise(KRR.from_local_epsilon(categories, local), law)
    assert epsilon_of(mechanism, "upper") <= CLOSE * Fraction(epsilon_of(mechanism, "lower"))


@pytest.mark.parametrize("most", [8, 512])
@pytest.mark.parametrize("law", [*LAWS, *PLANNED], ids=lambda law: f"{law.family}{law.parameter}")
@pytest.mark.parametrize("others", [1, 3, 40])
def test_the_sum_of_the_others_keeps_its_mean_and_loses_no_mass(law: NoiseLaw, others: int, most: int) -> None:
    """Values may only move down: their mean is at most the true one, and with all masses at least 1."""
    found, mean = other_symbols.other_symbols(law, others, most), others * (1 - Fraction(law.weights[-1], 2**128))
    whole, unit = 1 << other_symbols.MASS_BITS, 1 << (other_symbols.MASS_BITS + other_symbols.SUM_BITS)
    # Masses are rounded up, and so is a mean.
    high = mean * (1 + Fraction(1, 2**60)) + SLACK
    assert Fraction(sum(at * mass for at, mass in found.spread), unit) <= high
    assert mean <= Fraction(sum(at * mass for at, mass in found.gathered), unit) + mean * Fraction(1, 2**60) <= high + 1
    assert 1 <= Fraction(sum(mass for _, mass in found.spread), whole) <= 1 + Fraction(1, 2**60)
    assert Fraction(found.excess, whole) <= Fraction(1, 2**60)
    assert len(found.spread) <= most + 1


@pytest.mark.parametrize("others", [1, 2, 3])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.family}{law.parameter}")
def test_a_spread_is_above_the_exact_sum_for_each_convex_function_that_falls(law: NoiseLaw, others: int) -> None:
    exact = {Fraction(0): Fraction(1)}
    for _ in range(others):
        longer: dict[Fraction, Fraction] = {}
        for (at, mass), (p, q) in product(exact.items(), zip((0, *law.weights[:-1]), law.weights, strict=True)):
            longer[at + Fraction(p, q)] = longer.get(at + Fraction(p, q), Fraction(0)) + mass * Fraction(q, 2**128)
        exact = longer
    found = other_symbols.other_symbols(law, others, 20)
    # Between its corners such a function is straight, so corners at all values are enough.
    unit, whole = 1 << other_symbols.SUM_BITS, 1 << other_symbols.MASS_BITS
    for corner in {*exact, *(Fraction(at, unit) for at, _ in found.spread)}:
        truth = sum((mass * max(Fraction(0), corner - at) for at, mass in exact.items()), Fraction(0))
        above, below = (
            sum(
                (Fraction(mass, whole) * max(Fraction(0), corner - Fraction(at, unit)) for at, mass in sums),
                Fraction(0),
            )
            for sums in (found.spread, found.gathered)
        )
        assert above >= truth
        assert below - corner * Fraction(found.excess, whole) <= truth


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
def test_a_curve_of_noise_is_above_the_exact_divergence_and_is_that_of_its_points(mechanism: WithNoise) -> None:
    pair, step, last = pair_of(mechanism), Fraction(mechanism.epsilon_local) / 37, Fraction(1, 10**9)
    curve = noise_curve(mechanism, step, last)
    for place, upper in enumerate(curve):
        truth = product_divergence([pair], place * step)
        with precision(400):
            # The divergence takes e^ε as a float.
            assert bool(upper >= ball(truth) - ball(Fraction(1, 10**15)))
            assert bool(abs(upper - noise_delta(mechanism, place * step).upper) <= ball(SLACK))
            assert bool(upper <= ball(last)) == (place == len(curve) - 1)


def test_a_class_whose_place_is_not_decided_counts_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if balls never decided: then each class is compared with each point."""
    step, last = Fraction(1, 8), Fraction(1, 10**9)
    decided = noise_curve(MECHANISMS[1], step, last)
    monkeypatch.setattr(noise, "_place", lambda *_: None)
    with precision(400):
        for one, other in zip(decided, noise_curve(MECHANISMS[1], step, last), strict=True):
            assert bool(abs(one - other) <= ball(Fraction(1, 2**80)))


@pytest.mark.sampled(24)
@pytest.mark.parametrize("delta", [0.3, 0.01, 1e-6])
@pytest.mark.parametrize("reports", [1, 40])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=named)
def test_what_the_fast_path_certifies_is_proven_and_one_per_cent_less_is_not(
    mechanism: WithNoise, reports: int, delta: float
) -> None:
    found = epsilon_bracket(mechanism, reports, delta)
    stated = round_up_significant(found.epsilon_upper)
    proof = prove(mechanism, reports, stated, delta)
    assert (proof.stated, proof.epsilon, proof.delta) == (written(stated), written(stated), written(delta))
    assert proof.route == ("local" if found.bound == "local" else "noise")
    if stated == 0:
        return
    pair = pair_of(mechanism)
    less = 0.985 * least_epsilon(pair, delta, mechanism.epsilon_local)
    if product_divergence([pair], Fraction(less) * Fraction(101, 100)) <= Fraction(delta):
        # Then people hide more than noise does, or nothing does but the randomizer.
        return
    tree = isinstance(mechanism.randomizer, TreeNodes)
    # A tree's node is refused by one attempt after the other, for ten seconds or more.
    if found.bound == "noise" and (not tree or EXHAUSTIVE):
        with pytest.raises(NotProvenError) as refused:
            prove(mechanism, reports, less, delta)
        # With two symbols and nobody else honest the pair is the view itself; else it is the theorem's own δ.
        # No attack on a tree's node is stated, so nothing is refuted.
        assert refused.value.refuted or reports > 1 or tree


def test_a_false_claim_about_two_symbols_is_refuted() -> None:
    found = epsilon_bracket(TWO, 1, 0.05)
    with pytest.raises(NotProvenError) as refused:
        prove(TWO, 1, 0.99 * found.epsilon_upper, 0.05)
    assert refused.value.refuted


TWICE = [
    (TWO, TWO),
    (TWO, WithNoise(KRR(3, Fraction(1, 10)), HALF)),
    (WithNoise(KRR(3, Fraction(1, 100)), ONE), WithNoise(KRR(4, Fraction(1, 2)), ONE)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "second"), TWICE)
@pytest.mark.parametrize("delta", [0.02, 1e-4])
def test_two_rounds_that_compose_are_proven(first: WithNoise, second: WithNoise, delta: float) -> None:
    parts = [Part(first, 1), Part(second, 1)]
    stated = round_up_significant(compose(parts, delta).epsilon_upper)
    proof = prove_composed(parts, stated, delta)
    assert written(stated) <= proof.epsilon <= written(stated) * Fraction(101, 100)
    assert product_divergence([pair_of(first), pair_of(second)], proof.epsilon) <= written(delta)


@pytest.mark.sampled("0.02-first0", "0.0001-first1")
@pytest.mark.parametrize(("first", "second"), TWICE)
@pytest.mark.parametrize("delta", [0.02, 1e-4])
def test_no_claim_below_the_exact_divergence_of_two_rounds_is_proven(
    first: WithNoise, second: WithNoise, delta: float
) -> None:
    parts, pairs = [Part(first, 1), Part(second, 1)], [pair_of(first), pair_of(second)]
    low, high = 0.0, first.epsilon_local + second.epsilon_local
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if product_divergence(pairs, Fraction(middle)) <= Fraction(delta) else (middle, high)
    for share in spread((0.5, 0.97, 0.989, 0.995, 1.0 - 1e-6, 1.05, 1.5, 3.0), 4):
        try:
            proof = prove_composed(parts, share * low, delta)
        except NotProvenError:
            continue
        assert product_divergence(pairs, proof.epsilon) <= written(delta)
        assert proof.epsilon >= Fraction(low)


BITS = WithNoise(KRR.from_local_epsilon(2, 8.0), NoiseLaw("gaussian", 9 * 2**32, 36))
SIXTEEN = WithNoise(KRR.from_local_epsilon(16, 8.0), NoiseLaw.of("geometric", Fraction(4, 5), 100))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([Part(BITS, 1000, 8)], id="a number by eight digits"),
        pytest.param([Part(SIXTEEN, 1000, 6), Part(BITS, 800, 6)], id="two queries over six rounds"),
        pytest.param([Part(BITS, 500, 200)], id="two hundred rounds"),
    ],
)
def test_many_parts_are_proven_nearly_as_stated(parts: list[Part]) -> None:
    stated = round_up_significant(compose(parts, 1e-6).epsilon_upper)
    proof = prove_composed(parts, stated, 1e-6)
    looser = Fraction(1002, 1000) if sum(part.rounds for part in parts) < 100 else Fraction(101, 100)
    assert written(stated) <= proof.epsilon <= written(stated) * looser
    assert proof.route == "composition"
