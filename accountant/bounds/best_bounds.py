"""Computes ε or δ of n shuffled reports of one mechanism, as brackets with a name and a source.

`epsilon_bracket` and `delta_bracket` combine the tightest proven upper bound with the best known attack. An `upper` is
never below the truth, a `lower` never above it.
"""

from collections.abc import Mapping

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.blanket import BlanketBound
from hubbub.accountant.bounds.bound import Bound
from hubbub.accountant.bounds.exact import EXACT as BOUNDS
from hubbub.accountant.bounds.noise import NOISE, covered
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import AnyMechanism, WithNoise
from hubbub.accountant.numbers import checked_delta, checked_epsilon
from hubbub.accountant.pairs import pairs_of

_NOTHING = 1e-4
"""If the gain relative to the local ε is smaller than this, the local ε itself is returned: the gain is negligible."""


def _candidates(mechanism: AnyMechanism, bound: str) -> tuple[str, ...]:
    """Return the names of the upper bounds whose minimum is taken; `local` comes last, if there is a local ε."""
    pairs = pairs_of(mechanism)
    if bound != "best":
        if not isinstance(bound, str) or bound not in BOUNDS:
            raise AccountingError(f"bound is {shown(bound)}; choose one of: best, {', '.join(BOUNDS)}")
        if BOUNDS[bound].direction == "lower":
            upper = ", ".join(name for name, each in BOUNDS.items() if each.direction == "upper")
            raise AccountingError(
                f"bound is {bound!r}, an attack and not an upper bound (every bracket has the best attack as its lower "
                f"end); choose one of: best, {upper}"
            )
        if pairs.local_epsilon is None:
            return pairs.upper_bounds()
        return (bound, "local") if bound != "local" else ("local",)
    if isinstance(mechanism, WithNoise):
        # Noise is a post-processing of the batch without it, so the bounds of the randomizer alone are valid too.
        return (*pairs_of(mechanism.randomizer).upper_bounds()[:-1], NOISE.name, "local")
    return pairs.upper_bounds()


def local_epsilon(mechanism: AnyMechanism) -> float | None:
    """Return the ε if shuffler and analyzer collude; None for Gaussian noise, which has no local ε."""
    return pairs_of(mechanism).local_epsilon


@answering
def epsilon_bracket(
    mechanism: AnyMechanism, reports: int, delta: float, *, bound: str = "best", dummies: int = 0
) -> EpsilonBracket:
    """Return the central ε of one batch of `reports` (and `dummies` uniform ones) at `delta`.

    `epsilon_upper` is never below the true ε and never above the local one. If the gain is below 0.01 %, it is the
    local one, with the bound `local`. It is 0 only if δ_upper(0) ≤ `delta` was shown. No ε below `epsilon_lower` is
    valid; it is None if no attack is known.
    Raises AccountingError for bad values, and OutsideConditions if `bound` does not apply.
    """
    delta = checked_delta(delta)
    name, ends, found = _epsilon_ends(mechanism, reports, delta, bound, dummies)
    lower = _epsilon_lower(mechanism, reports, delta, dummies, found)
    local, slack = local_epsilon(mechanism), _slack(ends.lower, ends.upper)
    return EpsilonBracket(ends.upper, lower, local, delta, name, BOUNDS[name].source, slack)


def _epsilon_ends(
    mechanism: AnyMechanism, reports: int, delta: float, bound: str, dummies: int
) -> tuple[str, EpsilonEnds, Mapping[str, EpsilonEnds]]:
    """Return the bound with the smallest ε, its ends, and those of all that can be it."""
    # Ties go to the first name: `local` comes last, so it is named only if no other bound is as small.
    names, local = _candidates(mechanism, bound), local_epsilon(mechanism)
    if bound != "best":
        BOUNDS[bound].conditions(covered(BOUNDS[bound], mechanism), reports, dummies)
    found = dict[str, EpsilonEnds]()
    # From the cheapest to the dearest: that of noise and the local ε take a few milliseconds, a search takes many.
    for name in reversed(names):
        known = found[NOISE.name].upper if bound == "best" and NOISE.name in found else None
        asked = covered(BOUNDS[name], mechanism), reports
        # A bound's δ falls in ε: if it is above `delta` at the ε of the noise, the bound's own ε is larger.
        if known is None or not _is_above(BOUNDS[name], *asked, known, delta, dummies):
            found[name] = BOUNDS[name].epsilon(*asked, delta, dummies)
    name = min(found, key=lambda each: (found[each].upper, names.index(each)))
    # Otherwise a reader would see amplification although an attack on one report alone reaches the same ε.
    if local is not None and found[name].upper >= local * (1 - _NOTHING):
        return "local", EpsilonEnds(local, local), found
    return name, found[name], found


def _is_above(bound: Bound, mechanism: AnyMechanism, reports: int, epsilon: float, delta: float, dummies: int) -> bool:
    """Return whether the bound's δ at `epsilon` is shown to be above `delta`."""
    if isinstance(bound, BlanketBound) and not dummies:
        return bound.is_above(mechanism, reports, epsilon, delta)
    return bound.delta(mechanism, reports, epsilon, dummies)[0] > delta


@answering
def epsilon_upper(
    mechanism: AnyMechanism, reports: int, delta: float, *, bound: str = "best", dummies: int = 0
) -> float:
    """Return the `epsilon_upper` of `epsilon_bracket` alone, without looking for an attack."""
    return _epsilon_ends(mechanism, reports, checked_delta(delta), bound, dummies)[1].upper


def _slack(lower: float, upper: float) -> float:
    return (upper - lower) / upper if upper > 0 else 0.0


def _epsilon_lower(
    mechanism: AnyMechanism, reports: int, delta: float, dummies: int, found: Mapping[str, EpsilonEnds]
) -> float | None:
    attack = _attack(mechanism, dummies)
    if attack is None:
        return None
    ends = found[attack] if attack in found else BOUNDS[attack].epsilon(mechanism, reports, delta, dummies)
    return ends.lower


def _attack(mechanism: AnyMechanism, dummies: int) -> str | None:
    """Return the name of the best known attack on the batch; None if there is none."""
    return pairs_of(mechanism).attack_bound(dummies)


@answering
def delta_bracket(
    mechanism: AnyMechanism, reports: int, epsilon: float, *, bound: str = "best", dummies: int = 0
) -> DeltaBracket:
    """Return the central δ of one batch of `reports` (and `dummies` uniform ones) at `epsilon`.

    `delta_upper` is never below the true δ, `delta_lower` never above it (None if no attack is known).
    Raises AccountingError for bad values, and OutsideConditions if `bound` does not apply.
    """
    epsilon = checked_epsilon(epsilon)
    names = _candidates(mechanism, bound)
    if bound != "best":
        BOUNDS[bound].conditions(covered(BOUNDS[bound], mechanism), reports, dummies)
    found = {name: BOUNDS[name].delta(covered(BOUNDS[name], mechanism), reports, epsilon, dummies) for name in names}
    name = min(names, key=lambda each: (found[each][1], names.index(each)))
    # `local` is a formula, so its evaluation is not wide: its lower end is 0 as it proves nothing from below.
    lower, upper = found[name] if name != "local" else (found[name][1], found[name][1])
    attack = _attack(mechanism, dummies)
    known = None
    if attack is not None:
        known = (found[attack] if attack in found else BOUNDS[attack].delta(mechanism, reports, epsilon, dummies))[0]
    slack = _slack(lower, upper)
    return DeltaBracket(upper, known, epsilon, local_epsilon(mechanism), name, BOUNDS[name].source, slack)


@answering
def delta_upper(
    mechanism: AnyMechanism, reports: int, epsilon: float, *, bound: str = "best", dummies: int = 0
) -> float:
    """Return the certified δ at `epsilon` alone, never below the truth, without looking for an attack."""
    epsilon = checked_epsilon(epsilon)
    names = _candidates(mechanism, bound)
    if bound != "best":
        BOUNDS[bound].conditions(covered(BOUNDS[bound], mechanism), reports, dummies)
    return min(BOUNDS[name].delta(covered(BOUNDS[name], mechanism), reports, epsilon, dummies)[1] for name in names)


@answering
def delta_lower(mechanism: AnyMechanism, reports: int, epsilon: float, *, dummies: int = 0) -> float | None:
    """Return the `delta_lower` of `delta_bracket` alone: never above the true δ, None if no attack is known."""
    attack = _attack(mechanism, dummies)
    return None if attack is None else BOUNDS[attack].delta(mechanism, reports, checked_epsilon(epsilon), dummies)[0]
