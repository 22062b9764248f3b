"""The strategy with the least error for a horizon's (ε, δ): each is calibrated, and the bound itself confirms it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import exp, inf, log, log1p, sqrt

from hubbub.accountant.answering import answering
from hubbub.accountant.bounds import epsilon_upper
from hubbub.accountant.calibration.design import Target
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.divergence.binomials import Binomial
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.longitudinal.noise import SIDE_MOST, TreeNoise, binary_numerator, gaussian_mu
from hubbub.accountant.longitudinal.spent import assumed_parts, parts_of_horizon
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.mechanisms.exact import EPSILON_LOCAL_LIMIT
from hubbub.accountant.mechanisms.longitudinal import AnyStrategy, Direct, Horizon, Sampled, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.accountant.numbers import real

LEVEL_SHARE = 1e-3
"""Part of δ that is spent on a level having fewer devices than expected: it costs a tenth of a per mille of ε."""

CLOSE = 3e-3
"""The search ends where the target is met and this close, relatively: errors are that much too large at most."""

SLOPE = -0.53
"""How ln ε changes with the logarithm of the variance, before two of them are known: a little more than by its root."""

TRIES = 10
"""Most compositions of one search."""

DELTA_LEAST = 1e-20
"""Least δ at which `tree` is certified (`doubles.DEEP`)."""

Progress = Callable[[str], None]
"""Is told which strategy is being calibrated."""


@dataclass(frozen=True)
class Candidate:
    """One strategy at the target, or why it does not apply.

    Attributes:
        kind: its word.
        strategy: its parameters; None where it does not apply.
        why_not: what stands against it; None where nothing does.
        epsilon_local: what holds over the whole horizon if shuffler and analyzer collude.
        epsilon_upper: certified central ε of the whole horizon at the target's δ, never below the truth.
        standard_error_mean: root of the mean over all periods of the variance of f_t.
        standard_error_largest: the largest standard error of an f_t.
        standard_error_changing: the same, if every device had changed as often and as badly timed as can be.
    """

    kind: str
    strategy: AnyStrategy | None = None
    why_not: str | None = None
    epsilon_local: float | None = None
    epsilon_upper: float | None = None
    standard_error_mean: float | None = None
    standard_error_largest: float | None = None
    standard_error_changing: float | None = None


@dataclass(frozen=True)
class Wanted:
    """What is asked of every strategy.

    `changing` is the share of devices of which each node's value is not 0; errors are stated and chosen for it.
    """

    horizon: Horizon
    target: Target
    changing: float = 0.0

    @property
    def nonzero(self) -> int:
        """Devices of which a node's value is not 0."""
        return round(self.changing * self.target.reports)

    def variances(self, strategy: AnyStrategy) -> list[float]:
        """Return the variance of f_t at each period."""
        periods = range(1, self.horizon.periods + 1)
        return [float(strategy.variance(period, self.target.reports, 0, self.nonzero)) for period in periods]

    def mean_variance(self, strategy: AnyStrategy) -> float:
        """Return its mean over all periods."""
        return sum(self.variances(strategy)) / self.horizon.periods


@answering
def compare(
    horizon: Horizon,
    epsilon: float,
    delta: float,
    reports: int,
    *,
    epsilon_local_cap: float | None = None,
    honest_share: float = 1.0,
    changing: float = 0.0,
    progress: Progress | None = None,
) -> tuple[Candidate, ...]:
    """Return every strategy, calibrated to (epsilon, delta) over the whole horizon at `reports` devices in each round.

    Raises:
        AccountingError: where a number is out of range.
    """
    if not 0 <= real(changing) <= 1:
        raise AccountingError(f"changing is {shown(changing)}, must be from 0 to 1; it is a share of the devices")
    wanted = Wanted(horizon, Target.of(epsilon, delta, reports, epsilon_local_cap, honest_share, 0), float(changing))
    found = []
    for kind, calibrated in CALIBRATED.items():
        if progress is not None:
            progress(kind)
        try:
            found.append(calibrated(wanted))
        except AccountingError as error:
            found.append(Candidate(kind, why_not=str(error)))
    return tuple(found)


def best(candidates: tuple[Candidate, ...]) -> Candidate:
    """Return the candidate with the least `standard_error_mean`; AccountingError where none applies."""
    fit = [each for each in candidates if each.strategy is not None]
    if not fit:
        reasons = "; ".join(f"{each.kind}: {each.why_not}" for each in candidates)
        raise AccountingError(f"no strategy meets the target ({reasons}); allow a larger epsilon or more devices")
    return min(fit, key=lambda each: each.standard_error_mean or 0.0)


def level_reports(levels: int, reports: int, log_tail: float) -> int:
    """Return how many devices the level of a device has at least, itself among them, but for e^−log_tail.

    Levels are drawn uniformly and openly, so B(n − 1, 1/levels) others have the same one (Chernoff's bound).
    """
    return 1 + Binomial(reports - 1, Fraction(1, levels)).window(log_tail)[0]


def _stated(kind: str, strategy: AnyStrategy, upper: float, wanted: Wanted) -> Candidate:
    periods, reports = range(1, wanted.horizon.periods + 1), wanted.target.reports
    changing = max(float(strategy.largest_variance(period, reports)) for period in periods)
    return Candidate(
        kind,
        strategy,
        None,
        strategy.epsilon_local(),
        upper,
        sqrt(wanted.mean_variance(strategy)),
        sqrt(max(wanted.variances(strategy))),
        sqrt(changing),
    )


def _signs(kind: str, make: Callable[[Horizon, float], AnyStrategy], wanted: Wanted) -> Candidate:
    """The largest local ε, at most the cap, whose whole sequences meet the target among the devices of one level."""
    strategy = make(wanted.horizon, _largest_local(wanted.horizon.levels, wanted.target))
    # Its weight was rounded down, so its local ε is at most what was checked; the smaller one is certified.
    return _stated(kind, strategy, _central(wanted.horizon.levels, wanted.target, strategy.epsilon_local()), wanted)


@lru_cache(maxsize=8)
def _largest_local(levels: int, target: Target) -> float:
    # A local ε holds centrally too, so the target's own meets it.
    low, high = min(target.epsilon, target.cap), min(target.cap, EPSILON_LOCAL_LIMIT)
    # Clones are about a Gaussian of μ² = 2e^ε₀/n.
    guess = log1p(target.hiding / levels * gaussian_mu(target.epsilon, target.delta) ** 2 / 2)
    tried = min(max(guess, low), high)
    while high - low > CLOSE / 2:
        excess = log(max(_central(levels, target, tried), 1e-300) / target.epsilon)
        if excess <= 0 and (excess >= -CLOSE or tried == high):
            return tried
        low, high = (tried, high) if excess <= 0 else (low, tried)
        # ε grows about as e^(ε₀/2): the next one is where it would be just inside the target, but between the two ends.
        aimed = tried - 2 * (excess + CLOSE / 2)
        tried = high if aimed >= high and excess <= 0 else aimed if aimed > low else (low + high) / 2
    return low


def _central(levels: int, target: Target, local: float) -> float:
    """Return the certified ε at which sequences of that local ε hide in a level, but for a level that is small."""
    charge = target.delta * LEVEL_SHARE
    people = level_reports(levels, target.hiding, -log(charge))
    return epsilon_upper(Generic(local), people, (target.delta - charge) * (1 - 1e-15))


def _direct(wanted: Wanted) -> Candidate:
    """The least γ whose d rounds meet the target, and whose local ε add up to at most the cap."""
    horizon, target = wanted.horizon, wanted.target

    def make(scale: float) -> Direct:
        return Direct(horizon, binary_numerator(scale))

    capped = KRR.from_local_epsilon(2, min(target.cap / horizon.periods * (1 - 1e-12), 40.0)).other
    floor = capped * (1 - capped) / (1 - 2 * capped) ** 2
    mu = gaussian_mu(target.epsilon, target.delta) / sqrt(horizon.periods)
    strategy, upper = _least(make, 1 / (target.hiding * mu**2), float(floor) * (1 + 1e-9), wanted)
    return _stated("direct", strategy, upper, wanted)


def _tree(wanted: Wanted) -> Candidate:
    """Blankets heavier on 0, with a γ and a b for each level (`noise.TreeNoise`)."""
    target = wanted.target
    if target.delta < DELTA_LEAST:
        raise AccountingError(f"delta is {target.delta:g}, must be at least {DELTA_LEAST:g} for tree; choose direct")
    mu = gaussian_mu(target.epsilon, target.delta)
    sides = (SIDE_MOST,) if target.cap == inf else (SIDE_MOST, 1 / 3)
    shapes = [TreeNoise(wanted.horizon, wanted.changing, side) for side in sides]
    scales = [(shape, shape.scale_for(mu, target.hiding), shape.least_scale(target.cap)) for shape in shapes]
    # About as much noise as each will need tells which shape needs less; only that one is searched.
    noise, start, floor = min(scales, key=lambda each: wanted.mean_variance(each[0].tree(max(each[1:]))))
    strategy, upper = _least(noise.tree, start, floor, wanted)
    return _stated("tree", strategy, upper, wanted)


def _least(
    make: Callable[[float], Direct | Tree], start: float, floor: float, wanted: Wanted
) -> tuple[AnyStrategy, float]:
    """Return the strategy of the least noise found, at least `floor`, that meets the target, and its certified ε.

    ε falls with the noise, about as its root, up to ripples of what the curves are laid on: so the search stays between
    the most noise that is not enough and the least that is. Where the floor meets the target, that is it.
    """
    target, scale = wanted.target, max(start, floor)
    short: tuple[float, float] | None = None
    met: tuple[float, float, AnyStrategy] | None = None
    for _ in range(TRIES):
        strategy = make(scale)
        upper = compose_upper(assumed_parts(strategy, target.hiding), target.delta)
        place, height = log(scale), log(max(upper, 1e-300) / target.epsilon)
        if height > 0:
            short = place, height
        else:
            met = place, height, strategy
        if met is not None and (exp(met[0]) <= floor * (1 + 1e-9) or met[1] >= -CLOSE):
            break
        if met is not None and short is not None and met[0] - short[0] < CLOSE:
            break
        scale = max(exp(_next(short, met)), floor)
    if met is None:
        raise AccountingError(
            f"epsilon {target.epsilon:g} at delta {target.delta:g} was not met by {target.hiding} devices over "
            f"{wanted.horizon.periods} periods; collect more reports or allow a larger epsilon"
        )
    return met[2], _confirmed(met[2], wanted)


def _next(short: tuple[float, float] | None, met: tuple[float, float, AnyStrategy] | None) -> float:
    """Return the logarithm of the next scale, aiming a little inside the target."""
    aim = -CLOSE / 2
    if short is not None and met is not None:
        share = (short[1] - aim) / max(short[1] - met[1], 1e-12)
        return short[0] + min(max(share, 0.1), 0.9) * (met[0] - short[0])
    place, height = (met or short or (0.0, 0.0))[:2]
    # By a factor of 16 at most: far from the target ε may hardly change.
    return place + max(-2.8, min(2.8, (aim - height) / SLOPE))


def _confirmed(strategy: AnyStrategy, wanted: Wanted) -> float:
    upper = compose_upper(parts_of_horizon(strategy, wanted.target.hiding), wanted.target.delta)
    if upper > wanted.target.epsilon:
        raise AccountingError(
            f"a change by two costs more than two by one, and composes to epsilon {upper:g}, above "
            f"{wanted.target.epsilon:g}; collect more reports, or choose direct"
        )
    return upper


CALIBRATED: dict[str, Callable[[Wanted], Candidate]] = {
    "sampled": lambda wanted: _signs("sampled", lambda horizon, local: Sampled(horizon, weight_of(local)), wanted),
    "vector": lambda wanted: _signs("vector", Vector.best, wanted),
    "tree": _tree,
    "direct": _direct,
}
"""How each strategy is calibrated."""
