"""Finds the randomizers with the least error that meet (ε, δ) at n reports; the bound itself confirms each.

Several queries that one person answers in one round share (ε, δ) by weight; their composition is checked too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import Any

from hubbub.accountant import composition
from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.calibration.design import Calibration, QueryDesign, R, Target
from hubbub.accountant.calibration.search import certified, impossible, least, search_of
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.numbers import EPSILON_MOST, real
from hubbub.accountant.pairs import Part

PRECISE_FAMILIES = 2
"""If there are more families, the quick search selects the best; this many are compared precisely."""

_DOWN = 1 - 1e-12
"""Shares are reduced a little, so that their rounded sum is not above the whole."""


@answering
def calibrate(
    designs: Sequence[QueryDesign[R]],
    epsilon: float,
    delta: float,
    reports: int,
    *,
    epsilon_local_cap: float | None = None,
    honest_share: float = 1.0,
    dummies: int = 0,
) -> tuple[Calibration[R], ...]:
    """Return the encoding and randomizer with the least error for each query, sharing (epsilon, delta) by weight.

    `composition.compose` checked that all queries together are within `epsilon` at `delta`; the local ε add up to at
    most the cap. Each calibration's `epsilon_upper` is the ε of its share of the budget. `dummies` uniform reports are
    added to each query's batch.

    Raises:
        AccountingError: if a number is out of range, or no randomizer meets the target.
    """
    shares = _shares(designs)
    target = Target.of(epsilon, delta, reports, epsilon_local_cap, honest_share, dummies)
    if len(designs) == 1:
        return (_calibrated(designs[0], target),)
    return _widest(lambda scale: _at_scale(designs, shares, target, scale), target)


def reports_for_error(
    design: QueryDesign[Any], epsilon: float, delta: float, error: float, *, epsilon_local_cap: float | None = None
) -> int:
    """Return the reports needed for a standard error of at most `error` (of a share, or of the mean in [0, 1]).

    The number is enough, and at most 0.1 % (or one report) more than necessary.

    Raises:
        AccountingError: if even 10**12 are too few.
    """
    if not 0 < real(error) < inf:
        raise AccountingError(
            f"error is {shown(error)}; give a number above 0, such as 0.01 for one percent of the range"
        )

    def enough(reports: int) -> bool:
        target = Target.of(epsilon, delta, reports, epsilon_local_cap, 1.0, 0)
        try:
            return _calibrated(design, target).expected_standard_error <= error * reports
        except AccountingError:
            return False

    high = 2
    while not enough(high):
        high *= 4
        if high > 10**12:
            raise AccountingError(f"error {error} needs more than 10**12 reports; allow a larger error or epsilon")
    # `high` is enough and was checked at every step; `low` is not enough, or is the start of the search.
    low = high // 4
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _shares(designs: Sequence[QueryDesign[R]]) -> tuple[float, ...]:
    if not designs:
        raise AccountingError("there are no queries; add at least one")
    for design in designs:
        if not 0 < real(design.weight) < inf:
            raise AccountingError(f"weight is {shown(design.weight)}; give a number above 0, or leave the query out")
    total = sum(design.weight for design in designs)
    return tuple(design.weight / total for design in designs)


def _at_scale(
    designs: Sequence[QueryDesign[R]], shares: Sequence[float], target: Target, scale: float
) -> tuple[Calibration[R], ...]:
    """Calibrate each query to its share of the budget times `scale`, at most ε; scale 1 is basic composition."""
    return tuple(
        _calibrated(
            design,
            target.share(
                min(target.epsilon * share * scale * _DOWN, EPSILON_MOST),
                target.delta * share * _DOWN,
                target.cap * share * _DOWN,
            ),
        )
        for design, share in zip(designs, shares, strict=True)
    )


def _widest(build: Callable[[float], tuple[Calibration[R], ...]], target: Target) -> tuple[Calibration[R], ...]:
    """Return the widest budget found whose composition meets the target; at scale 1, basic composition ensures it."""
    best, scale, epsilon = build(1.0), 1.0, target.epsilon
    reached = _composed(best, target)
    if reached > epsilon:
        raise AccountingError(
            f"the queries compose to epsilon {reached:g}, but at most {epsilon:g} is allowed; allow a larger epsilon"
        )
    for _ in range(4):
        # Aim just below ε, and widen at most fourfold at a time.
        scale = max(1.0, scale * 0.9995 * epsilon / max(reached, epsilon / 4))
        tried = build(scale)
        # Noise levels are whole numbers: if a wider budget changes none of them, no more of it can be used.
        if [each.mechanism for each in tried] == [each.mechanism for each in best]:
            break
        reached = _composed(tried, target)
        if reached <= epsilon:
            best = tried
            if reached >= 0.998 * epsilon:
                break
    return best


def _composed(calibrations: Sequence[Calibration[R]], target: Target) -> float:
    parts = [Part(each.mechanism, target.hiding, dummies=target.dummies) for each in calibrations]
    return composition.compose(parts, target.delta).epsilon_upper


def _calibrated(design: QueryDesign[R], target: Target) -> Calibration[R]:
    """Return the family with the least error at its best size; sizes are compared quickly, the best precisely."""
    candidates = []
    for place in _promising(design, target):
        candidates += _candidate(design, place, target)
    if not candidates:
        raise impossible(target)
    return min(candidates, key=lambda each: each.mse)


def _promising(design: QueryDesign[R], target: Target) -> list[int]:
    """Return the places of the families that are worth a precise search: all, if they are few."""
    places = range(len(design.families(design.sizes[0])))
    if len(places) <= PRECISE_FAMILIES:
        return list(places)
    errors = {}
    for place in places:
        with contextlib.suppress(AccountingError):
            errors[place] = _error_at_best(design, place, target)
    return sorted(errors, key=lambda place: errors[place])[:PRECISE_FAMILIES]


def _error_at_best(design: QueryDesign[R], place: int, target: Target) -> float:
    error = _errors(design, place, target)
    size = _best_size(error, design.sizes)
    return error(size)


def _errors(design: QueryDesign[R], place: int, target: Target) -> Callable[[int], float]:
    """Return a quick function from sizes to the error of a family."""

    def error(size: int) -> float:
        family = design.families(size)[place]
        chosen = family.at(search_of(family).quick(family, target))
        return design.mse(size, chosen, target.reports, target.dummies)

    return error


def _candidate(design: QueryDesign[R], place: int, target: Target) -> list[Calibration[R]]:
    """Return the best of one family as a list; it is empty if this family cannot meet the target and others remain."""
    try:
        error = _errors(design, place, target)
        size = _best_size(error, design.sizes)
        randomizer = least(design.families(size)[place], target)
    except AccountingError:
        if len(design.families(design.sizes[0])) == 1:
            raise
        return []
    mse = design.mse(size, randomizer, target.reports, target.dummies)
    upper = certified(randomizer.mechanism, target)
    return [Calibration(randomizer, size, randomizer.mechanism.epsilon_local, upper, mse, sqrt(mse))]


def _best_size(error: Callable[[int], float], sizes: range) -> int:
    return sizes[_least_error(lambda place: error(sizes[place]), len(sizes))]


def _least_error(error: Callable[[int], float], places: int) -> int:
    """Return the place in range(places) with the least error, which falls, then rises, with ripples at the minimum."""
    if places == 1:
        return 0
    known: dict[int, float] = {}

    def at(place: int) -> float:
        if place not in known:
            known[place] = error(place)
        return known[place]

    best, step, last = 0, 1, places - 1
    while best + step <= last and at(best + step) < at(best):
        best, step = best + step, max(1, (best + step + 1) // 2)
    while step > 1:
        step = max(1, step // 2)
        near = [best + i * step for i in (-2, -1, 0, 1, 2) if 0 <= best + i * step <= last]
        best = min(near, key=at)
    return min(range(max(0, best - 2), min(last, best + 2) + 1), key=at)
