"""Every bound side by side: which holds, which does not and why, and what each gives.

`CATALOGUE` has every bound by its name; `assess` asks all of them the same question. A certificate stands on those that
are evaluated exactly; the others are here to be compared with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from hubbub.accountant.bounds.balle import BALLE
from hubbub.accountant.bounds.best import epsilon_bracket
from hubbub.accountant.bounds.bound import Bound, Direction
from hubbub.accountant.bounds.erlingsson import ERLINGSSON
from hubbub.accountant.bounds.exact import EXACT
from hubbub.accountant.bounds.feldman import FELDMAN
from hubbub.accountant.bounds.girgis import GIRGIS
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import Mechanism

Composition = Literal["losses", "rdp", "advanced", "basic"]
"""How a bound of one round is carried over several."""

FORMULAS: tuple[Bound, ...] = (*BALLE, *ERLINGSSON, *FELDMAN, *GIRGIS)
"""The papers' closed forms and Rényi theorems."""

CATALOGUE: Mapping[str, Bound] = MappingProxyType({**EXACT, **{bound.name: bound for bound in FORMULAS}})
"""Every bound by its name, the exactly evaluated ones first."""


@dataclass(frozen=True)
class Assessment:
    """What one bound says of one question.

    Attributes:
        bound: its name in `CATALOGUE`.
        source: paper and theorem.
        direction: whether it lies above or below the true ε.
        composition: how it was carried over several rounds; None for one round.
        epsilon_upper: never below the true ε, in nats; None for lower bounds, and where `why_not` says so.
        epsilon_lower: no valid ε is below it; None for upper bounds, and where `why_not` says so.
        proven: whether a certificate may stand on it.
        applies: whether the theorem's conditions hold here.
        why_not: where there is no ε: what is outside which limit, and what to do. None otherwise.
        chosen: whether it is the bound that a certificate takes here.
    """

    bound: str
    source: str
    direction: Direction
    composition: Composition | None
    epsilon_upper: float | None
    epsilon_lower: float | None
    proven: bool
    applies: bool
    why_not: str | None
    chosen: bool = False


def assess(mechanism: Mechanism, reports: int, delta: float, *, dummies: int = 0) -> tuple[Assessment, ...]:
    """Ask every bound for the ε of one batch of `reports` (and `dummies` uniform ones) at `delta`, in catalogue order.

    Exactly one assessment is `chosen`: the bound that a certificate takes.
    Raises AccountingError on numbers out of range; conditions that do not hold are said in the assessments.
    """
    chosen = epsilon_bracket(mechanism, reports, delta, dummies=dummies).bound
    found = _one_round(mechanism, reports, delta, dummies)
    return tuple(replace(each, chosen=each.bound == chosen) for each in found)


def _one_round(mechanism: Mechanism, reports: int, delta: float, dummies: int) -> Iterator[Assessment]:
    for bound in CATALOGUE.values():
        plain = Assessment(bound.name, bound.source, bound.direction, None, None, None, bound.proven, True, None)
        try:
            ends = bound.epsilon(mechanism, reports, delta, dummies)
        except OutsideConditions as error:
            yield replace(plain, applies=False, why_not=str(error))
            continue
        if bound.direction == "upper":
            yield replace(plain, epsilon_upper=ends.upper)
        else:
            yield replace(plain, epsilon_lower=ends.lower)
