"""RAPPOR, Laplace and Gaussian noise, koskela-2021's pairs and Poisson sampling against exact enumeration."""

from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product
from math import exp

import numpy as np
import pytest

from hubbub.accountant.bounds import BOUNDS, epsilon_bracket
from hubbub.accountant.composition import compose, compose_delta
from hubbub.accountant.divergence.blankets import gaussian_points, laplace_points
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.search import narrowed
from hubbub.accountant.divergence.sums import binary_sum, four_outputs_sum
from hubbub.accountant.mechanisms import KRR, RAPPOR, AnyMechanism, Gaussian, Generic, Laplace, exp_decimal
from hubbub.accountant.pairs import Part, attack_grid, dominated_grid, dominating_grid
from hubbub.accountant.pairs.renyi import rdp_lower, rdp_upper
from support.thoroughness import usually

Law = tuple[Fraction, ...]
View = dict[tuple[int, ...], Fraction]


def batch(laws: list[Law]) -> View:
    """The law of the sorted reports of a batch."""
    view: View = {}
    for reports in product(*(range(len(law)) for law in laws)):
        mass = Fraction(1)
        for law, report in zip(laws, reports, strict=True):
            mass *= law[report]
        if mass:
            at = tuple(sorted(reports))
            view[at] = view.get(at, Fraction(0)) + mass
    return view


def divergence(first: View, second: View, epsilon: float) -> Fraction:
    factor = Fraction(exp_decimal(epsilon))
    return sum(
        (max(Fraction(0), mass - factor * second.get(at, Fraction(0))) for at, mass in first.items()), Fraction()
    )


def worst_delta(laws: list[Law], reports: int, epsilon: float) -> Fraction:
    """The largest divergence over all data sets."""
    return max(
        divergence(batch([laws[0], *others]), batch([laws[1], *others]), epsilon)
        for others in combinations_with_replacement(laws, reports - 1)
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("categories", "reports"), [(2, 2), (2, 4), (3, 2), (3, 3)])
@pytest.mark.parametrize(
    ("truthful", "other"),
    [(Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 2), Fraction(1, 50)), (Fraction(4, 5), Fraction(3, 5))],
)
def test_every_data_set_of_rappor_is_between_the_attack_and_the_blanket(
    categories: int, reports: int, truthful: Fraction, other: Fraction
) -> None:
    mechanism = RAPPOR(categories, truthful, other)
    laws = [mechanism.law(x) for x in range(categories)]
    for share in (0.0, 0.3, 0.8):
        epsilon = share * mechanism.epsilon_local
        truth = worst_delta(laws, reports, epsilon)
        upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon)[1]
        clones = BOUNDS["stronger-clones"].delta(mechanism, reports, epsilon)[1]
        lower = BOUNDS["rappor-lower"].delta(mechanism, reports, epsilon)[0]
        assert lower <= truth <= upper <= clones * (1 + 1e-9)


def blanket_by_hand(mechanism: RAPPOR, reports: int, epsilon: float) -> Fraction:
    """(1/n)·E(ΣY)₊ with Y listed report by report."""
    factor = Fraction(exp_decimal(epsilon))
    laws = [mechanism.law(x) for x in range(mechanism.categories)]
    drawn = [((column[0] - factor * column[1]) / min(column), min(column)) for column in zip(*laws, strict=True)]
    drawn.append((Fraction(0), 1 - mechanism.gamma))
    total = Fraction(0)
    for chosen in product(drawn, repeat=reports):
        mass = Fraction(1)
        for _, chance in chosen:
            mass *= chance
        total += mass * max(Fraction(0), sum((value for value, _ in chosen), Fraction(0)))
    return total / reports


def test_the_four_points_give_lemma_5_3_itself() -> None:
    mechanism = RAPPOR(3, Fraction(2, 3), Fraction(1, 5))
    for reports, epsilon in ((1, 0.5), (2, 0.1), (3, 0.7)):
        exact = float(blanket_by_hand(mechanism, reports, epsilon))
        low, high = BOUNDS["blanket"].delta(mechanism, reports, epsilon)
        assert low <= exact <= high <= exact * (1 + 1e-9)


def ratios(mechanism: Laplace | Gaussian, x: float, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A_x(y) and the blanket's density on the grid y, in plain floating point."""
    far = np.maximum(y, 1 - y)
    if isinstance(mechanism, Laplace):
        local = mechanism.epsilon_local
        return np.exp(local * (far - np.abs(y - x))), local / 2 * np.exp(-local * far)
    sigma = mechanism.sigma
    blanket = np.exp(-(far**2) / (2 * sigma**2)) / (sigma * np.sqrt(2 * np.pi))
    return np.exp((far**2 - (y - x) ** 2) / (2 * sigma**2)), blanket


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "mechanism", [Laplace(0.2), Laplace(1.0), Laplace(5.0), Gaussian(0.4), Gaussian(1.0), Gaussian(8.0)], ids=repr
)
@pytest.mark.parametrize("factor", [0.3, 1.0, 1.2, 2.5])
def test_no_two_answers_are_worse_than_the_ends(mechanism: Laplace | Gaussian, factor: float) -> None:
    """E(A_x − αA_x' − c)₊ under the blanket is largest at x = 0, x' = 1, for every c: quadrature on 20,000 points."""
    width = 40 / mechanism.epsilon_local if isinstance(mechanism, Laplace) else 9 * mechanism.sigma
    y = np.linspace(-width, 1 + width, 20_001)
    step = y[1] - y[0]

    def curve(x: float, other: float) -> np.ndarray:
        first, blanket = ratios(mechanism, x, y)
        value = first - factor * ratios(mechanism, other, y)[0]
        return np.array([step * np.sum(blanket * np.maximum(value - c, 0.0)) for c in places])

    ends = ratios(mechanism, 0.0, y)[0] - factor * ratios(mechanism, 1.0, y)[0]
    places = np.quantile(ends, np.linspace(0, 1, 25))
    worst = curve(0.0, 1.0)
    for x, other in product(np.linspace(0, 1, usually(5, 9)), repeat=2):
        assert np.all(curve(float(x), float(other)) <= worst * (1 + 1e-3) + 1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("mechanism", "room"),
    [(Laplace(0.5), 5e-3), (Laplace(3.0), 5e-3), (Gaussian(3.0), 5e-3), (Gaussian(0.7), 0.07)],
    ids=repr,
)
def test_two_noisy_reports_are_bracketed_by_quadrature(mechanism: Laplace | Gaussian, room: float) -> None:
    """n = 2: E(Y₁ + Y₂)₊/2 with the density integrated directly. Little noise has long tails: there is more room."""
    width = 30 / mechanism.epsilon_local if isinstance(mechanism, Laplace) else 8 * mechanism.sigma
    y = np.linspace(-width, 1 + width, 4001) + 1e-4
    zero, blanket = ratios(mechanism, 0.0, y)
    one, _ = ratios(mechanism, 1.0, y)
    mass = blanket * (y[1] - y[0])
    for epsilon in (0.0, 0.1):
        value = zero - exp(epsilon) * one
        pairs = float(mass @ np.maximum(value[:, None] + value[None, :], 0.0) @ mass)
        alone = 2 * float(1 - mechanism.gamma) * float(mass @ np.maximum(value, 0.0))
        exact = (pairs + alone) / 2
        low, high = BOUNDS["blanket"].delta(mechanism, 2, epsilon)
        assert low <= exact * (1 + 2e-3)
        assert exact * (1 - 2e-3) <= high <= exact * (1 + room)


@pytest.mark.parametrize("mechanism", [Laplace(0.5), Laplace(4.0), Gaussian(0.5), Gaussian(2.0)], ids=repr)
def test_spread_and_joined_points_keep_the_laws_they_stand_for(mechanism: Laplace | Gaussian) -> None:
    points = gaussian_points(mechanism, 1e-12) if isinstance(mechanism, Gaussian) else laplace_points(mechanism)
    spread = float(sum(point.mass * point.first for point in points.spread))
    joined = float(sum(point.mass * point.first for point in points.joined))
    assert spread + float(points.missing) == pytest.approx(1, abs=1e-15)
    assert joined == pytest.approx(1, abs=1e-15)
    for found in (points.spread, points.joined):
        assert float(sum(point.mass for point in found)) == pytest.approx(float(mechanism.gamma), rel=1e-14)
    above, below = (sorted((float(p.first), float(p.mass)) for p in found) for found in (points.spread, points.joined))
    for c in (1.0, 1.1, 2.0, float(points.spread[0].first) * 0.9):
        spread_part, joined_part = (sum(m * max(a - c, 0.0) for a, m in side) for side in (above, below))
        assert joined_part <= spread_part + float(points.missing) + 1e-15


def strong_delta(mechanism: KRR, reports: int, epsilon: float) -> Fraction:
    """A_s listed: everyone's blanket bit is seen with the counts of the blanket's and the victim's reports."""
    gamma, k = mechanism.gamma, mechanism.categories
    uniform = tuple(Fraction(1, k) for _ in range(k))
    points = [tuple(Fraction(int(y == x)) for y in range(k)) for x in range(2)]
    total = Fraction(0)
    for bits in product((0, 1), repeat=reports - 1):
        blankets = sum(bits)
        mass = gamma**blankets * (1 - gamma) ** (reports - 1 - blankets)
        views = [batch([uniform] * blankets + [point]) for point in points]
        total += mass * (1 - gamma) * divergence(views[0], views[1], epsilon)
    return total


@pytest.mark.parametrize(("categories", "gamma"), [(2, Fraction(1, 3)), (3, Fraction(1, 2)), (4, Fraction(9, 10))])
def test_the_strong_adversary_is_the_joint_law_and_covers_the_blanket(categories: int, gamma: Fraction) -> None:
    mechanism = KRR(categories, gamma)
    for reports, epsilon in ((1, 0.1), (3, 0.4), (4, 1.0)):
        exact = float(strong_delta(mechanism, reports, epsilon))
        low, high = BOUNDS["koskela-strong"].delta(mechanism, reports, epsilon)
        assert low <= exact <= high <= exact * (1 + 1e-9)
        assert BOUNDS["blanket"].delta(mechanism, reports, epsilon)[0] <= high


def half_clones_delta(local: float, reports: int, epsilon: float) -> Fraction:
    """(6.1) listed: P = (A + Δ, C − A), Q = (A, C − A + Δ)."""
    ratio = Fraction(exp_decimal(local))
    clone: Law = (1 / (2 * ratio), 1 / (2 * ratio), 1 - 1 / ratio)
    own = ratio / (ratio + 1)
    nothing = Fraction(0)
    first = batch([clone] * (reports - 1) + [(own, nothing, 1 - own)])
    return divergence(first, batch([clone] * (reports - 1) + [(nothing, own, 1 - own)]), epsilon)


@pytest.mark.parametrize("local", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("reports", [1, 2, 6])
def test_koskelas_clones_are_6_1_and_above_the_clones(local: float, reports: int) -> None:
    for epsilon in (0.0, 0.5 * local, 0.95 * local):
        exact = float(half_clones_delta(local, reports, epsilon))
        low, high = BOUNDS["koskela-clones"].delta(Generic(local), reports, epsilon)
        assert low <= exact <= high <= exact * (1 + 1e-9)
        assert BOUNDS["clones"].delta(Generic(local), reports, epsilon)[1] <= high * (1 + 1e-9)


COMPOSED: list[RAPPOR | Laplace] = [
    RAPPOR(3, Fraction(3, 4), Fraction(1, 4)),
    RAPPOR(2, Fraction(1, 2), Fraction(1, 8)),
    Laplace(1.5),
]


def attack_delta(mechanism: RAPPOR, reports: int, epsilon: float) -> float:
    return BOUNDS["rappor-lower"].delta(mechanism, reports, epsilon)[0]


@pytest.mark.sampled("20-RAPPOR")
@pytest.mark.parametrize("mechanism", COMPOSED, ids=repr)
@pytest.mark.parametrize("reports", [20, 5000])
def test_losses_laid_from_curves_bracket_the_one_round_bound(mechanism: RAPPOR | Laplace, reports: int) -> None:
    above, below = dominating_grid(Part(mechanism, reports), 40.0), dominated_grid(Part(mechanism, reports), 40.0)
    attack = attack_grid(Part(mechanism, reports), 40.0)
    for share in (0.0, 0.01, 0.1, 0.4, 0.97, 0.999):
        epsilon = share * mechanism.epsilon_local
        low, high = BOUNDS["blanket"].delta(mechanism, reports, epsilon)
        assert below.delta(epsilon) <= high * (1 + 1e-9) + 1e-15
        # RAPPOR's curve is that of a smaller bound, and all of it is used at each ε: no single value is below it.
        least = low if isinstance(mechanism, Laplace) else attack_delta(mechanism, reports, epsilon)
        assert least <= above.delta(epsilon) * (1 + 1e-9)
        if high > 1e-7 and share < 0.5:
            assert below.delta(epsilon) >= 0.97 * above.delta(epsilon)
        assert attack is None or attack.delta(epsilon) <= high * (1 + 1e-9)


def test_two_rounds_of_rappor_cover_the_product_of_real_batches() -> None:
    mechanism = RAPPOR(3, Fraction(3, 4), Fraction(1, 4))
    laws = [mechanism.law(x) for x in range(3)]
    first, second = batch([laws[0], laws[2]]), batch([laws[1], laws[2]])
    part = Part(mechanism, 2, 2)
    for epsilon in (0.0, 0.5, 1.5):
        factor = Fraction(exp_decimal(epsilon))
        truth = sum(
            max(Fraction(0), first[a] * first[b] - factor * second.get(a, Fraction(0)) * second.get(b, Fraction(0)))
            for a in first
            for b in first
        )
        found = compose_delta([part], epsilon)
        assert found.delta_lower is not None
        assert found.delta_lower <= float(truth) <= found.delta_upper


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", COMPOSED, ids=repr)
def test_renyi_divergences_are_ordered_and_below_the_local_one(mechanism: RAPPOR | Laplace) -> None:
    upper, lower = rdp_upper(mechanism, 3000, 2.0), rdp_lower(mechanism, 3000, 2.0)
    assert (lower or 0.0) <= upper <= rdp_upper(Generic(mechanism.epsilon_local), 3000, 2.0) * (1 + 1e-6)


def sampled_batch(laws: list[Law], rate: Fraction) -> View:
    """Each client takes part with probability `rate`."""
    view: View = {}
    for present in product((0, 1), repeat=len(laws)):
        mass = Fraction(1)
        for bit in present:
            mass *= rate if bit else 1 - rate
        for at, chance in batch([law for law, bit in zip(laws, present, strict=True) if bit]).items():
            view[at] = view.get(at, Fraction(0)) + mass * chance
    return view


def poisson_pair(mechanism: KRR, people: int, rate: Fraction) -> tuple[dict[tuple[int, ...], Fraction], ...]:
    """The pair listed: t truthful others are shown, s blankets and perhaps the victim shuffled."""
    gamma, k = mechanism.gamma, mechanism.categories
    uniform = tuple(Fraction(1, k) for _ in range(k))
    sides: tuple[dict[tuple[int, ...], Fraction], ...] = ({}, {})
    for kinds in product((0, 1, 2), repeat=people - 1):
        mass = Fraction(1)
        for kind in kinds:
            mass *= (1 - rate, rate * gamma, rate * (1 - gamma))[kind]
        blankets, truthful = kinds.count(1), kinds.count(2)
        for side, x in zip(sides, (0, 1), strict=True):
            for present, chance in ((0, 1 - rate), (1, rate)):
                for at, each in batch([uniform] * blankets + [mechanism.law(x)] * present).items():
                    place = (truthful, *at)
                    side[place] = side.get(place, Fraction(0)) + mass * chance * each
    return sides


@pytest.mark.sampled(3)
@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
@pytest.mark.parametrize(
    "mechanism", [KRR(3, Fraction(1, 2)), KRR(2, Fraction(1, 3)), KRR(4, Fraction(1, 5))], ids=repr
)
def test_poisson_sampling_is_the_listed_pair_and_covers_real_runs(mechanism: KRR, rate: Fraction) -> None:
    people = 3
    first, second = poisson_pair(mechanism, people, rate)
    part = Part(mechanism, people, sampling_rate=rate)
    laws = [mechanism.law(x) for x in range(mechanism.categories)]
    for share in (0.0, 0.1, 0.4):
        epsilon = share * mechanism.epsilon_local
        listed = float(divergence(first, second, epsilon))
        found = compose_delta([part], epsilon)
        assert listed * (1 - 1e-9) <= found.delta_upper <= listed * (1 + 1e-3) + 1e-9
        for others in combinations_with_replacement(laws, people - 1):
            batches = (sampled_batch([laws[x], *others], rate) for x in (0, 1))
            assert float(divergence(*batches, epsilon)) <= found.delta_upper * (1 + 1e-12)
        assert found.delta_lower is None or found.delta_lower <= listed


def test_two_rounds_of_poisson_sampling_cover_the_product() -> None:
    mechanism, rate = KRR(3, Fraction(1, 2)), Fraction(1, 2)
    first, second = poisson_pair(mechanism, 2, rate)
    for epsilon in (0.0, 0.3):
        factor = exp(epsilon)
        truth = sum(
            max(0.0, float(first[a] * first[b]) - factor * float(second[a] * second[b])) for a in first for b in first
        )
        found = compose_delta([Part(mechanism, 2, 2, sampling_rate=rate)], epsilon)
        assert truth * (1 - 1e-9) <= found.delta_upper <= truth * (1 + 1e-2) + 1e-9


def test_the_rule_for_fixed_batches_is_false_for_poisson_sampling() -> None:
    """q·δ(ε) of a batch of all clients would be too small: not all of them are there to hide the victim."""
    mechanism, rate, people = KRR(3, Fraction(1, 10)), Fraction(1, 2), 8
    epsilon, inner = 0.5, float(np.log1p((exp(0.5) - 1) * 2))
    attack = Part(mechanism, people, sampling_rate=rate)
    reached = compose_delta([attack], epsilon).delta_lower
    assert reached is not None
    by_rule = 0.5 * BOUNDS["blanket"].delta(mechanism, people, inner)[1]
    assert reached > by_rule


def test_taking_part_less_often_never_hurts() -> None:
    mechanism = KRR.from_local_epsilon(4, 2.0)
    rare, often = (
        compose([Part(mechanism, 2000, 5, sampling_rate=rate)], 1e-6) for rate in (Fraction(1, 20), Fraction(1, 2))
    )
    always = compose([Part(mechanism, 2000, 5)], 1e-6)
    assert rare.epsilon_upper < often.epsilon_upper < always.epsilon_upper * 1.01
    assert rare.epsilon_lower is not None
    assert 0 < rare.epsilon_lower <= rare.epsilon_upper


ANY: list[AnyMechanism] = [Laplace(2.0), RAPPOR.from_local_epsilon(6, 2.0), Gaussian(1.0)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mechanism", ANY, ids=repr)
def test_more_reports_and_a_larger_delta_never_hurt(mechanism: AnyMechanism) -> None:
    found = [BOUNDS["blanket"].epsilon(mechanism, n, 1e-6).upper for n in (50, 5000)]
    assert found[0] > found[1] > BOUNDS["blanket"].epsilon(mechanism, 5000, 1e-4).upper


@pytest.mark.parametrize("reports", [2, 3, 4, 5])
@pytest.mark.parametrize("local", [0.05, 0.3, 0.69])
def test_the_randomizer_of_four_outputs_is_local_and_its_batch_has_the_divergence_that_the_attack_states(
    reports: int, local: float
) -> None:
    ratio = Fraction(exp_decimal(local))
    rows = [(ratio, 1, ratio, 1), (1, ratio, 1, ratio), (1, 1, ratio, ratio)]
    laws: list[Law] = [tuple(Fraction(each) / (2 * (ratio + 1)) for each in row) for row in rows]
    assert all(sum(law) == 1 for law in laws)
    assert max(max(column) / min(column) for column in zip(*laws, strict=True)) <= ratio
    first, second = (batch([laws[x], *[laws[2]] * (reports - 1)]) for x in (0, 1))
    for share in (0.0, 0.2, 0.7, 0.95):
        exact = float(divergence(first, second, share * local))
        found = narrowed(partial(positive_part, four_outputs_sum(Generic(local), reports, share * local)))
        assert exp(found.lower) * (1 - 1e-12) <= exact <= exp(found.upper) * (1 + 1e-12)
        assert exp(found.upper) <= exact * 1.001
        # The best attack shows at least this one, and no more than the worst that any such randomizer may.
        stated = BOUNDS["krr-lower"].delta(Generic(local), reports, share * local)[0]
        assert exact * 0.999 <= stated <= BOUNDS["stronger-clones"].delta(Generic(local), reports, share * local)[1]


@pytest.mark.parametrize("reports", [2, 3, 5, 9])
@pytest.mark.parametrize("local", [0.05, 0.69, 2.0])
def test_the_batch_of_binary_response_has_the_divergence_that_the_attack_states(reports: int, local: float) -> None:
    ratio = Fraction(exp_decimal(local))
    laws: list[Law] = [(ratio / (ratio + 1), 1 / (ratio + 1)), (1 / (ratio + 1), ratio / (ratio + 1))]
    first, second = (batch([laws[x], *[laws[0]] * (reports - 1)]) for x in (0, 1))
    for share in (0.0, 0.2, 0.7, 0.95):
        exact = float(divergence(first, second, share * local))
        found = narrowed(partial(positive_part, binary_sum(Generic(local), reports, share * local)))
        assert exp(found.lower) * (1 - 1e-12) <= exact <= exp(found.upper) * (1 + 1e-12)
        assert exp(found.upper) <= exact * 1.001
        stated = BOUNDS["krr-lower"].delta(Generic(local), reports, share * local)[0]
        assert exact * 0.999 <= stated <= BOUNDS["stronger-clones"].delta(Generic(local), reports, share * local)[1]


@pytest.mark.parametrize(
    ("local", "most", "reports"),
    [
        (0.01, 0.0032, 1_000),
        (0.01, 0.0035, 100_000),
        (0.05, 0.0125, 1_000),
        (0.05, 0.0146, 100_000),
        (0.25, 0.0325, 100),
        (0.25, 0.06, 1_000),
        (0.25, 0.068, 100_000),
    ],
)
def test_both_ends_for_an_unknown_randomizer_of_a_small_local_epsilon_are_close(
    local: float, most: float, reports: int
) -> None:
    found = epsilon_bracket(Generic(local), reports, 1e-6)
    assert found.epsilon_lower is not None
    assert found.epsilon_lower <= found.epsilon_upper <= (1 + most) * found.epsilon_lower
