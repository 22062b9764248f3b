"""Compares what may be added to a randomizer's reports, under several caps on ε_local, by exact expected errors.

Each alternative is planned as the task itself is: all queries together, at the same (ε, δ) and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import Calibration
from hubbub.accountant.calibration.digits import LARGEST_BIT, DigitsTarget
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import WithNoise
from hubbub.planning.comparison import PrivacyTarget, errors_at
from hubbub.planning.digits import ErrorsByCap, enough_local
from hubbub.planning.plan import share_of
from hubbub.protos.task.draft import MAXIMUM_EPSILON_LOCAL
from hubbub.protos.task.task import Draft
from hubbub.queries.design import Design
from hubbub.queries.errors import TaskError
from hubbub.queries.fields import DEFAULT_RANDOMIZER, MAXIMUM_SYMBOLS
from hubbub.queries.longitudinal.over_rounds import Repeated
from hubbub.queries.questions.bit import queries_made
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, Shared
from hubbub.queries.randomizers.randomizer import Randomizer

CAPS = (8.0, 10.0, 12.0, 14.0)
"""Caps on ε_local that are compared, beside the task's own."""

QUICK_QUERIES = 2
"""Most queries of a task whose alternatives are compared unasked: each alternative plans all of them together."""

Added = Literal["nothing", "dummies", "noise", "digits"]
"""What shufflers add to a batch: nothing, uniform dummies of the first one, or noise of each; noise to each digit's."""

TRIED_DIGITS = 8
"""The digits that are compared if a sum has none: with more, the error falls little."""

_WHO_WITH = {
    "nothing": "with nothing added, the shuffler and the honest share of the crowd",
    "dummies": "with dummies the same, as they are planned to hide people together with the crowd (if everybody else "
    "lies, a certificate states what they hide alone)",
    "noise": "with noise one shuffler alone, even if everybody else lies",
}

Planned = tuple[Calibration[Randomizer], ...]


def who_must_be_honest(added: Iterable[Added]) -> str:
    """Return the sentence on whose honesty the numbers rest, of what shufflers may add. Digits are as noise."""
    told = [words for each, words in _WHO_WITH.items() if each in set(added)]
    left = "if all shufflers and the analyzer collude, ε_local is left in each case"
    return f"who must be honest: {'; '.join([*told, left])}"


@dataclass(frozen=True)
class Alternative:
    """One query as it would be planned with something added, under a cap on the ε_local of the whole task.

    `dummies` is how many the shufflers add to a batch on average. `error` is the standard error that is planned for, in
    the worst case, and `errors` are those of one count by how many people gave the answer; both in the query's unit.
    `epsilon_local` is what the query leaves if shuffler and analyzer collude. If it cannot be planned, `why_not` is the
    reason, and there are no numbers.
    """

    added: Added
    cap: float | None
    dummies: int = 0
    epsilon_local: float | None = None
    epsilon_upper: float | None = None
    error: float | None = None
    errors: Mapping[int, float] | None = None
    why_not: str | None = None

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Alternative:
        """Return the alternative that `as_json` wrote."""
        same = ("added", "cap", "dummies", "epsilon_local", "epsilon_upper", "why_not")
        return cls(
            **{name: content[name] for name in same},
            error=content["expected_standard_error"],
            errors={int(count): error for count, error in content["standard_error_at"].items()},
        )

    def as_json(self) -> dict[str, Any]:
        """Return the alternative as a JSON object."""
        return {
            "added": self.added,
            "cap": self.cap,
            "dummies": self.dummies,
            "epsilon_local": self.epsilon_local,
            "epsilon_upper": self.epsilon_upper,
            "expected_standard_error": self.error,
            "standard_error_at": {str(count): error for count, error in (self.errors or {}).items()},
            "why_not": self.why_not,
        }


def caps_of(cap: float | None) -> tuple[float | None, ...]:
    """Return the caps to compare, from small to large; no cap is the largest."""
    finite = sorted({*CAPS, *(() if cap is None else (cap,))})
    return (*finite, *((None,) if cap is None else ()))


def is_quick(draft: Draft) -> bool:
    """Return whether all alternatives of a draft are planned in about two seconds, those with dummies left out."""
    if len(draft.questions) > QUICK_QUERIES or draft.privacy.dummies or any(map(_is_slow, draft.questions)):
        return False
    return draft.schedule.rounds == 1 or draft.privacy.epsilon_total is None


def _is_slow(question: Question) -> bool:
    # Noise for the digits of a sum takes some seconds to draw up.
    return isinstance(question, Repeated) or question.randomizer != DEFAULT_RANDOMIZER or queries_made(question) > 1


def alternatives_of(
    draft: Draft, with_dummies: bool, advance: Callable[[], None] = lambda: None
) -> dict[str, tuple[Alternative, ...]]:
    """Return the alternatives to a draft's plan by query; a longitudinal question has none."""
    questions = _others(draft)
    if not questions:
        return {}
    share = share_of(draft, questions)
    found = compare(questions, aim_of(draft), _dummies_of(draft, with_dummies), advance, share, by_digits=with_dummies)
    return {question.name: rows for question, rows in zip(questions, found, strict=True)}


def alternative_steps(draft: Draft, with_dummies: bool) -> int:
    """Return how many times `alternatives_of` calls `advance`."""
    return steps_of(aim_of(draft), _dummies_of(draft, with_dummies))


def aim_of(draft: Draft) -> PrivacyTarget:
    """Return what questions other than longitudinal ones must meet together, the cap being the whole task's."""
    privacy, total, share = draft.privacy, draft.privacy.epsilon_total, share_of(draft, _others(draft))
    return PrivacyTarget(
        privacy.epsilon * share,
        privacy.delta * share,
        draft.minimum_reports,
        privacy.epsilon_local,
        privacy.honest_share,
        draft.schedule.rounds,
        None if total is None else total * share,
        draft.shufflers,
    )


def _others(draft: Draft) -> list[Question]:
    return [question for question in draft.questions if not isinstance(question, Repeated)]


def _dummies_of(draft: Draft, with_dummies: bool) -> int | None:
    return draft.privacy.dummies if with_dummies else None


def steps_of(aim: PrivacyTarget, dummies: int | None) -> int:
    """Return how many times `compare` calls `advance`."""
    return 2 * len(caps_of(aim.cap)) + (0 if dummies is None else 1)


def compare(
    questions: Sequence[Question],
    aim: PrivacyTarget,
    dummies: int | None = None,
    advance: Callable[[], None] = lambda: None,
    share: float = 1.0,
    *,
    by_digits: bool = False,
) -> tuple[tuple[Alternative, ...], ...]:
    """Return the alternatives of each question: nothing and noise under each cap, and dummies under the target's own.

    `dummies` is their number, 0 for as many as noise adds on average; None leaves them out, as they take seconds. The
    questions have this `share` of each cap. A sum that states digits is also compared by digits; with `by_digits`, each
    sum that may have them.
    """
    designs = [Design(question) for question in questions]
    within = {cap: replace(aim, cap=None if cap is None else cap * share) for cap in caps_of(aim.cap)}
    plain, noisy = _alone(designs, within, advance), {}
    for cap, target in within.items():
        noisy[cap] = _planned(designs, target, noise="always")
        advance()
    rows: list[list[Alternative]] = [[] for _ in designs]
    _add(rows, designs, aim, "nothing", plain)
    if dummies is not None:
        number = dummies or _most_dummies(noisy[aim.cap])
        _add(rows, designs, aim, "dummies", {aim.cap: _planned(designs, within[aim.cap], dummies=number)}, number)
        advance()
    _add(rows, designs, aim, "noise", noisy)
    total = sum(question.weight for question in questions)
    for place, question in enumerate(questions):
        # Drawing up noise for digits takes a second, so it is only done for who asks for it.
        if isinstance(question, Number) and (question.digits is not None or by_digits):
            rows[place] += _by_digits(question, aim, question.weight / total, share, rows[place])
    return tuple(tuple(each) for each in rows)


def _by_digits(
    question: Number, aim: PrivacyTarget, weight: float, share: float, others: Sequence[Alternative]
) -> list[Alternative]:
    """Return the sum by digits under each cap with which it is better than one message beside noise.

    One more row is for the least cap with which it is better than one message under any of the caps, if there is one.
    """
    asked = replace(question, digits=question.digits or TRIED_DIGITS)
    one_message = {each.cap: each.error for each in others if each.added == "noise" and each.error is not None}
    if question.optional or question.randomizer != DEFAULT_RANDOMIZER or not one_message:
        return []
    part = weight * (1 - 1e-12)
    target = DigitsTarget(
        aim.epsilon * part, aim.delta * part, aim.rounds, inf if aim.total is None else aim.total * part
    )
    try:
        found = ErrorsByCap.of(asked, target, aim.reports, aim.shufflers)
    except TaskError as error:
        return [Alternative("digits", aim.cap, why_not=str(error))]
    most = float(MAXIMUM_EPSILON_LOCAL)

    def row(cap: float | None) -> Alternative:
        local = (most if cap is None else cap) * share * part
        used = min(local, len(found.laws) * LARGEST_BIT)
        return Alternative("digits", cap, found.dummies, used, target.epsilon, found.at(local), {})

    rows = [row(cap) for cap, error in one_message.items() if found.at((cap or most) * share * part) <= error]
    least = min(one_message.values())
    enough = enough_local(0.0, lambda cap: found.at(cap * share * part) <= least)
    if enough is not None and float(enough) not in one_message:
        rows.append(row(float(enough)))
    return sorted(rows, key=lambda each: inf if each.cap is None else each.cap)


def _alone(
    designs: Sequence[Design], within: Mapping[float | None, PrivacyTarget], advance: Callable[[], None]
) -> dict[float | None, Planned | str]:
    """Return the randomizers alone by cap, from large to small: a cap that does not bind changes none."""
    found: dict[float | None, Planned | str] = {}
    total = sum(design.weight for design in designs)
    above: Planned | str = ""
    for cap, target in reversed(list(within.items())):
        limit = inf if target.cap is None else target.cap * (1 - 1e-9)
        fits = isinstance(above, tuple) and all(
            each.epsilon_local <= limit * design.weight / total for design, each in zip(designs, above, strict=True)
        )
        above = found[cap] = above if fits else _planned(designs, target)
        advance()
    return {cap: found[cap] for cap in within}


def _planned(
    designs: Sequence[Design],
    aim: PrivacyTarget,
    *,
    dummies: int = 0,
    noise: Literal["none", "always"] = "none",
) -> Planned | str:
    """Return the calibrations, or the reason why there are none."""
    try:
        return calibrate(
            designs,
            aim.epsilon,
            aim.delta,
            aim.reports,
            epsilon_local_cap=aim.cap,
            honest_share=aim.honest_share,
            dummies=dummies,
            noise=noise,
            rounds=aim.rounds,
            epsilon_total=aim.total,
            shufflers=aim.shufflers,
        )
    except (AccountingError, TaskError) as error:
        return str(error)


def _add(
    rows: Sequence[list[Alternative]],
    designs: Sequence[Design],
    aim: PrivacyTarget,
    added: Added,
    found: Mapping[float | None, Planned | str],
    dummies: int = 0,
) -> None:
    for cap, planned in found.items():
        for place, design in enumerate(designs):
            if isinstance(planned, str):
                rows[place].append(Alternative(added, cap, dummies, why_not=planned))
            else:
                rows[place].append(_alternative(design, planned[place], aim, added, cap, dummies))


def _alternative(
    design: Design, chosen: Calibration[Randomizer], aim: PrivacyTarget, added: Added, cap: float | None, dummies: int
) -> Alternative:
    scale, question = design.question.extent, design.question.sized(chosen.size)
    number = _dummies(chosen) if added == "noise" else dummies
    errors = errors_at(design, chosen, aim.reports, dummies, counts_of(question, aim.reports))
    return Alternative(
        added,
        cap,
        number,
        chosen.epsilon_local,
        chosen.epsilon_upper,
        chosen.expected_standard_error * scale,
        errors,
    )


def counts_of(question: Question, reports: int) -> tuple[int, ...]:
    """Return true counts at which errors are stated: nobody, an even share, a quarter; none if no count is planned."""
    if not isinstance(question, Shared):
        return ()
    even = (reports // question.answers,) if question.answers <= MAXIMUM_SYMBOLS else ()
    return tuple(sorted({0, *even, reports // 4}))


def _dummies(chosen: Calibration[Randomizer]) -> int:
    mechanism, noise = chosen.mechanism, chosen.noise
    return noise.shufflers * mechanism.expected_dummies if noise and isinstance(mechanism, WithNoise) else 0


def _most_dummies(planned: Planned | str) -> int:
    """Return how many dummies noise adds to the batch of the query that gets most; a thousand if none gets any."""
    return max(map(_dummies, planned)) if isinstance(planned, tuple) else 1_000
