"""Solves δ(ε) = δ for ε: it returns two checked ends, and never the solver's own guess."""

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, exp, inf, log1p, pi, sqrt

from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.numbers import log_down, log_up

Evaluate = Callable[[float, float], LogBracket]
"""(epsilon, precision) → bracket of ln δ(epsilon)."""

COARSE = 0.1
"""Smoothing for finding the neighborhood of a root: about 1 % in δ."""

FINE = 0.01
"""Smoothing for a δ that is returned: about 1e-4 in δ."""

_WIDTH = 1e-5
"""Relative width of ε that the fine smoothing aims at."""

_SLACK = 5e-5
"""Relative width of ε above which a finer smoothing is tried: sums with few values need it."""

_NOTHING = 1e-4
"""If the gain relative to the largest ε is smaller than this, that ε is the result: the gain is not worth a search."""

_RESOLVED = 1e-3
"""Smoothing for the check if there is more to gain: the finest with which a search begins."""
_WIDE = 1e-4
"""The same for δ."""

_HOPELESS = 0.98
"""Share of the local ε above which a finer value would make no relevant difference."""


@dataclass(frozen=True)
class EpsilonEnds:
    """`upper`: δ(upper) ≤ δ was shown (or it is the largest ε). `lower`: δ(lower) > δ was shown, or 0."""

    upper: float
    lower: float


def narrowed(evaluate: Callable[[float], LogBracket]) -> LogBracket:
    """Return the bracket of ln δ from a function of the precision; if it stays wide, finer smoothings are tried.

    Sums with few values need it, for example if hardly any report is one of the victim's values: there the error of a
    smoothing is about itself, not its square.
    """
    seen = evaluate(FINE)
    for finer in (FINE / 8, FINE / 64):
        # Without a lower end the upper one is Chernoff's, which does not depend on the smoothing.
        if seen.lower == -inf or seen.upper - seen.lower <= _WIDE:
            break
        again = evaluate(finer)
        # Both brackets are valid, so their intersection is.
        seen = LogBracket(max(seen.lower, again.lower), min(seen.upper, again.upper))
    return seen


def gaussian_guess(sums_at_zero: IidSum, delta: float) -> float:
    """Return the ε at which a Gaussian sum of the same variance would have `delta`, only to start a search."""
    # Not step**2: with Gaussian noise a step may be as large as e^600, with a mass as small.
    variance = sum(mass * step * step for mass, step in zip(sums_at_zero.masses, sums_at_zero.steps, strict=True))
    spread = sqrt(variance / sums_at_zero.draws)
    low, high = 0.0, 25.0
    for _ in range(40):
        z = (low + high) / 2
        inside = spread * (exp(-z * z / 2) / sqrt(2 * pi) - z * erfc(z / sqrt(2)) / 2)
        low, high = (z, high) if inside > delta else (low, z)
    return log1p(high * spread)


def find_epsilon(evaluate: Evaluate, delta: float, largest: float, guess: float, *, refine: bool = True) -> EpsilonEnds:
    """Bracket inf{ε: δ(ε) ≤ delta} within [0, largest]; `largest` is known to be enough (a local ε).

    `upper` is 0 only if the upper end of δ(0) is at most `delta`. Without `refine`, only one smoothing is used.
    """
    # Two roundings of ln δ: at or below `target` proves δ(ε) ≤ delta, above `above` proves δ(ε) > delta.
    target, above = log_down(delta), log_up(delta)
    start = evaluate(0.0, COARSE)
    # Coarse smoothing raises the upper end by about 1 %: near the target it could hide that δ(0) is small enough.
    if start.upper <= target + 0.1:
        # As finely as δ alone is evaluated, so that both give the same result at ε = 0.
        start = narrowed(lambda precision: evaluate(0.0, precision)) if refine else evaluate(0.0, FINE)
    if start.upper <= target:
        return EpsilonEnds(0.0, 0.0)
    almost = largest * (1 - _NOTHING)
    if evaluate(almost, COARSE).upper > target:
        seen = evaluate(almost, _RESOLVED)
        if seen.upper > target:
            return EpsilonEnds(largest, _below(evaluate, above, (almost, largest), seen, refine=refine))
    root, slope = _coarse_root(evaluate, target, largest, guess, start.upper)
    precision = min(max(sqrt(_WIDTH * slope * root), 1e-3), 2 * FINE)
    ends = EpsilonEnds(largest, 0.0)
    for finer in (precision, precision / 8, max(precision / 64, 2e-4)):
        upper, seen, slope = _fine_upper(evaluate, target, largest, (root, slope), finer)
        lower = _fine_lower(evaluate, above, (upper, seen.lower), slope, finer)
        # Each pass has checked its own ends, so the best of all passes may be kept.
        ends = EpsilonEnds(min(ends.upper, upper), max(ends.lower, lower))
        if not refine or ends.upper - ends.lower <= _SLACK * ends.upper or ends.upper > _HOPELESS * largest:
            break
        root = ends.upper
    return ends


def _below(evaluate: Evaluate, above: float, between: tuple[float, float], seen: LogBracket, *, refine: bool) -> float:
    """Return the lower end if the upper one is the largest ε: almost that, or the result of a search below it, or 0."""
    almost, largest = between
    if seen.lower > above:
        return almost
    return _fine_lower(evaluate, above, (largest, -inf), 1.0, FINE) if refine else 0.0


def _coarse_root(
    evaluate: Evaluate, target: float, largest: float, guess: float, at_zero: float
) -> tuple[float, float]:
    """(ε, −d ln δ/dε) near the root, by a secant in ε² (ln δ is nearly linear in it), kept in a bracket."""
    # This finds a place and proves nothing; `_fine_upper` and `_fine_lower` check the returned ends.
    low, high = (0.0, at_zero - target), (largest, -inf)
    epsilon, slope = min(max(guess, 1e-12), largest / 2), 1e-300
    for attempt in range(60):
        here = (epsilon, evaluate(epsilon, COARSE).upper - target)
        slope = _slope(low, high, here) or slope
        low, high = (here, high) if here[1] > 0 else (low, here)
        if abs(here[1]) < 1e-3 * slope * epsilon or high[0] - low[0] < 1e-5 * high[0]:
            break
        epsilon = _next(low, high, at_zero - target, bisect=attempt % 4 == 3)
    return epsilon, slope


def _slope(low: tuple[float, float], high: tuple[float, float], here: tuple[float, float]) -> float | None:
    """Return the steepness at `here`, from the nearer end of the bracket; None if it cannot be computed."""
    other = low if high[1] == -inf or here[0] - low[0] < high[0] - here[0] else high
    if here[1] == -inf or other[0] == here[0]:
        return None
    return max(2 * here[0] * (other[1] - here[1]) / (here[0] ** 2 - other[0] ** 2), 1e-300)


def _next(low: tuple[float, float], high: tuple[float, float], at_zero: float, *, bisect: bool) -> float:
    """Return the next ε: the secant's root in ε², extrapolated while only one side is known, or the middle."""
    middle = sqrt(low[0] * high[0]) if 0 < 4 * low[0] < high[0] else (low[0] + high[0]) / 2
    if high[1] == -inf and low[0] > 0 and at_zero > low[1]:
        return min(1.01 * low[0] * sqrt(at_zero / (at_zero - low[1])), middle if bisect else high[0])
    if bisect or high[1] == -inf:
        return middle
    a, b = low[0] ** 2, high[0] ** 2
    inside = sqrt(a + (b - a) * low[1] / (low[1] - high[1]))
    return min(max(inside, low[0] * (1 + 1e-6)), high[0] * (1 - 1e-6))


def _fine_upper(
    evaluate: Evaluate, target: float, largest: float, near: tuple[float, float], precision: float
) -> tuple[float, LogBracket, float]:
    """(ε, the bracket there, slope): an ε whose upper end is at most `target`, hardly more than needed."""
    epsilon, slope = near
    # `largest` needs no check: it is known to be valid, and is the result if nothing smaller can be shown.
    best, low = (largest, LogBracket(-inf, -inf)), 0.0
    before: tuple[float, float] | None = None
    for attempt in range(10):
        seen = evaluate(epsilon, precision)
        if seen.upper <= target and epsilon <= best[0]:
            best = (epsilon, seen)
            if target - seen.upper <= 2e-6 * slope * epsilon or attempt > 4:
                break
        slope = _secant(before, (epsilon, seen.upper)) or slope
        before = (epsilon, seen.upper)
        low = max(low, epsilon) if seen.upper > target else low
        gap = max(seen.upper - target, -0.5 * slope * epsilon)
        onward = epsilon + (gap / slope + 5e-7 * epsilon) * (1.0 if attempt < 4 else 2.0**attempt)
        epsilon = onward if low < onward < best[0] else (low + best[0]) / 2
    # An ε is used only after its upper end was found to be at most the target.
    return best[0], best[1], slope


def _fine_lower(evaluate: Evaluate, target: float, above: tuple[float, float], slope: float, precision: float) -> float:
    """An ε below `above` = (ε, lower end there) at which δ is shown to be above the target; 0.0 if none was found."""
    top = above[0]
    width = 1.05 * (target - above[1]) / slope if above[1] > -inf else 1e-3 * top
    before = above
    for attempt in range(12):
        epsilon = top - max(width, 5e-7 * top)
        if not epsilon > 0:
            break
        here = (epsilon, evaluate(epsilon, precision).lower)
        if here[1] > target:
            return _closer(evaluate, target, (epsilon, before[0]), precision)
        slope = _secant(before, here) or slope
        more = 1.1 * (target - here[1]) / slope if here[1] > -inf else 2 * width
        width, before = max(width + more, 1.2 * width * (1 + attempt // 4)), here
    # Nothing was shown from below; 0 is always a lower end.
    return 0.0


def _closer(evaluate: Evaluate, target: float, between: tuple[float, float], precision: float) -> float:
    """From a good and a bad ε, the best good one after a few halvings; none if they are close already."""
    good, bad = between
    for _ in range(6):
        if bad - good <= 2e-5 * bad:
            break
        middle = (good + bad) / 2
        good, bad = (middle, bad) if evaluate(middle, precision).lower > target else (good, middle)
    return good


def _secant(first: tuple[float, float] | None, second: tuple[float, float]) -> float | None:
    """Return −d ln δ/dε between two points; None if they are too close or not falling."""
    if first is None or min(first[1], second[1]) == -inf or abs(first[0] - second[0]) < 1e-7 * second[0]:
        return None
    slope = (first[1] - second[1]) / (second[0] - first[0])
    return slope if slope > 0 else None


def two_rr_guess(other: float, reports: int, delta: float) -> float:
    """Return the ε at which a Gaussian count of ones would have `delta`, only to start a search."""
    mass = 2 * other
    spread = sqrt(other * (1 - other)) / (1 - mass) if mass < 1 else 1.0
    low, high = 0.0, 25.0
    for _ in range(40):
        z = (low + high) / 2
        inside = (exp(-z * z / 2) / sqrt(2 * pi) - z * erfc(z / sqrt(2)) / 2) / (spread * sqrt(reports))
        low, high = (z, high) if inside > delta else (low, z)
    return log1p(high / (spread * sqrt(reports)))
