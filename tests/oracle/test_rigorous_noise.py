"""Noise of the shuffler in balls, against exact views: what is certified is proven, and nothing false is."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.composition import compose
from hubbub.accountant.mechanisms import KRR, Hashed, NoiseLaw, TreeNodes, WithNoise
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.pairs import Part
from hubbub.accountant.rigorous import noise
from hubbub.accountant.rigorous.balls import ball, precision, written
from hubbub.accountant.rigorous.composition import prove_composed
from hubbub.accountant.rigorous.noise import noise_curve, noise_delta
from hubbub.accountant.rigorous.proof import NotProvenError
from hubbub.accountant.rigorous.prove import prove
from support.noise_pairs import pair_of, product_divergence
from support.thoroughness import EXHAUSTIVE, spread

HALF, FLAT = NoiseLaw("geometric", 2**31, 3), NoiseLaw("geometric", 2**32 - 2**28, 4)
BELL, LONG = NoiseLaw("gaussian", 3 * 2**31, 3), NoiseLaw.of("geometric", Fraction(3, 5), 27)

TWO = WithNoise(KRR(2, Fraction(1, 50)), HALF)
MECHANISMS = [
    TWO,
    WithNoise(KRR(2, Fraction(1, 3)), BELL),
    WithNoise(KRR(3, Fraction(1, 100)), FLAT),
    WithNoise(KRR(5, Fraction(1, 2)), BELL),
    WithNoise(KRR(16, Fraction(1, 200)), LONG),
    WithNoise(Hashed.from_numerator(3, 4, 2**28), HALF),
    WithNoise(TreeNodes(4, 1, 2**25, 2**31), HALF),
    WithNoise(TreeNodes(4, 2, 2**25, 2**27, alone=True), BELL),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.noise.family + str(each.krr.categories))
def test_the_ball_has_the_exact_divergence_of_the_pair(mechanism: WithNoise) -> None:
    pair = pair_of(mechanism)
    assert sum(p for p, _ in pair) == sum(q for _, q in pair) == 1
    for share in (0.0, 0.1, 0.4, 0.8, 0.99):
        epsilon = Fraction(share * mechanism.epsilon_local)
        truth, found = product_divergence([pair], epsilon), noise_delta(mechanism, epsilon)
        with precision(400):
            assert bool(found.lower <= ball(truth))
            assert bool(found.upper >= ball(truth))
            assert bool(found.upper - found.lower <= ball(Fraction(1, 2**80)))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.noise.family + str(each.krr.categories))
def test_a_curve_of_noise_is_above_the_exact_divergence_and_is_that_of_its_points(mechanism: WithNoise) -> None:
    pair, step, last = pair_of(mechanism), Fraction(mechanism.epsilon_local) / 37, Fraction(1, 10**9)
    curve = noise_curve(mechanism, step, last)
    for place, upper in enumerate(curve):
        truth = product_divergence([pair], place * step)
        with precision(400):
            # The divergence takes e^ε as a float.
            assert bool(upper >= ball(truth) - ball(Fraction(1, 10**15)))
            assert bool(abs(upper - noise_delta(mechanism, place * step).upper) <= ball(Fraction(1, 2**80)))
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
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda each: each.noise.family + str(each.krr.categories))
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
    less = 0.985 * found.epsilon_upper
    pair = pair_of(mechanism)
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


TWICE = [(TWO, TWO), (TWO, WithNoise(KRR(3, Fraction(1, 10)), HALF)), (MECHANISMS[2], MECHANISMS[3])]


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
