"""Cases of `million.py` in which somebody chooses: games over rounds, batches of several local ε, laws by subsets.

A game's round is chosen after the outcomes before it are seen: what the others of it answer, the victim's two answers,
which of them counts as the first, and in some the randomizer itself. Its δ is summed over all outcomes, in whole
numbers, with the best choice after each.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, permutations, product
from math import comb

from loop import exact_cases
from loop.exact_cases import Case, Pair
from loop.over_rounds_cases import law_of_noise, numerator, simple

from hubbub.accountant.mechanisms import KRR, RAPPOR, Common, Finite, Generic, WithNoise, exp_decimal
from hubbub.accountant.mechanisms.exact import log_above
from hubbub.accountant.mechanisms.laws import hadamard_response, subset_selection
from hubbub.accountant.pairs import Part
from support.exact_batches import Law, View, batch_view
from support.noise_views import constant, released

Whole = tuple[tuple[int, int], ...]
"""Both masses of each outcome of a view, over one denominator."""

MOST_LEAVES = 40_000
"""Most ends of a game: each takes a third of a microsecond at each ε."""


@dataclass(frozen=True)
class Choices:
    """One round of a game: the views that may be chosen, with all masses over one denominator."""

    whole: int
    views: tuple[Whole, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Choices:
        """Return the pairs both ways, each once; outcomes of one ratio are added up, which changes no divergence."""
        every = [mass for pair in pairs for view in pair for mass in view.values()]
        whole = math.lcm(*{mass.denominator for mass in every})
        found: dict[Whole, None] = {}
        for first, second in pairs:
            ratios: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
            for at in first.keys() | second.keys():
                p, q = (int(view.get(at, Fraction(0)) * whole) for view in (first, second))
                if p or q:
                    divisor = math.gcd(p, q)
                    both = ratios[p // divisor, q // divisor]
                    both[0], both[1] = both[0] + p, both[1] + q
            found[tuple(sorted((p, q) for p, q in ratios.values()))] = None
            found[tuple(sorted((q, p) for p, q in ratios.values()))] = None
        return cls(whole, tuple(found))

    @property
    def leaves(self) -> int:
        """How many outcomes all its views have."""
        return sum(map(len, self.views))


@dataclass(frozen=True)
class Game:
    """The exact δ of rounds of which each is chosen after what the ones before it showed."""

    rounds: tuple[Choices, ...]

    def delta(self, epsilon: float) -> Fraction:
        """Return it at `epsilon`, by backward induction."""
        factor = Fraction(exp_decimal(epsilon))
        won = self._won(factor.denominator, factor.numerator, 0)
        return Fraction(won, factor.denominator * math.prod(each.whole for each in self.rounds))

    def _won(self, p: int, q: int, place: int) -> int:
        """Return the most of Σ (p·P − q·Q)₊ over the rounds from `place` on."""
        views = self.rounds[place].views
        if place == len(self.rounds) - 1:
            return max(sum(max(p * a - q * b, 0) for a, b in view) for view in views)
        return max(sum(self._won(p * a, q * b, place + 1) for a, b in view) for view in views)


def _game(draw: random.Random, kinds: Sequence[Callable[[random.Random], Case]], most: int = 2) -> Case:
    """Play rounds of these kinds, of one mechanism or of several."""
    while True:
        rounds = draw.randint(2, most)
        if draw.random() < 0.5:
            cases = [draw.choice(kinds)(draw)] * rounds
        else:
            cases = [draw.choice(kinds)(draw) for _ in range(rounds)]
        played = Game(tuple(Choices.of(each.pairs) for each in cases))
        if math.prod(each.leaves for each in played.rounds) <= MOST_LEAVES:
            return Case(tuple(part for each in cases for part in each.parts), (), all_attacked(cases), played)


def all_attacked(cases: Sequence[Case]) -> bool:
    """Whether the data sets of all attacks are among those of each round."""
    return all(each.attacked for each in cases)


def adaptive(draw: random.Random) -> Case:
    """Two rounds of any kind, people alone, beside dummies or beside noise."""
    return _game(draw, ROUNDS)


ROUNDS = (
    exact_cases.krr,
    exact_cases.krr,
    exact_cases.rappor,
    exact_cases.finite,
    exact_cases.krr_dummies,
    exact_cases.rappor_dummies,
    exact_cases.hashed,
    exact_cases.noise,
)
"""What the rounds of a game are drawn from."""


def adaptive_two(draw: random.Random) -> Case:
    """Two or three rounds of two symbols: their bound has a play of its own, in which the others' ones are chosen."""

    def two(draw: random.Random) -> Case:
        people = draw.randint(1, 4)
        gamma = draw.choice((simple(draw, 64), exact_cases.chance(draw)))
        mechanism = KRR(2, gamma)
        zero, one = mechanism.law(0), mechanism.law(1)
        pairs = []
        for ones in range(people):
            held = [one] * ones + [zero] * (people - 1 - ones)
            pairs.append((batch_view((zero, *held)), batch_view((one, *held))))
        return Case((Part(mechanism, people),), tuple(pairs), attacked=True)

    return _game(draw, (two,), most=3)


def adaptive_laws(draw: random.Random) -> Case:
    """Two rounds of an unknown randomizer: the second one's law, too, is chosen after the first one's outcome."""
    ratio = 1 + Fraction(draw.randint(1, 500), draw.choice((1000, 100)))
    mechanism = draw.choice((Generic, Common))(log_above(ratio))
    parts, rounds = [], []
    for _ in range(2):
        people = draw.randint(1, 3)
        pairs: list[Pair] = []
        for _ in range(3):
            rows = [_row_within(draw, ratio, 3) for _ in range(2)]
            pairs.extend(
                (batch_view((rows[0], *others)), batch_view((rows[1], *others)))
                for others in combinations_with_replacement(rows, people - 1)
            )
        parts.append(Part(mechanism, people))
        rounds.append(Choices.of(pairs))
    return Case(tuple(parts), (), False, Game(tuple(rounds)))


def adaptive_noise(draw: random.Random) -> Case:
    """Two rounds of which the first is beside noise, the others of it liars, and the second among honest people."""

    def beside(draw: random.Random) -> Case:
        krr = KRR(2, Fraction(numerator(draw), 2**32))
        mechanism = WithNoise(krr, law_of_noise(draw, draw.randint(1, 3)))
        liar = constant(draw.randrange(2), 2)
        pairs = tuple(tuple(released(mechanism, [krr.law(x), *others]) for x in (0, 1)) for others in ([], [liar]))
        return Case((Part(mechanism, 1),), pairs, attacked=False)  # type: ignore[arg-type]

    return _game(draw, (beside, beside, exact_cases.krr))


def _row_within(draw: random.Random, ratio: Fraction, outputs: int) -> Law:
    """Return a law of which every probability is 1 or `ratio` over one sum, or mixed with the even one of these.

    Any two such laws have probabilities that differ at most `ratio`-fold.
    """
    high = max(1, outputs // 2)
    total = high * ratio + outputs - high
    places = set(draw.sample(range(outputs), high))
    blanket, even = 1 / total, Fraction(1, outputs)
    kept = draw.choice((Fraction(1), Fraction(1), Fraction(draw.randint(0, 4), 4)))
    pure = [(ratio if place in places else Fraction(1)) * blanket for place in range(outputs)]
    return tuple(kept * each + (1 - kept) * even for each in pure)


def mixed(draw: random.Random) -> Case:
    """Places of a shuffled batch of which each has its own local ε; the largest is stated."""
    reports = draw.randint(2, 3)
    ratios = [1 + Fraction(draw.randint(0, 500), draw.choice((10**4, 1000, 100))) for _ in range(reports)]
    largest = max(*ratios, 1 + Fraction(1, 1000))
    rows = [[_of_ratio(draw, ratio, 3) for _ in range(3)] for ratio in ratios]
    if draw.random() < 0.3:
        # One place does not look at its answer.
        rows[draw.randrange(reports)] = [(Fraction(1, 3),) * 3] * 3
    held = [draw.randrange(3) for _ in range(reports - 1)]
    pairs = tuple((_ordered(rows, [one, *held]), _ordered(rows, [two, *held])) for one, two in ((0, 1), (0, 2), (1, 2)))
    kind = draw.choice((Generic, Common))
    return Case((Part(kind(log_above(largest)), reports),), pairs, attacked=False)


def mixed_people(draw: random.Random) -> Case:
    """People with randomizers of their own, of which all rows together are within one ratio."""
    ratio, reports = 1 + Fraction(draw.randint(1, 500), draw.choice((1000, 100))), draw.randint(2, 4)
    own = [_row_within(draw, ratio, 3) for _ in range(2)]
    others = tuple(_row_within(draw, ratio, 3) for _ in range(reports - 1))
    pair = tuple(batch_view((row, *others)) for row in own)
    return Case((Part(Generic(log_above(ratio)), reports),), (pair,), attacked=False)  # type: ignore[arg-type]


def _of_ratio(draw: random.Random, ratio: Fraction, outputs: int) -> Law:
    """Return a law of columns 1 or `ratio` over a sum that all such laws have."""
    high = set(draw.sample(range(outputs), 1))
    total = ratio + outputs - 1
    return tuple((ratio if place in high else Fraction(1)) / total for place in range(outputs))


def _ordered(rows: Sequence[Sequence[Law]], answers: Sequence[int]) -> View:
    found: View = defaultdict(Fraction)
    orders = list(permutations(answers))
    for order, outputs in product(orders, product(range(3), repeat=len(rows))):
        mass = Fraction(1, len(orders))
        for laws, answer, output in zip(rows, order, outputs, strict=True):
            mass *= laws[answer][output]
        found[outputs] += mass
    return found


def subsets(draw: random.Random) -> Case:
    """Laws by subsets, those that a search for better ones than kRR tries: sizes mixed, by three inputs and a blanket.

    The truth is of the whole law: every category, and every subset by itself.
    """
    categories = draw.choice((2, 3, 3, 4))
    ratio = 1 + Fraction(draw.randint(1, 10**4), draw.choice((10**6, 10**4, 10**3, 100)))
    sizes = draw.sample(range(categories + 1), min(draw.randint(1, 2), categories))
    if set(sizes) <= {0, categories}:
        sizes = [draw.randint(1, categories - 1)]
    shares = [Fraction(1)] if len(sizes) == 1 else [share := simple(draw, 64), 1 - share]
    columns = _columns(categories, ratio, tuple(zip(sizes, shares, strict=True)))
    stated = subset_selection(categories, sizes[0], ratio) if len(sizes) == 1 else _few(columns)
    laws = [tuple(column[0][x] for column in columns) for x in range(categories)]
    return _of_laws(draw, stated, laws)


Column = tuple[Law, Fraction]
"""One output's probabilities by category, and the blanket's."""


def _columns(categories: int, ratio: Fraction, sizes: Sequence[tuple[int, Fraction]]) -> list[Column]:
    """Return every subset's column: of a size, one with the category in it is `ratio` times as likely."""
    found = []
    for size, share in sizes:
        inside, outside = comb(categories - 1, size - 1) if size else 0, comb(categories - 1, size)
        unit = share / (ratio * inside + outside)
        for chosen in combinations(range(categories), size):
            law = tuple(unit * (ratio if x in chosen else 1) for x in range(categories))
            found.append((law, min(law)))
    return found


def _few(columns: Sequence[Column]) -> Finite:
    """State the law by at most three inputs: outputs whose columns are proportional for them are one."""
    listed = min(3, len(columns[0][0]))
    joined: dict[tuple[Fraction, ...], list[Fraction]] = {}
    for law, blanket in columns:
        key = tuple(each / blanket for each in law[:listed])
        sums = joined.setdefault(key, [Fraction(0)] * (listed + 1))
        for place, mass in enumerate((*law[:listed], blanket)):
            sums[place] += mass
    rows = tuple(tuple(sums[x] for sums in joined.values()) for x in range(listed))
    return Finite(rows, tuple(sums[-1] for sums in joined.values()))


def hadamard(draw: random.Random) -> Case:
    """Hadamard response of two or three categories, place by place."""
    categories = draw.choice((2, 3))
    ratio = 1 + Fraction(draw.randint(1, 10**4), draw.choice((10**6, 10**4, 10**3, 100)))
    places = 1 << categories.bit_length()
    rows = [[(x + 1 & place).bit_count() % 2 == 0 for place in range(places)] for x in range(categories)]
    unit = 2 / (places * (ratio + 1))
    laws = [tuple(unit * (ratio if high else 1) for high in row) for row in rows]
    return _of_laws(draw, hadamard_response(categories, ratio), laws)


def _of_laws(draw: random.Random, stated: Finite, laws: Sequence[Law]) -> Case:
    """Return one round of a law that is stated by a few inputs, and enumerated with all of them."""
    reports = draw.randint(1, {2: 6, 3: 5, 4: 3}.get(len(laws[0]), 2))
    # All pairs of categories are alike.
    pairs = tuple(
        (batch_view((laws[0], *held)), batch_view((laws[1], *held)))
        for held in combinations_with_replacement(laws, reports - 1)
    )
    # Attacks are on the inputs that are listed; other people may have others, which hide the same.
    return Case((Part(stated, reports),), pairs, attacked=True)


def even(draw: random.Random) -> Case:
    """Reports that hardly depend on the answer, or not at all: γ is 1 or next to it, or rows are equal."""
    off = draw.choice((Fraction(0), Fraction(0), Fraction(1, 2**32), Fraction(1, 10**9)))
    mechanism: KRR | RAPPOR | Finite
    kind = draw.choice(("krr", "rappor", "finite"))
    dummies = 0
    if kind == "krr":
        mechanism, dummies = KRR(draw.choice((2, 3)), 1 - off), draw.choice((0, 0, 1))
        laws = [mechanism.law(x) for x in range(mechanism.categories)]
    elif kind == "rappor":
        other = simple(draw, 64) * (1 - off)
        mechanism = RAPPOR(2, other + off, other)
        laws = [mechanism.law(x) for x in range(2)]
    else:
        share = simple(draw, 64) * (1 - off)
        laws = [(share, 1 - share), (share + off, 1 - share - off)]
        mechanism = Finite(tuple(laws))
    people = draw.choice((1, 1, 2, 3))
    more = [(Fraction(1, len(laws)),) * len(laws)] * dummies
    pairs = tuple(
        (batch_view((laws[0], *held, *more)), batch_view((laws[1], *held, *more)))
        for held in combinations_with_replacement(laws, people - 1)
    )
    return Case((Part(mechanism, people, dummies=dummies),), pairs, attacked=True)


MORE = (adaptive, adaptive_two, adaptive_laws, adaptive_noise, mixed, mixed_people, subsets, hadamard, even)
"""The kinds of this module."""

KINDS: Mapping[str, Callable[[random.Random], Case]] = {kind.__name__.replace("_", "-"): kind for kind in MORE}
"""How a case of each kind is drawn."""
