"""Answers `account epsilon` and `account delta` by a bound of a name: each upper bound that `account bounds` lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hubbub.accountant.bounds import BOUNDS
from hubbub.accountant.bounds.bound import Bound
from hubbub.accountant.bounds.catalog import CATALOG, FORMULAS
from hubbub.accountant.bounds.noise import covered
from hubbub.accountant.bounds.over_rounds import composed_epsilon, compositions
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.errors import AccountingError, OutsideConditions, shown
from hubbub.accountant.pairs import GaussianRound, Part
from hubbub.queries.errors import did_you_mean

THEOREMS = tuple(bound.name for bound in FORMULAS if bound.direction == "upper")
"""The papers' closed forms and Rényi theorems that are upper bounds."""

NAMES = tuple(name for name, bound in CATALOG.items() if bound.direction == "upper")
"""Every name that may be asked for, besides `best`."""

BEST_OR = f"choose one of: best, {', '.join(NAMES)}"
"""What may be asked for."""

Asked = Part | GaussianRound


def check_bound(bound: str) -> None:
    """Return only if `bound` is `best` or the name of an upper bound.

    Raises:
        AccountingError: names those there are.
    """
    if bound == "best" or bound in NAMES:
        return
    attack = (
        ", an attack and not an upper bound (every answer has the best attack as its lower end)"
        if bound in CATALOG
        else ""
    )
    near = "" if attack else did_you_mean(bound, ("best", *NAMES))
    hint = f"{near}`hubbub account bounds` lists all" if near else ""
    raise AccountingError(f"bound is {shown(bound)}{attack}; {hint or BEST_OR}")


def epsilon_by_theorem(part: Asked, delta: float, name: str, best: EpsilonBracket) -> EpsilonBracket:
    """Return the answer of a theorem; over several rounds by the better way of composing it, as `assess` lists them.

    The lower end and the local ε are those of `best`, the answer of all bounds. If the theorem's ε is not below the
    local one, that is returned.

    Raises:
        OutsideConditions: if the theorem does not cover the question.
    """
    bound, part = _covered(part, name)
    if isinstance(part, Part) and part.rounds > 1:
        found, width = min(_composed(bound, part, delta)), 0.0
    else:
        ends = bound.epsilon(part.mechanism, part.reports, delta, part.dummies)
        found, width = ends.upper, ends.upper - ends.lower
    local = best.epsilon_local
    if local is not None and found >= local:
        return replace(best, epsilon_upper=local, bound="local", source=BOUNDS["local"].source, numerical_slack=0.0)
    slack = width / found if found > 0 else 0.0
    return replace(best, epsilon_upper=found, bound=name, source=bound.source, numerical_slack=slack)


def delta_by_theorem(part: Asked, name: str, best: DeltaBracket) -> DeltaBracket:
    """Return the answer of a theorem for one round, at the ε of `best`; see `epsilon_by_theorem`.

    Raises:
        OutsideConditions: if the theorem does not cover the question, or gives no δ of it.
    """
    bound, part = _covered(part, name)
    if part.rounds > 1 or "delta" not in bound.gives:
        which = f"over {part.rounds} rounds" if part.rounds > 1 else "of one round"
        raise OutsideConditions(f"bound {name!r} gives no δ {which}; ask for its ε, or for 'best'")
    lower, upper = bound.delta(part.mechanism, part.reports, best.epsilon, part.dummies)
    slack = (upper - lower) / upper if upper > 0 else 0.0
    return replace(best, delta_upper=upper, bound=name, source=bound.source, numerical_slack=slack)


def _covered(part: Asked, name: str) -> tuple[Bound, Asked]:
    bound = CATALOG[name]
    if isinstance(part, Part):
        if part.sampled:
            raise OutsideConditions(f"bound {name!r} is not proven if clients are sampled; ask for 'best'")
        part = replace(part, mechanism=covered(bound, part.mechanism))
    bound.conditions(part.mechanism, part.reports, part.dummies)
    return bound, part


def _composed(bound: Bound, part: Part, delta: float) -> Iterator[float]:
    """Yield the ε of each way of composing that covers the question.

    Raises:
        OutsideConditions: if none does: what the first one said.
    """
    refused: OutsideConditions | None = None
    answered = False
    for way in compositions(bound):
        try:
            yield composed_epsilon(bound, part, delta, way)
            answered = True
        except OutsideConditions as error:
            refused = refused or error
    if refused is not None and not answered:
        raise refused
