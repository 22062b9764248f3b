"""One-round bounds against exact sums over all outcomes of the views themselves, in rational arithmetic."""

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import comb, exp, factorial, fsum, log

import numpy as np
import pytest
from scipy.stats import binom

from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.data_sets import FEW, data_sets
from hubbub.accountant.divergence.sums import attack_sum
from hubbub.accountant.mechanisms import KRR, Generic, exp_decimal
from support.exact_batches import Law, View, add_report, batch_view
from support.thoroughness import spread


def power(epsilon: float) -> Fraction:
    return Fraction(exp_decimal(epsilon))


def divergence(first: View, second: View, epsilon: float) -> Fraction:
    factor = power(epsilon)
    return sum(
        (max(Fraction(0), mass - factor * second.get(at, Fraction(0))) for at, mass in first.items()), Fraction(0)
    )


def multinomial(counts: tuple[int, ...], law: Law) -> Fraction:
    ways = factorial(sum(counts))
    for count in counts:
        ways //= factorial(count)
    mass = Fraction(ways)
    for count, chance in zip(counts, law, strict=True):
        mass *= chance**count
    return mass


def blanket_delta(mechanism: KRR, reports: int, epsilon: float, dummies: int = 0) -> Fraction:
    """The blanket view itself: B others drew a blanket, counts of them and of the victim's report."""
    gamma, k = mechanism.gamma, mechanism.categories
    uniform = (Fraction(1, k), Fraction(1, k), 1 - Fraction(2, k))
    mine, neighbor = mechanism.law(0), mechanism.law(1)
    first = (mine[0], mine[1], 1 - mine[0] - mine[1])
    second = (neighbor[0], neighbor[1], 1 - neighbor[0] - neighbor[1])
    total = Fraction(0)
    for blankets in range(reports):
        chance = comb(reports - 1, blankets) * gamma**blankets * (1 - gamma) ** (reports - 1 - blankets)
        others = histogram_of(uniform, blankets + dummies)
        total += chance * divergence(add_report(others, first), add_report(others, second), epsilon)
    return total


def histogram_of(law: Law, draws: int) -> View:
    return {
        (a, b, draws - a - b): multinomial((a, b, draws - a - b), law)
        for a in range(draws + 1)
        for b in range(draws - a + 1)
        if law[2] or a + b == draws
    }


def pair_delta(others: Law, first: Law, second: Law, reports: int, epsilon: float) -> Fraction:
    view = histogram_of(others, reports - 1)
    return divergence(add_report(view, first), add_report(view, second), epsilon)


def attack_delta(mechanism: KRR, reports: int, epsilon: float) -> Fraction:
    """The worst number of others who hold the victim's value; the rest hold a third one."""
    p, truthful = mechanism.other, mechanism.truthful
    second, third = (p, truthful, 1 - p - truthful), (p, p, 1 - 2 * p)
    first = (truthful, p, 1 - p - truthful)

    def with_others(held: int) -> Fraction:
        view = batch_view((second,) * held + (third,) * (reports - 1 - held))
        return divergence(add_report(view, second), add_report(view, first), epsilon)

    return max(with_others(held) for held in range(reports))


def assert_encloses(lower: float, upper: float, truth: Fraction, width: float) -> None:
    assert Fraction(lower) <= truth <= Fraction(upper)
    assert upper - lower <= width * upper


MISSED = [(3, FEW + 30, 3.0, 1e-6), (3, 400, 4.0, 1e-6), (10, 400, 6.0, 1e-6), (3, 200, 2.5, 1e-12)]
"""Few blankets of one value: who sends it is best told where nobody else does."""

CASES = [(2, 2.0, 0.5), (3, 1.0, 0.2), (5, 2.0, 0.7), (8, 3.0, 1.5), (12, 0.5, 0.1), (12, 5.0, 3.0)]


def test_attack_encloses_its_exact_value_at_sixty_reports() -> None:
    mechanism = KRR(4, Fraction(1, 2))
    p, truthful = 0.125, 0.625
    factor = exp(0.3)
    view = {(a, b): 0.0 for a in range(62) for b in range(62 - a)}
    other = dict(view)
    for a in range(60):
        for b in range(60 - a):
            mass = comb(59, a) * comb(59 - a, b) * p ** (a + b) * (1 - 2 * p) ** (59 - a - b)
            for table, first, second in [(view, truthful, p), (other, p, truthful)]:
                table[a + 1, b] += mass * first
                table[a, b + 1] += mass * second
                table[a, b] += mass * (1 - first - second)
    truth = fsum(max(0.0, view[at] - factor * other[at]) for at in view)
    for encloses in (data_sets(mechanism, 60).log_delta(0.3), positive_part(attack_sum(mechanism, 60, 0.3), 0.01)):
        lower, upper = exp(encloses.lower), exp(encloses.upper)
        assert lower <= truth * (1 + 1e-12)
        assert truth * (1 - 1e-12) <= upper
        assert upper - lower <= 1e-9 * upper


@pytest.mark.parametrize("categories", [2, 3, 7])
@pytest.mark.parametrize(("reports", "epsilon_local", "epsilon"), CASES)
def test_blanket_encloses_its_exact_value(categories: int, reports: int, epsilon_local: float, epsilon: float) -> None:
    mechanism = KRR.from_local_epsilon(categories, epsilon_local)
    lower, upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon)
    assert_encloses(lower, upper, blanket_delta(mechanism, reports, epsilon), 1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("reports", "epsilon_local", "epsilon"), CASES)
def test_attack_encloses_its_exact_value(reports: int, epsilon_local: float, epsilon: float) -> None:
    mechanism = KRR.from_local_epsilon(4, epsilon_local)
    lower, upper = BOUNDS["krr-lower"].delta(mechanism, reports, epsilon)
    assert_encloses(lower, upper, attack_delta(mechanism, reports, epsilon), 1e-9)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("epsilon_local", "share"), [(0.5, 0.3), (1.0, 0.6), (2.0, 0.9), (4.0, 0.97)])
@pytest.mark.parametrize("reports", spread([2, 3, 4, 5, 6], 3))
def test_no_attack_passes_the_worst_assignment_of_all_others(reports: int, epsilon_local: float, share: float) -> None:
    """kRR of four values: every multiset of the others' answers, and both directions."""
    mechanism, epsilon = KRR.from_local_epsilon(4, epsilon_local), share * epsilon_local
    laws = [mechanism.law(value) for value in range(4)]
    worst = Fraction(0)
    for others in combinations_with_replacement(range(4), reports - 1):
        view = batch_view(tuple(laws[value] for value in others))
        worst = max(worst, divergence(add_report(view, laws[0]), add_report(view, laws[1]), epsilon))
    lower, _ = BOUNDS["krr-lower"].delta(mechanism, reports, epsilon)
    blanket_lower, blanket_upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon)
    assert 0 < Fraction(lower) <= worst <= Fraction(blanket_upper)
    assert lower <= blanket_lower * (1 + 1e-9)


@pytest.mark.parametrize(("categories", "reports", "epsilon_local", "delta"), MISSED)
def test_attack_among_others_who_hold_the_victims_value(
    categories: int, reports: int, epsilon_local: float, delta: float
) -> None:
    """All others hold what the victim holds under P: beyond `FEW` reports a contour integral knows it, too."""
    mechanism = KRR.from_local_epsilon(categories, epsilon_local)
    p, truthful = mechanism.other, mechanism.truthful
    lower = BOUNDS["krr-lower"].epsilon(mechanism, reports, delta).lower
    factor = exp(lower)
    # With all others alike, Q's density against P's is the mean of the reports' own ratios.
    total = 0.0
    for missing in range(reports + 1):
        second = np.arange(reports - missing + 1.0)
        mass = binom.pmf(missing, reports, float(p))
        mass = mass * binom.pmf(second, reports - missing, float(truthful / (1 - p)))
        ratio = missing * float(truthful / p) + second * float(p / truthful) + (reports - missing - second)
        total += float(mass @ np.maximum(1 - factor * ratio / reports, 0.0))
    assert delta <= total * (1 + 1e-9)
    assert total <= delta * (1 + 1e-3)


@pytest.mark.parametrize("bound", ["stronger-clones", "clones"])
@pytest.mark.parametrize(("reports", "epsilon_local", "epsilon"), CASES)
def test_clone_pairs_enclose_their_exact_values(bound: str, reports: int, epsilon_local: float, epsilon: float) -> None:
    ratio = power(epsilon_local)
    p = 1 / (2 * ratio) if bound == "clones" else 1 / (ratio + 1)
    victim = ratio / (ratio + 1)
    truth = pair_delta(
        (p, p, 1 - 2 * p), (victim, 1 - victim, Fraction(0)), (1 - victim, victim, Fraction(0)), reports, epsilon
    )
    lower, upper = BOUNDS[bound].delta(Generic(epsilon_local), reports, epsilon)
    assert_encloses(lower, upper, truth, 1e-9)


def two_rr_delta(mechanism: KRR, zeros: int, ones: int, epsilon: float, dummies: int = 0) -> Fraction:
    p, q = mechanism.other, mechanism.truthful
    law = [Fraction(1)]
    for up in [p] * zeros + [q] * ones + [Fraction(1, 2)] * dummies:
        law = [a * (1 - up) + b * up for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    first = [a * p + b * q for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    second = [a * q + b * p for a, b in zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)]
    factor = power(epsilon)
    return sum((max(Fraction(0), a - factor * b) for a, b in zip(first, second, strict=True)), Fraction(0))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dummies", [0, 4])
@pytest.mark.parametrize(
    ("reports", "epsilon_local", "epsilon"), [*CASES, (1, 1.0, 0.3), (30, 4.0, 1.0), (40, 1.0, 0.05)]
)
def test_two_rr_encloses_the_worst_of_all_inputs(
    reports: int, epsilon_local: float, epsilon: float, dummies: int
) -> None:
    mechanism = KRR(2, KRR.from_local_epsilon(2, epsilon_local).gamma.limit_denominator(10**6))
    truth = max(two_rr_delta(mechanism, reports - 1 - ones, ones, epsilon, dummies) for ones in range(reports))
    lower, upper = BOUNDS["2rr"].delta(mechanism, reports, epsilon, dummies)
    assert_encloses(lower, upper, truth, 1e-6)


@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-9])
@pytest.mark.parametrize("reports", [5, 20])
def test_two_rr_epsilon_encloses_the_root(reports: int, delta: float) -> None:
    mechanism = KRR(2, Fraction(1, 3))
    ends = BOUNDS["2rr"].epsilon(mechanism, reports, delta)
    worst = [
        max(two_rr_delta(mechanism, reports - 1 - j, j, end, 0) for j in range(reports))
        for end in (ends.lower, ends.upper)
    ]
    assert worst[1] <= Fraction(delta) <= worst[0] or ends.upper == mechanism.epsilon_local


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.8])
@pytest.mark.parametrize("reports", [2, 3, 5])
def test_krr_truth_lies_in_the_bracket(reports: int, epsilon: float) -> None:
    mechanism = KRR(3, Fraction(2, 5))
    laws = [mechanism.law(x) for x in range(3)]
    truth = max(
        divergence(
            batch_view((laws[a], *(laws[x] for x in inputs))),
            batch_view((laws[b], *(laws[x] for x in inputs))),
            epsilon,
        )
        for inputs in combinations_with_replacement(range(3), reports - 1)
        for a, b in [(0, 1), (0, 2), (1, 2)]
    )
    bracket = delta_bracket(mechanism, reports, epsilon)
    assert bracket.delta_lower is not None
    assert Fraction(bracket.delta_lower) <= truth <= Fraction(bracket.delta_upper)


def rappor(epsilon_local: float, bits: int) -> list[Law]:
    """One-hot input, every bit kept with probability e^{ε₀/2}/(e^{ε₀/2}+1)."""
    keep = Fraction(exp(epsilon_local / 2)) / (1 + Fraction(exp(epsilon_local / 2)))
    return [
        tuple(
            np.prod([keep if bit == (place == x) else 1 - keep for place, bit in enumerate(word)])
            for word in product([0, 1], repeat=bits)
        )
        for x in range(bits)
    ]


def random_matrix(generator: np.random.Generator, inputs: int, outputs: int, epsilon_local: float) -> list[Law]:
    """Rows within a factor e^ε₀ of each other: extreme ones, since the worst cases are extreme."""
    base = [Fraction(int(weight)) for weight in generator.integers(1, 9, outputs)]
    ratio = Fraction(exp(epsilon_local)).limit_denominator(10**6)
    rows = []
    for _ in range(inputs):
        row = [weight * (ratio if generator.random() < 0.5 else 1) for weight in base]
        rows.append(row)
    return [tuple(weight / sum(row) for weight in row) for row in rows]


def true_local_epsilon(rows: list[Law]) -> float:
    return log(max(a / b for first in rows for second in rows for a, b in zip(first, second, strict=True)))


def assert_covered(rows: list[Law], reports: int) -> None:
    local = true_local_epsilon(rows) * (1 + 1e-12)
    if local == 0:
        return
    for epsilon in (0.0, 0.3 * local, 0.7 * local):
        limit = Fraction(BOUNDS["stronger-clones"].delta(Generic(local), reports, epsilon)[1])
        for inputs in combinations_with_replacement(range(len(rows)), reports - 1):
            view = batch_view(tuple(rows[x] for x in inputs))
            for a, b in product(range(len(rows)), repeat=2):
                assert divergence(add_report(view, rows[a]), add_report(view, rows[b]), epsilon) <= limit


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reports", [2, 3, 4])
@pytest.mark.parametrize("epsilon_local", [1.0, 3.0])
def test_stronger_clones_cover_rappor_although_it_is_outside_the_class(epsilon_local: float, reports: int) -> None:
    rows = rappor(epsilon_local, 3)
    ratio = max(a / b for a, b in zip(rows[0], rows[1], strict=True))
    in_class = all(
        (ratio + 1) * min(row[y] for row in rows) >= rows[a][y] + rows[b][y]
        for y in range(8)
        for a, b in product(range(3), repeat=2)
        if a != b
    )
    assert not in_class
    if reports < 4:
        assert_covered(rows, reports)
    else:
        view = batch_view((rows[2],) * (reports - 1))
        limit = BOUNDS["stronger-clones"].delta(Generic(epsilon_local * (1 + 1e-12)), reports, 0.3)[1]
        assert divergence(add_report(view, rows[0]), add_report(view, rows[1]), 0.3) <= Fraction(limit)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(12))
def test_stronger_clones_cover_random_randomizers(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows = random_matrix(generator, 3, int(generator.integers(2, 5)), float(generator.uniform(0.2, 3)))
    reports = int(generator.integers(2, 5))
    assert_covered(rows, reports)


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-4, 1e-12])
def test_epsilon_bracket_encloses_the_exact_root_of_the_blanket(delta: float) -> None:
    mechanism = KRR(3, Fraction(1, 3))
    bracket = epsilon_bracket(mechanism, 10, delta, bound="blanket")
    if bracket.bound == "local":
        assert blanket_delta(mechanism, 10, mechanism.epsilon_local * (1 - 1e-3)) > Fraction(delta)
        return
    assert blanket_delta(mechanism, 10, bracket.epsilon_upper) <= Fraction(delta)
    if bracket.epsilon_upper > 0:
        assert blanket_delta(mechanism, 10, bracket.epsilon_upper * (1 - 1e-4)) > Fraction(delta)


@pytest.mark.parametrize("categories", [2, 3])
@pytest.mark.parametrize("dummies", [1, 6])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.2])
def test_blanket_with_dummies_encloses_the_exact_view(categories: int, dummies: int, epsilon: float) -> None:
    mechanism = KRR(categories, Fraction(1, 4))
    lower, upper = BOUNDS["blanket"].delta(mechanism, 8, epsilon, dummies)
    truth = blanket_delta(mechanism, 8, epsilon, dummies)
    assert Fraction(lower) <= truth <= Fraction(upper)
    assert upper <= float(truth) * (1 + 1e-8)


def _blanket_with_dummies(mechanism: KRR, reports: int, dummies: int, epsilon: float) -> Fraction:
    """The blanket's δ with dummies, exactly: over the number of blankets, and over how many show either value."""
    factor = Fraction(exp_decimal(epsilon))
    each = Fraction(1, mechanism.categories)
    base = mechanism.gamma * (1 - factor)
    true = (1 - mechanism.gamma) * mechanism.categories
    total = Fraction(0)
    for blankets in range(reports):
        chance = (
            comb(reports - 1, blankets) * mechanism.gamma**blankets * (1 - mechanism.gamma) ** (reports - 1 - blankets)
        )
        draws = blankets + dummies + 1
        shown = Fraction(0)
        for first in range(draws + 1):
            for second in range(draws + 1 - first):
                value = draws * base + first * true - second * true * factor
                if value > 0:
                    ways = comb(draws, first) * comb(draws - first, second)
                    shown += ways * each ** (first + second) * (1 - 2 * each) ** (draws - first - second) * value
        total += chance * shown / draws
    return total


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dummies", [1, 2, 7])
@pytest.mark.parametrize(
    ("categories", "gamma", "reports"),
    [
        (3, Fraction(1, 4), 6),
        (33, Fraction(42256819, 67108864), 20),
        (5, Fraction(1, 100), 12),
        (4, Fraction(9, 10), 15),
    ],
)
def test_few_people_beside_dummies_are_summed_exactly(
    categories: int, gamma: Fraction, reports: int, dummies: int
) -> None:
    mechanism = KRR(categories, gamma)
    for share in (0.1, 0.5, 0.9):
        epsilon = share * mechanism.epsilon_local
        exact = float(_blanket_with_dummies(mechanism, reports, dummies, epsilon))
        lower, upper = BOUNDS["blanket"].delta(mechanism, reports, epsilon, dummies)
        assert lower <= exact * (1 + 1e-12)
        assert exact * (1 - 1e-12) <= upper
        # At most what each tail of the blankets may have.
        assert upper <= exact * (1 + 1e-4) + 1e-36
