"""Compares the kinds of randomizers at one privacy target, by their exact errors at several true counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import Calibration, MechanismFamily
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms.noise_law import ChainNoise
from hubbub.queries.design import Design
from hubbub.queries.errors import TaskError
from hubbub.queries.questions.question import Question, Shared, symbols_of
from hubbub.queries.randomizers.randomizer import Randomizer, equal_dummies
from hubbub.queries.registry import RANDOMIZERS

COUNTS = (0, 1_000, 100_000)
"""True counts at which errors are stated; those above the number of reports are left out."""

RARE = 1e-9
"""A share so small that calibration minimizes the error of an answer that nobody gives."""


@dataclass(frozen=True)
class PrivacyTarget:
    """The privacy that a batch must meet: (ε, δ) at `reports` reports, the cap on ε_local, and the honest share.

    All `rounds` together must be within `total` at the same δ; None means that nothing limits them together. Noise is
    that of so many `shufflers`.
    """

    epsilon: float
    delta: float
    reports: int
    cap: float | None = None
    honest_share: float = 1.0
    rounds: int = 1
    total: float | None = None
    shufflers: int = 1


@dataclass(frozen=True)
class RandomizerCandidate:
    """A randomizer that meets the target with `dummies` dummies, or the reason why its kind has none.

    `errors` are the exact standard errors of one count, by true count. For hashed kRR they are means over the hash
    functions, without the error that collisions of unexplained answers add (`queries.randomizers.hashed_decoding`).
    `largest` is the largest standard error up to the share of people that matters.
    """

    kind: str
    dummies: int
    chosen: Calibration[Randomizer] | None
    errors: dict[int, float]
    largest: float
    why_not: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the candidate as a JSON object."""
        found = self.chosen
        return {
            "randomizer": self.kind,
            "applies": found is not None,
            "why_not": self.why_not,
            "dummies": self.dummies,
            "parameters": None if found is None else _parameters(found),
            "epsilon_local": None if found is None else found.epsilon_local,
            "epsilon_upper": None if found is None else found.epsilon_upper,
            "standard_error_at": {str(count): error for count, error in self.errors.items()},
            "standard_error_largest": None if found is None else self.largest,
        }


def _parameters(found: Calibration[Randomizer]) -> dict[str, Any]:
    content = found.mechanism.content()
    ratios = {key: value for key, value in content.items() if isinstance(value, list)}
    sizes = {key: value for key, value in content.items() if isinstance(value, int)}
    exact = {f"{key}_exact": f"{value[0]}/{value[1]}" for key, value in ratios.items()}
    return {**sizes, **{key: value[0] / value[1] for key, value in ratios.items()}, **exact}


@dataclass(frozen=True)
class _Shown:
    """A design with a single family of its randomizer, so that its error is shown too."""

    design: Design
    randomizer: type[Randomizer]
    place: int

    @property
    def weight(self) -> float:
        return self.design.weight

    @property
    def sizes(self) -> range:
        return self.design.sizes

    def families(self, size: int) -> Sequence[MechanismFamily[Randomizer]]:
        return (self.randomizer.shown_families(symbols_of(self.design.question.sized(size)))[self.place],)

    def mse(
        self, size: int, randomizer: Randomizer, reports: int, dummies: int, noise: ChainNoise | None = None
    ) -> float:
        return self.design.mse(size, randomizer, reports, dummies, noise)


def compare_randomizers(
    question: Question, aim: PrivacyTarget, dummies: int, listed: Question | None = None
) -> tuple[RandomizerCandidate, ...]:
    """Return candidates of each kind: without dummies, and also with `dummies` dummies if that is not 0.

    `listed` is the question with each answer named, for the kinds that need known answers. Without it, these kinds do
    not apply.
    """
    found: list[RandomizerCandidate] = []
    for added in dict.fromkeys((0, dummies)):
        for kind, randomizer in RANDOMIZERS.items():
            asked = listed if randomizer.needs_known_domain else question
            if asked is None:
                why = "its symbols are the answers, which must be known; give their number with --categories"
                found.append(RandomizerCandidate(kind, added, None, {}, float("inf"), why))
            else:
                found += _of_kind(_through(asked, kind), randomizer, aim, added)
    return tuple(found)


def _of_kind(
    question: Question, randomizer: type[Randomizer], aim: PrivacyTarget, dummies: int
) -> list[RandomizerCandidate]:
    """Return the best candidate for the share that matters.

    If the kind has families to show, also return the best for rare answers, and one candidate for each family.
    """
    design = Design(question)
    chosen = _candidate(design, design, aim, dummies)
    places = range(len(randomizer.shown_families(symbols_of(question))))
    shown = [_candidate(_Shown(design, randomizer, place), design, aim, dummies) for place in places]
    return [chosen, *_of_rare(question, aim, dummies), *shown] if shown else [chosen]


def _of_rare(question: Question, aim: PrivacyTarget, dummies: int) -> list[RandomizerCandidate]:
    if not isinstance(question, Shared):
        return []
    rare = Design(question.for_share(RARE))
    found = _candidate(rare, rare, aim, dummies)
    if found.chosen is None:
        return []
    # It was calibrated for rare answers, but all candidates are compared at the share that matters.
    largest = Design(question).mse(found.chosen.size, found.chosen.randomizer, aim.reports, dummies)
    return [replace(found, largest=sqrt(largest))]


def best(candidates: Sequence[RandomizerCandidate], dummies: int) -> RandomizerCandidate | None:
    """Return the candidate with `dummies` dummies whose `largest` error is least; None if no candidate applies."""
    usable = [each for each in candidates if each.chosen is not None and each.dummies == dummies]
    return min(usable, key=lambda each: each.largest, default=None)


def _through(question: Question, kind: str) -> Question:
    asked: Any = question
    through: Question = replace(asked, randomizer=kind)
    return through


def _candidate(design: Any, of: Design, aim: PrivacyTarget, dummies: int) -> RandomizerCandidate:
    kind = of.question.randomizer
    try:
        (chosen,) = calibrate(
            [design],
            aim.epsilon,
            aim.delta,
            aim.reports,
            epsilon_local_cap=aim.cap,
            honest_share=aim.honest_share,
            dummies=dummies,
        )
    except (AccountingError, TaskError) as error:
        return RandomizerCandidate(kind, dummies, None, {}, float("inf"), str(error))
    return RandomizerCandidate(kind, dummies, chosen, errors_at(of, chosen, aim.reports, dummies), sqrt(chosen.mse))


def errors_at(
    design: Design, chosen: Calibration[Randomizer], reports: int, dummies: int, counts: Sequence[int] = COUNTS
) -> dict[int, float]:
    """Return the exact standard errors of one count, by how many of the people gave that answer."""
    weights = design.question.sized(chosen.size).headline()
    hit, miss = (float(each) for each in chosen.randomizer.variances(weights)[:2])
    added = equal_dummies(chosen.randomizer, dummies, chosen.noise)
    of_dummies = added * chosen.randomizer.dummy_variance(np.asarray(weights))
    within = [count for count in counts if count <= reports]
    return {count: sqrt(count * hit + (reports - count) * miss + of_dummies) for count in within}
