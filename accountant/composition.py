"""Composes rounds: computes a certified ε at a δ, and a certified δ at an ε.

The privacy loss of T rounds is a sum of independent losses of the rounds' dominating pairs (koskela-2021, §3; pairs
compose adaptively: Zhu, Dong and Wang, 2022, Thm 10). One round's losses are on a grid that dominates (`losses`), sums
are convolved under a tilt (`convolution`), and T rounds cost O(log T) convolutions. Every numerical error is charged:
cut tails, rounding of the transforms, masses known to a relative `PAIR_ERROR`, losses known to some units in the last
place, and the chance of the events that a part's bounds leave out (`pairs.kept_delta`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds import delta_bracket, delta_lower, epsilon_bracket, epsilon_upper
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.divergence.binomials import MASS_ERROR
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.losses.convolution import ROUNDING, TiltedLaw, convolve, log_moment, power, tilted
from hubbub.accountant.losses.grid import LossGrid, dot
from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.numbers import DELTA_LEAST, EPSILON_MOST, checked_delta, checked_epsilon, fraction_up
from hubbub.accountant.pairs import (
    ROUNDS_LIMIT,
    Part,
    attack_grid,
    charged_delta,
    dominated_grid,
    dominating_grid,
    is_attack_on_itself,
    kept_delta,
    one_round,
    played_grids,
    without_noise,
)

PAIR_ERROR = 4 * MASS_ERROR
"""Relative error of an atom's mass: three binomial masses, and the operations that combine them."""

CLOSE, ROUGHLY = 1e-7, 1e-3
"""How close both ends of a bisection are, relatively: of what is stated, and of what only says where to look."""

TOLERANCE = 1e-9
"""Tilted mass that may be cut over a whole composition: about 1e-8 of δ."""

SMALL_DELTA = 1e-30
"""If δ is asked for, one round's cut mass is chosen for this δ."""

FEW_ROUNDS = 4
"""Up to this many rounds in total, basic composition of the one-round bounds is also tried."""

SCAN = (*(1e-5 * 1.8**place for place in range(20)), *(1 - 0.5**place for place in range(2, 9)))
"""Relative distances below the upper end at which an attack is tried: far from its tilt, the charges hide it."""

USUAL_DELTA = 1e-8
"""At this δ one round chooses between noise and people; any choice is valid."""

NOISE = "noise"
"""The name of a bound that rests on noise of the shuffler."""

SOURCE = (
    "privacy loss distributions of dominating pairs (koskela-2021, with the pairs of balle-2019 Lemma 5.3 and "
    "feldman-2022 Thm B.1), composed adaptively (Zhu-Dong-Wang 2022, Thm 10)"
)


SOURCES = {
    "composition": SOURCE,
    NOISE: f"the shuffler's noise, everybody else known; composed by {SOURCE}",
}
"""The source of a composed ε, by what it rests on."""


Parts = tuple[Part, ...]


@dataclass(frozen=True)
class ComposedCurve:
    """δ(ε) of a whole composition, on its safe side: the best value of its tilted laws."""

    laws: tuple[TiltedLaw, ...]
    infinite: float
    log_error: float
    shift: float

    def delta(self, epsilon: float) -> float:
        """Return δ at `epsilon`: pessimistic curves are never below the truth, optimistic ones never above."""
        # Losses have an error of at most `shift`: a smaller ε raises δ, a larger one lowers it. An infinite loss is
        # part of δ at every ε; a lower end may leave it out.
        pessimistic = self.laws[0].pessimistic
        side, best = (1.0, min) if pessimistic else (-1.0, max)
        found = best(law.delta(epsilon - side * self.shift) for law in self.laws) * math.exp(side * self.log_error)
        return min(1.0, found + self.infinite) if pessimistic else found


@answering
def compose(parts: Sequence[Part], delta: float) -> EpsilonBracket:
    """Return the ε at `delta` of everything one person sends: all parts composed.

    `epsilon_upper` is never below the true ε, and never above the sum of the local ε, nor above basic composition of
    the same pairs; for a few rounds, nor above basic composition of the one-round bounds. `epsilon_lower` is the ε that
    attacks on the parts reach (never above any valid ε); None if no attack is known.
    `numerical_slack` is the relative distance to the same bound evaluated from below (for kRR: to the attack).

    Raises:
        AccountingError: there are no parts, or δ is out of range.
    """
    wanted = checked_delta(delta)
    merged = _merged(parts)
    found = _composed(merged, wanted)
    whole = _composed(_everyone(merged), wanted) if _sampled(merged) else found
    return found if whole.epsilon_upper >= found.epsilon_upper else replace(whole, epsilon_lower=found.epsilon_lower)


def _composed(merged: Parts, delta: float) -> EpsilonBracket:
    wanted, local, single = kept_delta(merged, delta), epsilon_local(merged), _single(merged)
    if single is not None:
        found = epsilon_bracket(single.mechanism, single.reports, wanted, dummies=single.dummies)
        return replace(found, delta=delta)
    upper, way = _smaller_epsilon(merged, wanted, local)
    # The attack, at the whole δ, is searched only below the upper end: an attack above it would refute the upper end.
    lower = _lower_epsilon(merged, delta, min(upper, local))
    if upper >= local:
        return EpsilonBracket(local, lower, local, delta, "local", "sum of the local epsilons", 0.0)
    same = lower if all(is_attack_on_itself(part) for part in way) else None
    name = NOISE if any(isinstance(part.mechanism, WithNoise) for part in way) else "composition"
    return EpsilonBracket(upper, lower, local, delta, name, SOURCES[name], _slack(way, wanted, upper, same))


@answering
def compose_upper(parts: Sequence[Part], delta: float) -> float:
    """Return the `epsilon_upper` of `compose` alone: never below the truth, without looking for an attack."""
    merged = _merged(parts)
    upper = _upper(merged, kept_delta(merged, checked_delta(delta)), epsilon_local(merged))
    return min(upper, compose_upper(_everyone(merged), delta)) if _sampled(merged) else upper


@functools.lru_cache(maxsize=64)
def _upper(merged: Parts, delta: float, local: float) -> float:
    # Cached, as planning composes the same rounds to choose them, to check them and to state what they cost.
    single = _single(merged)
    if single is not None:
        return epsilon_upper(single.mechanism, single.reports, delta, dummies=single.dummies)
    return min(local, _smaller_epsilon(merged, delta, local)[0])


@answering
def compose_lower(parts: Sequence[Part], delta: float, upper: float) -> float | None:
    """Return the `epsilon_lower` of `compose` alone, given its `epsilon_upper`: None if no attack is known."""
    return _lower_epsilon(_merged(parts), checked_delta(delta), upper)


@answering
def compose_delta(parts: Sequence[Part], epsilon: float) -> DeltaBracket:
    """Return the δ at `epsilon` of everything one person sends: all parts composed; see `compose`.

    If bounds leave out chances that are shares of δ (`pairs.kept_delta`), it is the δ of which they are shares.
    """
    wanted = checked_epsilon(epsilon)
    merged = _merged(parts)
    found = _composed_delta(merged, wanted)
    whole = _composed_delta(_everyone(merged), wanted) if _sampled(merged) else found
    found, whole = (replace(each, delta_upper=charged_delta(merged, each.delta_upper)) for each in (found, whole))
    return found if whole.delta_upper >= found.delta_upper else replace(whole, delta_lower=found.delta_lower)


def _composed_delta(merged: Parts, epsilon: float) -> DeltaBracket:
    wanted, local, single = epsilon, epsilon_local(merged), _single(merged)
    if single is not None:
        return delta_bracket(single.mechanism, single.reports, wanted, dummies=single.dummies)
    if wanted >= local:
        return DeltaBracket(0.0, 0.0, epsilon, local, "local", "sum of the local epsilons", 0.0)
    upper, place = min((_upper_delta(tried, wanted), place) for place, tried in enumerate(_ways(merged)))
    way = _ways(merged)[place]
    name = NOISE if any(isinstance(part.mechanism, WithNoise) for part in way) else "composition"
    attacks = _attacks(merged, SMALL_DELTA)
    lower = _curve(attacks, _for_epsilon(wanted)).delta(wanted) if attacks else None
    tail = log_tail(merged, SMALL_DELTA)
    # The width of the evaluation: to the same pair from below, or to the attack if both are of one batch.
    below = lower
    if below is None or not all(is_attack_on_itself(part) for part in way):
        same = [(dominated_grid(one_round(part), tail), part.rounds) for part in way]
        below = _curve(same, _for_epsilon(wanted)).delta(wanted)
    slack = max(0.0, (upper - below) / upper) if upper > 0 else 0.0
    return DeltaBracket(upper, lower, epsilon, local, name, SOURCES[name], slack)


def one_round_delta(part: Part, delta: float) -> Callable[[float], float]:
    """Return δ(ε) of one round of `part`, never below the truth, with good resolution around `delta`."""
    grid = dominating_grid(one_round(part), log_tail([part], delta))
    # A slightly smaller ε and a slightly larger δ cover the errors of losses and masses.
    return lambda epsilon: min(1.0, grid.delta(epsilon * (1 - 1e-14)) * (1 + PAIR_ERROR))


def _smaller_epsilon(parts: Parts, delta: float, local: float) -> tuple[float, Parts]:
    """Return the smallest ε of all ways to bound the parts, and the way that gave it; `local` is valid without any."""
    ways = _ways(parts)
    upper, best = _upper_epsilon(ways[0], delta, local), ways[0]
    for way in ways[1:]:
        if _attacked_beyond(way, delta, upper):
            continue
        # Below the smallest so far or nowhere: a way that is not smaller costs one look at its curve.
        found = _upper_epsilon(way, delta, min(upper, local))
        if found < upper:
            upper, best = found, way
    return upper, best


def _attacked_beyond(way: Sequence[Part], delta: float, epsilon: float) -> bool:
    """Whether an attack on one round of a part refutes `epsilon`: then no bound of the way is as small.

    An attack is found in milliseconds, and a pair with its grid takes a hundred times as long.
    """
    if epsilon > EPSILON_MOST:
        return False
    alone = (part for part in way if not (part.sampled or isinstance(part.mechanism, WithNoise)))
    return any(_attacked(part, epsilon, delta) for part in alone)


def _attacked(part: Part, epsilon: float, delta: float) -> bool:
    """Whether an attack on one round refutes (epsilon, delta)."""
    found = delta_lower(part.mechanism, part.reports, epsilon, dummies=part.dummies)
    return found is not None and found > delta


def _ways(parts: Parts) -> list[Parts]:
    """Return parts that bound the given ones: each way is valid.

    A part beside noise is bounded by the noise or by the people among whom it is (`without_noise`): all by one of the
    two, or each by that which is smaller alone. A part with dummies is also bounded without them
    (`bounds.bound.at_most_without`).
    """
    ways = [parts]
    if any(isinstance(part.mechanism, WithNoise) for part in parts):
        ways += [tuple(without_noise(part) for part in parts), tuple(_with_ends(part) for part in parts)]
        if len(parts) > 1:
            ways.append(tuple(_smaller_alone(part) for part in parts))
    ways += [tuple(replace(part, dummies=0) for part in way) for way in ways if any(part.dummies for part in way)]
    return list(dict.fromkeys(ways))


def _with_ends(part: Part) -> Part:
    """Return the part with the losses at its noise's ends counted one by one, which helps if they have much mass."""
    if not isinstance(part.mechanism, WithNoise):
        return part
    return replace(part, mechanism=replace(part.mechanism, ends=True))


def _smaller_alone(part: Part) -> Part:
    """Return the part, or the one without its noise if one round of that has the smaller ε at a usual δ."""
    if not isinstance(part.mechanism, WithNoise):
        return part
    found = epsilon_bracket(part.mechanism, part.reports, USUAL_DELTA, dummies=part.dummies)
    return part if found.bound == NOISE else without_noise(part)


def _upper_delta(parts: Sequence[Part], epsilon: float) -> float:
    grids = _dominating(parts, SMALL_DELTA)
    return _curve(grids, _for_epsilon(epsilon)).delta(epsilon)


def _upper_epsilon(parts: Sequence[Part], delta: float, limit: float) -> float:
    """Return an ε that is valid at `delta`, or `limit`, which is valid for another reason."""
    grids = _dominating(parts, delta)
    # None of the three is below the truth, so neither is the smallest.
    upper = _smallest_epsilon(_curve(grids, _for_delta(delta)), delta, limit)
    return min(upper, _basic(grids, delta, upper), _basic_of_best(parts, delta, upper))


def composed_delta(grids: Sequence[tuple[LossGrid, int]], epsilon: float) -> float:
    """Return δ at `epsilon` of grids, each of so many rounds: never below the truth if each dominates its losses."""
    return _curve(grids, _for_epsilon(epsilon)).delta(checked_epsilon(epsilon))


def _slack(parts: Sequence[Part], delta: float, upper: float, known: float | None) -> float:
    """Return the relative distance of `upper` to the same bound evaluated from below, which may be `known`."""
    below = known
    if below is None:
        tail = log_tail(parts, delta)
        below = _reached([(dominated_grid(one_round(part), tail), part.rounds) for part in parts], delta, upper)
    return (upper - below) / upper if upper > 0 else 0.0


def _single(parts: Sequence[Part]) -> Part | None:
    """Return the part if there is only one round of one query: then the one-round bounds are the tightest."""
    only = parts[0]
    # The only bound of a sampled round is its pair, so it is always composed.
    return only if len(parts) == 1 and only.rounds == 1 and not only.sampled else None


def _basic(grids: Sequence[tuple[LossGrid, int]], delta: float, limit: float) -> float:
    """Return basic composition of the same pairs, δ split evenly over the rounds; infinity if it exceeds `limit`."""
    rounds = sum(count for _, count in grids)
    # Each round's δ is known to PAIR_ERROR; asking for less by that much keeps the sum within delta.
    share = delta / rounds / (1 + 2 * PAIR_ERROR)
    # Over many rounds it is far above: then each round's ε exceeds its share of the limit, which one look shows.
    if all(grid.delta(limit / rounds) > share for grid, _ in grids):
        return math.inf
    return math.fsum(count * _one_epsilon(grid, share) for grid, count in grids) * (1 + 1e-13)


def _basic_of_best(parts: Sequence[Part], delta: float, limit: float) -> float:
    """Return basic composition of the one-round bounds, δ split evenly; infinity if it cannot be below `limit`.

    A pair on its grid is looser than a one-round bound if few blankets hide people. Over a few rounds that loss can
    exceed the gain of composing by losses.
    """
    rounds = sum(part.rounds for part in parts)
    share = delta / rounds * (1 - 1e-15)
    if rounds > FEW_ROUNDS or share < DELTA_LEAST or any(part.sampled for part in parts):
        return math.inf
    tail = log_tail(parts, delta)
    if _each_attacked(parts, [dominating_grid(one_round(part), tail) for part in parts], share, limit):
        return math.inf
    return math.fsum(part.rounds * _alone(part, share) for part in parts) * (1 + 1e-15)


def _each_attacked(parts: Sequence[Part], grids: Sequence[LossGrid], delta: float, limit: float) -> bool:
    """Whether attacks refute (ε, delta) for parts of `limit`, one for each round: then no bounds add up to as little.

    The parts are as the ε of the pairs on their grids, which are close to those of the bounds. A bound takes ten times
    as long as an attack.
    """
    # However the limit is split, what the attacks refute is refuted, so these ε need not be precise.
    alone = [_one_epsilon(grid, delta, ROUGHLY) for grid in grids]
    total = math.fsum(part.rounds * each for part, each in zip(parts, alone, strict=True))
    if not limit < total < math.inf:
        return False
    # A little more, to cover the rounding of the sum.
    share = limit / total * (1 + 1e-12)
    return all(_attacked(part, each * share, delta) for part, each in zip(parts, alone, strict=True))


def _alone(part: Part, delta: float) -> float:
    """Return ε of one round; of noise by the noise alone, so that what is named is what it rests on (see `_ways`)."""
    bound = NOISE if isinstance(part.mechanism, WithNoise) else "best"
    return epsilon_upper(part.mechanism, part.reports, delta, bound=bound, dummies=part.dummies)


def _one_epsilon(grid: LossGrid, delta: float, close: float = CLOSE) -> float:
    top = float(grid.losses[-1])
    if grid.delta(0.0) <= delta or top <= 0:
        return 0.0
    # Mass at an infinite loss is part of δ at every ε.
    if grid.infinite > delta:
        return math.inf
    return _boundary(lambda epsilon: grid.delta(epsilon) <= delta, 0.0, top, close)[1]


def epsilon_local(parts: Sequence[Part]) -> float:
    """Return the sum of the local ε over all rounds, rounded up: the ε if shuffler and analyzer collude."""
    return fraction_up(sum((Fraction(part.mechanism.epsilon_local) * part.rounds for part in parts), Fraction(0)))


def _merged(parts: Sequence[Part]) -> Parts:
    """Merge parts that differ in their rounds only."""
    if isinstance(parts, Part) or not isinstance(parts, Iterable):
        raise AccountingError(f"parts is {shown(parts)}; give a list of parts, also of one: [part]")
    parts = tuple(parts)
    if not parts or not all(isinstance(part, Part) for part in parts):
        raise AccountingError("parts is empty or has other values; give at least one Part, and nothing else")
    # One part of T rounds costs O(log T) convolutions, T separate parts cost T.
    rounds: dict[Part, int] = {}
    for part in parts:
        rounds[one_round(part)] = rounds.get(one_round(part), 0) + part.rounds
    return tuple(replace(part, rounds=some) for part, total in rounds.items() for some in _within_limit(total))


def _within_limit(rounds: int) -> list[int]:
    """Return `rounds` as a sum of numbers that one part may have."""
    whole, rest = divmod(rounds, ROUNDS_LIMIT)
    return [ROUNDS_LIMIT] * whole + [rest] * (rest > 0)


def _sampled(parts: Sequence[Part]) -> bool:
    return any(part.sampled for part in parts)


def _everyone(parts: Sequence[Part]) -> Parts:
    """Return the same rounds with everybody's report in each: they reveal at least as much as sampled rounds.

    Participation is independent of the reports. So a sampled batch can be made from the batch of all: by keeping each
    report with the sampling rate, or a random subset of the drawn size. That is a post-processing, which does not raise
    any divergence, in any round.
    """
    return _merged(
        [replace(part, reports=part.clients or part.reports, clients=None, sampling_rate=None) for part in parts]
    )


def log_tail(parts: Sequence[Part], delta: float) -> float:
    """Return −ln of the mass that one round may lose: a millionth of δ in total; in steps, so that grids are reused."""
    total = sum(part.rounds for part in parts)
    return 10.0 * math.ceil((math.log(total / delta) + 16) / 10)


def _dominating(parts: Sequence[Part], delta: float) -> list[tuple[LossGrid, int]]:
    """Return pairs that together dominate all parts, each with its number of rounds."""
    tail = log_tail(parts, delta)
    found: list[tuple[LossGrid, int]] = []
    played = None
    # Longest parts first: only one may be composed as a whole (`losses.family`), and the longest gains most.
    for part in sorted(parts, key=lambda each: -each.rounds):
        tighter = played_grids(part, tail) if played is None else None
        found += [(dominating_grid(one_round(part), tail), part.rounds)] if tighter is None else tighter
        played = played or tighter
    return found


def _attacks(parts: Sequence[Part], delta: float) -> list[tuple[LossGrid, int]]:
    """Return the known attacks; leaving out the parts without one only lowers δ."""
    found = [(attack_grid(one_round(part), log_tail(parts, delta)), part.rounds) for part in parts]
    return [(grid, rounds) for grid, rounds in found if grid is not None]


def _curve(grids: Sequence[tuple[LossGrid, int]], exponent: Callable[[float, float], float]) -> ComposedCurve:
    """Compose; `exponent(θ, ln E e^{θℓ})` is minimized to choose the tilt. Any tilt is valid, a good one is precise.

    A mild tilt is also tried: on few atoms the best exponent is far out, and there charges hide a large δ.
    """
    largest = max(grid.step * max(-grid.first, grid.first + len(grid.masses) - 1) for grid, _ in grids)
    rounds = sum(count for _, count in grids)
    variance = math.fsum(count * dot(grid.masses, grid.losses**2) for grid, count in grids)
    # If all losses are 0 the steps limit the tilt: laws are put on coarser steps before they are convolved, and
    # e^(tilt·step) must not overflow.
    reach = max(largest, *(grid.step for grid, _ in grids))
    tilt = _best_tilt(grids, exponent, 200.0 / reach)
    mild = min(tilt, 1 / math.sqrt(max(variance, 1e-290)))
    laws = tuple(_sum(grids, each) for each in dict.fromkeys((tilt, mild)))
    # The sum is infinite as soon as one loss is: 1 − Π (1 − infinite) over all rounds.
    infinite = -math.expm1(math.fsum(count * math.log1p(-grid.infinite) for grid, count in grids)) * (1 + 1e-12)
    return ComposedCurve(laws, infinite, rounds * PAIR_ERROR, rounds * 8 * ROUNDING * largest)


def _sum(grids: Sequence[tuple[LossGrid, int]], tilt: float) -> TiltedLaw:
    """Return the tilted law of the sum of all losses."""
    laws = [power(tilted(grid, tilt), count, TOLERANCE) for grid, count in grids]
    return functools.reduce(lambda left, right: convolve(left, right, TOLERANCE), laws)


def _for_delta(delta: float) -> Callable[[float, float], float]:
    return lambda tilt, moment: (moment - math.log(delta)) / tilt


def _for_epsilon(epsilon: float) -> Callable[[float, float], float]:
    return lambda tilt, moment: moment - tilt * epsilon


def _best_tilt(
    grids: Sequence[tuple[LossGrid, int]], exponent: Callable[[float, float], float], largest: float
) -> float:
    """Return the best tilt to about one percent, by golden section on a logarithmic scale."""

    def value(position: float) -> float:
        tilt = math.exp(position)
        return exponent(tilt, sum(count * log_moment(grid, tilt) for grid, count in grids))

    low, high, ratio = math.log(largest) - 18, math.log(largest), (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(16):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
    return math.exp((low + high) / 2)


def _smallest_epsilon(curve: ComposedCurve, delta: float, limit: float) -> float:
    """Return an ε, at most `limit`, with curve(ε) ≤ δ checked; 0 only if δ(0) ≤ δ was shown."""
    if curve.delta(0.0) <= delta:
        return 0.0
    # The limit is the local ε, which is valid without the curve.
    if curve.delta(limit) > delta:
        return limit
    return _boundary(lambda epsilon: curve.delta(epsilon) <= delta, 0.0, limit)[1]


def _lower_epsilon(parts: Sequence[Part], delta: float, limit: float) -> float | None:
    """Return the largest ε found at which the attack's δ still exceeds `delta`: no valid ε is below it."""
    attacks = _attacks(parts, delta)
    return _reached(attacks, delta, limit) if attacks else None


def _reached(grids: Sequence[tuple[LossGrid, int]], delta: float, limit: float) -> float:
    """Return the largest ε found, at most `limit`, at which the composed lower δ still exceeds `delta`."""
    curve = _curve(grids, _for_delta(delta))
    # The lower curve need not fall: charges that hide the attack grow away from its tilt. So it is scanned from above.
    above = limit
    for distance in SCAN:
        tried = limit * (1 - distance)
        if curve.delta(tried) > delta:
            return _boundary(lambda epsilon: curve.delta(epsilon) <= delta, tried, above)[0]
        above = tried
    return 0.0


def _boundary(small: Callable[[float], bool], low: float, high: float, close: float = CLOSE) -> tuple[float, float]:
    """Bisect between `low` (not small) and `high` (small) until they are relatively `close`; return both ends."""
    while high - low > close * high:
        middle = (low + high) / 2
        low, high = (low, middle) if small(middle) else (middle, high)
    return low, high
