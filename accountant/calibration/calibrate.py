"""Finds the randomizers with the least error that meet (ε, δ) at n reports; the bound itself confirms each.

Several queries that one person answers in one round share (ε, δ) by weight; their composition is checked too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, sqrt

from hubbub.accountant import composition
from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.calibration.design import Calibration, Noise, QueryDesign, R, Target
from hubbub.accountant.calibration.least_error import Error, best_size
from hubbub.accountant.calibration.noise import NOISE_WORTH, beside_noise, no_noise
from hubbub.accountant.calibration.search import certified, impossible, least, search_of
from hubbub.accountant.errors import AccountingError, UnmetTarget, shown
from hubbub.accountant.numbers import EPSILON_MOST, real
from hubbub.accountant.pairs import Part

PRECISE_FAMILIES = 2
"""If there are more families, the quick search selects the best; this many are compared precisely."""

ROUNDS_TRIED = 12
"""How often the ε of a round is lowered until all rounds are within their total."""

STRIDE = 8
"""Of many families in order, each as far from the next is compared first."""

_UP = 1 + 1e-9
"""An error is surely above another one if it is by this factor: far more than the rounding of either."""

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
    noise: Noise = "none",
    rounds: int = 1,
    epsilon_total: float | None = None,
    shufflers: int = 1,
) -> tuple[Calibration[R], ...]:
    """Return the encoding and randomizer with the least error for each query, sharing (epsilon, delta) by weight.

    `composition.compose_upper` checked that all queries together are within `epsilon` at `delta`; the local ε add up
    to at most the cap. Each calibration's `epsilon_upper` is the ε of its share of the budget. `dummies` uniform
    reports are added to each query's batch. With `noise`, each of the `shufflers` may add noise instead; a query that
    has it keeps its ε whatever everybody else sent, if one shuffler is honest. `auto` adds noise to each query that can
    have it, if then no query's expected standard error is more than `NOISE_WORTH` times that without any noise.
    (epsilon, delta) are those of one round; a task has `rounds` of them, over which noise composes well if it reaches a
    little farther. With `epsilon_total`, all `rounds` together are within it at the same δ.

    Raises:
        AccountingError: if a number is out of range, or no randomizer meets the target.
    """
    shares = _shares(designs)
    numbers = epsilon, delta, reports, epsilon_local_cap, honest_share, dummies
    target = Target.of(*numbers, noise, rounds, epsilon_total, shufflers)
    if target.noise == "auto":
        return _with_or_without_noise(designs, shares, target)
    return _shared(designs, shares, target, [target.noise] * len(designs))


def _shares(designs: Sequence[QueryDesign[R]]) -> tuple[float, ...]:
    if not designs:
        raise AccountingError("there are no queries; add at least one")
    for design in designs:
        if not 0 < real(design.weight) < inf:
            raise AccountingError(f"weight is {shown(design.weight)}; give a number above 0, or leave the query out")
    total = sum(design.weight for design in designs)
    return tuple(design.weight / total for design in designs)


def _with_or_without_noise(
    designs: Sequence[QueryDesign[R]], shares: Sequence[float], target: Target
) -> tuple[Calibration[R], ...]:
    """Return the queries with noise if no error is more than `NOISE_WORTH` times that without any; else without any.

    Whole budgets are compared, as queries without noise compose to less than the sum of their ε, and so get more each.
    """
    parts = [replace(_part(target, share, 1.0), noise="always") for share in shares]
    noises: list[Noise] = ["always" if beside_noise(*each) else "none" for each in zip(designs, parts, strict=True)]
    plain = _shared(designs, shares, target, ["none"] * len(designs))
    while "always" in noises:
        noisy = _shared(designs, shares, target, noises)
        worth = [_worth(*each) for each in zip(noisy, plain, strict=True)]
        if all(worth):
            return noisy
        fewer: list[Noise] = [noise if good else "none" for noise, good in zip(noises, worth, strict=True)]
        # A query that has no noise itself may lose too: the noise of the others leaves it less of the budget.
        if fewer == noises:
            break
        noises = fewer
    return plain


def _worth(noisy: Calibration[R], plain: Calibration[R]) -> bool:
    return noisy.expected_standard_error <= NOISE_WORTH * plain.expected_standard_error


def _shared(
    designs: Sequence[QueryDesign[R]], shares: Sequence[float], target: Target, noises: Sequence[Noise]
) -> tuple[Calibration[R], ...]:
    """Calibrate queries that share the target by `shares`; `noises` are `none` or `always`, for each of them."""
    if len(designs) == 1:
        return (_calibrated(designs[0], replace(target, noise=noises[0])),)
    return _widest(lambda scale: _at_scale(designs, shares, target, noises, scale), target)


def _at_scale(
    designs: Sequence[QueryDesign[R]], shares: Sequence[float], target: Target, noises: Sequence[Noise], scale: float
) -> tuple[Calibration[R], ...]:
    """Calibrate each query to its share of the budget times `scale`, at most ε; scale 1 is basic composition."""
    return tuple(
        _calibrated(design, replace(_part(target, share, scale), noise=noise))
        for design, share, noise in zip(designs, shares, noises, strict=True)
    )


def _part(target: Target, share: float, scale: float) -> Target:
    """Return the target of a query with that share of the budget times `scale`."""
    return target.share(
        min(target.epsilon * share * scale * _DOWN, EPSILON_MOST),
        target.delta * share * _DOWN,
        target.cap * share * _DOWN,
        target.total * share * scale * _DOWN,
    )


def _widest(build: Callable[[float], tuple[Calibration[R], ...]], target: Target) -> tuple[Calibration[R], ...]:
    """Return the widest budget found whose composition meets the target; at scale 1, basic composition ensures it."""
    best, scale, epsilon = build(1.0), 1.0, target.epsilon
    reached = _composed(best, target)
    if reached > epsilon:
        raise UnmetTarget(
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
    """Return the ε of one round of all queries; if all rounds need more of their ε, as much more than the round's."""
    # What has noise must hold beside any number of liars, so nobody is counted on.
    parts = [
        Part(each.mechanism, target.hiding if each.noise is None else 1, dummies=target.dummies)
        for each in calibrations
    ]
    one = composition.compose_upper(parts, target.delta)
    if not target.over_rounds:
        return one
    every = composition.compose_upper([replace(part, rounds=target.rounds) for part in parts], target.delta)
    return max(one, every / target.total * target.epsilon)


def _calibrated(design: QueryDesign[R], target: Target) -> Calibration[R]:
    """Return the family with the least error at its best size; sizes are compared quickly, the best precisely."""
    if target.noise == "none":
        candidates = _of_families(design, target)
    else:
        candidates = beside_noise(design, target)
        if not candidates:
            raise no_noise(design, target)
    return min(candidates, key=lambda each: each.mse)


def _of_families(design: QueryDesign[R], target: Target) -> list[Calibration[R]]:
    """Return the best of each family that is worth a precise search, and can meet the target.

    Raises:
        UnmetTarget: if none can.
        AccountingError: what ended a family's search, if that was anything else, and no other family can.
    """
    failed: list[AccountingError] = []
    found = []
    for place in _promising(design, target, failed):
        try:
            found.append(_of_family(design, place, target))
        except AccountingError as error:
            failed.append(error)
    if found:
        return found
    other = [error for error in failed if not isinstance(error, UnmetTarget)]
    alone = len(design.families(design.sizes[0])) == 1
    raise other[0] if other else failed[0] if alone else impossible(target)


def _of_family(design: QueryDesign[R], place: int, target: Target) -> Calibration[R]:
    return _within_rounds(lambda of: _least_private(design, place, of), target)


def _promising(design: QueryDesign[R], target: Target, failed: list[AccountingError]) -> list[int]:
    """Return the places of the families that are worth a precise search: all, if they are few.

    The error of each family whose search fails is added to `failed`.
    """
    places = range(len(design.families(design.sizes[0])))
    if len(places) <= PRECISE_FAMILIES:
        return list(places)
    errors: dict[int, float] = {}
    # Every eighth family first: when few are left that are better, most need no search to its end.
    for place in sorted(places, key=lambda place: place % STRIDE):
        most = sorted(errors.values())[PRECISE_FAMILIES - 1] if len(errors) >= PRECISE_FAMILIES else inf
        try:
            errors[place] = _error_at_best(design, place, target, most)
        except AccountingError as error:
            failed.append(error)
    return sorted(errors, key=lambda place: (errors[place], place))[:PRECISE_FAMILIES]


def _error_at_best(design: QueryDesign[R], place: int, target: Target, most: float) -> float:
    """Return the error of a family at its best size; if that is above `most`, any number above it."""
    error, sizes = _errors(design, place, target), design.sizes
    # With several sizes errors above `most` are needed, to find the best size.
    return error(sizes[0], most) if len(sizes) == 1 else error(best_size(error, sizes), inf)


def _errors(design: QueryDesign[R], place: int, target: Target) -> Error:
    """Return a quick function from sizes to the error of a family."""

    def error(size: int, most: float) -> float:
        family = design.families(size)[place]

        def mse(noise_level: int) -> float:
            return design.mse(size, family.at(noise_level), target.reports, target.dummies)

        return mse(search_of(family).quick(family, target, lambda noise_level: mse(noise_level) > most * _UP))

    return error


def _least_private(design: QueryDesign[R], place: int, target: Target) -> Calibration[R]:
    error = _errors(design, place, target)
    size = best_size(error, design.sizes)
    randomizer = least(design.families(size)[place], target)
    mse = design.mse(size, randomizer, target.reports, target.dummies)
    upper = certified(randomizer.mechanism, target)
    return Calibration(randomizer, size, randomizer.mechanism.epsilon_local, upper, mse, sqrt(mse))


def _within_rounds(build: Callable[[Target], Calibration[R]], target: Target) -> Calibration[R]:
    """Return what is built for one round; if all rounds would cost more than their total, for a smaller ε of a round.

    Raises:
        AccountingError: if none is found.
    """
    tried, epsilon = build(target), target.epsilon
    for _ in range(ROUNDS_TRIED):
        if not target.over_rounds or (reached := _all_rounds(tried, target)) <= target.total:
            return tried
        # Over many rounds their ε falls faster than that of one round.
        epsilon = min(epsilon, tried.epsilon_upper) * 0.99 * target.total / reached
        tried = build(replace(target, epsilon=epsilon))
    raise impossible(target)


def _all_rounds(calibration: Calibration[R], target: Target) -> float:
    part = Part(calibration.mechanism, target.hiding, target.rounds, target.dummies)
    return composition.compose_upper([part], target.delta)
