"""Composes a bound of one round over several: by its pair's losses, by Rényi divergences, or by its (ε, δ) alone.

Certificates compose losses. The other ways are those of the papers, for comparison: `rdp` adds divergences (Lemma 2.2
of girgis-2021) and converts; `basic` and `advanced` use only the (ε, δ) of one round.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nextafter
from typing import Literal

from hubbub.accountant.bounds.bound import Bound, described
from hubbub.accountant.bounds.closed_form import RenyiFormula
from hubbub.accountant.bounds.exact import EXACT
from hubbub.accountant.bounds.noise import NOISE, covered
from hubbub.accountant.bounds.renyi import advanced
from hubbub.accountant.composition import compose_lower, compose_upper, epsilon_local
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import Generic
from hubbub.accountant.numbers import DELTA_LEAST, checked_delta
from hubbub.accountant.pairs import Part, local_pairs, pairs_of, without_noise

Composition = Literal["losses", "rdp", "advanced", "basic"]
"""The way in which a bound of one round is composed over several."""

SHARES = (0.5, 0.9, 0.1)
"""Shares of δ that are tried for the rounds' own δ; advanced composition uses the rest for the sum's tail."""


ONE_ROUND = ("clones", "koskela-strong", "koskela-clones")
"""Exactly evaluated bounds whose pairs are not composed, as tighter pairs are known."""


def compositions(bound: Bound) -> tuple[Composition, ...]:
    """Return the ways in which `bound` composes, the tightest first."""
    if isinstance(bound, RenyiFormula):
        return ("rdp",)
    if bound.direction == "lower":
        return ("losses",)
    if bound.name == "local":
        return ("basic",)
    closed: tuple[Composition, ...] = ("advanced", "basic")
    return ("losses", *closed) if bound.name in EXACT and bound.name not in ONE_ROUND else closed


def composed_epsilon(bound: Bound, part: Part, delta: float, composition: Composition) -> float:
    """Return ε at `delta` of all rounds of `part`, on the side of the bound's direction.

    Raises:
        OutsideConditions: the bound does not apply, or does not compose in this way.
        AccountingError: a number is out of range.
    """
    part = replace(part, mechanism=covered(bound, part.mechanism))
    bound.conditions(part.mechanism, part.reports, part.dummies)
    if composition not in compositions(bound):
        ways = ", ".join(compositions(bound))
        raise OutsideConditions(f"bound {bound.name!r} does not compose by {composition}; ask for {ways}")
    found = _composed(bound, part, checked_delta(delta), composition)
    if found == inf:
        raise OutsideConditions(
            f"bound {bound.name!r} composed by {composition} is too large for a double; lower the rounds"
        )
    return found


def _composed(bound: Bound, part: Part, delta: float, composition: Composition) -> float:
    if composition == "losses":
        return _by_losses(bound, part, delta)
    if isinstance(bound, RenyiFormula):
        return bound.composed(part.mechanism, part.reports, delta, part.rounds, part.dummies).upper
    if bound.name == "local":
        return epsilon_local([part])
    if composition == "basic":
        # The share of δ is rounded down and the sum of ε up, so that both roundings are safe.
        return _once(bound, part, delta / part.rounds * (1 - 1e-15)) * part.rounds * (1 + 1e-15)
    return min(_by_advanced(bound, part, delta, share) for share in SHARES)


def _by_losses(bound: Bound, part: Part, delta: float) -> float:
    if bound.direction == "upper":
        return compose_upper([behind(part, bound.name)], delta)
    lower = compose_lower([part], delta, compose_upper([part], delta))
    if lower is None:
        raise OutsideConditions(
            f"bound {bound.name!r} knows no attack over {part.rounds} rounds of {described(part.mechanism)}; "
            "ask for one round"
        )
    return lower


def _by_advanced(bound: Bound, part: Part, delta: float, share: float) -> float:
    each = _once(bound, part, delta * share / part.rounds * (1 - 1e-15))
    # Both shares of δ are rounded down, so their sum never exceeds δ.
    return advanced(each, part.rounds, nextafter(delta * (1 - share), 0.0) * (1 - 1e-15))


def _once(bound: Bound, part: Part, delta: float) -> float:
    if delta < DELTA_LEAST:
        raise OutsideConditions(
            f"δ of one of {part.rounds} rounds is {delta:g}, but at least {DELTA_LEAST:g} is needed; raise δ"
        )
    return bound.epsilon(part.mechanism, part.reports, delta, part.dummies).upper


def behind(part: Part, bound: str) -> Part:
    """Return the part whose own pair is that of the exactly evaluated `bound`.

    Without amplification (`local`) it is the part of one report alone, even if participation is secret: drawing one of
    so many clients would be far rarer than the round's sampling. The blanket pair at k = 2 is the stronger-clone pair
    of the same local ε (p = γ/2 = 1/(e^ε₀ + 1)). An attack is not an upper bound, and is refused.
    """
    if bound in ONE_ROUND:
        raise OutsideConditions(f"bound {bound!r} is not composed by its pair; ask for 'best', or for one round")
    upper = [name for name, each in EXACT.items() if each.direction == "upper" and name not in ONE_ROUND]
    if bound not in upper:
        raise AccountingError(
            f"bound is {bound!r}; choose an upper bound whose pair composes: best, {', '.join(upper)}"
        )
    if bound == NOISE.name:
        NOISE.conditions(part.mechanism, part.reports, part.dummies)
        # One report, so that no people hide it: composing may else take their pair where it is the smaller one.
        return replace(part, reports=1, dummies=0)
    part = without_noise(part)
    mechanism = part.mechanism
    EXACT[bound].conditions(mechanism, part.reports, part.dummies)
    if bound == "local":
        return replace(part, reports=1, dummies=0, clients=None, sampling_rate=None)
    if bound == "blanket" and pairs_of(mechanism).whole_law is not None:
        raise OutsideConditions(
            f"bound {bound!r} of {described(mechanism)} is not composed; ask for 'whole-law', a tighter pair"
        )
    if bound == "stronger-clones" or (bound == "blanket" and pairs_of(mechanism).binary):
        return replace(part, mechanism=Generic(local_pairs(mechanism).common_epsilon))
    return part
