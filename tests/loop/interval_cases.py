"""Cases of `million.py` about what is published: how often intervals miss, summed over every batch that can be seen.

The law of a batch is that of its reports, as fractions, report by report; nothing of the estimates' own laws is used.
Intervals, bands, p-values and verdicts are those that an analyzer publishes.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
from loop.found import Claims
from loop.over_rounds_cases import law_of_noise

from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, ChainNoise
from hubbub.queries.estimation.count_law import CountLaw, law_of_counts
from hubbub.queries.estimation.estimates import Estimates, Truth
from hubbub.queries.estimation.significance import ERROR_RATE, exact_p_values
from hubbub.queries.query import Query
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, Value
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.exact_batches import Law, View

TWO_TO_32 = 2**32

Chances = list[int]
"""Probabilities of 0, 1, 2, … as whole numbers over one denominator."""

RATE = Fraction(1, 20)
"""How often a 95 % interval, or one of a band, may miss."""

ROOM = 1e-9
"""Doubles of a value that is an end of its interval."""


def _gamma(draw: random.Random, people: int, symbols: int) -> int:
    """Draw γ·2³²: of λ = nγ/k from 0.01 on, or one of the ends."""
    expected = 10 ** draw.uniform(-2, 2)
    found = int(expected * symbols / max(people, 1) * TWO_TO_32)
    return draw.choice((1, TWO_TO_32 - 1)) if draw.random() < 0.05 else min(max(found, 1), TWO_TO_32 * 99 // 100)


def _randomizer(draw: random.Random, people: int, most: int) -> KRandomizedResponse | UnaryEncoding:
    symbols = draw.randint(2, most)
    gamma = _gamma(draw, people, symbols)
    if draw.random() < 0.6:
        return KRandomizedResponse(symbols, gamma)
    truthful = draw.choice((TWO_TO_32 // 2, draw.randint(2, TWO_TO_32 - 1), TWO_TO_32 - 1))
    return UnaryEncoding(symbols, truthful, min(gamma // symbols + 1, truthful - 1))


# Counts of many people, by the law of one sum.


def counts(draw: random.Random, claims: Claims) -> None:
    """The sum of some symbols' counts: its interval at two levels, and its p-values if nobody has the symbols."""
    people = draw.choice((0, 1, 2, *[int(10 ** draw.uniform(0, 2.2))] * 12))
    made = _randomizer(draw, people, 6)
    some = draw.randint(1, made.symbols - 1)
    dummies = draw.choice((0, 0, draw.randint(1, 60)))
    law = law_of_counts(made, people, dummies, None, some)
    beside, whole = _dummies_of(made, some, dummies)
    rates = (RATE, RATE / draw.choice((2, 7, 1000)))
    for held in {0, min(1, people), people // 2, people, draw.randint(0, people)}:
        chances, over = _sum_of(made, people, held, some)
        chances, over = _product(chances, beside), over * whole
        _claim_count(claims, law, held, chances, over, rates)
        if held == 0:
            values = exact_p_values(np.arange(len(chances)), law).tolist()
            _claim_p_values(claims, "p-value", zip(values, (Fraction(each, over) for each in chances), strict=True))


def counts_noise(draw: random.Random, claims: Claims) -> None:
    """The same beside noise of shufflers, given the sum of all their draws."""
    people, symbols = draw.choice((0, 1, 2, *[draw.randint(1, 60)] * 9)), draw.randint(2, 4)
    made = KRandomizedResponse(symbols, _gamma(draw, people, symbols))
    noise = ChainNoise(law_of_noise(draw, draw.randint(1, 4)), draw.randint(1, 2))
    some = draw.randint(1, symbols - 1)
    table = list(noise.law.weights)
    if symbols == 2:
        total, beside = noise.largest, reduce(_product, [table] * noise.shufflers)
    else:
        inside, outside = (reduce(_product, [table] * (noise.shufflers * each)) for each in (some, symbols - some))
        total = max(0, min(symbols * noise.largest, symbols * noise.mean + draw.randint(-3, 3)))
        beside = [each * outside[total - z] if 0 <= total - z < len(outside) else 0 for z, each in enumerate(inside)]
    law = law_of_counts(made, people, total, noise, some)
    for held in {0, min(1, people), people, draw.randint(0, people)}:
        chances, over = _sum_of(made, people, held, some)
        _claim_count(claims, law, held, _product(chances, beside), over * sum(beside), (RATE, RATE / 50))


def _claim_count(
    claims: Claims, law: CountLaw, held: int, chances: Chances, over: int, rates: Sequence[Fraction]
) -> None:
    for rate in rates:
        low, high = law.intervals(np.arange(len(chances)), float(rate))
        missed = sum(each for each, first, last in zip(chances, low, high, strict=True) if not first <= held <= last)
        said = f"misses {held} with {float(Fraction(missed, over))!r}: {vars(law)}"
        claims.above("interval of a count", float(rate), Fraction(missed, over), said)


def _sum_of(made: KRandomizedResponse | UnaryEncoding, people: int, held: int, some: int) -> tuple[Chances, int]:
    """Return the law of the reports that count for some symbols, of which `held` people have one."""
    if isinstance(made, UnaryEncoding):
        own, other, trials, unit = made.truthful, made.other, people * some, TWO_TO_32
    else:
        unit, trials = TWO_TO_32 * made.symbols, people
        other = some * made.gamma
        own = other + made.symbols * (TWO_TO_32 - made.gamma)
    return _product(_binomial(held, own, unit), _binomial(trials - held, other, unit)), unit**trials


def _binomial(trials: int, chance: int, unit: int) -> Chances:
    """Return the law of so many coins, over unit ** trials."""
    assert trials >= 0
    found, first = [], (unit - chance) ** trials
    if chance == unit:
        return [0] * trials + [unit**trials]
    for often in range(trials + 1):
        found.append(first)
        first = first * chance * (trials - often) // ((unit - chance) * (often + 1))
    return found


def _product(one: Chances, two: Chances) -> Chances:
    found = [0] * (len(one) + len(two) - 1)
    for place, mass in enumerate(one):
        if mass:
            for more, other in enumerate(two):
                found[place + more] += mass * other
    return found


def _dummies_of(made: KRandomizedResponse | UnaryEncoding, some: int, dummies: int) -> tuple[Chances, int]:
    """Return the law of what uniform dummies add to the sum."""
    if isinstance(made, KRandomizedResponse):
        return _binomial(dummies, some, made.symbols), made.symbols**dummies
    other, unit = _binomial(some, made.other, TWO_TO_32), TWO_TO_32**some
    own = _product(_binomial(1, made.truthful, TWO_TO_32), _binomial(some - 1, made.other, TWO_TO_32))
    one = [some * a + (made.symbols - some) * b for a, b in zip(own, other, strict=True)]
    return reduce(_product, [one] * dummies, [1]), (unit * made.symbols) ** dummies


def _claim_p_values(claims: Claims, about: str, law: Iterable[tuple[float, Fraction]], words: str = "") -> None:
    """Claim that a p-value is at most t with a probability of at most t, for every t that it can be."""
    masses: dict[float, Fraction] = defaultdict(Fraction)
    for value, mass in law:
        masses[value] += mass
    below = Fraction(0)
    for value in sorted(masses):
        below += masses[value]
        claims.above(about, value * (1 + ROOM), below, words)


# Whole publications of few people, over every batch that can be seen.

MOST_SEEN = 90
"""Most batches of one publication: each takes some milliseconds."""


def published(draw: random.Random, claims: Claims) -> None:
    """All that is published of a question, by every batch that can be seen of these answers."""
    while True:
        question, answers = _question(draw)
        query = _query(draw, question, len(answers))
        dummies = draw.choice((0, 0, 1, 3)) if query.noise is None else 0
        seen = _batches(query, [_encoded(query, each) for each in answers], dummies)
        if len(seen) <= MOST_SEEN:
            break
    truth = question.truth(answers)
    found = [
        (mass, query.estimates(Tally(np.array(at), len(answers) + added), added)) for (at, added), mass in seen.items()
    ]
    near = type(question) not in (Histogram, Grouped)
    words = f"{query}, {answers}, {dummies} dummies"
    for about, missed in _missed(found, truth).items():
        claims.above(f"{'near' if near and about != 'count' else 'exact'} {about}", float(RATE), missed, words)
    _claim_verdicts(claims, found, truth, words)


def _question(draw: random.Random) -> tuple[Question, list[Value]]:
    """Draw a question, and its people's answers, which need no rounding."""
    optional = draw.random() < 0.5
    kind = draw.choice(("histogram", "histogram", "grouped", "number", "number", "distribution", "variance"))
    people = draw.randint(0, 7)
    question: Question
    values: list[Value]
    if kind == "histogram":
        names = tuple("abc"[: draw.randint(1 if optional else 2, 3)])
        question, values = Histogram("q", names, optional=optional), list(names)
    elif kind == "grouped":
        question = Grouped("q", (Histogram("g", ("x", "y")),), Histogram("q", ("a", "b")))
        values = [{"g": group, "q": each} for group in "xy" for each in "ab"]
        optional = False
    elif kind == "number":
        levels, lower = draw.randint(1, 3), draw.choice((0.0, -8.0))
        question = Number("q", lower, lower + 8.0 * levels, optional=optional, levels=levels)
        values = [lower + 8.0 * step for step in range(levels + 1)]
    elif kind == "distribution":
        question, values = Distribution("q", (0.0, 1.0, 2.0, 3.0), optional=optional), [0.5, 1.5, 2.5]
    else:
        question, values = Variance("q", 0.0, 2.0, levels=2), [0.0, 1.0, 2.0]
        optional = False
    if optional:
        values.append(None)
    few = draw.sample(values, draw.randint(1, len(values)))
    return question, [draw.choice(few) for _ in range(people)]


def _query(draw: random.Random, question: Question, people: int) -> Query:
    symbols = question.answers + question.optional
    gamma = _gamma(draw, people, symbols)
    kind = draw.choice(("krr", "krr", "noise", "unary"))
    if kind == "unary":
        return Query(question, UnaryEncoding(symbols, TWO_TO_32 // 2, min(gamma, TWO_TO_32 // 2 - 1)))
    return Query(question, KRandomizedResponse(symbols, gamma), law_of_noise(draw, 1) if kind == "noise" else None)


def _encoded(query: Query, answer: Value) -> Law:
    """Return the law of a person's symbol: that of a report is mixed by it."""
    found = [Fraction(0)] * query.symbols
    if isinstance(query.question, Variance) and isinstance(answer, float):
        nearest, below, above = query.question.neighbors(answer)
        for place, mass in ((nearest - 1, below), (nearest, 1 - below - above), (nearest + 1, above)):
            if mass:
                found[place] += mass
    else:
        found[query.encode(answer, lambda count: bytes(count))] = Fraction(1)
        found[query.encode(answer, lambda count: b"\xff" * count)] = Fraction(1)
    assert sum(found) == 1
    return tuple(found)


def _batches(query: Query, people: Sequence[Law], dummies: int) -> dict[tuple[tuple[int, ...], int], Fraction]:
    """Return the probability of each tally, with the number of dummies in it."""
    made, uniform = query.randomizer, (Fraction(1, query.symbols),) * query.symbols
    if isinstance(made, UnaryEncoding):
        rows = [made.mechanism.law(x) for x in range(query.symbols)]
        bits = list(product((0, 1), repeat=query.symbols))
        view = _sums([_blended(each, rows) for each in [*people, *[uniform] * dummies]], bits)
    else:
        assert isinstance(made, KRandomizedResponse)
        rows = [made.mechanism.law(x) for x in range(query.symbols)]
        units = [tuple(int(y == x) for x in range(query.symbols)) for y in range(query.symbols)]
        view = _sums([*(_blended(each, rows) for each in people), *[uniform] * dummies], units)
    if query.noise is None:
        return {(at, dummies): mass for at, mass in view.items()}
    found: dict[tuple[tuple[int, ...], int], Fraction] = defaultdict(Fraction)
    for added, more in _noise(query):
        for at, mass in view.items():
            found[tuple(a + b for a, b in zip(at, added, strict=True)), sum(added)] += mass * more
    return found


def _blended(person: Law, rows: Sequence[Law]) -> Law:
    return tuple(
        sum((p * row[y] for p, row in zip(person, rows, strict=True)), Fraction(0)) for y in range(len(rows[0]))
    )


def _sums(reports: Sequence[Law], counts_of: Sequence[tuple[int, ...]]) -> View:
    """Return the law of the counts, given that of each report, and what each possible report adds to them."""
    view: View = {(0,) * len(counts_of[0]): Fraction(1)}
    for law in reports:
        more: View = defaultdict(Fraction)
        for at, mass in view.items():
            for added, chance in zip(counts_of, law, strict=True):
                more[tuple(a + b for a, b in zip(at, added, strict=True))] += mass * chance
        view = more
    return view


def _noise(query: Query) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Yield how many dummies of each symbol may be drawn, with their probability."""
    assert query.noise is not None
    chances = [Fraction(weight, 1 << TABLE_BITS) for weight in query.noise.weights]
    if query.symbols == 2:
        yield from (((query.noise.largest - z, z), chance) for z, chance in enumerate(chances))
        return
    for drawn in product(range(len(chances)), repeat=query.symbols):
        yield drawn, reduce(lambda mass, z: mass * chances[z], drawn, Fraction(1))


Weighed = list[tuple[Fraction, Estimates]]


def _missed(found: Weighed, truth: Truth) -> dict[str, Fraction]:
    """Return how often each kind of statistic is missed, the worst row of each, and how often a band is."""
    rows: dict[tuple[str, str | None], Fraction] = defaultdict(Fraction)
    band = Fraction(0)
    for mass, estimates in found:
        outside = False
        for row in estimates.rows:
            if row.key in truth and (given := row.estimate) is not None:
                rows[row.key] += mass * (not _inside(truth[row.key], (given.lower, given.upper)))
                outside |= given.simultaneous is not None and not _inside(truth[row.key], given.simultaneous)
        band += mass * outside
    worst: dict[str, Fraction] = {"band": band}
    for (statistic, _), missed in rows.items():
        worst[statistic] = max(worst.get(statistic, Fraction(0)), missed)
    return worst


def _inside(value: float, ends: tuple[float, float]) -> bool:
    room = ROOM * (1 + abs(value))
    return ends[0] - room <= value <= ends[1] + room


def _claim_verdicts(claims: Claims, found: Weighed, truth: Truth, words: str) -> None:
    """Claim that p-values of counts that nobody has are seldom small, and that few are called significant."""
    empty = {key for key, value in truth.items() if key[0] == "count" and value == 0}
    wrong, laws = Fraction(0), {key: list[tuple[float, Fraction]]() for key in empty}
    for mass, estimates in found:
        rows = [row for row in estimates.rows if row.key in empty]
        wrong += mass * any(row.significant for row in rows)
        for row in rows:
            if row.p_value is not None:
                laws[row.key].append((row.p_value, mass))
    claims.above("verdicts", ERROR_RATE, wrong, words)
    for law in laws.values():
        _claim_p_values(claims, "published p-value", law, words)


def intervals(draw: random.Random, claims: Claims) -> None:
    """Draw a sum of counts, or a whole publication, and claim how often it misses."""
    draw.choice((counts, counts, counts_noise, published))(draw, claims)
