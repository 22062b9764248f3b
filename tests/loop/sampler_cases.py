"""Cases of `million.py` about samplers: the exact law of what devices and shufflers draw, against the accountant's.

Nothing is drawn. What makes whole numbers of bytes is run along every branch of its decision tree (`decision_tree`).
What numpy makes of bytes is given the ends of each range of numbers that has one outcome.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Literal

from loop.decision_tree import law_of
from loop.found import Claims
from loop.over_rounds_cases import law_of_noise, numerator, simple

from hubbub.accountant.mechanisms import RAPPOR, TreeNodes, exp_decimal
from hubbub.accountant.mechanisms.longitudinal import Horizon, Node, Sampled, Vector
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.queries.longitudinal import sampling as over_time
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingSigns, SendingVector
from hubbub.queries.longitudinal.stream import Stream
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer, beside_noise
from hubbub.queries.randomizers.sampling import Random, happens, uniform
from hubbub.queries.randomizers.unary import UnaryEncoding
from support.boolean_streams import sampled_law, streams, vector_law

TWO_TO_32 = 2**32

Law = dict[Any, Fraction]


def _same(claims: Claims, about: str, sampler: Callable[[Random], Any], law: Law, least: int = 90) -> None:
    """Claim that a sampler has a law."""
    found = law_of(sampler, Fraction(1, 2**least))
    kept = {outcome: mass for outcome, mass in law.items() if mass}
    claims.holds(about, found.is_(kept), f"drawn by {found}, and the law is {kept}")


def edge(draw: random.Random, most: int = TWO_TO_32 - 1) -> int:
    """Draw a numerator over 2³²: any, or one of the ends."""
    return draw.choice((1, 2, most // 2, most - 1, most, numerator(draw, most), numerator(draw, most)))


def coins(draw: random.Random, claims: Claims) -> None:
    """Uniform numbers and biased coins, of one byte to four."""
    count, width = draw.choice((1, 2, 3, draw.randint(2, 12))), draw.choice((1, 2, 4))
    even = dict.fromkeys(range(count), Fraction(1, count))
    _same(claims, "uniform", lambda source: uniform(count, source, width), even)
    chance = draw.choice((Fraction(0), simple(draw), simple(draw, 10**9), Fraction(1, 2**40), 1 - Fraction(1, 2**40)))
    law = {True: chance, False: 1 - chance}
    _same(claims, "coin", lambda source: happens(chance, source, width), law)


def krr(draw: random.Random, claims: Claims) -> None:
    """KRR, by every symbol."""
    response = KRandomizedResponse(draw.randint(2, 7), edge(draw))
    for symbol in range(response.symbols):
        law = dict(enumerate(response.mechanism.law(symbol)))
        _same(claims, "krr", _reports(response, symbol), law)


def _number(report: bytes) -> int:
    return int.from_bytes(report, "big")


def _reports(response: Randomizer, symbol: int) -> Callable[[Random], int]:
    return lambda source: _number(response.randomize(symbol, source))


def _given(numbers: Sequence[int], order: Literal["big", "little"]) -> Random:
    """Return a source of these numbers, as many bytes each as are asked for."""
    left = iter(numbers)
    return lambda count: next(left).to_bytes(count, order)


def unary(draw: random.Random, claims: Claims) -> None:
    """Unary encoding: each bit of every symbol."""
    most = TWO_TO_32 - 1
    truthful = max(2, edge(draw))
    response = UnaryEncoding(draw.randint(2, 4), truthful, min(truthful - 1, edge(draw, most)))
    for symbol in range(response.symbols):
        law = _bits_law(response.mechanism, symbol)
        _same(claims, "unary", _bit_reports(response, symbol), law)


def _bits(response: UnaryEncoding, report: bytes) -> tuple[int, ...]:
    whole = int.from_bytes(report, "little")
    assert whole < 1 << response.symbols
    return tuple(whole >> place & 1 for place in range(response.symbols))


def _bit_reports(response: UnaryEncoding, symbol: int) -> Callable[[Random], tuple[int, ...]]:
    return lambda source: _bits(response, response.randomize(symbol, source))


def _bits_law(mechanism: RAPPOR, symbol: int) -> Law:
    every = product((0, 1), repeat=mechanism.categories)
    return dict(zip(every, mechanism.law(symbol), strict=True))


def hashed(draw: random.Random, claims: Claims) -> None:
    """Hashed response: a row, and a cell of it."""
    response = HashedResponse(draw.choice((5, 10**6)), draw.randint(3, 6), draw.randint(1, 3), edge(draw))
    for symbol in draw.sample(range(response.symbols), 3):
        places = tuple(response.place(row, symbol) for row in range(response.rows))
        law = dict(enumerate(response.mechanism.law(places)))
        _same(claims, "hashed", _reports(response, symbol), law)


def node(draw: random.Random, claims: Claims) -> None:
    """A node of a tree: each value, and what a device sends of its stream."""
    signed = draw.random() < 0.6
    made = Node(edge(draw), edge(draw, (TWO_TO_32 - 1) // (2 if signed else 1)), signed)
    for value, row in zip(made.values, made.law, strict=True):
        law = dict(zip(made.values, row, strict=True))
        _same(claims, "node", partial(over_time.node_value, made, value), law)
    nodes = TreeNodes(draw.randint(2, 4), 2 if signed else 1, made.gamma, made.side)
    sending = SendingNodes(nodes)
    states = draw.choice(list(streams(nodes.horizon)))
    laws = []
    for period in range(1, nodes.periods + 1):
        start = period - (period & -period)
        sent = states[period - 1] - (states[start - 1] if start else 0)
        laws.append(dict(enumerate(made.law[made.values.index(sent)])))
    _same(claims, "tree", partial(_sequence, sending, states), _independent(laws), 60)


def _independent(laws: Sequence[Law]) -> Law:
    """Return the law of a sequence of independent outcomes."""
    found: Law = {(): Fraction(1)}
    for law in laws:
        found = {(*at, each): mass * more for at, mass in found.items() for each, more in law.items()}
    return found


def _sequence(sending: SendingSigns[Any] | SendingNodes, states: Sequence[int], source: Random) -> tuple[int, ...]:
    """Return all symbols that a device sends of a stream."""
    memory, before, symbols = None, Stream(), []
    for period, state in enumerate(states, 1):
        after = before.at(period, state, sending.horizon.changes)
        encoded = sending.step(memory, before, after, source)
        symbols.append(encoded.symbol)
        memory, before = encoded.memory, after
    return tuple(symbols)


def signs(draw: random.Random, claims: Claims) -> None:
    """Signs over time: whole sequences of two streams, and their ratio against the local ε."""
    horizon = Horizon(draw.choice((1, 2, 2, 3, 4)), 1)
    if horizon.periods > 1:
        horizon = Horizon(horizon.periods, draw.randint(1, 2))
    weight = TWO_TO_32 + draw.choice((1, numerator(draw), 7 * TWO_TO_32 + numerator(draw)))
    sending: SendingSigns[Any]
    if draw.random() < 0.5:
        sending = SendingVector(Vector(horizon, weight, draw.randrange(horizon.changes)), 5)
    else:
        sending = SendingOneChange(Sampled(horizon, weight), 5)
    known = list(streams(horizon))
    laws = []
    for states in draw.sample(known, min(2, len(known))):
        laws.append(_signs_law(sending.strategy, states))
        _same(claims, "signs", partial(_sequence, sending, states), laws[-1], 45)
    first, second = laws[0], laws[-1]
    ratio = max(max(first[at] / second[at], second[at] / first[at]) for at in first)
    local = sending.mechanism.epsilon_local
    claims.holds("signs, local", Fraction(exp_decimal(local)) >= ratio, f"epsilon_local is {local!r} for {ratio}")


def _signs_law(strategy: Vector | Sampled, states: tuple[int, ...]) -> Law:
    """Return the law of all a device's symbols: its level, then a sign a round, a fair coin where no node ends."""
    found: Law = defaultdict(Fraction)
    for level in range(strategy.horizon.levels):
        ended = (
            vector_law(strategy, states, level)
            if isinstance(strategy, Vector)
            else sampled_law(strategy, states, level)
        )
        coins_of = len(states) - (len(states) >> level)
        for sent, mass in ended.items():
            for others in product((-1, 1), repeat=coins_of):
                ends, fair = iter(sent), iter(others)
                signs_sent = [
                    next(fair) if period % (1 << level) else next(ends) for period in range(1, len(states) + 1)
                ]
                symbols = tuple(2 * level + (sign > 0) for sign in signs_sent)
                found[symbols] += mass / strategy.horizon.levels / 2**coins_of
    return found


def rounding(draw: random.Random, claims: Claims) -> None:
    """Numbers between two steps: one of both, and right in the mean."""
    lower = draw.choice((0.0, -10.0, draw.uniform(-5, 5)))
    number = Number("number", lower, lower + draw.choice((1.0, 0.3, 50.0)), levels=draw.randint(1, 9))
    answer = draw.choice((number.lower, number.upper, draw.uniform(number.lower - 1, number.upper + 1)))
    clipped = min(max(Fraction(answer), Fraction(number.lower)), Fraction(number.upper))
    scaled = (clipped - Fraction(number.lower)) / (Fraction(number.upper) - Fraction(number.lower))
    below, rest = divmod(scaled * (number.answers - 1), 1)
    law = {int(below): 1 - rest, int(below) + 1: rest}
    _same(claims, "rounding", lambda source: number.encode(answer, source), law)
    variance = Variance("variance", number.lower, number.upper, levels=2 * draw.randint(1, 4))
    nearest, down, up = variance.neighbors(answer)
    law = {nearest - 1: Fraction(down), nearest: 1 - Fraction(down) - Fraction(up), nearest + 1: Fraction(up)}
    _same(claims, "rounding of a variance", lambda source: variance.encode(answer, source), law)


def noise(draw: random.Random, claims: Claims) -> None:
    """Noise of the shuffler: the table, the number of each draw, and the numbers of all symbols."""
    law = _noise_law(draw)
    _table(claims, law)
    for first, last, value in _ranges(law):
        claims.holds(
            "noise, a draw", law.value_at(first) == value == law.value_at(last), f"{law}: {value} is not drawn"
        )
    gamma = edge(draw)
    randomizers: list[Randomizer] = [KRandomizedResponse(2, gamma), KRandomizedResponse(3, gamma)]
    randomizers.append(SendingNodes(TreeNodes(2, draw.randint(1, 2), gamma, edge(draw, TWO_TO_32 // 2 - 1))))
    randomizer = draw.choice(randomizers)
    query = Query(Histogram("q", tuple("abc"[: randomizer.symbols])), randomizer, law)
    _numbers_of_symbols(claims, query, law)


def _noise_law(draw: random.Random) -> NoiseLaw:
    """Draw a law of small reach, or a geometric one of any."""
    if draw.random() < 0.6:
        return law_of_noise(draw, draw.choice((1, 1, 2, 3)))
    ratio = draw.choice((2**31, TWO_TO_32 - 1, 2**20, draw.randint(2**30, TWO_TO_32 - 1)))
    return NoiseLaw("geometric", ratio, draw.choice((1, 2, 5, draw.randint(5, 60))) if ratio > 2**29 else 2)


def _ranges(law: NoiseLaw) -> Iterator[tuple[int, int, int]]:
    """Yield the first and the last number of 128 bits for each value that has any, and the value."""
    first = 0
    for value, weight in enumerate(law.weights):
        if weight:
            yield first, first + weight - 1, value
        first += weight


def _table(claims: Claims, law: NoiseLaw) -> None:
    """Claim that a table is the nearest one to the law that it is called by."""
    weights, whole = law.weights, 1 << TABLE_BITS
    right = sum(weights) == whole and weights == weights[::-1] and weights[0] > 0 and len(weights) == law.largest + 1
    claims.holds("noise, table", right, f"{law} has the table {weights}")
    parameter = Fraction(law.parameter, TWO_TO_32)
    if law.family == "geometric":
        shares = [parameter ** abs(value - law.reach) for value in range(law.largest + 1)]
    else:
        powers = [float((value - law.reach) ** 2 / (2 * parameter)) for value in range(law.largest + 1)]
        shares = [1 / Fraction(exp_decimal(power)) for power in powers]
    total = sum(shares)
    # A Gaussian's exponents are rounded to doubles here, and nothing in the table is.
    room = Fraction(0) if law.family == "geometric" else Fraction(1, 2**45)
    for place, (weight, share) in enumerate(zip(weights, shares, strict=True)):
        off, most = abs(weight - share / total * whole), 1 if place != law.reach else 2 * law.reach + 1
        claims.holds("noise, shares", off <= most + room * whole, f"{law}: that of {place} is off by {float(off)!r}")


def _numbers_of_symbols(claims: Claims, query: Query, law: NoiseLaw) -> None:
    """Claim that what is drawn for a batch has the law that the accountant convolves."""
    beside, ranges = beside_noise(query.randomizer, law), list(_ranges(law))
    if len(ranges) ** beside.draws > 3000:
        return
    for chosen in product(ranges, repeat=beside.draws):
        drawn = query.draw_noise(_given([first for first, _, _ in chosen], "big"))
        values = [value for _, _, value in chosen]
        # Of two symbols, the second's number is drawn, and of a node's values all but that of 0.
        if beside.fixed_total:
            place = 1 if query.symbols == 3 else 0
            expected = (*values[:place], beside.draws * law.largest - sum(values), *values[place:])
        else:
            expected = tuple(values)
        claims.holds("noise, numbers of symbols", drawn == expected, f"{query}: {drawn} is drawn for {values}")


def dummies(draw: random.Random, claims: Claims) -> None:
    """Uniform dummies: the least and the largest number of each symbol, and those that are drawn again."""
    gamma = edge(draw)
    made: Randomizer = draw.choice(
        (
            KRandomizedResponse(draw.randint(2, 9), gamma),
            HashedResponse(100, draw.randint(3, 5), draw.randint(1, 3), gamma),
        )
    )
    symbols = made.symbols if isinstance(made, KRandomizedResponse) else made.rows * made.cells  # type: ignore[attr-defined]
    for number, again in _symbol_numbers(symbols):
        report = made.dummies(1, _given([number, *again], "little"))
        last = again[-1] if again else number
        claims.holds("dummies", _number(report) == last % symbols, f"{made} makes {report!r} of {number} and {again}")
    _unary_dummies(draw, claims)


def _symbol_numbers(symbols: int) -> Iterator[tuple[int, list[int]]]:
    """Yield the ends of what each symbol is drawn by, and numbers that are too large, each with the ones after it."""
    limit = TWO_TO_32 - TWO_TO_32 % symbols
    for symbol in range(symbols):
        yield from ((symbol, []), (limit - symbols + symbol, []))
    if limit < TWO_TO_32:
        yield from ((limit, [5]), (TWO_TO_32 - 1, [limit, symbols - 1]))


def _unary_dummies(draw: random.Random, claims: Claims) -> None:
    """Claim that a dummy of unary encoding is a report of a uniform symbol, by the ends of what sets each bit."""
    truthful = max(2, edge(draw))
    made = UnaryEncoding(draw.randint(2, 5), truthful, min(truthful - 1, edge(draw)))
    for symbol in range(made.symbols):
        limits = [made.truthful if place == symbol else made.other for place in range(made.symbols)]
        for numbers, bit in (([each - 1 for each in limits], 1), (limits, 0)):
            drawn = b"".join(each.to_bytes(4, "big") for each in numbers)
            report = made.dummies(1, _given([symbol, int.from_bytes(drawn, "little")], "little"))
            claims.holds(
                "dummies of bits", _bits(made, report) == (bit,) * made.symbols, f"{made} of {numbers}: {report!r}"
            )


KINDS = (coins, krr, unary, hashed, node, signs, rounding, noise, dummies)


def samplers(draw: random.Random, claims: Claims) -> None:
    """Draw one sampler and claim its law."""
    draw.choice(KINDS)(draw, claims)
