"""Cases of `million.py` over rounds, beside noise, and at the edges: each against its own enumeration.

Rounds are multiplied as pairs: outcomes of one ratio are added up, which changes no divergence.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import combinations, combinations_with_replacement, product

from loop import exact_cases
from loop.exact_cases import Case, Pair

from hubbub.accountant.mechanisms import KRR, RAPPOR, Finite, Hashed, TreeNodes, WithNoise, paid_rounds
from hubbub.accountant.mechanisms import Sequence as SequenceLaw
from hubbub.accountant.mechanisms.longitudinal import Horizon, Vector
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part
from support.boolean_streams import streams, vector_law
from support.exact_batches import Law, View, add_report, batch_view
from support.noise_views import noise_view, released

Masses = tuple[tuple[Fraction, Fraction], ...]
"""Outcomes of a pair, by both laws."""

TWO_TO_32 = 2**32


def masses(first: View, second: View) -> Masses:
    """Return both masses of every outcome, those of one ratio added up."""
    return joined((first.get(at, Fraction(0)), second.get(at, Fraction(0))) for at in first.keys() | second.keys())


def joined(outcomes: Iterable[tuple[Fraction, Fraction]]) -> Masses:
    """Add up outcomes of one ratio."""
    found: dict[Fraction, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for one, other in outcomes:
        if one or other:
            both = found[one / (one + other)]
            both[0], both[1] = both[0] + one, both[1] + other
    return tuple((one, other) for one, other in found.values())


def multiplied(pairs: Iterable[Masses]) -> Masses:
    """Return the pair of independent rounds."""
    nothing: Masses = ((Fraction(1), Fraction(1)),)
    return reduce(lambda whole, pair: joined((a * c, b * d) for (a, b), (c, d) in product(whole, pair)), pairs, nothing)


def seen(pair: Masses) -> Pair:
    """Return it as two views."""
    return tuple({(at,): each[side] for at, each in enumerate(pair)} for side in (0, 1))  # type: ignore[return-value]


def numerator(draw: random.Random, most: int = TWO_TO_32 - 1) -> int:
    """Draw a number over 2³²: any, small, or nearly the largest."""
    found = max(1, int(most * draw.random() ** draw.choice((1, 1, 4, 12))))
    return found if draw.random() < 0.7 else max(1, most - found // 2)


def simple(draw: random.Random, most: int = 16) -> Fraction:
    """Draw a probability of few digits, so that products of many rounds stay short."""
    whole = draw.randint(2, most)
    return Fraction(draw.randint(1, whole - 1), whole)


def law_of_noise(draw: random.Random, reach: int) -> NoiseLaw:
    """Draw a law: geometric, or a discrete Gaussian."""
    if draw.random() < 0.3:
        return NoiseLaw("gaussian", draw.randint(2**31, 2**35), reach)
    return NoiseLaw("geometric", draw.randint(2**29, TWO_TO_32 - 1), reach)


def noise_hops(draw: random.Random) -> Case:
    """KRR beside noise that two hops draw, one after the other: the bound of one draw covers them."""
    krr = KRR(draw.choice((2, 3)), Fraction(numerator(draw), TWO_TO_32))
    mechanism = WithNoise(krr, law_of_noise(draw, draw.randint(1, 3) if krr.categories == 2 else 1))
    drawn = noise_view(mechanism)
    twice: View = defaultdict(Fraction)
    for (one, mass), (other, more) in product(drawn.items(), drawn.items()):
        twice[tuple(a + b for a, b in zip(one, other, strict=True))] += mass * more
    # Others may be liars who send one symbol always: a known report moves every outcome alike.
    pair = tuple(add_report(twice, krr.law(x)) for x in (0, 1))
    return Case((Part(mechanism, 1),), (pair,), attacked=False)  # type: ignore[arg-type]


def noise_honest(draw: random.Random) -> Case:
    """KRR beside noise, honest others and uniform reports of the shuffler."""
    krr = KRR(draw.choice((2, 2, 3)), Fraction(numerator(draw), TWO_TO_32))
    symbols = krr.categories
    mechanism = WithNoise(krr, law_of_noise(draw, draw.randint(1, 4) if symbols == 2 else 1))
    people, dummies = draw.randint(1, 3), draw.randint(0, 2)
    more = [(Fraction(1, symbols),) * symbols] * dummies
    pairs = tuple(
        tuple(released(mechanism, [krr.law(x), *map(krr.law, others), *more]) for x in (0, 1))
        for others in combinations_with_replacement(range(symbols), people - 1)
    )
    return Case((Part(mechanism, people, dummies=dummies),), pairs, attacked=True)  # type: ignore[arg-type]


def noise_hashed(draw: random.Random) -> Case:
    """Hashed answers beside noise, with functions that collide or do not."""
    rows = draw.choice((1, 1, 2))
    hashed = Hashed(3, rows, Fraction(numerator(draw), TWO_TO_32))
    mechanism = WithNoise(hashed, law_of_noise(draw, 1))
    places = [tuple(draw.randrange(3) for _ in range(rows)) for _ in range(2)]
    people = 1 if rows == 2 else draw.randint(1, 2)
    pairs = []
    for others in product([*places, (2,) * rows], repeat=people - 1):
        held = [hashed.law(each) for each in others]
        pairs.append(tuple(released(mechanism, [hashed.law(each), *held]) for each in places))
    return Case((Part(mechanism, people),), tuple(pairs), attacked=False)  # type: ignore[arg-type]


def hashed_dummies(draw: random.Random) -> Case:
    """Hashed answers with uniform cells of the shuffler."""
    hashed = Hashed(3, draw.choice((1, 2)), Fraction(numerator(draw), TWO_TO_32))
    places = [tuple(draw.randrange(3) for _ in range(hashed.rows)) for _ in range(3)]
    people, dummies = draw.randint(1, 2), draw.randint(1, 2)
    cells = 3 * hashed.rows
    more = [(Fraction(1, cells),) * cells] * dummies
    pairs = [
        tuple(batch_view((hashed.law(each), *(hashed.law(one) for one in others), *more)) for each in two)
        for others in combinations_with_replacement(places, people - 1)
        for two in combinations(places, 2)
    ]
    return Case((Part(hashed, people, dummies=dummies),), tuple(pairs), attacked=False)  # type: ignore[arg-type]


def digits(draw: random.Random) -> Case:
    """The digits of one number, each a question of two symbols beside noise of its own: any two numbers."""
    bits = draw.choice((2, 2, 3))
    parts, rounds = [], []
    people = draw.choice((1, 1, 2))
    for _ in range(bits):
        krr = KRR(2, Fraction(numerator(draw), TWO_TO_32))
        mechanism = WithNoise(krr, law_of_noise(draw, draw.randint(1, 2)))
        parts.append(Part(mechanism, people))
        held = [krr.law(draw.randrange(2)) for _ in range(people - 1)]
        zero, one = (released(mechanism, [krr.law(x), *held]) for x in (0, 1))
        # Numbers that differ in a digit either way; the attacks' own data set is not among these.
        rounds.append((masses(zero, one), masses(one, zero)))
    pairs = tuple(seen(multiplied(chosen)) for chosen in product(*rounds) if chosen[0] is rounds[0][0])
    return Case(tuple(parts), pairs, attacked=False)


def prefixes(draw: random.Random) -> Case:
    """A text's rounds: hashed answers of other cells in each, by functions of their own."""
    people, rounds = draw.choice((1, 2)), draw.choice((2, 2, 3))
    parts, laws = [], []
    for _ in range(rounds):
        hashed = Hashed(draw.choice((3, 4)), 1, simple(draw, 64))
        parts.append(Part(hashed, people))
        held = [hashed.law((draw.randrange(hashed.cells),)) for _ in range(people - 1)]
        apart = (0, 1) if draw.random() < 0.8 else (0, 0)
        one, other = (batch_view((hashed.law((place,)), *held)) for place in apart)
        laws.append(masses(one, other))
    return Case(tuple(parts), (seen(multiplied(laws)),), attacked=False)


def many_rounds(draw: random.Random) -> Case:
    """Many rounds among one to three people, who choose the worst data set in all: up to a year of one person."""
    people = draw.choice((1, 1, 2, 3))
    categories = draw.choice((2, 3)) if people < 3 else 2
    krr = KRR(categories, simple(draw))
    rounds = draw.randint(2, {1: 365, 2: 12, 3: 6}[people]) if categories == 2 else draw.randint(2, 6)
    pairs = []
    for others in combinations_with_replacement(range(categories), people - 1):
        held = [krr.law(x) for x in others]
        one = masses(*(batch_view((krr.law(x), *held)) for x in (0, 1)))
        pairs.append(seen(_power(one, rounds)))
    return Case((Part(krr, people, rounds),), tuple(pairs), attacked=False)


def _power(pair: Masses, rounds: int) -> Masses:
    """Return the pair of so many equal rounds, by how often each outcome came."""
    if len(pair) == 2:
        (a, b), (c, d) = pair
        return tuple(
            (
                math.comb(rounds, often) * a**often * c ** (rounds - often),
                math.comb(rounds, often) * b**often * d ** (rounds - often),
            )
            for often in range(rounds + 1)
        )
    return multiplied([pair] * rounds)


def direct(draw: random.Random) -> Case:
    """A boolean of which each round sends binary response: the others have what they like in every round."""
    people, periods = draw.randint(1, 3), draw.randint(2, 5)
    krr = KRR(2, simple(draw))
    zero, one = krr.law(0), krr.law(1)
    chosen = [draw.randint(0, people - 1) for _ in range(periods)]
    rounds = []
    for ones in chosen:
        held = [one] * ones + [zero] * (people - 1 - ones)
        views = [batch_view((each, *held)) for each in (zero, one)]
        rounds.append(masses(*(views if draw.random() < 0.5 else views[::-1])))
    return Case((Part(krr, people, periods),), (seen(multiplied(rounds)),), attacked=False)


def tree(draw: random.Random) -> Case:
    """The nodes of a tree, beside noise or not: any two streams, the others with streams of their own."""
    periods, changes = draw.choice(((1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (3, 3)))
    signed = changes > 1
    gamma, side = numerator(draw), numerator(draw, (TWO_TO_32 - 1) // (2 if signed else 1))
    nodes = TreeNodes(periods, changes, gamma, side)
    noisy = WithNoise(nodes, law_of_noise(draw, 1)) if draw.random() < 0.5 else None
    people = draw.choice((1, 2, 2)) if noisy is None else 1
    known = [_sent(states) for states in streams(nodes.horizon)]
    rows = dict(zip(nodes.node.values, nodes.node.law, strict=True))
    start = _drawn(noisy) if noisy is not None else {(0,) * len(rows): Fraction(1)}
    beside = [draw.choice(known) for _ in range(people - 1)]
    pairs = []
    for _ in range(4):
        first, second = draw.sample(known, 2)
        rounds = []
        for period in range(periods):
            views = []
            for stream in (first, second):
                view = start
                for each in (stream, *beside):
                    view = add_report(view, rows[each[period]])
                views.append(view)
            rounds.append(masses(*views))
        pairs.append(seen(multiplied(rounds)))
    asked = Part(noisy or nodes, people, paid_rounds(noisy or nodes, periods))
    return Case((asked,), tuple(pairs), attacked=False)


def _drawn(noisy: WithNoise) -> View:
    """Return the law of the numbers of dummies of a tree's values: that of 0 is the rest of a fixed total."""
    chances = [Fraction(weight, 2**128) for weight in noisy.noise.weights]
    found: View = {}
    for drawn in product(range(len(chances)), repeat=noisy.draws):
        found[noisy.by_symbol(drawn)] = math.prod((chances[each] for each in drawn), start=Fraction(1))
    return found


def _sent(states: Sequence[int]) -> tuple[int, ...]:
    """Return the values of the nodes that are sent: each round the longest that ends with it."""
    whole = (0, *states)
    return tuple(whole[period] - whole[period & (period - 1)] for period in range(1, len(whole)))


def signs(draw: random.Random) -> Case:
    """Signs over time: whole sequences of one level, shuffled, of people whose streams are any."""
    vector = Vector.best(Horizon(draw.choice((2, 4)), draw.randint(1, 2)), draw.choice((0.1, 0.5, 1.0, 2.0, 5.0, 8.0)))
    people = draw.randint(1, 2)
    known = list(streams(vector.horizon))
    level = 0
    pairs = []
    for _ in range(4):
        first, second, *others = draw.sample(known, min(len(known), 2)) + [draw.choice(known)] * (people - 1)
        laws = [vector_law(vector, states, level) for states in (first, second, *others)]
        every = sorted({sent for law in laws for sent in law})
        rows = [tuple(law[sent] for sent in every) for law in laws]
        pairs.append(tuple(batch_view((row, *rows[2:])) for row in rows[:2]))
    local = vector.epsilon_local()
    return Case((Part(SequenceLaw(local, local, people), people),), tuple(pairs), attacked=False)  # type: ignore[arg-type]


def by_chance(draw: random.Random) -> Case:
    """KRR of a random few of all people, or of each person with one probability: secret who takes part."""
    krr = KRR(draw.choice((2, 3)), simple(draw, 64))
    people = draw.randint(2, 4)
    rate = simple(draw, 8)
    fewer = draw.randint(1, people - 1)
    drawn = draw.random() < 0.5
    pairs = []
    for others in combinations_with_replacement(range(krr.categories), people - 1):
        views = []
        for x in (0, 1):
            laws = [krr.law(x), *map(krr.law, others)]
            views.append(_of_subset(laws, fewer) if drawn else _of_some(laws, rate))
        pairs.append(tuple(views))
    part = Part(krr, fewer, clients=people) if drawn else Part(krr, people, sampling_rate=rate)
    return Case((part,), tuple(pairs), attacked=False)  # type: ignore[arg-type]


def _of_subset(laws: Sequence[Law], size: int) -> View:
    found: View = defaultdict(Fraction)
    for chosen in combinations(laws, size):
        for at, mass in batch_view(tuple(chosen)).items():
            found[at] += mass / math.comb(len(laws), size)
    return found


def _of_some(laws: Sequence[Law], rate: Fraction) -> View:
    view: View = {(0,) * len(laws[0]): Fraction(1)}
    for law in laws:
        took: View = defaultdict(Fraction)
        for at, mass in add_report(view, law).items():
            took[at] += mass * rate
        for at, mass in view.items():
            took[at] += mass * (1 - rate)
        view = took
    return view


def extremes(draw: random.Random) -> Case:
    """Local ε of up to 54, or next to none, among one to three people."""
    people, tiny = draw.randint(1, 3), Fraction(1, 10 ** draw.choice((6, 9, 13, 20, 23)))
    mechanism: KRR | RAPPOR | Finite
    kind = draw.choice(("krr", "krr", "rappor", "finite"))
    if kind == "krr":
        mechanism = KRR(draw.choice((2, 3)), draw.choice((tiny, 1 - max(tiny, Fraction(1, 10**12)))))
        laws = [mechanism.law(x) for x in range(mechanism.categories)]
    elif kind == "rappor":
        one = draw.choice((tiny, Fraction(1, 2), 1 - 2 * tiny))
        mechanism = RAPPOR(2, one + min(tiny, (1 - one) / 2), one)
        laws = [mechanism.law(x) for x in range(2)]
    else:
        laws = [(tiny, 1 - tiny), (2 * tiny, 1 - 2 * tiny)]
        mechanism = Finite(tuple(laws))
    pairs = tuple(
        tuple(batch_view((laws[x], *(laws[other] for other in others))) for x in (0, 1))
        for others in combinations_with_replacement(range(len(laws)), people - 1)
    )
    return Case((Part(mechanism, people),), pairs, attacked=True)  # type: ignore[arg-type]


MORE = (
    noise_hops,
    noise_honest,
    noise_hashed,
    hashed_dummies,
    digits,
    prefixes,
    many_rounds,
    direct,
    tree,
    signs,
    by_chance,
    extremes,
)
"""The kinds of this module."""

KINDS: Mapping[str, Callable[[random.Random], Case]] = {
    **exact_cases.KINDS,
    **{kind.__name__.replace("_", "-"): kind for kind in MORE},
}
"""How a case of each kind is drawn, of this module's and of `exact_cases`."""
