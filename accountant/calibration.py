"""From a privacy target to a mechanism: the smallest γ that meets (ε, δ) at n, checked by the bound itself.

γ is w / 2**32 with w rounded up; every result is re-checked before it is returned, so `epsilon_upper` of a
calibration is never above the target.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import ceil, exp, inf, log, sqrt
from typing import Literal

from hubbub.accountant import bounds, composition
from hubbub.accountant.divergence import two_rr
from hubbub.accountant.divergence.binomial_shift import shift_at
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.dummies import diluted_blanket, diluted_guess
from hubbub.accountant.divergence.search import COARSE, FINE
from hubbub.accountant.divergence.sums import blanket_sum
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.errors_of_estimates import histogram_mse, sum_mse
from hubbub.accountant.mechanisms import GAMMA_DENOMINATOR, KRR, check_categories
from hubbub.accountant.numbers import (
    checked_delta,
    checked_dummies,
    checked_epsilon,
    checked_reports,
    honest_reports,
    real,
)
from hubbub.accountant.pairs import Part

Kind = Literal["histogram", "sum"]

LEVELS_LIMIT = 100_000
"""Most fixed-point levels of a sum; more would not change an error that anyone can see."""


@dataclass(frozen=True)
class Calibration:
    """A mechanism that meets its target, and what it costs.

    `levels` is None for a histogram. `epsilon_upper` is certified at the δ and reports asked for. `mse` is the exact
    worst-case mean squared error over inputs: of the sum of n values in [0, 1], or of one category's count.
    `expected_standard_error` is its square root, in the same unit.
    """

    mechanism: KRR
    kind: Kind
    levels: int | None
    epsilon_local: float
    epsilon_upper: float
    mse: float
    expected_standard_error: float


@dataclass(frozen=True)
class QueryShape:
    """What a query asks: `categories` for a histogram (None for a sum), `weight` its part of the budget."""

    kind: Kind
    categories: int | None
    optional: bool
    weight: float = 1.0


@dataclass(frozen=True)
class _Target:
    epsilon: float
    delta: float
    reports: int
    hiding: int
    dummies: int
    cap: float


def calibrate_histogram(
    categories: int,
    epsilon: float,
    delta: float,
    reports: int,
    *,
    optional: bool = False,
    epsilon_local_cap: float | None = None,
    honest_share: float = 1.0,
    dummies: int = 0,
) -> Calibration:
    """The kRR with the least noise for which one batch of `reports` is (epsilon, delta)-private.

    Where `optional`, "no answer" is one more symbol. Raises AccountingError where no γ below 1 meets the target.
    """
    target = _target(epsilon, delta, reports, epsilon_local_cap, honest_share, dummies)
    return _histogram(categories, target, optional=optional)


def calibrate_sum(
    epsilon: float,
    delta: float,
    reports: int,
    *,
    optional: bool = False,
    epsilon_local_cap: float | None = None,
    honest_share: float = 1.0,
    dummies: int = 0,
) -> Calibration:
    """Fixed-point levels and γ with the least worst-case error of a sum over [0, 1], at (epsilon, delta).

    kRR on levels + 1 symbols, one more where `optional`. Raises AccountingError where no γ below 1 meets the target.
    """
    target = _target(epsilon, delta, reports, epsilon_local_cap, honest_share, dummies)
    return _sum(target, optional=optional)


def reports_for_error(
    shape: QueryShape, epsilon: float, delta: float, error: float, *, epsilon_local_cap: float | None = None
) -> int:
    """Reports needed for a standard error of at most `error` per report (of a share, or of the mean in [0, 1]).

    The answer is enough, and at most 0.1 % (or one report) more than necessary. Raises AccountingError where even
    10**12 are too few.
    """
    if not 0 < real(error) < inf:
        raise AccountingError(f"error is {shown(error)}, must be above 0; ask for 0.01, one per cent of the range")

    def enough(reports: int) -> bool:
        target = _target(epsilon, delta, reports, epsilon_local_cap, 1.0, 0)
        try:
            return _calibrated(shape, target).expected_standard_error <= error * reports
        except AccountingError:
            return False

    high = 2
    while not enough(high):
        high *= 4
        if high > 10**12:
            raise AccountingError(f"error {error} needs more than 10**12 reports; allow a larger error or epsilon")
    low = high // 4
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def calibrate_queries(
    shapes: Sequence[QueryShape],
    epsilon: float,
    delta: float,
    reports: int,
    *,
    epsilon_local_cap: float | None = None,
    honest_share: float = 1.0,
    dummies: int = 0,
) -> tuple[Calibration, ...]:
    """Mechanisms for several queries that one person answers in one round, sharing (epsilon, delta) by weight.

    Everything together was checked by `composition.compose` to be within `epsilon` at `delta`; the local ε add up to
    at most the cap. Each calibration's own `epsilon_upper` is that of its share of the budget. `dummies` uniform
    reports are added to each query's batch.
    """
    shares = _shares(shapes)
    target = _target(epsilon, delta, reports, epsilon_local_cap, honest_share, dummies)
    if len(shapes) == 1:
        return (_calibrated(shapes[0], target),)
    return _widest(partial(_at_scale, shapes, shares, target), target)


def _shares(shapes: Sequence[QueryShape]) -> tuple[float, ...]:
    if not shapes:
        raise AccountingError("there are 0 queries, must be at least 1; add one")
    for shape in shapes:
        if not 0 < real(shape.weight) < inf:
            raise AccountingError(f"weight is {shown(shape.weight)}, must be above 0; leave a query out instead")
    total = sum(shape.weight for shape in shapes)
    return tuple(shape.weight / total for shape in shapes)


def _at_scale(
    shapes: Sequence[QueryShape], shares: Sequence[float], target: _Target, scale: float
) -> tuple[Calibration, ...]:
    """Each query at its share of the budget times `scale`; scale 1 is basic composition."""
    down = 1 - 1e-12
    return tuple(
        _calibrated(
            shape,
            _Target(
                target.epsilon * share * scale * down,
                target.delta * share * down,
                target.reports,
                target.hiding,
                target.dummies,
                target.cap * share * down,
            ),
        )
        for shape, share in zip(shapes, shares, strict=True)
    )


def _widest(build: Callable[[float], tuple[Calibration, ...]], target: _Target) -> tuple[Calibration, ...]:
    """The widest budget found whose composition holds; that of basic composition, at scale 1, holds by itself."""
    best, scale, epsilon = build(1.0), 1.0, target.epsilon
    reached = _composed(best, target)
    if reached > epsilon:
        raise AccountingError(f"the queries compose to epsilon {reached:g}, above {epsilon:g}; allow a larger epsilon")
    for _ in range(4):
        scale = max(1.0, scale * 0.9995 * epsilon / max(reached, epsilon / 4))
        tried = build(scale)
        if [each.mechanism for each in tried] == [each.mechanism for each in best]:
            break
        reached = _composed(tried, target)
        if reached <= epsilon:
            best = tried
            if reached >= 0.998 * epsilon:
                break
    return best


def _composed(calibrations: tuple[Calibration, ...], target: _Target) -> float:
    parts = [Part(each.mechanism, target.hiding, dummies=target.dummies) for each in calibrations]
    return composition.compose(parts, target.delta).epsilon_upper


def _calibrated(shape: QueryShape, target: _Target) -> Calibration:
    if shape.kind == "sum":
        return _sum(target, optional=shape.optional)
    if shape.categories is None:
        raise AccountingError("categories is None, a histogram must have at least 2; name them")
    return _histogram(shape.categories, target, optional=shape.optional)


def _target(
    epsilon: float, delta: float, reports: int, cap: float | None, honest_share: float, dummies: int
) -> _Target:
    epsilon, delta, reports = checked_epsilon(epsilon), checked_delta(delta), checked_reports(reports)
    if epsilon == 0:
        raise AccountingError("epsilon is 0, must be above 0: a report that says nothing has no use; allow some")
    if cap is not None and not 0 < real(cap) < inf:
        raise AccountingError(f"epsilon_local cap is {shown(cap)}, must be above 0; 8 is common")
    hiding = honest_reports(reports, reports, honest_share)
    if hiding < 1:
        raise AccountingError(f"honest_share {honest_share} of {reports} reports leaves nobody; raise either")
    return _Target(epsilon, delta, reports, hiding, checked_dummies(dummies), inf if cap is None else real(cap))


def _histogram(categories: int, target: _Target, *, optional: bool) -> Calibration:
    check_categories(categories)
    mechanism = _least_gamma(categories + (1 if optional else 0), target)
    mse = histogram_mse(mechanism, target.reports, target.dummies)
    return _result(mechanism, "histogram", None, target, mse)


def _sum(target: _Target, *, optional: bool) -> Calibration:
    extra = 2 if optional else 1

    def error(levels: int) -> float:
        mechanism = KRR.from_numerator(levels + extra, _search_numerator(levels + extra, target))
        return sum_mse(mechanism, levels, target.reports, optional=optional, dummies=target.dummies)

    levels = _least(error, LEVELS_LIMIT)
    mechanism = _least_gamma(levels + extra, target)
    mse = sum_mse(mechanism, levels, target.reports, optional=optional, dummies=target.dummies)
    return _result(mechanism, "sum", levels, target, mse)


def _result(mechanism: KRR, kind: Kind, levels: int | None, target: _Target, mse: float) -> Calibration:
    upper = _certified(mechanism, target.hiding, target.delta, target.dummies)
    return Calibration(mechanism, kind, levels, mechanism.epsilon_local, upper, mse, sqrt(mse))


def _least(error: Callable[[int], float], limit: int) -> int:
    """The whole number from 1 to `limit` with the least error: falling, then rising, up to ripples at the bottom."""
    known: dict[int, float] = {}

    def at(levels: int) -> float:
        if levels not in known:
            known[levels] = error(levels)
        return known[levels]

    best, step = 1, 1
    while best + step <= limit and at(best + step) < at(best):
        best, step = best + step, max(1, (best + step) // 2)
    while step > 1:
        step = max(1, step // 2)
        near = [best + i * step for i in (-2, -1, 0, 1, 2) if 1 <= best + i * step <= limit]
        best = min(near, key=at)
    return min((levels for levels in range(max(1, best - 2), min(limit, best + 2) + 1)), key=at)


def _least_gamma(categories: int, target: _Target) -> KRR:
    """The found numerator, raised until the bound itself shows δ_upper(ε) ≤ δ."""
    numerator = _refined(categories, _search_numerator(categories, target), target)
    step = max(1, numerator // 1_000_000)
    while numerator < GAMMA_DENOMINATOR:
        mechanism = KRR.from_numerator(categories, numerator)
        if mechanism.epsilon_local <= target.cap and _holds(mechanism, target):
            return mechanism
        numerator, step = numerator + step, 2 * step
    raise _impossible(categories, target)


def _holds(mechanism: KRR, target: _Target) -> bool:
    """Both ways of asking, so that a certificate made later does not state more than the target."""
    if bounds.delta_upper(mechanism, target.hiding, target.epsilon, dummies=target.dummies) > target.delta:
        return False
    return _certified(mechanism, target.hiding, target.delta, target.dummies) <= target.epsilon


@lru_cache(maxsize=256)
def _certified(mechanism: KRR, hiding: int, delta: float, dummies: int) -> float:
    """The certified ε, once for the check and for the result: with dummies it takes a second."""
    return bounds.epsilon_bracket(mechanism, hiding, delta, dummies=dummies).epsilon_upper


def _refined(categories: int, numerator: int, target: _Target) -> int:
    """The place found coarsely, moved by Newton's method in ln w to where the fine value meets the target."""
    floor = _local_numerator(categories, target.cap)
    for _ in range(2):
        below = max(1, numerator - max(1, numerator // 256))
        here, there = (_log_delta(categories, w, target, FINE) for w in (numerator, below))
        if here == -inf or not there > here:
            return numerator
        slope = (there - here) / log(numerator / below)
        moved = numerator * exp(min((here - log(target.delta)) / slope, 30.0)) * (1 + 4e-6)
        numerator = min(max(ceil(moved), floor, 1), GAMMA_DENOMINATOR - 1)
    return numerator


def _impossible(categories: int, target: _Target) -> AccountingError:
    return AccountingError(
        f"epsilon {target.epsilon:g} at delta {target.delta:g} cannot be met by {target.hiding} reports over "
        f"{categories} symbols; collect more reports or allow a larger epsilon"
    )


def _local_numerator(categories: int, epsilon_local: float) -> int:
    """The least w whose mechanism is `epsilon_local`-LDP."""
    gamma = KRR.from_local_epsilon(categories, min(epsilon_local, 40.0)).gamma
    numerator = -(-gamma.numerator * GAMMA_DENOMINATOR // gamma.denominator)
    while numerator < GAMMA_DENOMINATOR and KRR.from_numerator(categories, numerator).epsilon_local > epsilon_local:
        numerator += 1
    return numerator


def _search_numerator(categories: int, target: _Target) -> int:
    """A w near the least that meets the target, from coarse evaluations; at most the one of the local bound."""
    high = _local_numerator(categories, min(target.epsilon, target.cap))
    floor = _local_numerator(categories, target.cap)
    if high >= GAMMA_DENOMINATOR:
        raise _impossible(categories, target)
    low = 1
    goal = log(target.delta)
    if floor >= high or _log_delta(categories, floor, target, COARSE) <= goal:
        return floor
    at_low, at_high = _log_delta(categories, max(low, floor), target, COARSE) - goal, -inf
    low = max(low, floor)
    for _ in range(60):
        if high - low <= 1 or high - low <= 1e-6 * low:
            break
        middle = _between(low, high, at_low, at_high)
        value = _log_delta(categories, middle, target, COARSE) - goal
        if value > 0:
            low, at_low = middle, value
        else:
            high, at_high = middle, value
        if -1e-3 < value <= 0:
            break
    return high


def _between(low: int, high: int, at_low: float, at_high: float) -> int:
    """The secant's point in ln w, or the geometric middle, strictly between."""
    share = at_low / (at_low - at_high) if at_high > -inf else 0.5
    share = min(max(share, 0.02), 0.98)
    middle = int(exp(log(low) + share * (log(high) - log(low))))
    return min(max(middle, low + 1), high - 1)


def _log_delta(categories: int, numerator: int, target: _Target, precision: float) -> float:
    """The log of δ at the target's ε and w = `numerator`: only to find the place, the bound itself decides."""
    mechanism = KRR.from_numerator(categories, numerator)
    if target.epsilon >= mechanism.epsilon_local:
        return -inf
    if categories > 2 and target.dummies and precision >= COARSE:
        return diluted_guess(mechanism, target.hiding, target.epsilon, target.dummies)
    if categories > 2 and target.dummies:
        return diluted_blanket(mechanism, target.hiding, target.epsilon, target.dummies, precision).upper
    if categories > 2:
        return positive_part(blanket_sum(mechanism, target.hiding, target.epsilon), precision).upper
    shift = shift_at(mechanism, target.epsilon, target.dummies)
    return -inf if shift is None else two_rr.best_attack(shift, target.hiding).upper
