"""Noise of the shuffler: its law is a table that all parties compute alike, and its bound rests on nobody else."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil, exp, log, nextafter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket, epsilon_upper
from hubbub.accountant.bounds.blanket import BlanketBound
from hubbub.accountant.bounds.noise import NOISE, NOISE_ATTACK, NoiseBound
from hubbub.accountant.calibration.noise import least_noise
from hubbub.accountant.divergence.noise_atoms import delta_near, order_above, order_below
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, Hashed, WithNoise, read_mechanism
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.mechanisms.with_noise import Imitated
from support.noise_pairs import pair_of, product_divergence

WHOLE = 2**128
"""A table's numbers add up to this."""


@st.composite
def drawn_laws(draw: st.DrawFn, most: int = 60) -> NoiseLaw:
    """Laws of each family whose ends have mass."""
    reach = draw(st.integers(1, most))
    if draw(st.booleans()):
        least = 2**31 if reach <= 100 else ceil(2**32 * 2 ** (-100 / reach))
        return NoiseLaw("geometric", draw(st.integers(least, 2**32 - 1)), reach)
    # Ends at 8 standard deviations still have mass.
    return NoiseLaw.of("gaussian", Fraction(draw(st.floats((reach / 8) ** 2, 2e4))).limit_denominator(2**32), reach)


laws = drawn_laws()
krrs = st.builds(KRR.from_local_epsilon, st.sampled_from([2, 3, 16]), st.floats(0.1, 14))
randomizers = st.one_of(
    krrs, st.builds(Hashed.from_numerator, st.sampled_from([3, 64]), st.integers(1, 4), st.integers(2**20, 2**32 - 1))
)
mechanisms = st.builds(WithNoise, randomizers, laws)
people = st.sampled_from([1, 2, 30, 5000, 10**6])
deltas = st.floats(-12, -0.5).map(lambda power: 10.0**power)


@given(drawn_laws(900), krrs, st.floats(1e-3, 1.3))
def test_a_quick_sum_contains_the_whole_one_with_its_error(law: NoiseLaw, krr: KRR, share: float) -> None:
    epsilon = share * krr.epsilon_local
    assume(krr.categories > 2)
    low, high = delta_near(krr, order_above(law, krr.categories), epsilon)
    assert low <= NOISE.delta(WithNoise(krr, law), 1, epsilon)[1] <= high
    assert high - low <= 1e-11


@pytest.mark.parametrize("bound", [NOISE, NOISE_ATTACK], ids=lambda bound: bound.name)
@settings(max_examples=20)
@given(law=drawn_laws(300), krr=krrs, delta=st.one_of(deltas, st.just(1e-40)))
def test_a_quick_search_ends_where_sums_over_all_atoms_do(
    bound: NoiseBound, law: NoiseLaw, krr: KRR, delta: float
) -> None:
    mechanism = WithNoise(krr, law)
    ends = bound.epsilon(mechanism, 1, delta)
    if ends.upper < krr.epsilon_local:
        assert bound.delta(mechanism, 1, ends.upper)[1] <= delta
    if ends.lower > 0:
        assert bound.delta(mechanism, 1, ends.lower)[0] > delta * (1 - 1e-9) - 1e-300
    # Nothing is given away that a sum would keep.
    closer = ends.upper * (1 - 1e-7)
    assert ends.upper == 0 or bound.delta(mechanism, 1, closer)[1] > delta
    farther = ends.lower * (1 + 1e-7)
    assert farther >= krr.epsilon_local or bound.delta(mechanism, 1, farther)[0] <= delta


@given(drawn_laws(200), krrs, st.floats(1e-3, 1.0))
def test_a_quick_sum_contains_the_whole_one_of_the_attack(law: NoiseLaw, krr: KRR, share: float) -> None:
    assume(krr.categories > 2)
    epsilon = share * krr.epsilon_local
    low, high = delta_near(krr, order_below(law, krr.categories), epsilon)
    lower, upper = NOISE_ATTACK.delta(WithNoise(krr, law), 1, epsilon)
    assert low <= upper
    assert lower <= high
    assert high - low <= 1e-11


@pytest.mark.parametrize(
    ("krr", "law", "epsilon"),
    [
        (KRR.from_numerator(4, 3761010557), NoiseLaw("geometric", 937287, 3), 0.44972846171382747),
        (KRR.from_numerator(4, 1252242542), NoiseLaw("geometric", 131072, 1), 2.3720442119242167),
    ],
)
def test_where_the_pair_has_lost_the_digits_of_alpha_a_quick_sum_is_not_below_it(
    krr: KRR, law: NoiseLaw, epsilon: float
) -> None:
    exact = product_divergence([pair_of(WithNoise(krr, law))], epsilon)
    low, high = delta_near(krr, order_above(law, krr.categories), epsilon)
    assert low <= exact <= high
    assert not NOISE.is_within(WithNoise(krr, law), epsilon, float(exact) * (1 - 1e-9))


@given(krrs, people, st.floats(1e-3, 1.0), deltas)
def test_a_coarse_look_at_the_people_says_what_a_precise_one_says(
    krr: KRR, reports: int, share: float, delta: float
) -> None:
    bound = BOUNDS["blanket"]
    assert isinstance(bound, BlanketBound)
    epsilon = share * krr.epsilon_local
    precise = bound.delta(krr, reports, epsilon)
    found = bound.is_above(krr, reports, epsilon, delta)
    assert found or precise[0] <= delta
    assert not found or precise[1] > delta


@given(mechanisms, st.floats(1e-3, 1.3), st.sampled_from([0.0, 1e-15, 1e-9, 0.5, 1.0]), st.booleans())
def test_within_is_what_the_bound_says_to_the_last_digit(
    mechanism: WithNoise, share: float, off: float, above: bool
) -> None:
    epsilon = share * mechanism.epsilon_local
    upper = NOISE.delta(mechanism, 1, epsilon)[1]
    assert NOISE.is_within(mechanism, epsilon, upper)
    assert upper == 0 or not NOISE.is_within(mechanism, epsilon, nextafter(upper, 0.0))
    asked = upper * (1 + off if above else 1 - off)
    assert NOISE.is_within(mechanism, epsilon, asked) == (upper <= asked)


@given(laws)
def test_a_table_is_a_law_that_is_symmetric_and_falls_from_its_middle(law: NoiseLaw) -> None:
    weights = law.weights
    assert sum(weights) == WHOLE
    assert weights == weights[::-1]
    assert len(weights) == law.largest + 1
    rising = weights[: law.reach + 1]
    assert all(0 < before <= after for before, after in pairwise(rising))
    mean = sum(z * weight for z, weight in enumerate(weights))
    assert mean == law.reach * WHOLE


@given(laws)
def test_a_draw_by_inversion_has_exactly_the_chances_of_the_table(law: NoiseLaw) -> None:
    ends = list(accumulate(law.weights))
    for z, (start, end) in enumerate(pairwise([0, *ends])):
        assert law.value_at(start) == z
        assert law.value_at(end - 1) == z
    assert ends[-1] == WHOLE


@pytest.mark.parametrize("number", [-1, WHOLE, 2**200, 0.5, 1.0, True, None, "1", Fraction(1)])
def test_a_draw_is_of_128_random_bits_and_of_nothing_else(number: Any) -> None:
    with pytest.raises(AccountingError, match="give a whole number of 128 random bits"):
        NoiseLaw("geometric", 2**31, 3).value_at(number)


@settings(max_examples=20)
@given(st.floats(0.3, 2000), st.integers(1, 60))
def test_a_gaussian_table_is_the_gaussian_to_thirty_digits(variance: float, reach: int) -> None:
    assume(reach * reach < 150 * variance)
    law = NoiseLaw.of("gaussian", Fraction(variance), reach)
    with localcontext(prec=80):
        over = Decimal(2 * law.parameter) / 2**32
        shares = [(-Decimal((z - reach) ** 2) / over).exp() for z in range(2 * reach + 1)]
        whole = sum(shares)
        far = max(
            abs(Decimal(weight) / WHOLE - share / whole) for weight, share in zip(law.weights, shares, strict=True)
        )
        assert far <= Decimal(2) ** -100


@settings(max_examples=20)
@given(st.integers(2**28, 2**32 - 1), st.integers(1, 40))
def test_a_geometric_table_is_the_geometric_law_to_thirty_digits(parameter: int, reach: int) -> None:
    assume(reach * log(2**32 / parameter) < 80)
    law, ratio = NoiseLaw("geometric", parameter, reach), Fraction(parameter, 2**32)
    shares = [ratio ** abs(z - reach) for z in range(2 * reach + 1)]
    whole = sum(shares, Fraction(0))
    assert all(
        abs(Fraction(weight, WHOLE) - share / whole) <= Fraction(1, 2**100)
        for weight, share in zip(law.weights, shares, strict=True)
    )


@given(mechanisms)
def test_what_is_written_is_read_back_also_through_json(mechanism: WithNoise) -> None:
    law = mechanism.noise
    assert NoiseLaw.read(json.loads(json.dumps(law.content()))) == law
    if (mechanism.krr.gamma * 2**32).denominator == 1:
        assert read_mechanism(json.loads(json.dumps(mechanism.content()))) == mechanism


CHANGES: list[dict[str, Any]] = [
    {"family": "binomial"},
    {"family": "gaussian"},
    {"family": None},
    {"family": ["geometric"]},
    {"ratio": [0, 2**32]},
    {"ratio": [2**32, 2**32]},
    {"ratio": [1, 2]},
    {"ratio": [2**31, 2.0**32]},
    {"ratio": [2.0**31, 2**32]},
    {"ratio": [True, 2**32]},
    {"ratio": (2**31, 2**32)},
    {"ratio": [2**31]},
    {"ratio": 0.5},
    {"ratio": None},
    {"reach": 0},
    {"reach": -1},
    {"reach": 1.0},
    {"reach": True},
    {"reach": "3"},
    {"reach": 100_001},
    {"reach": 1000},
    {"variance": [2**31, 2**32]},
    {"ends": True},
]


@pytest.mark.parametrize("changed", CHANGES, ids=str)
def test_anything_else_is_refused(changed: dict[str, Any]) -> None:
    content = {**NoiseLaw("geometric", 2**31, 3).content(), **changed}
    mechanism = {**WithNoise(KRR(3, Fraction(1, 2)), NoiseLaw("geometric", 2**31, 3)).content(), "noise": content}
    with pytest.raises(AccountingError):
        NoiseLaw.read(content)
    with pytest.raises(AccountingError):
        read_mechanism(mechanism)


@settings(max_examples=30)
@given(mechanisms, st.floats(0, 1), st.floats(0, 1))
def test_a_larger_epsilon_never_costs_more_delta(mechanism: WithNoise, one: float, other: float) -> None:
    low, high = (share * mechanism.epsilon_local for share in sorted((one, other)))
    below, above = (BOUNDS["noise"].delta(mechanism, 1, epsilon) for epsilon in (high, low))
    assert 0 <= below[0] <= below[1] <= above[1] * (1 + 1e-12) + 1e-15
    assert below[0] <= above[0] * (1 + 1e-12) + 1e-15


@settings(max_examples=20)
@given(mechanisms, deltas, st.floats(1, 1000))
def test_a_larger_delta_never_costs_more_epsilon(mechanism: WithNoise, delta: float, times: float) -> None:
    strict, loose = (BOUNDS["noise"].epsilon(mechanism, 1, each) for each in (delta, min(0.5, delta * times)))
    assert loose.upper <= strict.upper * (1 + 1e-8)
    assert strict.lower <= strict.upper
    assert loose.lower <= loose.upper


@settings(max_examples=12)
@given(mechanisms, people, deltas)
def test_noise_is_never_worse_than_the_randomizer_alone(mechanism: WithNoise, reports: int, delta: float) -> None:
    found = epsilon_bracket(mechanism, reports, delta)
    alone = epsilon_bracket(mechanism.randomizer, reports, delta)
    assert found.epsilon_upper <= alone.epsilon_upper
    assert found.epsilon_upper <= mechanism.epsilon_local
    assert found.epsilon_lower is None or found.epsilon_lower <= found.epsilon_upper
    epsilon = min(found.epsilon_upper, mechanism.epsilon_local) / 2
    ours, theirs = delta_bracket(mechanism, reports, epsilon), delta_bracket(mechanism.randomizer, reports, epsilon)
    assert ours.delta_upper <= theirs.delta_upper
    assert ours.delta_lower is None or ours.delta_lower <= ours.delta_upper


@settings(max_examples=20)
@given(mechanisms, people, st.sampled_from([0, 7, 10**5]), st.floats(0, 1), deltas)
def test_the_noise_alone_hides_the_same_among_any_number_of_people(
    mechanism: WithNoise, reports: int, dummies: int, share: float, delta: float
) -> None:
    bound, epsilon = BOUNDS["noise"], share * mechanism.epsilon_local
    assert bound.delta(mechanism, reports, epsilon, dummies) == bound.delta(mechanism, 1, epsilon)
    assert bound.epsilon(mechanism, reports, delta, dummies) == bound.epsilon(mechanism, 1, delta)


def narrower(law: NoiseLaw, share: float) -> NoiseLaw:
    """A law of that share of the spread, whose ends are farther away where they can be: only the spread counts."""
    if law.family == "geometric":
        parameter = round(exp(log(law.parameter / 2**32) / share) * 2**32)
    else:
        parameter = round(law.parameter * share**2)
    for reach in range(2 * law.reach, 0, -1):
        with suppress(AccountingError):
            return NoiseLaw(law.family, parameter, reach)
    raise AssertionError(law)


@settings(max_examples=6)
@given(
    st.builds(KRR.from_local_epsilon, st.sampled_from([2, 3, 16]), st.floats(4, 14)),
    st.floats(0.5, 3),
    st.floats(-12, -6).map(lambda power: 10.0**power),
)
def test_the_least_noise_meets_its_target_and_five_per_cent_less_does_not(
    randomizer: Imitated, epsilon: float, delta: float
) -> None:
    law = least_noise(randomizer, epsilon, delta)
    assert epsilon_upper(WithNoise(randomizer, law), 1, delta) <= epsilon * (1 + 1e-8)
    assert BOUNDS["noise"].delta(WithNoise(randomizer, law), 1, epsilon)[1] <= delta
    less = narrower(law, 0.95)
    assert BOUNDS["noise"].delta(WithNoise(randomizer, less), 1, epsilon)[0] > delta
    if law.reach > 1:
        shorter = replace(law, reach=law.reach - 1)
        assert BOUNDS["noise"].delta(WithNoise(randomizer, shorter), 1, epsilon)[0] > delta
