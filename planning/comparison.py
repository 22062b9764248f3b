"""Compares the kinds of randomizers at one privacy target, by their exact errors at several true counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any, overload

import numpy as np

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import Calibration, MechanismFamily
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.library.over_reports import over_reports
from hubbub.accountant.mechanisms import KRR, check_categories
from hubbub.accountant.mechanisms.noise_law import ChainNoise
from hubbub.accountant.numbers import checked_reports
from hubbub.planning.planned import Plan, symbols_named
from hubbub.queries.design import Design
from hubbub.queries.errors import TaskError
from hubbub.queries.fields import AUTO, MAXIMUM_SYMBOLS, check_share
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, Shared, symbols_of
from hubbub.queries.randomizers.randomizer import Randomizer, equal_dummies
from hubbub.queries.registry import RANDOMIZERS, randomizer_of
from hubbub.queries.texts.text import Text

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


def question_for(kind: str, categories: int | None, optional: bool, randomizer: str) -> Question:
    """Return a nameless question to calibrate for: a histogram of so many categories, or a number in [0, 1].

    Raises:
        AccountingError: if the number of categories does not fit the kind.
        FieldError: if the randomizer is unknown.
    """
    if randomizer != AUTO:
        randomizer_of("calibrate", randomizer, also=(AUTO,))
    if (kind == Number.kind) != (categories is None):
        raise AccountingError(
            "a histogram needs --categories, but a sum takes none, because planning chooses its levels; add or "
            "remove them"
        )
    if categories is None:
        return Number("value", 0.0, 1.0, optional=optional, randomizer=randomizer)
    check_categories(categories)
    if categories > MAXIMUM_SYMBOLS:
        raise AccountingError(f"categories is {categories}; give at most {MAXIMUM_SYMBOLS}, or ask for a text instead")
    return Histogram("value", tuple(map(str, range(categories))), optional, randomizer=randomizer)


def candidates_of(plan: Plan) -> dict[str, tuple[RandomizerCandidate, ...]]:
    """Return, by query name, the comparison for each query whose randomizer the draft leaves open.

    Of several queries each is compared at its share of δ and of the cap, and at the ε that it was given.
    """
    draft, found = plan.draft, {}
    total = sum(question.weight for question in draft.questions)
    planned_as = {planned.name: planned for planned in plan.queries}
    for question in draft.questions:
        if question.randomizer == AUTO:
            planned, share, privacy = planned_as[question.name], question.weight / total, draft.privacy
            epsilon = privacy.epsilon if len(plan.queries) == 1 else planned.epsilon_upper
            aimed = planned.query.question
            aim = PrivacyTarget(
                epsilon,
                privacy.delta * share,
                draft.minimum_reports,
                privacy.epsilon_local * share,
                privacy.honest_share,
            )
            listed = aimed if symbols_named(planned.query) is not None else None
            found[question.name] = compare_randomizers(aimed, aim, privacy.dummies, listed)
    return found


def counted_questions(
    kind: str, categories: int | None, optional: bool, share: float
) -> tuple[Question, Question | None]:
    """Return a nameless question whose counts are compared, and the one that lists its answers, if they are known.

    Raises:
        AccountingError: if a histogram has no categories or too many, or if the question does not ask for counts.
        FieldError: if `share` is not above 0 and at most 1.
    """
    check_share("calibrate", share)
    if kind == Number.kind:
        raise AccountingError("randomizers are compared by the errors of counts; for a sum, name one randomizer")
    listed: Any = None if categories is None else question_for(Histogram.kind, categories, optional, AUTO)
    listed = None if listed is None else replace(listed, share=share)
    if kind == Text.kind:
        return Text("value", optional=optional, share=share), listed
    if listed is None:
        raise AccountingError(
            "a histogram needs --categories; give their number, or ask for a text if they are unknown"
        )
    return listed, listed


@overload
def choose(
    categories: int,
    epsilon: float,
    delta: float,
    reports: int,
    *,
    randomizer: str = "krr",
    epsilon_local_cap: float | None = None,
) -> Calibration[Randomizer]: ...


@overload
def choose(
    categories: int,
    epsilon: float,
    delta: float,
    reports: Iterable[int],
    *,
    randomizer: str = "krr",
    epsilon_local_cap: float | None = None,
) -> list[Calibration[Randomizer]]: ...


def choose(
    categories: int,
    epsilon: float,
    delta: float,
    reports: int | Iterable[int],
    *,
    randomizer: str = "krr",
    epsilon_local_cap: float | None = None,
) -> Calibration[Randomizer] | list[Calibration[Randomizer]]:
    """Return the randomizer of least error for a histogram whose batch of `reports` is to be (epsilon, delta)-private.

    `reports` is a number, or an array, a list or a range of numbers: then a list has one answer for each. An answer's
    `expected_standard_error` is the largest standard error of one count, in people. Its `mechanism` is the exact law,
    which `hubbub.accountant` takes.

    Raises:
        AccountingError: for values out of range; UnmetTarget if no randomizer meets the target.
        FieldError: if the randomizer is unknown.
    """
    design = Design(question_for(Histogram.kind, categories, False, randomizer))

    def at(count: int) -> Calibration[Randomizer]:
        return calibrate([design], epsilon, delta, count, epsilon_local_cap=epsilon_local_cap)[0]

    return over_reports(at, reports)


@overload
def count_error(mechanism: KRR, reports: int) -> float: ...


@overload
def count_error(mechanism: KRR, reports: Iterable[int]) -> list[float]: ...


def count_error(mechanism: KRR, reports: int | Iterable[int]) -> float | list[float]:
    """Return the largest standard error of one count of `reports` people through kRR, in people; a list of several.

    A report is a true one's symbol with probability p, and another one's with q; the count is debiased by 1/(p − q).
    So its variance is n·p(1 − p)/(p − q)² if all have the symbol, n·q(1 − q)/(p − q)² if nobody has, and in between
    otherwise. It is infinite if gamma is 1.

    Raises:
        AccountingError: if a number of reports is out of range.
    """
    if mechanism.gamma == 1:
        return over_reports(lambda _: inf, reports)
    chances = mechanism.truthful, mechanism.other
    largest = float(max(chance * (1 - chance) for chance in chances) / (1 - mechanism.gamma) ** 2)
    return over_reports(lambda count: sqrt(checked_reports(count) * largest), reports)
