"""Solves for the least ε with which queries reach stated standard errors, all else in the draft as it is written.

It also refuses an ε at which no error is useful, before a search that would take a minute: the smaller ε is, the wider
are the laws of noise that a search tries. For that, each query is looked at as if the task asked nothing else: beside
others it has less of the budget, so then it has no smaller error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log
from typing import Any

from hubbub.accountant.calibration.design import Target
from hubbub.accountant.calibration.noise import noise_may_reach
from hubbub.accountant.errors import AccountingError, TakesNoNoise, UnmetTarget
from hubbub.accountant.numbers import round_up_significant
from hubbub.protos.errors import TakesNoNoiseTask, TaskError, UnmetTask
from hubbub.protos.task.draft import MAXIMUM_EPSILON, MAXIMUM_EPSILON_LOCAL
from hubbub.protos.task.task import MAXIMUM_REPORTS, Draft
from hubbub.queries.design import Design
from hubbub.queries.questions.question import Question

USUAL_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The ε that people choose from: errors are shown at these."""

CLOSE = 1.005
"""The search ends if ε is known up to this factor: errors are printed to two digits."""

STEPS = 24
"""Most plans of one search."""

SMALL = 0.01
"""Drafts of a smaller ε are looked at. Above it, a search takes seconds, and its message names a minimum of reports."""

NEAR = 1.1
"""The least workable ε is named up to this factor: it is advice, and other queries need more of it anyway."""

ErrorAlone = Callable[[Draft, Question], float]
"""Plans a question as if a draft asked nothing else, and returns its expected error; raises UnmetTask if none does."""

HALF_WIDTH_ERRORS = 1.96
"""Standard errors on each side of a 95 % interval."""

ErrorsOf = Callable[[Draft], Mapping[str, float]]
"""Plans a draft, and returns the expected error of each query; raises UnmetTask if none meets the draft's numbers."""


def task_error(error: AccountingError, said: str) -> TaskError:
    """Return the accountant's error as one of the draft, of the kind that tells a search whether to go on."""
    kinds = {UnmetTarget: UnmetTask, TakesNoNoise: TakesNoNoiseTask}
    return kinds.get(type(error), TaskError)(said)


@dataclass(frozen=True)
class ErrorsAtEpsilon:
    """The expected standard error of each query at one ε of a round, or the reason why there are none.

    `planned` says that it is the plan's own ε.
    """

    epsilon: float
    errors: Mapping[str, float]
    planned: bool = False
    why_not: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return them as a JSON object."""
        return {
            "epsilon": self.epsilon,
            "planned": self.planned,
            "expected_standard_errors": dict(self.errors),
            "why_not": self.why_not,
        }


def errors_by_epsilon(draft: Draft, errors_of: ErrorsOf) -> tuple[ErrorsAtEpsilon, ...]:
    """Return the errors at `USUAL_EPSILONS` and at the draft's own ε, from small to large."""
    own = draft.privacy.epsilon
    return tuple(_errors_at(draft, epsilon, errors_of) for epsilon in sorted({*USUAL_EPSILONS, own}))


def _errors_at(draft: Draft, epsilon: float, errors_of: ErrorsOf) -> ErrorsAtEpsilon:
    planned = epsilon == draft.privacy.epsilon
    try:
        return ErrorsAtEpsilon(epsilon, errors_of(_at(draft, epsilon)), planned)
    except TaskError as error:
        return ErrorsAtEpsilon(epsilon, {}, planned, str(error))


def least_epsilon(draft: Draft, errors_of: ErrorsOf) -> Draft:
    """Return the draft with the least ε found at which every stated error is reached; it is at most the draft's.

    Fixed are δ, the minimum of reports, the cap on ε_local, weights, dummies and noise. The plan at that ε was made.

    Raises:
        UnmetTask: if the draft's own ε does not reach them; it names what else would.
    """
    found = _least(draft, draft.privacy.epsilon, errors_of)
    if found is None:
        raise UnmetTask(_unreached(draft, errors_of))
    return _at(draft, found)


def _at(draft: Draft, epsilon: float) -> Draft:
    return replace(draft, privacy=replace(draft.privacy, epsilon=epsilon))


def _excess(draft: Draft, errors_of: ErrorsOf) -> float:
    """Return the largest ratio of an expected error to the stated one: all are reached if it is at most 1."""
    try:
        errors = errors_of(draft)
    except UnmetTask:
        return inf
    # NaN is no error that was reached.
    ratios = [errors[name] / wanted for name, wanted in draft.errors]
    return max(ratio if isfinite(ratio) else inf for ratio in ratios)


def _least(draft: Draft, most: float, errors_of: ErrorsOf) -> float | None:
    """Return an ε up to `most` that reaches the errors, about the least; None if `most` does not.

    An error is nearly proportional to 1/ε, so each step interpolates between the logarithms of both ends. Every ε that
    is returned was tried.
    """
    high, above = most, _excess(_at(draft, most), errors_of)
    if above > 1:
        return None
    low, below = 0.0, inf
    for step in range(STEPS):
        if high <= CLOSE * low:
            break
        middle = _between(low, below, high, above, step)
        excess = _excess(_at(draft, middle), errors_of)
        if excess <= 1:
            high, above = middle, excess
        else:
            low, below = middle, excess
    return _rounded(draft, high, most, errors_of)


def _between(low: float, below: float, high: float, above: float, step: int) -> float:
    if not low:
        # A little further than where the error should be reached, so that the next end is a lower one.
        return float(high * max(above, 1e-6) * 0.995)
    if not isfinite(below) or step % 3 == 2:
        return float((low * high) ** 0.5)
    # The ratio is `below` > 1 at `low`, and `above` <= 1 at `high`; it is 1 in between.
    part = log(below) / max(log(below) - log(max(above, 1e-300)), 1e-12)
    nearest = (CLOSE - 1) / 4
    return float(low * (high / low) ** min(max(part + nearest, 0.02), 0.98))


def _rounded(draft: Draft, epsilon: float, most: float, errors_of: ErrorsOf) -> float:
    """Return ε rounded up to three digits if that reaches the errors too: people read it in a task."""
    short = min(round_up_significant(epsilon, 3), most)
    return short if short == epsilon or _excess(_at(draft, short), errors_of) <= 1 else epsilon


def _unreached(draft: Draft, errors_of: ErrorsOf) -> str:
    """Return the message for errors that the draft's ε does not reach, with each change that alone would reach them.

    It names the errors that the draft reaches as it is, and, if no change is enough, those at what comes nearest.
    """
    privacy = draft.privacy
    try:
        short = _short(draft, errors_of)
        reached = "; ".join(f"{name}: {error:.4g}, not {wanted:g}" for name, error, wanted in short)
        finite = all(isfinite(error) for _, error, _ in short)
        larger = f"state {_stated(short)}, which it reaches as it is" if finite else "state a larger error"
    except UnmetTask as error:
        reached, larger = str(error), "state a larger error"
    changes = _changes(draft, errors_of)
    remedy = (
        f"each of these alone reaches it: {', '.join(changes)}; or {larger}"
        if changes
        else f"no single change reaches it{_nearest(draft, errors_of)}: change several, or {larger}"
    )
    return (
        f"epsilon = {privacy.epsilon:g}, the most that the task allows, does not reach the stated error at "
        f"minimum_reports = {draft.minimum_reports} with epsilon_local = {privacy.epsilon_local:g} ({reached}); "
        f"{remedy}"
    )


def _short(draft: Draft, errors_of: ErrorsOf) -> list[tuple[str, float, float]]:
    """Return the queries whose stated error is not reached: name, expected error, stated error."""
    errors = errors_of(draft)
    return [(name, errors[name], wanted) for name, wanted in draft.errors if not errors[name] <= wanted]


def _stated(short: Sequence[tuple[str, float, float]]) -> str:
    """Return the expected errors as the option states them, rounded up, so that stating them is enough."""
    return " and ".join(f"{name}={round_up_significant(error, 3):g}" for name, error, _ in short)


def _nearest(draft: Draft, errors_of: ErrorsOf) -> str:
    """Return which of the largest ε and the largest cap comes nearest, and its errors; "" if neither is planned."""
    privacy = draft.privacy
    tries = {
        f"epsilon = {MAXIMUM_EPSILON:g}": _at(draft, MAXIMUM_EPSILON),
        f"epsilon_local = {MAXIMUM_EPSILON_LOCAL}": replace(
            draft, privacy=replace(privacy, epsilon_local=float(MAXIMUM_EPSILON_LOCAL))
        ),
    }
    excess = {words: _excess(tried, errors_of) for words, tried in tries.items()}
    words = min(excess, key=lambda each: excess[each])
    if not isfinite(excess[words]):
        return ""
    errors = ", ".join(f"{name} {error:.4g}" for name, error, _ in _short(tries[words], errors_of))
    return f" (of larger epsilon and epsilon_local, {words} comes nearest: {errors})"


def _changes(draft: Draft, errors_of: ErrorsOf) -> list[str]:
    """Return the changes that alone reach the stated errors, as a draft writes them."""
    epsilon = _least(draft, MAXIMUM_EPSILON, errors_of)
    changes = [] if epsilon is None else [f"epsilon = {epsilon:g}"]
    reports = _enough_reports(draft, errors_of)
    changes += [] if reports is None else [f"minimum_reports = {reports}"]
    cap = _enough_local(draft, errors_of)
    changes += [] if cap is None else [f"epsilon_local = {cap}"]
    if draft.noise == "none" and not draft.privacy.dummies and _excess(replace(draft, noise="auto"), errors_of) <= 1:
        changes.append('noise = "auto"')
    return changes


def _enough_reports(draft: Draft, errors_of: ErrorsOf) -> int | None:
    # A larger minimum can make an error larger again, as the cap on ε_local then decides: so each try is four times.
    def enough(reports: int) -> bool:
        return _excess(replace(draft, minimum_reports=reports, maximum_reports=None), errors_of) <= 1

    tries = [draft.minimum_reports * 4**power for power in range(1, 9)]
    found = next((reports for reports in tries if reports <= MAXIMUM_REPORTS and enough(reports)), None)
    return None if found is None else first_that(enough, found // 4, found)


def _enough_local(draft: Draft, errors_of: ErrorsOf) -> int | None:
    def enough(cap: int) -> bool:
        return _excess(replace(draft, privacy=replace(draft.privacy, epsilon_local=float(cap))), errors_of) <= 1

    # A cap that does not bind changes nothing, so the largest one decides whether any is enough.
    low, high = int(draft.privacy.epsilon_local), MAXIMUM_EPSILON_LOCAL
    if high <= low or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def first_that(holds: Callable[[int], bool], low: int, limit: int) -> int | None:
    """Return a number at which `holds` is true, at most an eighth above the first; None if there is none to `limit`.

    It is found by doubling, then halving, which takes for granted that `holds` stays true once it is.
    """
    high = low
    while not holds(high):
        if high >= limit:
            return None
        low, high = high, min(2 * high, limit)
    # `holds` is true at `high` and was false at `low`, unless they are equal.
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# An ε that is too small


def check_workable(draft: Draft, error_alone: ErrorAlone) -> None:
    """Return only if each query of a draft may have a 95 % interval narrower than its whole range at the draft's ε.

    Drafts without noise are planned quickly, and questions of which each digit or round is planned by itself have other
    targets: neither are looked at. What passes may still have no useful error, as the search says then.

    Raises:
        UnmetTask: naming the query, and the least ε that may do for it.
    """
    if draft.noise == "none" or draft.privacy.epsilon >= SMALL:
        return
    for question in draft.questions:
        if not _may_do(draft, question, error_alone):
            raise UnmetTask(_too_small(draft, question, error_alone))


def _may_do(draft: Draft, question: Question, error_alone: ErrorAlone) -> bool:
    useful = draft.minimum_reports / HALF_WIDTH_ERRORS
    if draft.noise != "always":
        try:
            if error_alone(replace(draft, noise="none"), question) <= useful * question.extent:
                return True
        except UnmetTask:
            pass
    privacy = draft.privacy
    hiding = privacy.epsilon, privacy.delta, draft.minimum_reports, privacy.epsilon_local, privacy.honest_share, 0
    target = Target.of(*hiding, "always", 1, None, draft.shufflers)
    return noise_may_reach(Design(question), target, useful)


def _too_small(draft: Draft, question: Question, error_alone: ErrorAlone) -> str:
    least = _least_workable(draft, question, error_alone)
    remedy = "choose a larger minimum_reports"
    if least is not None:
        others = ", and other queries take a share" if len(draft.questions) > 1 else ""
        times = round_up_significant(least / draft.privacy.epsilon, 2)
        remedy = (
            f"by itself it needs epsilon = {round_up_significant(least, 2):g} or more{others}: choose so much, or "
            f"about {times:,g} times the minimum_reports"
        )
    return (
        f"{question.name}: no useful error can be had at epsilon = {draft.privacy.epsilon:g} with minimum_reports = "
        f"{draft.minimum_reports}: the 95 % interval would be wider than the whole range of the estimate, even if the "
        f"task asked nothing else; {remedy}"
    )


def _least_workable(draft: Draft, question: Question, error_alone: ErrorAlone) -> float | None:
    """Return about the least ε at which the query by itself may do; None if no ε that a task may have is enough."""

    def may_do(epsilon: float) -> bool:
        return _may_do(replace(draft, privacy=replace(draft.privacy, epsilon=epsilon)), question, error_alone)

    low = high = draft.privacy.epsilon
    while not may_do(high):
        if high >= MAXIMUM_EPSILON:
            return None
        low, high = high, min(2 * high, MAXIMUM_EPSILON)
    while high > NEAR * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if may_do(middle) else (middle, high)
    return high
