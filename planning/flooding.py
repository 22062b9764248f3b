"""Computes a person's privacy in a round that an attacker floods with made-up reports, and how dummies restore it.

An attacker who knows the made-up reports subtracts them from the published counts. Then only the honest reports hide
each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

from hubbub.accountant.bounds import delta_upper
from hubbub.accountant.calibration.design import Noise
from hubbub.accountant.certificate.batches import linked_part, local_of
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.numbers import honest_reports
from hubbub.planning.by_error import first_that
from hubbub.planning.plan import plan
from hubbub.planning.planned import Plan, PlannedQuery
from hubbub.protos.errors import TakesNoNoiseTask, UnmetTask
from hubbub.protos.task.task import MAXIMUM_DUMMIES

FEWER = 1 - 1e-12
"""Factor that makes shares of ε and δ a little smaller, so that rounding never lifts their sums above the whole."""


@dataclass(frozen=True)
class Flood:
    """A round at the minimum with `fakes` made-up reports that the attacker knows, and the ε of the `honest` others."""

    fakes: int
    honest: int
    epsilon_upper: float


@dataclass(frozen=True)
class Shield:
    """Dummies in each batch that keep the round's (ε, δ) for a person whose report is the only honest one.

    This is true only of the planned randomizers. To keep these, a draft must also set `honest_share`, which counts one
    honest report at the minimum. `errors` are the standard errors to expect, by query.
    """

    dummies: int
    honest_share: float
    errors: Mapping[str, float]


def floods_of(plan: Plan) -> tuple[Flood, ...]:
    """Return the floods of half a round, of nine tenths, and of all but one report, each in a round at the minimum.

    Each ε is the one that a certificate states for a round with as many honest reports. It is never below the true ε.
    """
    least = plan.draft.minimum_reports
    return tuple(_flood(plan, fakes) for fakes in sorted({least // 2, 9 * least // 10, least - 1}))


def _flood(plan: Plan, fakes: int) -> Flood:
    terms, honest = Terms.of(plan.draft), plan.draft.minimum_reports - fakes
    parts = tuple(linked_part(terms, mechanism, honest) for mechanism in plan.mechanisms)
    return Flood(fakes, honest, min(compose_upper(parts, terms.delta), local_of(parts)))


def shield_of(plan: Plan) -> Shield | None:
    """Return how many dummies keep a round's (ε, δ) for one honest report; None if no allowed number does.

    The queries share ε and δ by their weights. The (ε, δ) of several releases add up, so the whole round keeps the sum.
    The number is at most an eighth above the fewest dummies for such shares.
    """
    draft, privacy = plan.draft, plan.draft.privacy
    # Noise needs no dummies beside it, and a task has one of the two.
    if any(each.query.noise is not None for each in plan.queries):
        return None
    if not all(mechanism.counts_dummies for mechanism in plan.mechanisms):
        return None
    total = sum(question.weight for question in draft.questions)
    shares = [question.weight / total * FEWER for question in draft.questions]

    def keeps(dummies: int) -> bool:
        return all(
            delta_upper(mechanism, 1, privacy.epsilon * share, dummies=dummies) <= privacy.delta * share
            for mechanism, share in zip(plan.mechanisms, shares, strict=True)
        )

    found = first_that(keeps, max(1, privacy.dummies), MAXIMUM_DUMMIES)
    if found is None:
        return None
    errors = {each.query.name: _error(each, found - privacy.dummies) for each in plan.queries}
    return Shield(found, _share_of_one(draft.minimum_reports), errors)


def _error(planned: PlannedQuery, more: int) -> float:
    """Return the standard error to expect with `more` additional dummies."""
    question = planned.query.question
    added = more * planned.query.randomizer.dummy_variance(question.headline()) * question.extent**2
    return sqrt(planned.expected_error**2 + added)


def _share_of_one(reports: int) -> float:
    """Return a share with few decimals that counts at least one honest report among `reports`."""
    scale: int = 10 ** max(3, len(str(reports)))
    parts = -(-scale // reports)
    while honest_reports(reports, reports, parts / scale) < 1:
        parts += 1
    return parts / scale


@dataclass(frozen=True)
class NoiseInstead:
    """The word for a draft's `noise` with which every query has noise, and the standard errors to expect by query."""

    noise: Noise
    errors: Mapping[str, float]


def noise_instead(of: Plan) -> NoiseInstead | None:
    """Return how the draft can have noise in every query, with which the round's (ε, δ) holds beside any liars.

    `auto` is preferred, which costs next to no error; None if noise cannot be had, or fewer rounds would be released.
    A draft that has noise in every query already needs none of this.
    """
    words: tuple[Noise, ...] = ("auto", "always")
    for word in words:
        draft = replace(of.draft, noise=word, errors=(), privacy=replace(of.draft.privacy, dummies=0))
        try:
            found = plan(draft)
        except (UnmetTask, TakesNoNoiseTask):
            continue
        if all(each.query.noise is not None for each in found.queries):
            return NoiseInstead(word, {each.name: each.expected_error for each in found.asked})
    return None
