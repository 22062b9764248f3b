"""Chooses a draft's randomizers and computes the expected errors, before anyone is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import Calibration
from hubbub.accountant.calibration.digits import DigitsTarget
from hubbub.accountant.calibration.noise import NOISE_WORTH
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError, UnmetTarget
from hubbub.planning import by_error
from hubbub.planning.by_error import check_workable, first_that, task_error
from hubbub.planning.digits import ErrorsByCap, PlannedSum, enough_local, plan_sum
from hubbub.planning.longitudinal import plan as longitudinal
from hubbub.planning.longitudinal.goals import Goal
from hubbub.planning.planned import Plan, PlannedQuery, asked_of, forecast_of, half_width
from hubbub.protos.errors import TakesNoNoiseTask, TaskError, UnmetTask
from hubbub.protos.task.draft import check_draft
from hubbub.protos.task.schedule import at, first_not_cut
from hubbub.protos.task.task import MAXIMUM_REPORTS, Draft
from hubbub.queries.design import Design
from hubbub.queries.longitudinal.over_rounds import Repeated
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.query import Query
from hubbub.queries.questions.number import MOST_DIGITS, Number
from hubbub.queries.questions.question import Question
from hubbub.queries.randomizers.randomizer import Randomizer


def plan(draft: Draft) -> Plan:
    """Choose the randomizers with the smallest errors that the draft's (ε, δ) and cap on ε_local allow at its minimum.

    If the draft states errors, ε is the least one found, up to the draft's, with which every stated error is reached.
    With noise `auto`, the shuffler adds noise to each query that can have it, if two things are true: no query's
    expected error becomes more than `NOISE_WORTH` times that without any noise; and as many rounds fit epsilon_total.

    Raises:
        TaskError: if a value is out of its limits; if a stated error cannot be reached (the message names what would
            reach it); if a query's expected 95 % half-width is wider than its whole range
            (the message names a minimum that is enough); if a sum by digits has a larger error than the sum in one
            message (the message names a cap on ε_local that is enough); if no randomizer meets the promise of a round;
            or if not even one round fits epsilon_total.
    """
    check_draft(draft)
    check_workable(replace(draft, questions=_planned_for_rounds(draft)), _error_alone)
    most = draft.privacy.epsilon if draft.errors else None
    if draft.errors:
        draft = by_error.least_epsilon(draft, _errors_of)
    planned, noise_needs = _planned_within(draft)
    # `not <=` instead of `>`, so that an error that is NaN also counts as useless.
    _check_digits_pay(draft, planned)
    useless = [each for each in asked_of(planned) if not half_width(each) <= each.widest]
    if useless:
        raise UnmetTask(_too_wide(draft, useless[0]))
    chosen = Plan(draft, planned, noise_needs, most)
    try:
        check_minimum(Terms.of(draft), chosen.mechanisms)
    except AccountingError as error:
        raise task_error(error, str(error)) from error
    return chosen


def check_not_over(draft: Draft, now: float) -> None:
    """Return only if a round of the draft can still be answered at `now` (seconds since 1970).

    Raises:
        TaskError: if its last round was cut before.
    """
    schedule = draft.schedule
    if first_not_cut(schedule, now) >= schedule.rounds:
        last = at(schedule.cut(schedule.rounds - 1))
        raise TaskError(
            f"the task is over: its last round, {schedule.rounds - 1}, was cut at {last}; set a later start, or more "
            "rounds"
        )


def _within_total(draft: Draft, planned: tuple[PlannedQuery, ...]) -> tuple[tuple[PlannedQuery, ...], float | None]:
    """Return the plan, or one of which more rounds fit epsilon_total, and the total that noise needs if it is left out.

    Noise composes to more over rounds than people do, if its law is the best for one round. So laws for all rounds
    together are tried too, and taken if as many rounds fit as without noise and no error is much above that without.
    """
    once = draft.privacy.epsilon_total is None or draft.schedule.rounds == 1
    if draft.noise != "auto" or once or all(each.query.noise is None for each in planned):
        return planned, None
    noisy = forecast_of(Plan(draft, planned))
    if noisy.within == noisy.rounds:
        return planned, None
    plain = _plan_at(replace(draft, noise="none"), draft.minimum_reports)
    fit = forecast_of(Plan(draft, plain)).within
    lasting = _noise_for_all_rounds(draft, plain, max(fit, noisy.within))
    if lasting is not None:
        return lasting, None
    return (planned, None) if fit <= noisy.within else (plain, noisy.epsilon_of_all)


def _noise_for_all_rounds(draft: Draft, plain: tuple[PlannedQuery, ...], fit: int) -> tuple[PlannedQuery, ...] | None:
    """Return the plan with laws for all rounds together; None if fewer than `fit` rounds fit, or an error is larger."""
    try:
        lasting = _plan_at(replace(draft, noise="always"), draft.minimum_reports)
    except (UnmetTask, TakesNoNoiseTask):  # a question that takes no noise, or too little left of epsilon_total
        return None
    if forecast_of(Plan(draft, lasting)).within < fit:
        return None
    errors = {each.name: each.expected_error for each in asked_of(plain)}
    small = all(each.expected_error <= NOISE_WORTH * errors[each.name] for each in asked_of(lasting))
    return lasting if small else None


def noise_kept_out(of: Plan) -> dict[str, str]:
    """Return why a query has no noise although the draft says `auto`, by its name: of each that keeps noise out itself.

    It is empty if planning left all noise out for epsilon_total (`Plan.noise_needs`). Questions over time and sums by
    digits have rules of their own. The errors are those of a query with its share of the budget.
    """
    draft = of.draft
    if draft.noise != "auto" or of.noise_needs is not None:
        return {}
    without = {each.name for each in of.queries if each.query.noise is None}
    asked = [each for each in draft.questions if each.name in without and not _is_repeated(each)]
    alone = replace(draft, noise="always", privacy=replace(draft.privacy, epsilon_total=None))
    errors = {each.name: each.expected_error for each in of.asked}
    why = {each.name: _no_worth(alone, each, errors[each.name]) for each in asked}
    return {name: reason for name, reason in why.items() if reason is not None}


def _no_worth(draft: Draft, question: Question, error: float) -> str | None:
    """Return why noise is not worth its error beside a question, whose error without any is given; None if it is."""
    try:
        (beside,) = _planned_rounds(draft, [question], draft.minimum_reports)
    except (UnmetTask, TakesNoNoiseTask) as why:
        return str(why.__cause__)
    if beside.expected_error <= NOISE_WORTH * error:
        return None
    return f"its standard error would be {beside.expected_error:.4g} with noise, and is {error:.4g} without"


def _planned_for_rounds(draft: Draft) -> tuple[Question, ...]:
    """Return the questions that are planned for one round each, in one message."""
    by_itself = {each.name for each in draft.questions if isinstance(each, Number) and each.digits is not None}
    return tuple(each for each in draft.questions if not _is_repeated(each) and each.name not in by_itself)


def _error_alone(draft: Draft, question: Question) -> float:
    (planned,) = _planned_rounds(replace(draft, questions=(question,)), [question], draft.minimum_reports)
    return planned.expected_error


def _plan_at(draft: Draft, reports: int) -> tuple[PlannedQuery, ...]:
    """Plan each question for this number of reports; longitudinal ones and sums by digits come first.

    The others share the rest. Kept, as what a search ends at, or a table shows, was planned before. Questions are equal
    if they differ in the share alone, for which they are planned, so that is looked at too.
    """
    return _kept_plan(draft, reports, repr(draft.questions))


@lru_cache(maxsize=32)
def _kept_plan(draft: Draft, reports: int, written: str) -> tuple[PlannedQuery, ...]:  # noqa: ARG001 - part of the key
    found: dict[str, tuple[PlannedQuery, ...]] = {}
    for question in draft.questions:
        if _is_repeated(question):
            found[question.name] = (_planned_over_time(draft, question, reports),)
        elif isinstance(question, Number) and question.digits is not None:
            found[question.name] = _planned_digits(draft, question, reports)
    others = [question for question in draft.questions if question.name not in found]
    found |= {each.name: (each,) for each in _planned_rounds(draft, others, reports)} if others else {}
    return tuple(query for question in draft.questions for query in found[question.name])


def _errors_of(draft: Draft) -> dict[str, float]:
    """Return the expected error of each question at the minimum of reports."""
    return {each.name: each.expected_error for each in asked_of(_planned_within(draft)[0])}


def _planned_within(draft: Draft) -> tuple[tuple[PlannedQuery, ...], float | None]:
    """Return what is planned at the minimum of reports, and the total that noise would need if it was left out."""
    return _within_total(draft, _plan_at(draft, draft.minimum_reports))


def _is_repeated(question: Question) -> bool:
    return isinstance(question, Repeated)


def share_of(draft: Draft, questions: Sequence[Question]) -> float:
    """Return the share of the task's privacy of these questions, rounded down so that shares never exceed the whole."""
    if len(questions) == len(draft.questions):
        return 1.0
    total = sum(question.weight for question in draft.questions)
    return sum(question.weight for question in questions) / total * (1 - 1e-12)


def _planned_over_time(draft: Draft, question: Question, reports: int) -> PlannedQuery:
    if not isinstance(question, Longitudinal):
        raise TaskError(
            f"{question.name}: planning knows no longitudinal question of kind {question.kind}; use kind longitudinal"
        )
    privacy, share = draft.privacy, share_of(draft, [question])
    total = privacy.epsilon if privacy.epsilon_total is None else privacy.epsilon_total
    local = privacy.epsilon_local * share if question.epsilon_local is None else question.epsilon_local
    goal = Goal(
        replace(Terms.of(draft), minimum_reports=reports),
        epsilon=total * share,
        local=local,
        round_epsilon=privacy.epsilon * share,
        round_local=privacy.epsilon_local * share,
        delta=privacy.delta * share,
    )
    rounds = draft.schedule.rounds
    found = longitudinal.candidates(question, rounds, goal, draft.noise)
    best = longitudinal.chosen(found)
    if best.sending is None or best.epsilon_local is None or best.epsilon_upper is None:
        raise _no_strategy(draft, question, reports, found)
    query = Query(question.frozen(best.name, rounds), best.sending, best.noise, draft.shufflers)
    costs = best.epsilon_local, best.epsilon_upper, best.standard_error_largest
    return PlannedQuery(query, *costs, float(reports), found)


def _no_strategy(
    draft: Draft, question: Question, reports: int, found: Sequence[longitudinal.StrategyCandidate]
) -> TaskError:
    """Return why no strategy is chosen: larger numbers help only if one of them does not apply for want of these."""
    told = "; ".join(f"{each.name}: {each.why_not}" for each in found)
    if any(each.unmet for each in found):
        return UnmetTask(
            f"{question.name}: no strategy meets this task's privacy at {reports} reports: {told}. Raise epsilon or "
            "minimum_reports"
        )
    kind = TakesNoNoiseTask if draft.noise == "always" else TaskError
    return kind(f"{question.name}: no strategy applies: {told}; choose another strategy, or change what it names")


def _planned_digits(draft: Draft, question: Number, reports: int) -> tuple[PlannedQuery, ...]:
    """Plan each digit of a number; all of them together keep to the question's share of the task's privacy."""
    local = draft.privacy.epsilon_local * share_of(draft, [question])
    whole, digits = plan_sum(question, _digits_target(draft, question), local, reports, draft.shufflers)
    return tuple(
        PlannedQuery(
            each.query,
            each.epsilon_local,
            each.epsilon_upper,
            each.expected_error,
            float(reports),
            digit_of=whole,
        )
        for each in digits
    )


def _digits_target(draft: Draft, question: Question) -> DigitsTarget:
    privacy, share = draft.privacy, share_of(draft, [question])
    asked = _over_rounds(draft, share)
    total = inf if asked["epsilon_total"] is None else asked["epsilon_total"]
    return DigitsTarget(privacy.epsilon * share, privacy.delta * share, asked["rounds"], total)


def _check_digits_pay(draft: Draft, planned: Sequence[PlannedQuery]) -> None:
    """Refuse a sum by digits whose error is larger than that of the same sum in one message.

    It costs all of the promise that is left if shuffler and analyzer collude, so it must be worth something.
    """
    for each in asked_of(planned):
        if isinstance(each, PlannedSum):
            alone = _in_one_message(draft, each.name)
            if not each.expected_error <= alone:
                raise UnmetTask(_no_gain(draft, each, alone))


def _in_one_message(draft: Draft, name: str) -> float:
    """Return the expected error of a question if its number is sent in one message; infinity if it cannot be."""
    questions = tuple(_without_digits(each) if each.name == name else each for each in draft.questions)
    try:
        found = _plan_at(replace(draft, questions=questions), draft.minimum_reports)
    except UnmetTask:
        return inf
    return next(each.expected_error for each in asked_of(found) if each.name == name)


def _without_digits(question: Question) -> Question:
    return replace(question, digits=None) if isinstance(question, Number) else question


def _no_gain(draft: Draft, planned: PlannedSum, alone: float) -> str:
    privacy, question, share = draft.privacy, planned.question, share_of(draft, [planned.question])
    digits = ErrorsByCap.of(question, _digits_target(draft, question), draft.minimum_reports, draft.shufflers)

    def pays(cap: float) -> bool:
        more = replace(draft, privacy=replace(privacy, epsilon_local=cap))
        return digits.at(cap * share) <= _in_one_message(more, question.name)

    cap = enough_local(privacy.epsilon_local, pays)
    remedy = "no cap that a task may have is enough: leave the digits out"
    if cap is None and digits.is_mostly_rounding and digits.question.digits != MOST_DIGITS:
        remedy = "no cap that a task may have is enough, as most of the error is rounding: use more digits or none"
    if cap is not None:
        remedy = (
            f"set epsilon_local = {cap} or more, which is then all that is promised if shuffler and analyzer collude, "
            "or leave the digits out"
        )
    return (
        f"{planned.name}: by {question.digits} digits its expected standard error is {planned.expected_error:.4g} with "
        f"epsilon_local = {privacy.epsilon_local:g}, and {alone:.4g} in one message; {remedy}"
    )


def _planned_rounds(draft: Draft, questions: Sequence[Question], reports: int) -> tuple[PlannedQuery, ...]:
    """Plan the questions whose rounds are independent of each other."""
    privacy, share = draft.privacy, share_of(draft, questions)
    designs = [Design(question) for question in questions]
    try:
        calibrations = calibrate(
            designs,
            privacy.epsilon * share,
            privacy.delta * share,
            reports,
            epsilon_local_cap=privacy.epsilon_local * share,
            honest_share=privacy.honest_share,
            dummies=privacy.dummies,
            noise=draft.noise,
            shufflers=draft.shufflers,
            **_over_rounds(draft, share),
        )
    except AccountingError as error:
        met = "no randomizers meet this task's privacy" if isinstance(error, UnmetTarget) else "no randomizer was found"
        raise task_error(error, f"{met} at {reports} reports: {error}") from error
    pairs = zip(designs, calibrations, strict=True)
    return tuple(_planned(design, chosen, reports) for design, chosen in pairs)


def _over_rounds(draft: Draft, share: float) -> dict[str, Any]:
    """Return the rounds, and, if noise is always added, the ε that all of them must fit: its law is chosen for that.

    Otherwise randomizers and laws are chosen for one round, and rounds that do not fit epsilon_total are erased.
    """
    total = draft.privacy.epsilon_total if draft.noise == "always" else None
    return {"rounds": draft.schedule.rounds, "epsilon_total": None if total is None else total * share}


def _planned(design: Design, chosen: Calibration[Randomizer], reports: int) -> PlannedQuery:
    scale = design.question.extent
    error = chosen.expected_standard_error * scale
    query = design.query(chosen.size, chosen.randomizer, chosen.noise)
    return PlannedQuery(query, chosen.epsilon_local, chosen.epsilon_upper, error, reports * scale)


def _too_wide(draft: Draft, of: PlannedQuery | PlannedSum) -> str:
    enough = _smallest_minimum(draft)
    remedy = f"minimum_reports = {enough} is enough" if enough is not None else "no allowed minimum is enough"
    return (
        f"{of.name}: the expected 95 % half-width is {half_width(of):.4g}, wider than the whole range "
        f"{of.widest:.4g} at minimum_reports = {draft.minimum_reports}; {remedy}, or choose a larger epsilon or "
        "epsilon_local, whichever limits it"
    )


def _smallest_minimum(draft: Draft) -> int | None:
    """Return a minimum at which every half-width is within its range, at most an eighth above the smallest such one."""
    # An eighth is precise enough for advice, and each try plans the whole task again.

    def does(reports: int) -> bool:
        try:
            return all(half_width(each) <= each.widest for each in asked_of(_plan_at(draft, reports)))
        except UnmetTask:
            return False

    return first_that(does, draft.minimum_reports, MAXIMUM_REPORTS)


def errors_by_epsilon(plan: Plan) -> tuple[by_error.ErrorsAtEpsilon, ...]:
    """Return the errors of the plan's queries at the ε that people choose, and at its own; all else stays."""
    return by_error.errors_by_epsilon(plan.draft, _errors_of)
