"""Compares all bounds: which apply, which do not and why, and the value of each.

`CATALOG` has every bound by its name; `assess` asks all of them the same question. A certificate rests on the exactly
evaluated bounds; the others are here for comparison.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.balle import BALLE
from hubbub.accountant.bounds.best_bounds import epsilon_bracket
from hubbub.accountant.bounds.bound import Bound, Direction
from hubbub.accountant.bounds.erlingsson import ERLINGSSON
from hubbub.accountant.bounds.exact import EXACT
from hubbub.accountant.bounds.feldman import FELDMAN
from hubbub.accountant.bounds.girgis import GIRGIS
from hubbub.accountant.bounds.noise import NOISE, covered
from hubbub.accountant.bounds.over_rounds import Composition, composed_epsilon, compositions
from hubbub.accountant.composition import epsilon_local
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import AnyMechanism, Gaussian, WithNoise
from hubbub.accountant.numbers import checked_delta
from hubbub.accountant.pairs import GaussianRound, Part
from hubbub.accountant.pairs.renyi import checked_order

FORMULAS: tuple[Bound, ...] = (*BALLE, *ERLINGSSON, *FELDMAN, *GIRGIS)
"""The papers' closed forms and Rényi theorems."""

CATALOG: Mapping[str, Bound] = MappingProxyType({**EXACT, **{bound.name: bound for bound in FORMULAS}})
"""Every bound by its name; the exactly evaluated ones come first."""

CERTIFIED = ("2rr", "whole-law", "blanket", "stronger-clones")
"""Bounds whose pairs certificates compose; the first that covers a mechanism is used."""


_ELSEWHERE = re.compile(r"; ask for '[a-z0-9-]+' instead$")
"""The end of the error message of a bound that was requested by name."""

Asked = Part | GaussianRound
"""What is asked about: one query over its rounds, or one round of Gaussian noise."""


@dataclass(frozen=True)
class Assessment:
    """The answer of one bound to one question; over several rounds, composed in one way.

    Attributes:
        bound: its name in `CATALOG`.
        source: paper and theorem.
        direction: whether it is above or below the true ε.
        composition: how it was composed over several rounds; None for one round, and if it does not apply.
        epsilon_upper: never below the true ε, in nats; None for lower bounds, and if there is a `why_not`.
        epsilon_lower: no ε below it is valid; None for upper bounds, and if there is a `why_not`.
        rdp_upper: never below the Rényi divergence of the given order, summed over rounds; None if there is none.
        rdp_lower: a Rényi divergence that some inputs reach; None likewise.
        proven: whether a certificate may rest on it.
        applies: whether the theorem's conditions are met.
        why_not: if the bound gives no ε, the value that is outside its limit and what to do; None otherwise.
        chosen: whether a certificate would use this bound.
    """

    bound: str
    source: str
    direction: Direction
    composition: Composition | None = None
    epsilon_upper: float | None = None
    epsilon_lower: float | None = None
    rdp_upper: float | None = None
    rdp_lower: float | None = None
    proven: bool = True
    applies: bool = True
    why_not: str | None = None
    chosen: bool = False


@answering
def assess(
    mechanism: AnyMechanism,
    reports: int,
    delta: float,
    *,
    dummies: int = 0,
    rounds: int = 1,
    order: float | None = None,
) -> tuple[Assessment, ...]:
    """Ask every bound for the ε at `delta` of batches of `reports` (and `dummies` uniform ones), in catalog order.

    Over several `rounds`, there is one assessment per bound and way of composing it. With an `order`, an assessment
    also has the Rényi divergence, if the bound gives one. Exactly one assessment is `chosen`: the one that a
    certificate would use.

    Raises:
        AccountingError: a number is out of range. If a theorem's conditions fail, its assessment reports it instead.
    """
    part: Asked
    if isinstance(mechanism, Gaussian):
        part = GaussianRound(mechanism, reports, rounds, dummies)
    else:
        part = Part(mechanism, reports, rounds, dummies)
    wanted = checked_delta(delta)
    if order is not None:
        checked_order(order)
    found = [each for bound in CATALOG.values() for each in _assessments(bound, part, wanted, order)]
    chosen = _chosen(part, wanted, found)
    return tuple(replace(each, chosen=(each.bound, each.composition) == chosen) for each in found)


def _chosen(part: Asked, delta: float, found: Sequence[Assessment]) -> tuple[str, Composition | None]:
    """Return a certificate's bound and composition; over rounds, its pair's losses if they give a smaller ε."""
    if part.rounds == 1 or isinstance(part, GaussianRound):
        return epsilon_bracket(part.mechanism, part.reports, delta, dummies=part.dummies).bound, None
    pairs = [next(name for name in CERTIFIED if _holds(EXACT[name], part))]
    if isinstance(part.mechanism, WithNoise):
        pairs.append(NOISE.name)
    known = [each for each in found if each.composition == "losses" and each.epsilon_upper is not None]
    composed = {each.bound: each.epsilon_upper or 0.0 for each in known}
    pair = min(pairs, key=lambda name: composed.get(name, inf))
    if composed.get(pair, inf) >= epsilon_local([part]):
        return "local", "basic"
    return pair, "losses"


def _holds(bound: Bound, part: Part) -> bool:
    try:
        bound.conditions(covered(bound, part.mechanism), part.reports, part.dummies)
    except OutsideConditions:
        return False
    return True


def _assessments(bound: Bound, part: Asked, delta: float, order: float | None) -> Iterator[Assessment]:
    plain = Assessment(bound.name, bound.source, bound.direction, proven=bound.proven)
    # Noise of the shuffler is never beside Gaussian noise.
    if isinstance(part, Part):
        part = replace(part, mechanism=covered(bound, part.mechanism))
    try:
        bound.conditions(part.mechanism, part.reports, part.dummies)
    except OutsideConditions as error:
        yield replace(plain, applies=False, why_not=_why(error))
        return
    plain = _with_rdp(plain, bound, part, order)
    refused, answered = "", False
    for way in compositions(bound) if part.rounds > 1 else (None,):
        try:
            found = _epsilon(bound, part, delta, way)
        except OutsideConditions as error:
            refused = refused or _why(error)
            continue
        answered = True
        upper, lower = (found, None) if bound.direction == "upper" else (None, found)
        yield replace(plain, composition=way, epsilon_upper=upper, epsilon_lower=lower)
    if not answered:
        # A theorem about Rényi divergences alone applies, although it gives no ε.
        yield replace(plain, applies="epsilon" not in bound.gives, why_not=refused)


def _why(error: OutsideConditions) -> str:
    """Return an error's message without the remedy to ask for another bound, since all bounds are asked here."""
    return _ELSEWHERE.sub("", str(error))


def _epsilon(bound: Bound, part: Asked, delta: float, way: Composition | None) -> float:
    if way is not None and isinstance(part, Part):
        return composed_epsilon(bound, part, delta, way)
    ends = bound.epsilon(part.mechanism, part.reports, delta, part.dummies)
    return ends.upper if bound.direction == "upper" else ends.lower


def _with_rdp(plain: Assessment, bound: Bound, part: Asked, order: float | None) -> Assessment:
    if order is None or "rdp" not in bound.gives:
        return plain
    try:
        found = bound.rdp(part.mechanism, part.reports, order, part.dummies) * part.rounds
    except OutsideConditions:
        return plain
    if bound.direction == "upper":
        return replace(plain, rdp_upper=found * (1 + 1e-15))
    return replace(plain, rdp_lower=found * (1 - 1e-15))
