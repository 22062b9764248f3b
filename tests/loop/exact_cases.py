"""Cases of one round or two for `million.py`: what the accountant is asked, and the exact views of every data set.

A view is a law of what is seen. All laws are exact fractions, and batches are enumerated report by report.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Protocol

from hubbub.accountant.mechanisms import (
    KRR,
    RAPPOR,
    Common,
    Finite,
    Generic,
    Hashed,
    Laplace,
    LocalMechanism,
    WithNoise,
)
from hubbub.accountant.mechanisms.exact import exp_decimal, log_above
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part
from support.exact_batches import Law, View, batch_view
from support.noise_views import constant, released

Pair = tuple[View, View]
"""The views of one data set, for either answer of the victim."""

MOST_PRODUCT = 12_000
"""Most outcomes of two rounds, over all data sets."""


class Exact(Protocol):
    """An exact δ."""

    def delta(self, epsilon: float) -> Fraction:
        """Return it at `epsilon`."""


@dataclass(frozen=True)
class Case:
    """Parts that are composed, and the pairs of views that they must cover.

    `attacked`: whether the data set of every known attack is among them, so that no lower end may be above all. `game`
    has the truth if choices depend on outcomes; there are no pairs then.
    """

    parts: tuple[Part, ...]
    pairs: tuple[Pair, ...]
    attacked: bool
    game: Exact | None = None


def case(kind: str, draw: random.Random) -> Case:
    """Draw one of this kind."""
    return KINDS[kind](draw)


def chance(draw: random.Random) -> Fraction:
    """Draw a probability: any, tiny, or near 1."""
    exponent = draw.choice((1, 1, 1, 6, 20))
    found = Fraction(draw.randint(1, 10**6 - 1), 10**6) ** exponent
    found = max(found, Fraction(1, 10**12))
    return found if draw.random() < 0.6 else 1 - found / 2


def _krr(draw: random.Random, categories: int | None = None) -> KRR:
    symbols = categories or draw.choice((2, 2, 3, 3, 4))
    if draw.random() < 0.3:
        # Local ε of 1e-9 and of 20 are edges.
        local = draw.choice((1e-9, 1e-4, 0.01, 0.5, 8.0, 20.0))
        return KRR(symbols, KRR.from_local_epsilon(symbols, local).gamma.limit_denominator(10**15))
    return KRR(symbols, chance(draw))


def _rappor(draw: random.Random) -> RAPPOR:
    one, other = sorted((chance(draw), chance(draw)))
    if one == other:
        other = (1 + other) / 2
    return RAPPOR(draw.choice((2, 2, 3)), other, one)


def _row(draw: random.Random, outputs: int) -> Law:
    weights = [draw.choice((1, draw.randint(1, 9), draw.randint(1, 1000))) for _ in range(outputs)]
    return tuple(Fraction(each, sum(weights)) for each in weights)


def _finite(draw: random.Random) -> Finite:
    inputs, outputs = draw.choice((2, 3)), draw.choice((2, 3, 4))
    law = tuple(_row(draw, outputs) for _ in range(inputs))
    return Finite(law, dummy=law[draw.randrange(inputs)] if draw.random() < 0.3 else None)


def _batches(laws: Sequence[Law], reports: int, more: Sequence[Law] = ()) -> Iterator[Pair]:
    """Yield the views of every data set, `more` reports of fixed laws added."""
    for others in combinations_with_replacement(range(len(laws)), reports - 1):
        held = [*(laws[each] for each in others), *more]
        for one, two in combinations(range(len(laws)), 2):
            yield batch_view((laws[one], *held)), batch_view((laws[two], *held))


def _alike(laws: Sequence[Law], reports: int, more: Sequence[Law] = ()) -> Iterator[Pair]:
    """Yield the same for a mechanism of which all pairs of answers are alike: the victim has one of the first two."""
    for others in combinations_with_replacement(range(len(laws)), reports - 1):
        held = [*(laws[each] for each in others), *more]
        yield batch_view((laws[0], *held)), batch_view((laws[1], *held))


def _laws(mechanism: KRR | RAPPOR) -> list[Law]:
    return [mechanism.law(x) for x in range(mechanism.categories)]


def _reports(draw: random.Random, symbols: int) -> int:
    """Draw a number of reports: enumeration takes longer with more symbols."""
    return draw.randint(1, {2: 7, 3: 5, 4: 4, 8: 3}[symbols])


def _one(mechanism: LocalMechanism, pairs: Iterator[Pair], reports: int, dummies: int = 0) -> Case:
    # Beside dummies the others of an attack draw their answers: some data set among these reveals no less.
    return Case((Part(mechanism, reports, dummies=dummies),), tuple(pairs), attacked=True)


def krr(draw: random.Random) -> Case:
    """One round of kRR."""
    mechanism = _krr(draw)
    reports = _reports(draw, mechanism.categories)
    return _one(mechanism, _alike(_laws(mechanism), reports), reports)


def krr_dummies(draw: random.Random) -> Case:
    """One round of kRR with uniform reports of the shuffler."""
    mechanism = _krr(draw)
    reports, dummies = draw.randint(1, 3), draw.randint(1, 3)
    uniform = (Fraction(1, mechanism.categories),) * mechanism.categories
    return _one(mechanism, _alike(_laws(mechanism), reports, [uniform] * dummies), reports, dummies)


def rappor(draw: random.Random) -> Case:
    """One round of RAPPOR."""
    mechanism = _rappor(draw)
    reports = _reports(draw, 2**mechanism.categories)
    return _one(mechanism, _alike(_laws(mechanism), reports), reports)


def rappor_dummies(draw: random.Random) -> Case:
    """One round of RAPPOR with a report of a random answer."""
    mechanism = _rappor(draw)
    laws, reports = _laws(mechanism), draw.randint(1, 2)
    dummy = tuple(sum(column) / len(laws) for column in zip(*laws, strict=True))
    return _one(mechanism, _alike(laws, reports, [dummy]), reports, 1)


def finite(draw: random.Random) -> Case:
    """One round of a law, with dummies if it has them."""
    mechanism = _finite(draw)
    reports = draw.randint(1, 4 if len(mechanism.law) == 2 else 3)
    dummies = draw.randint(0, 2) if mechanism.dummy is not None else 0
    more = [mechanism.dummy] * dummies if mechanism.dummy is not None else []
    return _one(mechanism, _batches(mechanism.law, reports, more), reports, dummies)


def hashed(draw: random.Random) -> Case:
    """One round of hashed answers, by any functions."""
    mechanism = Hashed(3, 2, chance(draw))
    places = [(0, 0), (1, draw.randrange(3)), (draw.randrange(3), draw.randrange(3))]
    reports = draw.randint(1, 3)
    # The attack needs functions that are as bad as can be, and these may be others.
    pairs = tuple(_batches([mechanism.law(each) for each in places], reports))
    return Case((Part(mechanism, reports),), pairs, attacked=False)


def unknown(draw: random.Random) -> Case:
    """An unknown randomizer of one local ε: any law of that ratio, and the two that are attacked."""
    # The ratio of the very double that is asked about: rounded up from another, its attacks would be above the truth
    # just below the local ε, by as much as that double is above the other's logarithm.
    local = log_above(1 + Fraction(draw.randint(1, 10**4), draw.choice((10**6, 10**4, 10**3, 100))))
    ratio = Fraction(Fraction(exp_decimal(local)) * 10**60 // 1, 10**60)
    three = KRR(3, Fraction(3) / (ratio + 2))
    half = 1 / (2 * (ratio + 1))
    four: list[Law] = [
        (ratio * half, half, ratio * half, half),
        (half, ratio * half, half, ratio * half),
        (half, half, ratio * half, ratio * half),
    ]
    reports = draw.randint(1, 4)
    pairs = [*_alike(_laws(three), reports), *_batches(four, reports)]
    for _ in range(2 if reports < 4 else 0):
        pairs += _batches([_of_ratio(draw, ratio, 3) for _ in range(2)], reports)
    return Case((Part(Generic(local), reports),), tuple(pairs), attacked=True)


def common(draw: random.Random) -> Case:
    """One randomizer of that local ε: the same cases, but all people share it."""
    return _shared(unknown(draw))


def fixed_places(draw: random.Random) -> Case:
    """Places with randomizers of their own that were fixed beforehand."""
    return _shared(places(draw))


def _shared(drawn: Case) -> Case:
    part = drawn.parts[0]
    return replace(drawn, parts=(replace(part, mechanism=Common(part.mechanism.epsilon_local)),))


def many(draw: random.Random) -> Case:
    """One bit of each of many people: by a law of two outputs, binary response and a coin, or what side noise is on."""
    kind = draw.choice(("law", "unknown", "noise"))
    mechanism: LocalMechanism
    if kind == "noise":
        noise_there = Laplace(draw.choice((0.1, 0.5, 1.0, 3.0, 8.0)))
        cut = Fraction(draw.randint(-2, 12), 10)
        answers = (Fraction(draw.randint(0, 10), 10), Fraction(0), Fraction(1))
        # Whole numbers of 2⁻⁸⁰, as exact sums of 75 digits take minutes; and with a coin of 2⁻⁵⁰, a post-processing, so
        # that no rounding takes them beyond the local ε.
        below = [Fraction(noise_there.below(answer, cut)) for answer in answers]
        ones = [Fraction(round((each * (2**50 - 1) + Fraction(1, 2)) * 2**30), 2**80) for each in below]
        mechanism = noise_there
    elif kind == "unknown":
        ratio = 1 + Fraction(draw.randint(1, 500), draw.choice((1000, 100)))
        high = ratio / (ratio + 1)
        ones, mechanism = [high, 1 - high, draw.choice((Fraction(1, 2), high))], Common(log_above(ratio))
    else:
        rows = [_row(draw, 2) for _ in range(draw.choice((2, 3)))]
        ones, mechanism = [row[0] for row in rows], Finite(tuple(rows))
    reports = draw.randint(8, 24)
    pairs = []
    for _ in range(6):
        first, second = draw.sample(range(len(ones)), 2)
        one, two = draw.choice(ones), draw.choice(ones)
        some = draw.choice((0, draw.randint(0, reports - 1)))
        held = [one] * some + [two] * (reports - 1 - some)
        pairs.append((_bits([ones[first], *held]), _bits([ones[second], *held])))
    return Case((Part(mechanism, reports),), tuple(pairs), attacked=False)


def _bits(chances: Sequence[Fraction]) -> View:
    found = [Fraction(1)]
    for chance_of_one in chances:
        shifted = [Fraction(0), *(mass * chance_of_one for mass in found)]
        found = [mass * (1 - chance_of_one) + more for mass, more in zip([*found, Fraction(0)], shifted, strict=True)]
    return {(place,): mass for place, mass in enumerate(found)}


def _of_ratio(draw: random.Random, ratio: Fraction, outputs: int) -> Law:
    """Return a law of columns 1 or `ratio` over a sum that all such laws with this number of each have."""
    high = max(1, outputs // 2)
    places = set(draw.sample(range(outputs), high))
    total = high * ratio + outputs - high
    return tuple((ratio if place in places else Fraction(1)) / total for place in range(outputs))


def places(draw: random.Random) -> Case:
    """Places of a shuffled batch, each with a randomizer of its own: outputs are seen in order."""
    reports, ratio = draw.randint(1, 3), 1 + Fraction(draw.randint(1, 500), draw.choice((1000, 100)))
    rows = [[_of_ratio(draw, ratio, 3) for _ in range(3)] for _ in range(reports)]
    held = [draw.randrange(3) for _ in range(reports - 1)]
    pairs = tuple((_ordered(rows, [one, *held]), _ordered(rows, [two, *held])) for one, two in ((0, 1), (0, 2), (1, 2)))
    return Case((Part(Generic(log_above(ratio)), reports),), pairs, attacked=False)


def _ordered(rows: Sequence[Sequence[Law]], answers: Sequence[int]) -> View:
    found: View = {}
    orders = list(permutations(answers))
    for order, outputs in product(orders, product(range(3), repeat=len(rows))):
        mass = Fraction(1, len(orders))
        for laws, answer, output in zip(rows, order, outputs, strict=True):
            mass *= laws[answer][output]
        found[outputs] = found.get(outputs, Fraction(0)) + mass
    return found


def noise(draw: random.Random) -> Case:
    """KRR beside noise of the shuffler, the others honest or liars who always send one symbol."""
    krr_there = KRR(draw.choice((2, 3)), Fraction(draw.randint(1, 2**32 - 1), 2**32))
    symbols = krr_there.categories
    reach = draw.randint(1, 6 if symbols == 2 else 2)
    mechanism = WithNoise(krr_there, NoiseLaw("geometric", draw.randint(2**28, 2**32 - 1), reach))
    # Beside noise one report may be all that is honest.
    liar = constant(draw.randrange(symbols), symbols)
    pairs = tuple(
        (released(mechanism, [krr_there.law(0), *others]), released(mechanism, [krr_there.law(1), *others]))
        for others in ([], [liar])
    )
    return Case((Part(mechanism, 1),), pairs, attacked=True)


def rounds(draw: random.Random) -> Case:
    """Two rounds, of one mechanism or of two: every choice of data sets in both."""
    while True:
        one, two = (draw.choice((krr, krr, rappor, finite, krr_dummies))(draw) for _ in range(2))
        again = draw.random() < 0.5
        two = one if again else two
        size = sum(len(first) for first, _ in one.pairs) * sum(len(first) for first, _ in two.pairs)
        if size * 2 <= MOST_PRODUCT:
            break
    turned = tuple((second, first) for first, second in two.pairs)
    pairs = tuple(
        (_product(here[0], there[0]), _product(here[1], there[1]))
        for here, there in product(one.pairs, (*two.pairs, *turned))
    )
    return Case((*one.parts, *two.parts), pairs, attacked=True)


def _product(one: View, two: View) -> View:
    return {(*a, *b): p * q for (a, p), (b, q) in product(one.items(), two.items())}


KINDS: Mapping[str, Callable[[random.Random], Case]] = {
    "krr": krr,
    "krr-dummies": krr_dummies,
    "rappor": rappor,
    "rappor-dummies": rappor_dummies,
    "finite": finite,
    "hashed": hashed,
    "unknown": unknown,
    "places": places,
    "common": common,
    "fixed-places": fixed_places,
    "many": many,
    "noise": noise,
    "rounds": rounds,
}
"""How a case of each kind is drawn."""
