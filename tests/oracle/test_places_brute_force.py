"""Places with different, adaptive randomizers against lists of all views (accounting-clones.md).

Every randomizer is an extreme one, or a mixture of two. Each row of an extreme one is a column's weight, or E times
that. Where numbers are fractions, they are exact. Doubles are within `ROOM` of them.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from math import comb, log

import numpy as np
import pytest
from numpy.typing import NDArray

from hubbub.accountant.bounds import BOUNDS
from hubbub.accountant.mechanisms import KRR, Generic
from support.thoroughness import usually

Law = tuple[Fraction, ...]
Rows = tuple[Law, ...]
Outputs = tuple[int, ...]
View = dict[Outputs, Fraction]
Revealed = dict[tuple[Outputs, frozenset[int]], Fraction]
Batch = dict[Outputs, Rows]
"""The randomizer of each place, by the outputs of the places before it: rows for x, x' and other answers."""
Array = NDArray[np.float64]

SHARES = (Fraction(0), Fraction(1, 20), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(99, 100))
"""e^ε is asked for at 1 plus these shares of E − 1."""

ROOM = 1e-13
"""A view's mass is a mean of products of at most four doubles, each off by four roundings: within 60 roundings."""


def powers(ratio: Fraction) -> list[Fraction]:
    return [1 + (ratio - 1) * share for share in SHARES]


def extreme_randomizers(ratio: Fraction, outputs: int, weights: int, inputs: int) -> Iterator[Rows]:
    """Yield those with whole weights below `weights`: rows multiply weights of equal sums by the ratio."""
    for columns in product(range(weights), repeat=outputs):
        used = [place for place, weight in enumerate(columns) if weight]
        sets = [chosen for size in range(len(used) + 1) for chosen in combinations(used, size)]
        for total in sorted({sum(columns[y] for y in chosen) for chosen in sets} if used else ()):
            alike = [chosen for chosen in sets if sum(columns[y] for y in chosen) == total]
            whole = sum(columns) + (ratio - 1) * total
            rows = [
                tuple(Fraction(weight) * (ratio if y in chosen else 1) / whole for y, weight in enumerate(columns))
                for chosen in alike
            ]
            yield from product(rows, repeat=inputs)


def binary_responses(ratio: Fraction, outputs: int, inputs: int) -> list[Rows]:
    """Binary randomized response, which attains the bound: every assignment of its two laws to the inputs."""
    high, low, rest = ratio / (ratio + 1), 1 / (ratio + 1), (Fraction(0),) * (outputs - 2)
    return list(product([(high, low, *rest), (low, high, *rest)], repeat=inputs))


def stronger_clones(reports: int, ratio: Fraction, power: Fraction) -> Fraction:
    """The hockey-stick divergence of the stronger-clone pair, over all outcomes of its counts."""
    p = 1 / (ratio + 1)
    laws = {(a, c - a): Fraction(0) for c in range(reports + 1) for a in range(c + 1)}
    first, second = dict(laws), dict(laws)
    for c in range(reports):
        for a in range(c + 1):
            mass = comb(reports - 1, c) * comb(c, a) * p**c * (1 - 2 * p) ** (reports - 1 - c)
            for law, up in ((first, ratio * p), (second, p)):
                law[a + 1, c - a] += mass * up
                law[a, c - a + 1] += mass * (1 - up)
    return divergence(first, second, power)


def divergence(
    first: dict[tuple[int, int], Fraction] | View | Revealed,
    second: dict[tuple[int, int], Fraction] | View | Revealed,
    power: Fraction,
) -> Fraction:
    return sum((max(Fraction(0), mass - power * second[at]) for at, mass in first.items()), Fraction(0))


def adaptive_batch(generator: np.random.Generator, choices: list[Rows], reports: int) -> Batch:
    outputs = range(len(choices[0][0]))
    before = [past for place in range(reports) for past in product(outputs, repeat=place)]
    return {past: choices[int(generator.integers(len(choices)))] for past in before}


def places_view(batch: Batch, answers: Outputs) -> View:
    """Permute the answers; then each place applies its randomizer. The observer sees the outputs in order."""
    orders = list(permutations(answers))
    outputs = range(len(batch[()][0]))
    view = {}
    for seen in product(outputs, repeat=len(answers)):
        total = Fraction(0)
        for order in orders:
            mass = Fraction(1)
            for place, (answer, output) in enumerate(zip(order, seen, strict=True)):
                mass *= batch[seen[:place]][answer][output]
            total += mass
        view[seen] = total / len(orders)
    return view


def part_below(rows: Rows, output: int, ratio: Fraction) -> Fraction:
    return max(rows[0][output], rows[1][output]) / ratio


def revealed_view(batch: Batch, answers: Outputs, ratio: Fraction) -> Revealed:
    """The outputs, and the set T: the victim's place, and all places whose draw came from the part m below all rows.

    The victim has the first answer. Permute people, not answers, so that equal answers are told apart.
    """
    orders = list(permutations(range(len(answers))))
    outputs = range(len(batch[()][0]))
    view: Revealed = {}
    for seen in product(outputs, repeat=len(answers)):
        for order in orders:
            own = order.index(0)
            others = [place for place in range(len(answers)) if place != own]
            for drawn in product([False, True], repeat=len(others)):
                below = dict(zip(others, drawn, strict=True))
                mass = Fraction(1, len(orders))
                for place, person in enumerate(order):
                    rows, output = batch[seen[:place]], seen[place]
                    part = part_below(rows, output, ratio)
                    whole = rows[answers[person]][output]
                    mass *= whole if place == own else part if below[place] else whole - part
                at = seen, frozenset([own, *(place for place in others if below[place])])
                view[at] = view.get(at, Fraction(0)) + mass
    return view


def mean_positive_part(batch: Batch, others: Outputs, ratio: Fraction, power: Fraction) -> Fraction:
    """(1/n)·E(Y₁ + … + Y_n)₊ of the process in the proof: a place draws from m, or takes the next of the others."""
    reports, orders = len(others) + 1, list(permutations(others))

    def after(seen: Outputs, rest: Outputs, total: Fraction) -> Fraction:
        if len(seen) == reports:
            return max(Fraction(0), total)
        rows, found = batch[seen], Fraction(0)
        for output in range(len(rows[0])):
            part = part_below(rows, output, ratio)
            if part:
                value = (rows[0][output] - power * rows[1][output]) / part
                found += part * after((*seen, output), rest, total + value)
            # If nobody is left, all places took somebody: the sum is 0, and contributes nothing.
            if rest and rows[rest[0]][output] > part:
                found += (rows[rest[0]][output] - part) * after((*seen, output), rest[1:], total)
        return found

    return sum((after((), order, Fraction(0)) for order in orders), Fraction(0)) / len(orders) / reports


@pytest.mark.parametrize("reports", [1, 2, 3])
def test_what_the_proof_reveals_has_the_divergence_that_the_proof_computes(reports: int) -> None:
    """Step 1, exactly: revealing T gives (1/n)·E(ΣY)₊ of the process; and it is below the pair, above the view."""
    generator, ratio = np.random.default_rng(5), Fraction(3)
    choices = [*extreme_randomizers(ratio, 2, 3, 3), *binary_responses(ratio, 2, 3)]
    for _ in range(6):
        batch = adaptive_batch(generator, choices, reports)
        others = tuple(int(answer) for answer in generator.integers(0, 3, reports - 1))
        first, second = (revealed_view(batch, (own, *others), ratio) for own in (0, 1))
        seen = [places_view(batch, (own, *others)) for own in (0, 1)]
        for power in (Fraction(1), Fraction(5, 4), Fraction(2)):
            revealed = divergence(first, second, power)
            assert revealed == mean_positive_part(batch, others, ratio, power)
            assert divergence(seen[0], seen[1], power) <= revealed <= stronger_clones(reports, ratio, power)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("ratio", "reports", "outputs", "draws"), [(3, 2, 2, 10), (4, 2, 3, 300), (2, 3, 2, 200), (5, 4, 2, 25)]
)
def test_no_places_exceed_the_stronger_clones_in_fractions(ratio: int, reports: int, outputs: int, draws: int) -> None:
    """Every multiset of the others' answers, both directions, six factors: 28,000 cases (usually 7,000), exact."""
    generator, exact = np.random.default_rng(reports), Fraction(ratio)
    choices = [*extreme_randomizers(exact, outputs, 3, 3), *binary_responses(exact, outputs, 3)]
    limits = {power: stronger_clones(reports, exact, power) for power in powers(exact)}
    for _ in range(usually(draws // 4, draws)):
        batch = adaptive_batch(generator, choices, reports)
        for others in combinations_with_replacement(range(3), reports - 1):
            first, second = (places_view(batch, (own, *others)) for own in (0, 1))
            for power, limit in limits.items():
                assert max(divergence(first, second, power), divergence(second, first, power)) <= limit


def test_binary_randomized_response_in_every_place_attains_the_bound() -> None:
    """Just below ε₀ the bound is exact; everyone else has what the victim has."""
    for reports, ratio in ((1, 3), (2, 3), (3, 2), (4, 2)):
        exact = Fraction(ratio)
        power = exact * (1 - Fraction(1, 1000))
        law = binary_responses(exact, 2, 2)[1]
        batch = {past: law for place in range(reports) for past in product(range(2), repeat=place)}
        first, second = (places_view(batch, (own, *[0] * (reports - 1))) for own in (0, 1))
        assert divergence(first, second, power) == stronger_clones(reports, exact, power)


class ManyBatches:
    """Random adaptive batches, all views at once: an array of all outputs for each assignment of inputs to places."""

    def __init__(
        self, generator: np.random.Generator, ratio: Fraction, shape: tuple[int, int, int], count: int
    ) -> None:
        self.reports, self.outputs, self.inputs = shape
        self.count, self.generator = count, generator
        found = list(extreme_randomizers(ratio, self.outputs, 3, self.inputs))
        self.extreme = np.array([found[int(at)] for at in generator.integers(0, len(found), 3000)], dtype=float)
        self.binary = np.array(binary_responses(ratio, self.outputs, self.inputs), dtype=float)
        self.places = [self._drawn((count, *[self.outputs] * place)) for place in range(self.reports)]
        self.known: dict[Outputs, Array] = {}

    def _drawn(self, shape: tuple[int, ...]) -> Array:
        one, two = (self.extreme[self.generator.integers(0, len(self.extreme), shape)] for _ in range(2))
        attaining = self.binary[self.generator.integers(0, len(self.binary), shape)]
        share, kind = (self.generator.random(shape)[..., None, None] for _ in range(2))
        return np.where(kind < 0.35, attaining, np.where(kind < 0.8, one, share * one + (1 - share) * two))

    def _in_order(self, answers: Outputs) -> Array:
        if answers not in self.known:
            view = np.ones((self.count, *[1] * self.reports))
            for place, answer in enumerate(answers):
                rows = self.places[place][..., answer, :]
                view = view * rows.reshape(*rows.shape, *[1] * (self.reports - 1 - place))
            self.known[answers] = view.reshape(self.count, -1)
        return self.known[answers]

    def view(self, answers: Outputs) -> Array:
        orders = list(permutations(answers))
        return np.asarray(sum(self._in_order(order) for order in orders) / len(orders))

    def pairs(self) -> Iterator[tuple[Array, Array]]:
        for others in combinations_with_replacement(range(self.inputs), self.reports - 1):
            first, second = self.view((0, *others)), self.view((1, *others))
            yield first, second
            yield second, first


SHAPES = [(1, 3, 3), (2, 2, 3), (2, 3, 4), (3, 2, 4), (3, 3, 3), (4, 2, 3)]
"""Reports, outputs, and inputs of a randomizer."""


def worst_shares(count: int, ratios: tuple[Fraction, ...], shapes: list[tuple[int, int, int]]) -> tuple[int, float]:
    """Return the number of cases, each compared with the pair, and the largest share of the bound that one reaches."""
    generator, cases, worst = np.random.default_rng(2022), 0, 0.0
    for ratio, shape in product(ratios, shapes):
        limits = {power: float(stronger_clones(shape[0], ratio, power)) for power in powers(ratio)}
        for first, second in ManyBatches(generator, ratio, shape, count).pairs():
            for power, limit in limits.items():
                found = np.maximum(first - float(power) * second, 0).sum(axis=1)
                assert (found <= limit + ROOM * (1 + float(power))).all()
                cases, worst = cases + count, max(worst, float(found.max()) / limit)
    return cases, worst


def test_no_places_exceed_the_stronger_clones() -> None:
    cases, worst = worst_shares(150, (Fraction(2), Fraction(10)), SHAPES[1:])
    assert cases > 50_000
    assert worst > 0.99


def test_no_places_exceed_the_stronger_clones_in_millions_of_cases() -> None:
    ratios = (Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(4), Fraction(10), Fraction(50))
    count = usually(1000, 4000)
    cases, worst = worst_shares(count, ratios, SHAPES)
    assert cases > 2_250 * count
    assert worst > 1 - 1e-12


def test_renyi_divergences_of_places_are_below_the_special_case_of_binary_response() -> None:
    """girgis-2021, Thm 3.6, for places: m others copy the victim's law with probability 1/E each."""
    generator = np.random.default_rng(36)
    for ratio, shape, order in product((Fraction(2), Fraction(6)), SHAPES[1:4], (1.3, 7.0)):
        e, reports = float(ratio), shape[0]
        limit = 0.0
        for copies in range(reports):
            # The likelihood ratio is the mean over copies + 1 reports, each E with probability 1/(E+1), else 1/E.
            mean = sum(
                comb(copies + 1, high)
                / (e + 1) ** (copies + 1)
                * e ** (copies + 1 - high)
                * ((high * e + (copies + 1 - high) / e) / (copies + 1)) ** order
                for high in range(copies + 2)
            )
            limit += comb(reports - 1, copies) * e**-copies * (1 - 1 / e) ** (reports - 1 - copies) * mean
        for first, second in ManyBatches(generator, ratio, shape, 40).pairs():
            # Outputs of weight 0 have no mass under either law.
            ratios = np.divide(first, second, out=np.ones_like(first), where=second > 0)
            assert ((second * ratios**order).sum(axis=1) <= limit * (1 + 1e-12)).all()


def people_view(laws: list[Law]) -> View:
    """Every person applies a randomizer of their own; the reports are shuffled afterwards: their counts are seen."""
    outputs = range(len(laws[0]))
    view: View = {(0,) * len(laws[0]): Fraction(1)}
    for law in laws:
        grown: View = {}
        for (counts, mass), output in product(view.items(), outputs):
            at = tuple(count + (place == output) for place, count in enumerate(counts))
            grown[at] = grown.get(at, Fraction(0)) + mass * law[output]
        view = grown
    return view


@pytest.mark.parametrize("categories", [2, 3])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
def test_krr_of_different_epsilon_local_is_covered_by_the_largest(categories: int, epsilon: float) -> None:
    """Each person has a γ of their own: even the blanket of the smallest γ is a bound, for every victim."""
    gammas = [Fraction(2, 5), Fraction(1, 2), Fraction(4, 5), Fraction(1)]
    least = KRR(categories, gammas[0])
    limit = min(
        BOUNDS["blanket"].delta(least, 4, epsilon)[1],
        BOUNDS["stronger-clones"].delta(Generic(least.epsilon_local), 4, epsilon)[1],
    )
    power = Fraction(np.exp(epsilon))
    for victim in range(4):
        others = [KRR(categories, gamma) for place, gamma in enumerate(gammas) if place != victim]
        own = KRR(categories, gammas[victim])
        for answers in product(range(categories), repeat=3):
            laws = [each.law(answer) for each, answer in zip(others, answers, strict=True)]
            first, second = people_view([own.law(0), *laws]), people_view([own.law(1), *laws])
            assert float(divergence(first, second, power)) <= limit * (1 + 1e-12)


def test_people_who_bring_randomizers_of_their_own_are_not_covered() -> None:
    """Two people answer on the symbols 0 and 1, two on 1 and 2, all with the same local ε."""
    nothing, high, low = Fraction(0), Fraction(3, 4), Fraction(1, 4)
    others = [(nothing, high, low), (nothing, low, high), (high, low, nothing)]
    first, second = (people_view([law, *others]) for law in ((high, low, nothing), (low, high, nothing)))
    for power in (Fraction(1), Fraction(3, 2), Fraction(5, 2)):
        assert divergence(first, second, power) > stronger_clones(4, Fraction(3), power)
    assert float(divergence(first, second, Fraction(3, 2))) > BOUNDS["clones"].delta(Generic(log(3)), 4, log(1.5))[1]
