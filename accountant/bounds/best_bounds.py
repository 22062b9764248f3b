"""What n shuffled reports of one mechanism give, as brackets with a name and a source.

`epsilon_bracket` and `delta_bracket` join the tightest proven upper bound with the best known attack. Every `upper` is
never below the truth, every `lower` never above.
"""

from collections.abc import Mapping

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.exact import EXACT as BOUNDS
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.divergence.search import EpsilonEnds
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import AnyMechanism
from hubbub.accountant.numbers import checked_delta, checked_epsilon
from hubbub.accountant.pairs import pairs_of

_NOTHING = 1e-4
"""With less gain than this, relative to the local ε, the local ε itself is returned: so little is not worth a claim."""


def _candidates(mechanism: AnyMechanism, bound: str) -> tuple[str, ...]:
    """Names of the upper bounds to take the minimum of; `local`, where there is a local ε, comes last."""
    pairs = pairs_of(mechanism)
    if bound != "best":
        if not isinstance(bound, str) or bound not in BOUNDS:
            raise AccountingError(f"bound is {shown(bound)}, must be one of: best, {', '.join(BOUNDS)}")
        if BOUNDS[bound].direction == "lower":
            upper = ", ".join(name for name, each in BOUNDS.items() if each.direction == "upper")
            raise AccountingError(
                f"bound is {bound!r}, which is what an attack reaches and not an upper bound (every bracket has the "
                f"best attack as its lower end); it must be one of: best, {upper}"
            )
        if pairs.local_epsilon is None:
            return pairs.upper_bounds()
        return (bound, "local") if bound != "local" else ("local",)
    return pairs.upper_bounds()


def local_epsilon(mechanism: AnyMechanism) -> float | None:
    """What is left if shuffler and analyzer collude; None for Gaussian noise, which has no local ε."""
    return pairs_of(mechanism).local_epsilon


@answering
def epsilon_bracket(
    mechanism: AnyMechanism, reports: int, delta: float, *, bound: str = "best", dummies: int = 0
) -> EpsilonBracket:
    """Central ε of one batch of `reports` (and `dummies` uniform ones) at `delta`.

    `epsilon_upper` is never below the true ε and never above the local one, which is returned as bound `local` where
    the gain is below 0.01 %; it is 0 only where δ_upper(0) ≤ `delta` was shown. `epsilon_lower`: no valid ε is below
    it; None where no attack is known.
    Raises AccountingError on bad values and OutsideConditions where `bound` does not apply.
    """
    delta = checked_delta(delta)
    name, ends, found = _epsilon_ends(mechanism, reports, delta, bound, dummies)
    lower = _epsilon_lower(mechanism, reports, delta, dummies, found)
    local, slack = local_epsilon(mechanism), _slack(ends.lower, ends.upper)
    return EpsilonBracket(ends.upper, lower, local, delta, name, BOUNDS[name].source, slack)


def _epsilon_ends(
    mechanism: AnyMechanism, reports: int, delta: float, bound: str, dummies: int
) -> tuple[str, EpsilonEnds, Mapping[str, EpsilonEnds]]:
    """Return the bound that gives least, its ends, and those of all that were tried."""
    # Ties go to the first name: `local` comes last, so it is named only where nothing else is as small.
    names, local = _candidates(mechanism, bound), local_epsilon(mechanism)
    if bound != "best":
        BOUNDS[bound].conditions(mechanism, reports, dummies)
    found = {name: BOUNDS[name].epsilon(mechanism, reports, delta, dummies) for name in names}
    name = min(names, key=lambda each: (found[each].upper, names.index(each)))
    # So that a reader is not told of amplification where an attack on one report alone gets as far.
    if local is not None and found[name].upper >= local * (1 - _NOTHING):
        return "local", EpsilonEnds(local, local), found
    return name, found[name], found


@answering
def epsilon_upper(
    mechanism: AnyMechanism, reports: int, delta: float, *, bound: str = "best", dummies: int = 0
) -> float:
    """The certified ε at `delta` alone, that of `epsilon_bracket`, without looking for an attack."""
    return _epsilon_ends(mechanism, reports, checked_delta(delta), bound, dummies)[1].upper


def _slack(lower: float, upper: float) -> float:
    return (upper - lower) / upper if upper > 0 else 0.0


def _epsilon_lower(
    mechanism: AnyMechanism, reports: int, delta: float, dummies: int, found: Mapping[str, EpsilonEnds]
) -> float | None:
    attack = pairs_of(mechanism).attack_bound(dummies)
    if attack is None:
        return None
    ends = found[attack] if attack in found else BOUNDS[attack].epsilon(mechanism, reports, delta, dummies)
    return ends.lower


@answering
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
    # `local` is a formula: that it proves nothing from below does not make its own evaluation wide.
    lower, upper = found[name] if name != "local" else (found[name][1], found[name][1])
    attack = pairs_of(mechanism).attack_bound(dummies)
    known = None
    if attack is not None:
        known = (found[attack] if attack in found else BOUNDS[attack].delta(mechanism, reports, epsilon, dummies))[0]
    slack = _slack(lower, upper)
    return DeltaBracket(upper, known, epsilon, local_epsilon(mechanism), name, BOUNDS[name].source, slack)


@answering
def delta_upper(
    mechanism: AnyMechanism, reports: int, epsilon: float, *, bound: str = "best", dummies: int = 0
) -> float:
    """The certified δ at `epsilon` alone: never below the truth, without looking for an attack."""
    epsilon = checked_epsilon(epsilon)
    names = _candidates(mechanism, bound)
    if bound != "best":
        BOUNDS[bound].conditions(mechanism, reports, dummies)
    return min(BOUNDS[name].delta(mechanism, reports, epsilon, dummies)[1] for name in names)
