"""50-digit evaluation of the printed theorems, and the exact truth at small n."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, pairwise
from math import exp, inf, log, log1p

import mpmath as mp
import numpy as np
import pytest

from hubbub.accountant.bounds.catalog import CATALOG, FORMULAS
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.losses.walks import Walk, spread_atoms
from hubbub.accountant.mechanisms import KRR, Generic, Mechanism
from hubbub.accountant.pairs import amplification
from hubbub.accountant.pairs.renyi import rdp_lower, rdp_upper
from support.thoroughness import spread, usually

mp.mp.dps = 50

EPSILON_CASES = [(2, 0.3, 1e-6), (900, 0.49, 1e-3), (1000, 0.49, 1e-6), (10**5, 1.0, 1e-8), (10**9, 4.0, 1e-12)]


def printed_epsilon(name: str, people: int, local: float, delta: float) -> mp.mpf:
    n, small, e = mp.mpf(people), mp.log(1 / mp.mpf(delta)), mp.exp(local)
    quarter = mp.log(4 / mp.mpf(delta))
    step = 2 * e**2 * (e - 1) / n
    return {
        "erlingsson": step * mp.sqrt(2 * n * small) + n * step * mp.expm1(step),
        "erlingsson-middle": e**2 * (e - 1) * mp.sqrt(8 * small / n) + 6 * e**4 * (e - 1) ** 2 / n,
        "erlingsson-simple": 12 * mp.mpf(local) * mp.sqrt(small / n),
        "clones-closed": mp.log1p((e - 1) / (e + 1) * (8 * mp.sqrt(e * quarter) / mp.sqrt(n) + 8 * e / n)),
        "feldman-closed": mp.log1p((e - 1) * (4 * mp.sqrt(2 * quarter) / mp.sqrt((e + 1) * n) + 4 / n)),
    }[name]


@pytest.mark.parametrize(
    "name", ["erlingsson", "erlingsson-middle", "erlingsson-simple", "clones-closed", "feldman-closed"]
)
def test_epsilon_formulas_are_the_printed_ones_rounded_up_to_the_next_double(name: str) -> None:
    answered = 0
    for people, local, delta in EPSILON_CASES:
        try:
            found = CATALOG[name].epsilon(Generic(local), people, delta)
        except OutsideConditions:
            continue
        exact = printed_epsilon(name, people, local, delta)
        assert found.lower <= exact <= found.upper
        assert found.upper <= found.lower * (1 + 1e-15)
        answered += 1
    assert answered >= 1


def printed_rdp(name: str, people: int, local: float, order: int) -> mp.mpf:
    n, e = mp.mpf(people), mp.exp(local)
    crowd = mp.floor((n - 1) / (2 * e)) + 1
    rare = mp.exp(mp.mpf(local) * order - (n - 1) / (8 * e))
    x = (e**2 - 1) ** 2 / (2 * e**2 * crowd)
    if name == "girgis-upper-1":
        rest = mp.fsum(
            mp.binomial(order, i) * i * mp.gamma(mp.mpf(i) / 2) * x ** (mp.mpf(i) / 2) for i in range(3, order + 1)
        )
        return mp.log1p(mp.binomial(order, 2) * (e - 1) ** 2 / (crowd * e) + rest + rare) / (order - 1)
    if name == "girgis-upper-2":
        return mp.log(mp.exp(order**2 * (e - 1) ** 2 / crowd) + rare) / (order - 1)
    if name == "girgis-simplified":
        return mp.log1p(mp.binomial(order, 2) * 4 * (e - 1) ** 2 / n) / (order - 1)
    if name == "girgis-lower-simple":
        return mp.log1p(mp.binomial(order, 2) * (e - 1) ** 2 / (n * e)) / (order - 1)
    if name == "clones-rdp":
        slope = 4 * mp.atanh((e - 1) / (e + 1) / 2)
        usual = mp.exp(order * (order - 1) * slope**2 / (2 * crowd))
        away = mp.exp(-(n - 1) / (8 * e)) + 2 * mp.exp(-crowd / 8)
        return mp.log(usual + mp.expm1((order - 1) * mp.mpf(local)) * away) / (order - 1)
    if name == "erlingsson-rdp":
        return 2 * order * e**4 * (e - 1) ** 2 / n
    p = 1 / (e + 1)
    moments = [
        mp.fsum(mp.binomial(people, k) * p**k * (1 - p) ** (people - k) * (k - n * p) ** i for k in range(people + 1))
        for i in range(3, order + 1)
    ]
    rest = mp.fsum(mp.binomial(order, i + 3) * ((e**2 - 1) / (n * e)) ** (i + 3) * m for i, m in enumerate(moments))
    return mp.log1p(mp.binomial(order, 2) * (e - 1) ** 2 / (n * e) + rest) / (order - 1)


@pytest.mark.parametrize("case", [(150, 0.5, 2), (150, 0.5, 3), (150, 1.5, 7), (150, 0.1, 40), (40, 3.0, 5)])
@pytest.mark.parametrize(
    "name",
    ["girgis-upper-1", "girgis-upper-2", "girgis-lower", "girgis-lower-simple", "erlingsson-rdp", "clones-rdp"],
)
def test_renyi_formulas_are_those_of_the_paper_on_their_safe_side(name: str, case: tuple[int, float, int]) -> None:
    people, local, order = case
    exact = printed_rdp(name, people, local, order)
    found = CATALOG[name].rdp(Generic(local), people, order)
    if CATALOG[name].direction == "upper":
        assert exact <= found <= exact * (1 + 1e-9)
    else:
        assert exact * (1 - 1e-7) <= found <= exact


def clone_laws(people: int, local: float) -> list[tuple[mp.mpf, mp.mpf]]:
    """Masses of every outcome of the clone pair, under both laws, as feldman-2022, Thm B.1 writes it down."""
    clones, truthful = mp.exp(-mp.mpf(local)), 1 / (1 + mp.exp(-mp.mpf(local)))
    found: dict[tuple[int, int], list[mp.mpf]] = {}
    for c in range(people):
        chance = mp.binomial(people - 1, c) * clones**c * (1 - clones) ** (people - 1 - c) / mp.mpf(2) ** c
        for a in range(c + 1):
            for side, up in ((0, truthful), (1, 1 - truthful)):
                for add, share in ((1, up), (0, 1 - up)):
                    seen = found.setdefault((a + add, c - a + 1 - add), [mp.mpf(0), mp.mpf(0)])
                    seen[side] += chance * mp.binomial(c, a) * share
    return [(first, second) for first, second in found.values()]


@pytest.mark.parametrize("people", [1, 2, 9, 40])
@pytest.mark.parametrize("local", [0.05, 1.0, 3.0])
def test_the_closed_renyi_form_of_the_clones_is_above_their_divergence(people: int, local: float) -> None:
    laws = clone_laws(people, local)
    for order in (mp.mpf("1.01"), mp.mpf(2), mp.mpf("6.5"), mp.mpf(40)):
        exact = mp.log(mp.fsum(q * (p / q) ** order for p, q in laws)) / (order - 1)
        bound = CATALOG["clones-rdp"]
        assert exact <= bound.rdp(Generic(local), people, float(order))


def clone_divergence(people: int, ratio: float, order: float) -> float:
    """The clone pair's own Rényi divergence, by its walk: E_Q[(P/Q)^λ] over its atoms and their mirror images."""
    clones = Walk(people, 1 / Fraction(ratio), Fraction(1), (Fraction(ratio) - 1) / (Fraction(ratio) + 1))
    excess = 0.0
    for atoms in spread_atoms(clones, 60.0):
        q, p = atoms.q, atoms.q + atoms.gap
        excess += float(np.sum(q * ((p / q) ** order - 1) + p * ((q / p) ** order - 1)))
    return log1p(excess) / (order - 1)


@pytest.mark.parametrize(("people", "local"), [(10**4, 0.2), (10**5, 1.0), (10**7, 4.0), (10**8, 6.0)])
def test_the_closed_renyi_form_is_the_papers_with_a_constant_below_five_and_within_two_and_a_half(
    people: int, local: float
) -> None:
    """cλE((E−1)/(E+1))²/(n−1), where orders are small beside n/(16ε₀E); the pair's own divergence has c near 2."""
    ratio, unknown = exp(local), Generic(local)
    for order in (1.5, 4.0, people / (80 * local * ratio)):
        found = CATALOG["clones-rdp"].rdp(unknown, people, order)
        assert found < 5 * order * ratio * ((ratio - 1) / (ratio + 1)) ** 2 / (people - 1)
        if order < 5:
            exact = clone_divergence(people, ratio, order)
            assert exact < found < 2.5 * exact


@pytest.mark.parametrize("case", [(10**6, 1.0, 60), (10**9, 0.5, 3000), (10**4, 0.02, 5000), (10**6, 2.0, 20_000)])
def test_long_sums_that_are_cut_stay_above_the_whole_sum(case: tuple[int, float, int]) -> None:
    people, local, order = case
    e = mp.exp(local)
    x = (e - 1 / e) ** 2 / 2 / (mp.floor((people - 1) / (2 * e)) + 1)
    term = mp.binomial(order, 2) * 2 * x
    total = mp.mpf(0)
    for i in range(3, order + 1):
        term *= mp.mpf(order - i + 1) / (i - 1) * mp.gammaprod([mp.mpf(i) / 2], [mp.mpf(i - 1) / 2]) * mp.sqrt(x)
        total += term
        if i > 60 and term < total * mp.mpf(10) ** -40:
            break
    crowd = mp.floor((people - 1) / (2 * e)) + 1
    inside = mp.binomial(order, 2) * (e - 1) ** 2 / (crowd * e) + total
    exact = mp.log1p(inside + mp.exp(mp.mpf(local) * order - (people - 1) / (8 * e))) / (order - 1)
    found = CATALOG["girgis-upper-1"].rdp(Generic(local), people, order)
    assert exact <= found <= exact * (1 + 1e-8)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (KRR(2, Fraction(1, 3)), 0.05),
        (KRR(2, Fraction(1, 3)), 0.9),
        (KRR(5, Fraction(1, 4)), 0.4),
        (Generic(1.0), 0.05),
        (Generic(1.0), 0.9),
    ],
    ids=str,
)
def test_mixtures_are_sums_over_blankets_and_above_the_integral_of_the_tails(
    mechanism: Mechanism, epsilon: float
) -> None:
    """A route without the closed sum: every m by itself, and ∫₀^∞ of the concentration inequality's tail, as in A.3."""
    people, known, a = 30, amplification(mechanism, epsilon), mp.expm1(mp.mpf(epsilon))
    gamma, top, second = mp.mpf(known.gamma), mp.mpf(known.highest), mp.mpf(known.second_moment)
    width = top - mp.mpf(known.lowest)

    def phi(u: mp.mpf) -> mp.mpf:
        return (1 + u) * mp.log1p(u) - u

    shapes = {
        "balle-hoeffding": (
            lambda m: width**2 / (4 * a) * mp.exp(-2 * m * a**2 / width**2),
            lambda m: mp.quad(lambda t: mp.exp(-2 * (t + a * m) ** 2 / (m * width**2)), [0, m * width]),
        ),
        "balle-bennett": (
            lambda m: top / mp.log1p(a * top / second) * mp.exp(-m * second / top**2 * phi(a * top / second)),
            lambda m: mp.quad(
                lambda t: mp.exp(-m * second / top**2 * phi((t + a * m) * top / (m * second))), [0, m * width]
            ),
        ),
    }
    for name, (bound, integral) in shapes.items():
        chances = [mp.binomial(people, m) * gamma**m * (1 - gamma) ** (people - m) for m in range(1, people + 1)]
        summed = mp.fsum(chance * bound(m) for m, chance in enumerate(chances, 1)) / (gamma * people)
        # By quadrature, which 20 digits are enough for.
        with mp.workdps(20):
            tails = mp.fsum(chance * integral(m) for m, chance in enumerate(chances, 1)) / (gamma * people)
        lower, upper = CATALOG[name].delta(mechanism, people, epsilon)
        assert lower * (1 - 1e-14) <= min(summed, 1) <= upper * (1 + 1e-14)
        assert min(tails, 1) <= upper


Law = dict[tuple[int, ...], float]
Masses = tuple[np.ndarray, np.ndarray]


@cache
def neighbors(mechanism: KRR, people: int) -> list[Masses]:
    """Every pair of shuffled laws of one round, both ways: victim 0 against 1, the others everything up to order.

    Each has the masses of the same outcomes in the same order.
    """
    laws = [np.array([float(each) for each in mechanism.law(x)]) for x in range(mechanism.categories)]
    found = []
    for others in combinations_with_replacement(range(mechanism.categories), people - 1):
        one, other = (counts([laws[x], *(laws[y] for y in others)]) for x in (0, 1))
        masses = np.array([one[seen] for seen in one]), np.array([other[seen] for seen in one])
        found += [masses, masses[::-1]]
    return found


def counts(laws: list[np.ndarray]) -> Law:
    found: Law = {(0,) * len(laws[0]): 1.0}
    for law in laws:
        grown: Law = {}
        for seen, mass in found.items():
            for y, chance in enumerate(law):
                key = (*seen[:y], seen[y] + 1, *seen[y + 1 :])
                grown[key] = grown.get(key, 0.0) + mass * float(chance)
        found = grown
    return found


def true_delta(mechanism: KRR, people: int, epsilon: float) -> float:
    factor = exp(min(epsilon, 100.0))
    return max(float(np.maximum(p - factor * q, 0.0).sum()) for p, q in neighbors(mechanism, people))


def true_rdp(mechanism: KRR, people: int, order: float) -> float:
    return log(max(float(q @ (p / q) ** order) for p, q in neighbors(mechanism, people))) / (order - 1)


SMALL = [(KRR.from_local_epsilon(2, 0.4), 24), (KRR.from_local_epsilon(2, 2.0), 8), (KRR.from_local_epsilon(3, 1.0), 5)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("mechanism", "people"), spread(SMALL, 2), ids=str)
def test_no_formula_claims_less_than_the_truth_of_small_batches(mechanism: KRR, people: int) -> None:
    """The truth, over all inputs and both directions, at each formula's own ε: δ there is at most what was asked."""
    generic = Generic(mechanism.epsilon_local)
    answered = set()
    for bound in FORMULAS:
        for covered in (mechanism, generic):
            for delta in spread((0.3, 1e-2, 1e-4), 2):
                try:
                    epsilon = bound.epsilon(covered, people, delta).upper
                except OutsideConditions:
                    continue
                answered.add(bound.name)
                assert true_delta(mechanism, people, epsilon) <= delta * (1 + 1e-12)
            for order in (1.5, 2, 4, 9):
                try:
                    found = bound.rdp(covered, people, order)
                except OutsideConditions:
                    continue
                if bound.direction == "upper":
                    assert true_rdp(mechanism, people, order) <= found * (1 + 1e-12)
                elif mechanism.categories == 2:
                    assert found <= true_rdp(mechanism, people, order) * (1 + 1e-12)
    assert {"erlingsson", "girgis-upper-1", "girgis-upper-2", "erlingsson-rdp", "clones-rdp"} <= answered


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", [(200, 2, 1.0), (2000, 16, 2.0), (20_000, 3, 0.3), (10**6, 100, 5.0)])
def test_formulas_lie_above_the_exact_bounds_they_are_cut_from(case: tuple[int, int, float]) -> None:
    people, categories, local = case
    krr = KRR.from_local_epsilon(categories, local)
    answered = 0
    for delta in spread((1e-2, 1e-6, 1e-12), 2):
        exact = {
            name: CATALOG[name].epsilon(krr, people, delta).lower for name in ("blanket", "stronger-clones", "clones")
        }
        below = {"balle-generic": "stronger-clones", "feldman-closed": "stronger-clones"}
        below |= {"clones-closed": "clones", "clones-rdp": "clones"}
        for bound in FORMULAS:
            try:
                found = bound.epsilon(krr, people, delta).upper
            except OutsideConditions:
                continue
            answered += 1
            assert exact[below.get(bound.name, "blanket")] <= found < inf
    assert answered >= usually(8, 12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("order", spread([1.2, 2, 3.5, 10, 64], 3))
def test_renyi_formulas_enclose_what_exact_pairs_give(order: float) -> None:
    for people, local in ((1000, 1.0), (10**5, 0.3), (10**5, 2.0)):
        binary = KRR.from_local_epsilon(2, local)
        attacks = [rdp_lower(KRR.from_local_epsilon(k, local), people, order) or 0.0 for k in (2, 3, 10)]
        for name in ("erlingsson-rdp", "clones-rdp", "girgis-upper-1", "girgis-upper-2"):
            assert max(attacks) <= CATALOG[name].rdp(Generic(local), people, order)
        if order >= 2:
            floors = [CATALOG[name].rdp(binary, people, order) for name in ("girgis-lower-simple", "girgis-lower")]
            assert all(
                one <= other * (1 + 1e-7) for one, other in pairwise([*floors, rdp_upper(binary, people, order)])
            )
