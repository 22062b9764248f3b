"""One round: what n shuffled reports of one mechanism give, as brackets with a name and a source.

`epsilon_bracket` and `delta_bracket` join the tightest proven upper bound with the best known attack. Every `upper` is
never below the truth, every `lower` never above.
"""

from collections.abc import Mapping

from hubbub.accountant.bounds.exact import EXACT as BOUNDS
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import KRR, RAPPOR, AnyMechanism, Gaussian, Generic, Laplace
from hubbub.accountant.numbers import checked_delta, checked_epsilon

_NOTHING = 1e-4
"""Relative gain over the local ε below which there is no amplification to speak of: the local ε itself is returned."""


def _candidates(mechanism: AnyMechanism, bound: str) -> tuple[str, ...]:
    """Names of the upper bounds to take the minimum of; `local` holds always and stands last."""
    if not isinstance(mechanism, AnyMechanism):
        raise AccountingError(f"mechanism is {shown(mechanism)}, must be a KRR, Generic, …; build one of them")
    if bound != "best":
        if not isinstance(bound, str) or bound not in BOUNDS:
            raise AccountingError(f"bound is {shown(bound)}, must be one of: best, {', '.join(BOUNDS)}")
        if isinstance(mechanism, Gaussian):
            return ("blanket",)
        return (bound, "local") if BOUNDS[bound].direction == "upper" and bound != "local" else ("local",)
    if isinstance(mechanism, KRR):
        return ("2rr", "local") if mechanism.categories == 2 else ("blanket", "local")
    if isinstance(mechanism, Gaussian):
        return ("blanket",)
    if isinstance(mechanism, Generic):
        return ("clones", "local") if mechanism.mixed else ("stronger-clones", "local")
    return ("blanket", "stronger-clones", "local")


def local_epsilon(mechanism: AnyMechanism) -> float | None:
    """What is left if shuffler and analyzer collude; None for Gaussian noise, which has no local ε."""
    return None if isinstance(mechanism, Gaussian) else mechanism.epsilon_local


def _attack(mechanism: AnyMechanism, dummies: int) -> str | None:
    if isinstance(mechanism, KRR) and mechanism.categories == 2:
        return "2rr"
    if dummies:
        return None
    if isinstance(mechanism, Laplace | Gaussian):
        return "ends-lower"
    return "rappor-lower" if isinstance(mechanism, RAPPOR) else "krr-lower"


def epsilon_bracket(
    mechanism: AnyMechanism, reports: int, delta: float, *, bound: str = "best", dummies: int = 0
) -> EpsilonBracket:
    """Central ε of one batch of `reports` (and `dummies` uniform ones) at `delta`.

    `epsilon_upper` is never below the true ε and never above the local one, which is returned as bound `local` where
    the gain is below 0.01 %; it is 0 only where δ_upper(0) ≤ `delta` was shown. `epsilon_lower`: no valid ε is below
    it; None where no attack is known.
    Raises AccountingError on bad values and OutsideConditions where `bound` does not apply.
    """
    names = _candidates(mechanism, bound)
    delta, local = checked_delta(delta), local_epsilon(mechanism)
    if bound != "best":
        BOUNDS[bound].conditions(mechanism, reports, dummies)
    found = {name: BOUNDS[name].epsilon(mechanism, reports, delta, dummies) for name in names}
    name = min(names, key=lambda each: (found[each].upper, names.index(each)))
    ends = found[name]
    if local is not None and ends.upper >= local * (1 - _NOTHING):
        name, ends = "local", EpsilonEnds(local, local)
    lower = _epsilon_lower(mechanism, reports, delta, dummies, found)
    return EpsilonBracket(ends.upper, lower, local, delta, name, BOUNDS[name].source, _slack(ends.lower, ends.upper))


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


def delta_bracket(
    mechanism: AnyMechanism, reports: int, epsilon: float, *, bound: str = "best", dummies: int = 0
) -> DeltaBracket:
    """Central δ of one batch of `reports` (and `dummies` uniform ones) at `epsilon`.

    `delta_upper` is never below the true δ, `delta_lower` never above it (None where no attack is known).
    Raises AccountingError on bad values and OutsideConditions where `bound` does not apply.
    """
    epsilon = checked_epsilon(epsilon)
    names = _candidates(mechanism, bound)
    if bound != "best":
        BOUNDS[bound].conditions(mechanism, reports, dummies)
    found = {name: BOUNDS[name].delta(mechanism, reports, epsilon, dummies) for name in names}
    name = min(names, key=lambda each: (found[each][1], names.index(each)))
    lower, upper = found[name] if name != "local" else (found[name][1], found[name][1])
    attack = _attack(mechanism, dummies)
    known = None
    if attack is not None:
        known = (found[attack] if attack in found else BOUNDS[attack].delta(mechanism, reports, epsilon, dummies))[0]
    slack = _slack(lower, upper)
    return DeltaBracket(upper, known, epsilon, local_epsilon(mechanism), name, BOUNDS[name].source, slack)


def delta_upper(
    mechanism: AnyMechanism, reports: int, epsilon: float, *, bound: str = "best", dummies: int = 0
) -> float:
    """The certified δ at `epsilon` alone: never below the truth, without looking for an attack."""
    epsilon = checked_epsilon(epsilon)
    names = _candidates(mechanism, bound)
    if bound != "best":
        BOUNDS[bound].conditions(mechanism, reports, dummies)
    return min(BOUNDS[name].delta(mechanism, reports, epsilon, dummies)[1] for name in names)
