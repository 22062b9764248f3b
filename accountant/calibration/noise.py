"""Finds the least noise of a shuffler that meets (ε, δ) beside a randomizer, whatever everybody else sent.

The bound itself decides; what is computed otherwise only says where to look.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import ceil, exp, inf, log, sqrt, tanh

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds import epsilon_upper
from hubbub.accountant.bounds.noise import NOISE
from hubbub.accountant.calibration.design import (
    NOISE_LEVELS,
    Calibration,
    MechanismFamily,
    QueryDesign,
    R,
    Target,
    is_within,
)
from hubbub.accountant.calibration.least_error import best_size
from hubbub.accountant.composition import composed_delta
from hubbub.accountant.errors import AccountingError, TakesNoNoise, UnmetTarget
from hubbub.accountant.longitudinal.noise import gaussian_mu
from hubbub.accountant.mechanisms import KRR, LocalMechanism, WithNoise
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.noise_law import REACH_LIMIT, TABLE_BITS, ChainNoise, NoiseLaw
from hubbub.accountant.mechanisms.with_noise import Imitated
from hubbub.accountant.numbers import checked_delta, checked_epsilon, checked_whole
from hubbub.accountant.pairs import ROUNDS_LIMIT, Part, dominating_grid

STEPS = 1.003
"""The search for a spread of one round ends at steps this large."""

NEAR = 1.05
"""`noise_may_reach` tries a law that is at most so many times as wide as an error allows."""

CLOSE, SLOPE, TRIES = 0.02, 20.0, 12
"""Over several rounds the search ends this close to ln δ, which falls by about this much as ln(spread) grows by 1.

So the spread is a thousandth too large. More tries than these are never needed.
"""

GEOMETRIC_ROUNDS = 8
"""No geometric law is tried beyond so many rounds: a Gaussian one needs less noise from two to twelve rounds on."""

LOG_TAIL = 46.0
"""−ln of the mass that all rounds of a composition may lose: far less than any δ."""

LEAST_SPREAD = 0.08
"""No smaller spread is tried: such a law draws its middle nearly always, and a smaller one has no mass beside it."""

DEEPEST = 0.999 * TABLE_BITS * log(2)
"""−ln of the least mass of a table, relative to all of it; a little less, as it is compared with rounded numbers."""

ENDS = 0.02
"""The share of δ that the ends of a law may take over several rounds."""

INTERIOR = 0.5
"""The share of δ for the middle of one round's law while its parameter is searched; its ends may take the rest."""


@dataclass(frozen=True)
class NoiseFamily:
    """Laws of one family by their spread, in dummies; `parameter`, `end_at` and `last_at` say how to make one.

    `last_at` is how far away the mass is e^−depth of that of the middle.
    """

    name: str
    parameter: Callable[[float], float]
    end_at: Callable[[float, float], float]
    last_at: Callable[[float, float], float]

    def at(self, spread: float, lost: float, reach: int | None = None) -> NoiseLaw:
        """Return the law of about that spread whose ends have about the chance `lost`, or of a given `reach`."""
        most = GAMMA_DENOMINATOR - 1 if self.name == "geometric" else GAMMA_DENOMINATOR**2
        spread = max(spread, LEAST_SPREAD)
        numerator = min(max(1, round(self.parameter(spread) * GAMMA_DENOMINATOR)), most)
        # Where a table has no mass is no end of a law.
        last = int(self.last_at(spread, DEEPEST - log(1 + 3 * spread)))
        far = max(1, min(ceil(self.end_at(spread, lost)), last)) if reach is None else reach
        return NoiseLaw(self.name, numerator, min(far, REACH_LIMIT))


NOISE_FAMILIES = (
    # q = e^(−1/s): its standard deviation is about √2·s.
    NoiseFamily(
        "geometric",
        lambda spread: exp(-1 / spread),
        lambda spread, lost: spread * log(1 / lost),
        lambda spread, depth: spread * depth,
    ),
    NoiseFamily(
        "gaussian",
        lambda spread: spread**2,
        lambda spread, lost: spread * sqrt(2 * log(1 / lost)) + 1,
        lambda spread, depth: spread * sqrt(2 * depth),
    ),
)
"""All families of laws that are tried."""


MOST_NOISE = 10_000_000
"""Most dummies of noise expected in one batch, from all shufflers together: sealing them takes one shuffler about
twenty minutes."""

NOISE_WORTH = 1.05
"""With `auto`, noise is added if the expected standard error is at most this many times that without noise.

For those few percent a person's ε no longer depends on what others send: it is true beside any number of liars.
"""

LARGEST_LOCAL = 40.0
"""The local ε beside noise if a target has no cap: there a report is practically the plain answer."""


def beside_noise(design: QueryDesign[R], target: Target) -> list[Calibration[R]]:
    """Return the best randomizer of each family beside noise that alone meets the target; none for other families.

    The randomizer is the least private one within the cap on ε_local: with noise, more privacy of it only adds error.
    """
    found = []
    for place in range(len(design.families(design.sizes[0]))):
        with contextlib.suppress(UnmetTarget, TakesNoNoise):
            found += _of_place(design, place, target)
    return found


def noise_may_reach(design: QueryDesign[R], target: Target, error: float) -> bool:
    """Return whether noise beside a randomizer of the query may have an expected standard error of at most `error`.

    It is quick, as the law is not searched: one that is a little too wide for `error` is tried at (ε, δ) of one round.
    A wider law is more private, as every search here takes for granted. So if that one is not private enough, no law
    within `error` is. It errs towards True.
    """
    # The fewest symbols by themselves, as two may need less noise than others.
    groups = [sizes for sizes in (design.sizes[:1], design.sizes[1:]) if sizes]
    for place in range(len(design.families(design.sizes[0]))):
        for family, sizes in product(NOISE_FAMILIES, groups):
            with contextlib.suppress(UnmetTarget, TakesNoNoise):
                if _may_reach(design, place, target, family, sizes, error):
                    return True
    return False


def _may_reach(
    design: QueryDesign[R], place: int, target: Target, family: NoiseFamily, sizes: range, error: float
) -> bool:
    def law_at(spread: float) -> NoiseLaw:
        return family.at(spread, min(1e-3 * target.delta, 1e-4))

    def best(spread: float) -> tuple[int, float]:
        """Return the size of the least error beside the law of a spread, and that error squared."""
        noise = ChainNoise(law_at(spread), target.shufflers)

        def mse(size: int, most: float) -> float:  # noqa: ARG001 - no error is quicker for being too large
            return design.mse(size, _beside(design, place, size, target)[0], target.reports, 0, noise)

        size = best_size(mse, sizes) if len(sizes) > 1 else sizes[0]
        return size, mse(size, inf)

    # An error that even a law of 4/ε is within, far wider than is needed, is not worth a closer look.
    low, high = LEAST_SPREAD, 4 / target.epsilon
    if best(low)[1] > error**2:
        return False
    if best(high)[1] <= error**2:
        return True
    while high > NEAR * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if best(middle)[1] > error**2 else (middle, high)
    mechanism = _beside(design, place, best(high)[0], target)[1]
    return _holds(mechanism, law_at(high), target.epsilon, target.delta)


def no_noise(design: QueryDesign[R], target: Target) -> UnmetTarget | TakesNoNoise:
    """Return why no randomizer of the query has noise that meets the target: none takes any, or it cannot be had."""
    reasons: list[UnmetTarget | TakesNoNoise] = []
    mechanisms = [family.at(NOISE_LEVELS - 1).mechanism for family in design.families(design.sizes[0])]
    for place, mechanism in enumerate(mechanisms):
        if isinstance(mechanism, Imitated):
            try:
                _of_place(design, place, target)
            except (UnmetTarget, TakesNoNoise) as error:
                reasons.append(error)
    if reasons:
        of = UnmetTarget if any(isinstance(each, UnmetTarget) for each in reasons) else TakesNoNoise
        return of(f"noise is asked for, but it cannot be had: {'; '.join(map(str, reasons))}")
    kinds = " or ".join(dict.fromkeys(mechanism.kind for mechanism in mechanisms))
    return TakesNoNoise(
        f"noise is asked for, but it works beside krr and hashed answers only, and the randomizer is {kinds}; use krr, "
        "or leave the noise out"
    )


def _of_place(design: QueryDesign[R], place: int, target: Target) -> list[Calibration[R]]:
    laws: dict[bool, NoiseLaw] = {}

    def error(size: int, most: float) -> float:  # noqa: ARG001 - no error is quicker for being too large
        randomizer, mechanism = _beside(design, place, size, target)
        # A law depends little on the number of symbols, unless there are two: so sizes are compared by one law.
        two = isinstance(mechanism, KRR) and mechanism.categories == 2
        if two not in laws:
            laws[two] = _law(mechanism, target)
        if target.shufflers * WithNoise(mechanism, laws[two]).expected_dummies > MOST_NOISE:
            return inf
        return design.mse(size, randomizer, target.reports, 0, ChainNoise(laws[two], target.shufflers))

    size = best_size(error, design.sizes) if len(design.sizes) > 1 else design.sizes[0]
    randomizer, mechanism = _beside(design, place, size, target)
    noise = ChainNoise(_law(mechanism, target), target.shufflers)
    beside = WithNoise(mechanism, noise.law)
    needed = noise.shufflers * beside.expected_dummies
    if needed > MOST_NOISE:
        of = "" if noise.shufflers == 1 else f" of {noise.shufflers} shufflers"
        raise UnmetTarget(
            f"noise{of} beside {mechanism.kind} of {beside.symbols:,} symbols needs {needed:,} dummies on average, and "
            f"at most {MOST_NOISE:,} are sealed for a batch; ask for fewer answers, use uniform dummies, or leave the "
            "noise out"
        )
    mse = design.mse(size, randomizer, target.reports, 0, noise)
    # Nobody is counted on but one shuffler: that is what noise is for. So it is the ε of one draw.
    upper = epsilon_upper(beside, 1, target.delta)
    return [Calibration(randomizer, size, mechanism.epsilon_local, upper, mse, sqrt(mse), noise)]


def _beside(design: QueryDesign[R], place: int, size: int, target: Target) -> tuple[R, Imitated]:
    """Return the least private randomizer within the cap, and its law, which the shuffler can imitate."""
    randomizer = within_cap(design.families(size)[place], min(target.cap, LARGEST_LOCAL))
    mechanism = randomizer.mechanism
    if not isinstance(mechanism, Imitated):
        raise TakesNoNoise(f"{mechanism.kind} takes no noise of the shuffler; use krr")
    return randomizer, mechanism


def _law(mechanism: Imitated, target: Target) -> NoiseLaw:
    if target.over_rounds:
        return least_noise_within(mechanism, target.epsilon, target.total, target.delta, target.rounds)
    return least_noise(mechanism, target.epsilon, target.delta, lasting=target.rounds)


@lru_cache(maxsize=64)
def within_cap(family: MechanismFamily[R], cap: float) -> R:
    """Return the family's least private randomizer whose local ε is at most `cap`."""
    low, high = 0, NOISE_LEVELS - 1
    if not is_within(family.at(high).mechanism, cap):
        raise UnmetTarget(f"no randomizer has a local epsilon of at most {cap:g}; allow a larger epsilon_local")
    while high - low > 1:
        middle = (low + high) // 2
        # A larger level is more private, so the levels within the cap are an upper interval.
        low, high = (low, middle) if is_within(family.at(middle).mechanism, cap) else (middle, high)
    return family.at(high)


@answering
def least_noise(
    randomizer: LocalMechanism, epsilon: float, delta: float, rounds: int = 1, *, lasting: int = 1
) -> NoiseLaw:
    """Return the law of the least variance found that meets (epsilon, delta) over so many rounds, by the noise alone.

    `epsilon` may be above the local ε; then any noise does, and the least one is returned. A law for one round may be
    used in more: then `lasting` is how many. Its ends are so far away that over all of these they take little of delta.

    Raises:
        AccountingError: if a number is out of range, if no law within reach meets it, or if the shuffler cannot imitate
            the reports.
    """
    if not isinstance(randomizer, Imitated):
        raise TakesNoNoise(f"{randomizer.kind} takes no noise of the shuffler; use krr")
    wanted, target = checked_epsilon(epsilon), checked_delta(delta)
    counted = checked_whole("rounds", rounds, 1, ROUNDS_LIMIT)
    return _least(randomizer, wanted, target, counted, checked_whole("lasting", lasting, 1, ROUNDS_LIMIT))


@answering
def least_noise_within(randomizer: Imitated, epsilon: float, total: float, delta: float, rounds: int) -> NoiseLaw:
    """Return the law of the least variance found that meets (epsilon, delta) in a round and (total, delta) in all.

    It is the better one of two families over all rounds, which may be another one than for a single round.

    Raises:
        AccountingError: if a number is out of range, or no law within reach meets both.
    """
    wanted, together, target = checked_epsilon(epsilon), checked_epsilon(total), checked_delta(delta)
    return _least_within(randomizer, wanted, together, target, checked_whole("rounds", rounds, 1, ROUNDS_LIMIT))


@lru_cache(maxsize=128)
def _least_within(randomizer: Imitated, epsilon: float, total: float, delta: float, rounds: int) -> NoiseLaw:
    asked = f"epsilon {epsilon:g} in a round and {total:g} in all {rounds} rounds at delta {delta:g}"
    return _least_varied(lambda family: _within_both(family, randomizer, epsilon, total, delta, rounds), asked)


def _least_varied(law_of: Callable[[NoiseFamily], NoiseLaw | None], asked: str) -> NoiseLaw:
    """Return the law of the least variance that a family has for what is asked."""
    found = [law for family in NOISE_FAMILIES if (law := law_of(family)) is not None]
    if not found:
        raise UnmetTarget(
            f"no noise with a reach of at most {REACH_LIMIT} meets {asked}; allow a larger epsilon or fewer rounds"
        )
    return min(found, key=lambda law: law.variance)


def _within_both(
    family: NoiseFamily, randomizer: Imitated, epsilon: float, total: float, delta: float, rounds: int
) -> NoiseLaw | None:
    """Return the family's least law for one round, for all rounds, or as wide as the wider one; None if none does."""

    def meets(law: NoiseLaw) -> bool:
        in_one, in_all = (_holds(randomizer, law, *asked) for asked in ((epsilon, delta, 1), (total, delta, rounds)))
        return in_one and in_all

    one = _of_family(family, randomizer, epsilon, delta, 1, rounds)
    if one is None or meets(one):
        return one
    every = _of_family(family, randomizer, total, delta, rounds, 1)
    if every is None or meets(every):
        return every
    both = NoiseLaw(family.name, max(one.parameter, every.parameter), max(one.reach, every.reach))
    return both if meets(both) else None


@lru_cache(maxsize=128)
def _least(randomizer: Imitated, epsilon: float, delta: float, rounds: int, lasting: int) -> NoiseLaw:
    if epsilon == 0:
        raise AccountingError("epsilon is 0, which no noise reaches; allow more")
    asked = f"epsilon {epsilon:g} at delta {delta:g} over {rounds} rounds"
    return _least_varied(lambda family: _of_family(family, randomizer, epsilon, delta, rounds, lasting), asked)


def _of_family(
    family: NoiseFamily, randomizer: Imitated, epsilon: float, delta: float, rounds: int, lasting: int
) -> NoiseLaw | None:
    """Return the family's law of the least spread, with the least reach; None if none was found."""
    if rounds > 1:
        return _over_rounds(family, randomizer, epsilon, delta, rounds)
    lost = min(1e-3 * delta, 1e-4)

    def meets(spread: float) -> bool:
        return _holds(randomizer, family.at(spread, lost), epsilon, INTERIOR * delta)

    low, spread = 0.5 / epsilon, 1 / epsilon
    while not meets(spread):
        low, spread = spread, spread * 2
        if family.end_at(spread, lost) > REACH_LIMIT:
            return None
    while meets(low) and low > LEAST_SPREAD:
        spread, low = low, low / 2
    while spread > STEPS * low:
        middle = sqrt(low * spread)
        low, spread = (low, middle) if meets(middle) else (middle, spread)
    # Then the ends: as near as the whole δ allows.
    near, far = 0, family.at(spread, lost).reach
    while far - near > 1:
        reach = (near + far) // 2
        fits = _holds(randomizer, family.at(spread, lost, reach), epsilon, delta)
        near, far = (near, reach) if fits else (reach, far)
    if lasting > 1:
        far = max(far, family.at(spread, ENDS * delta / lasting).reach)
    return family.at(spread, lost, far)


def _over_rounds(
    family: NoiseFamily, randomizer: Imitated, epsilon: float, delta: float, rounds: int
) -> NoiseLaw | None:
    """Return the family's law of about the least spread over several rounds; None if none was found.

    ln δ is nearly a line in ln(spread), so a few steps along secants end within `CLOSE` of δ. The first step is where
    Gaussian noise would meet it.
    """
    if family.name == "geometric" and rounds > GEOMETRIC_ROUNDS:
        return None
    lost = min(ENDS * delta / rounds, 1e-4)
    if epsilon >= randomizer.epsilon_local * rounds:
        return family.at(LEAST_SPREAD, lost)
    places = 1 if WithNoise(randomizer, family.at(1.0, lost)).one_moves else 2
    # A report whose randomizer is private by itself moves the noise by less: by the difference of two mean reports.
    spread = tanh(randomizer.epsilon_local / 2) * sqrt(places * rounds) / gaussian_mu(epsilon, delta)
    short, met, slope, before = 0.0, inf, -SLOPE, None
    chosen = None
    for _ in range(TRIES):
        spread = max(spread, LEAST_SPREAD)
        if family.end_at(spread, lost) > REACH_LIMIT:
            return chosen
        law = family.at(spread, lost)
        found = _composed(randomizer, law, epsilon, rounds)
        over = log(max(found, 1e-300) / delta)
        if over <= 0:
            met, chosen = spread, law
            if over > -CLOSE or spread <= LEAST_SPREAD or met < short * (1 + CLOSE / SLOPE):
                break
        else:
            short = spread
        if before is not None and before[0] != log(spread):
            slope = min((over - before[1]) / (log(spread) - before[0]), -1.0)
        before = log(spread), over
        aimed = spread * exp(min(max(-(over + CLOSE / 2) / slope, -1.0), 1.0))
        # A step out of what is known halves it instead.
        spread = aimed if short < aimed < met else sqrt(max(short, LEAST_SPREAD) * met)
    return chosen


def _composed(randomizer: Imitated, law: NoiseLaw, epsilon: float, rounds: int) -> float:
    """Return δ of several rounds at ε, by the noise alone; never below the truth."""
    beside = WithNoise(randomizer, law)
    tail = 10.0 * ceil((log(rounds) + LOG_TAIL) / 10)
    return composed_delta([(dominating_grid(Part(beside, 1), tail), rounds)], epsilon)


def _holds(randomizer: Imitated, law: NoiseLaw, epsilon: float, delta: float, rounds: int = 1) -> bool:
    if epsilon >= randomizer.epsilon_local * rounds:
        return True
    if rounds > 1:
        return _composed(randomizer, law, epsilon, rounds) <= delta
    return NOISE.is_within(WithNoise(randomizer, law), epsilon, delta)
