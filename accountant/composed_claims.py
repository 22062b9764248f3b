"""Shows that a stated composed ε is right, and keeps what stays the same when another round is composed.

The certificate of a round composes all rounds so far, the next one the same rounds and one more. `composition` looks
for the best ε of each from nothing. Here the ε is given, and one tilted law at it shows that it holds: any tilt and any
order of convolutions are valid (`composition`), and every error is charged as there. So tilts are taken from a fixed
lattice, and the rounds are convolved in a binary tree: of N rounds, the next one asks for about log₂ N convolutions.

What is not shown here may still be true: then `composition` decides.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import groupby

import numpy as np

from hubbub.accountant.composition import PAIR_ERROR, TOLERANCE, ComposedCurve, log_tail
from hubbub.accountant.losses.convolution import ROUNDING, TiltedLaw, convolve, log_moment, power, tilted
from hubbub.accountant.losses.grid import LossGrid
from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.pairs import Part, attack_grid, dominating_grid, kept_delta, one_round, played_grids

PLACES = range(-12, 25)
"""The lattice of tilts: 2^(place/2). A tilt that is off by a fifth moves the law by about its standard deviation."""

LARGEST_EXPONENT = 200.0
"""A tilt times the largest loss or step, at most: above, its exponential could overflow."""

NEARLY = 0.5
"""How much worse the exponent of a tilt may be that is kept: about a standard deviation from the best."""

MOST_SPANS = 20_000
"""Spans of rounds that are kept: a year of daily rounds with 20 questions, from above and from below, has 29,000."""

MOST_LAWS = 1000
"""Laws of spans that are kept, some 40 kB each: a year of daily rounds has nine for each question and side."""

Grid = Callable[[Part, float], LossGrid | None]


class _Span:
    """Some parts in a row: what is known of the sum of their losses, and its law at the tilt that was asked for last.

    `halves` are the spans that it is made of; one part has none, and makes its law from its grid.
    """

    def __init__(self, part: Part | None, tail: float, grid: LossGrid | None, halves: tuple[_Span, ...] = ()) -> None:
        self._part, self._tail, self.halves = part, tail, halves
        self.place: int | None = None
        self._law: TiltedLaw | None = None
        self.rounds, self.largest, self.reach, self.log_finite = 0, 0.0, 0.0, 0.0
        self.moments: list[float] = []
        if halves:
            self.rounds = sum(half.rounds for half in halves)
            self.largest, self.reach = max(half.largest for half in halves), max(half.reach for half in halves)
            self.log_finite = math.fsum(half.log_finite for half in halves)
            self.moments = [math.fsum(each) for each in zip(*(half.moments for half in halves), strict=True)]
        elif part is not None and grid is not None:
            self.rounds = part.rounds
            self.largest = float(grid.step * max(-grid.first, grid.first + len(grid.masses) - 1))
            self.reach = max(self.largest, float(grid.step))
            self.log_finite = part.rounds * math.log1p(-grid.infinite)
            # At once: grids are large, and are not kept.
            self.moments = [part.rounds * _moment(grid, place, self.reach) for place in PLACES]

    def law(self, place: int, grid_of: Grid) -> TiltedLaw:
        """Return the law of the sum at a tilt of the lattice."""
        if self._law is None or self.place != place:
            self._law, self.place = self._made(place, grid_of), place
            # The halves' laws are part of this one.
            for half in self.halves:
                half._law = None
        return self._law

    def drop_law(self) -> None:
        """Let go of the law; it is made again if it is asked for."""
        self._law = None

    def _made(self, place: int, grid_of: Grid) -> TiltedLaw:
        if self.halves:
            return reduce(_convolved, (half.law(place, grid_of) for half in self.halves))
        grid = None if self._part is None else grid_of(one_round(self._part), self._tail)
        if grid is None or self._part is None:
            raise ValueError("a span has a part with a grid, or halves")
        return power(tilted(grid, _tilt(place)), self._part.rounds, TOLERANCE)


def _tilt(place: int) -> float:
    return math.pow(2.0, place / 2)


def _place(exponents: Sequence[float], last: int | None) -> int:
    """Return the place of the best exponent, or the `last` one if it is nearly as good: its laws are there."""
    best = min(exponents)
    if last is not None and exponents[last - PLACES[0]] <= best + NEARLY:
        return last
    return PLACES[exponents.index(best)]


def _moment(grid: LossGrid, place: int, reach: float) -> float:
    tilt = _tilt(place)
    return log_moment(grid, tilt) if tilt * reach <= LARGEST_EXPONENT else math.inf


def _convolved(left: TiltedLaw, right: TiltedLaw) -> TiltedLaw:
    return convolve(left, right, TOLERANCE)


class _Spans:
    """The spans of rounds that were composed, from one side: of pairs that dominate, or of attacks."""

    def __init__(self, grid_of: Grid) -> None:
        self._grid_of = grid_of
        self._lock = threading.Lock()
        self._numbers: dict[tuple[Part, float], int] = {}
        self._spans: OrderedDict[tuple[int, ...], _Span | None] = OrderedDict()
        self._with_laws: OrderedDict[_Span, None] = OrderedDict()

    def curve(self, parts: Sequence[Part], delta: float, epsilon: float) -> ComposedCurve | None:
        """Return a curve of all parts that is precise around an ε and δ; None if no part has a grid."""
        # One thread at a time: the spans are shared, and the work is the processor's.
        with self._lock:
            roots = self._roots(parts, log_tail(parts, delta))
            if not roots:
                return None
            reach, largest = max(root.reach for root in roots), max(root.largest for root in roots)
            if _tilt(PLACES[0]) * reach > LARGEST_EXPONENT:
                return None
            exponents = [
                math.fsum(each) - _tilt(place) * epsilon
                for place, each in zip(PLACES, zip(*(root.moments for root in roots), strict=True), strict=True)
            ]
            place = _place(exponents, roots[0].place)
            # The smaller ones first: what they have is convolved once more with each of the larger ones.
            law = reduce(_convolved, (root.law(place, self._grid_of) for root in reversed(roots)))
            self._keep_laws(roots)
        rounds = sum(root.rounds for root in roots)
        infinite = -math.expm1(math.fsum(root.log_finite for root in roots)) * (1 + 1e-12)
        return ComposedCurve((law,), infinite, rounds * PAIR_ERROR, rounds * 8 * ROUNDING * largest)

    def _keep_laws(self, roots: Sequence[_Span]) -> None:
        """Let go of the laws that were asked for longest ago, if there are too many."""
        for root in roots:
            self._with_laws[root] = None
            self._with_laws.move_to_end(root)
        while len(self._with_laws) > MOST_LAWS:
            oldest, _ = self._with_laws.popitem(last=False)
            oldest.drop_law()

    def _roots(self, parts: Sequence[Part], tail: float) -> list[_Span]:
        """Return the largest spans of all parts in their order, each of as many as a power of two."""
        if len(self._numbers) > MOST_SPANS:
            self._numbers.clear()
            self._spans.clear()
            self._with_laws.clear()
        numbers = [self._numbers.setdefault((part, tail), len(self._numbers)) for part in parts]
        found, start = list[_Span](), 0
        for bit in reversed(range(len(numbers).bit_length())):
            if len(numbers) & (1 << bit):
                span = self._span(tuple(numbers[start : start + (1 << bit)]), parts[start : start + (1 << bit)], tail)
                found += [] if span is None else [span]
                start += 1 << bit
        return found

    def _span(self, numbers: tuple[int, ...], parts: Sequence[Part], tail: float) -> _Span | None:
        if numbers in self._spans:
            self._spans.move_to_end(numbers)
            return self._spans[numbers]
        if len(numbers) == 1:
            grid = self._grid_of(one_round(parts[0]), tail)
            span = None if grid is None else _Span(parts[0], tail, grid)
        else:
            half = len(numbers) // 2
            both = [self._span(numbers[part], parts[part], tail) for part in (slice(half), slice(half, None))]
            halves = tuple(each for each in both if each is not None)
            span = halves[0] if len(halves) == 1 else _Span(None, tail, None, halves) if halves else None
        self._spans[numbers] = span
        while len(self._spans) > MOST_SPANS:
            self._spans.popitem(last=False)
        return span


_FROM_ABOVE, _FROM_BELOW = _Spans(dominating_grid), _Spans(attack_grid)


def shows_upper(parts: Sequence[Part], delta: float, epsilon: float) -> bool:
    """Return whether composing shows that all `parts` have an ε of at most `epsilon` at `delta`.

    True only if it was shown. False says nothing: `composition` may still show it.
    """
    return _is_certain(lambda: _shows_upper(parts, delta, epsilon))


def shows_lower(parts: Sequence[Part], delta: float, epsilon: float) -> bool:
    """Return whether known attacks on the parts show that no ε below `epsilon` holds at `delta`.

    True only if it was shown. False says nothing.
    """
    return _is_certain(lambda: _shows_lower(parts, delta, epsilon))


def _is_certain(shown: Callable[[], bool]) -> bool:
    """Return whether it is shown, in the range of doubles: as in `answering`, numbers beyond it show nothing."""
    try:
        # By default NumPy only warns of an overflow, and returns a number that may be wrong.
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            return shown()
    # Then `composition` decides, and its error says what happened. An AccountingError is a ValueError.
    except (ArithmeticError, IndexError, ValueError):
        return False


def _shows_upper(parts: Sequence[Part], delta: float, epsilon: float) -> bool:
    if not 0 < epsilon < math.inf or not _simple(parts, delta):
        return False
    grouped = _grouped(parts)
    wanted = kept_delta(grouped, delta)
    curve = _FROM_ABOVE.curve(grouped, wanted, epsilon)
    return curve is not None and curve.delta(epsilon) <= wanted


def _shows_lower(parts: Sequence[Part], delta: float, epsilon: float) -> bool:
    if not 0 < epsilon < math.inf or not _simple(parts, delta):
        return False
    curve = _FROM_BELOW.curve(_grouped(parts), delta, epsilon)
    return curve is not None and curve.delta(epsilon) > delta


def _simple(parts: Sequence[Part], delta: float) -> bool:
    """Return whether there is one way only to bound the parts: by the pair of each, round by round."""
    tail = log_tail(parts, delta)
    return all(
        not (part.sampled or part.dummies or isinstance(part.mechanism, WithNoise)) and played_grids(part, tail) is None
        for part in dict.fromkeys(parts)
    )


def _grouped(parts: Sequence[Part]) -> list[Part]:
    """Return equal parts as one of several rounds: all of them if that makes the parts much fewer, else neighbors.

    Neighbors keep their place: the next round only adds some, and what was convolved before is used again.
    """
    beside = [_of_rounds(part, sum(each.rounds for each in some)) for part, some in groupby(parts)]
    rounds: dict[Part, int] = {}
    for part in beside:
        rounds[one_round(part)] = rounds.get(one_round(part), 0) + part.rounds
    if len(rounds) * 4 > len(beside):
        return beside
    return [_of_rounds(part, count) for part, count in rounds.items()]


def _of_rounds(part: Part, rounds: int) -> Part:
    return part if part.rounds == rounds else Part(part.mechanism, part.reports, rounds)
