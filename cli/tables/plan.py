"""Shows a plan: what everyone keeps and the tables to decide by; behind --explain all that these rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from hubbub.accountant.calibration.noise import NOISE_WORTH
from hubbub.accountant.certificate.alone import weak_noise
from hubbub.accountant.certificate.ladder import ALONE, ladder_words
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.numbers import round_up_significant
from hubbub.accountant.spending.budget import BudgetForecast
from hubbub.cli.tables.delta_warnings import delta_text, full_warning
from hubbub.cli.tables.flooding import flood_texts, hides_everyone, print_flood
from hubbub.cli.tables.planned_errors import (
    alternatives_words,
    digits_words,
    print_alternatives_alone,
    print_errors_by_epsilon,
    stated_text,
    unstated_text,
)
from hubbub.cli.tables.prefixes import print_steps, steps_words
from hubbub.cli.tables.printing import print_table
from hubbub.cli.tables.randomizers import meanings, print_candidates
from hubbub.planning.alternatives import Alternative
from hubbub.planning.by_error import ErrorsAtEpsilon
from hubbub.planning.comparison import best, candidates_of
from hubbub.planning.digits import PlannedSum
from hubbub.planning.plan import noise_kept_out
from hubbub.planning.planned import Plan, PlannedQuery, half_width, sent_by, steps_of, symbols_named, too_weak_when_full
from hubbub.planning.task_words import promise_sentence
from hubbub.protos.sealing.suites import suite_named
from hubbub.protos.task.task import is_large
from hubbub.queries.estimation.significant_digits import significant
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.query import Query

_ERRORS = (
    "std. error: of the worst case, at the minimum of reports; 95 % ±: half of the 95 % interval; range: the most that "
    "is possible"
)

_COSTS = (
    "k: the answers that a report distinguishes; ε_local: what the query promises if all services collude; "
    "ε by itself: what this query costs by itself, without the other queries"
)
_COSTS_BY_NOISE = f"{_COSTS}, by the shuffler's noise, even if everybody else lies"

WHOLE_FROM = 1000
"""A range from here on is printed as a whole number."""

_MORE = "--compare shows the errors if the shuffler adds nothing, dummies or noise, under several caps on ε_local"


@dataclass(frozen=True)
class Compared:
    """What is shown beside a plan, as far as it was computed: the alternatives by query, and the errors over ε."""

    alternatives: Mapping[str, Sequence[Alternative]]
    by_epsilon: Sequence[ErrorsAtEpsilon]


def print_plan(printer: Console, planned: Plan, budget: BudgetForecast, more: Compared, explain: bool = False) -> None:
    """Print what everyone keeps, then the tables to decide by, and what limits them; with `explain` all the rest."""
    draft, privacy = planned.draft, planned.draft.privacy
    everyone, mechanisms = hides_everyone(planned), {each.name: each.query.mechanism for each in planned.queries}
    _say(printer, promise_sentence(draft, [each.query for each in planned.queries], everyone))
    # Where only some queries have noise, what a flood leaves says the same.
    if all(each.query.noise is not None for each in planned.queries):
        _say(printer, weak_noise(Terms.of(draft), mechanisms))
    _print_queries(printer, planned)
    costs = _COSTS_BY_NOISE if everyone else _COSTS
    _say(printer, _ERRORS, costs, stated_text(planned), unstated_text(planned))
    if more.by_epsilon:
        print_errors_by_epsilon(printer, planned, more.by_epsilon)
    if more.alternatives:
        print_alternatives_alone(printer, more.alternatives, privacy.epsilon_local)
    for name, steps in steps_of(planned).items():
        print_steps(printer, name, steps, budget.within)
    warning = full_warning(privacy, draft.most_reports, too_weak_when_full(planned))
    _say(
        printer,
        *_chosen_texts(planned),
        *digits_words(planned),
        _budget_text(planned, budget, everyone),
        *_noise_left_out(planned),
    )
    if not explain:
        _say(printer, *flood_texts(planned))
    if is_large(privacy.delta, draft.minimum_reports) and not explain:
        _say(printer, delta_text(privacy, draft.minimum_reports))
    if explain:
        _print_explained(printer, planned, more)
    _say(printer, warning)


def _say(printer: Console, *sentences: str | None) -> None:
    for sentence in sentences:
        if sentence is not None:
            printer.print(sentence, markup=False, soft_wrap=True)


def _print_explained(printer: Console, planned: Plan, more: Compared) -> None:
    """Print what the tables rest on: the randomizers and their noise, floods, sealing, disk and δ."""
    draft, privacy = planned.draft, planned.draft.privacy
    _print_comparisons(printer, planned)
    if more.alternatives:
        together = (
            f"each is planned so that all {draft.schedule.rounds} rounds fit epsilon_total = {privacy.epsilon_total}"
        )
        notes = (together,) if draft.schedule.rounds > 1 and privacy.epsilon_total is not None else ()
        _say(printer, *alternatives_words(more.alternatives, notes))
    else:
        _say(printer, _MORE)
    _print_randomizers(printer, planned)
    _say(printer, *(steps_words(name) for name in steps_of(planned)))
    print_flood(printer, planned)
    _say(printer, _sealing_text(planned), _most_text(planned), delta_text(privacy, draft.minimum_reports))


def _chosen_texts(planned: Plan) -> Iterator[str]:
    """Yield which randomizer or strategy planning chose, for each query whose draft leaves it open."""
    compared = candidates_of(planned)
    for each in planned.queries:
        tried = [found.kind for found in compared.get(each.query.name, ()) if found.chosen is not None]
        tried = tried or [found.sent for found in each.strategies if found.sending is not None]
        if len(tried) > 1:
            yield (
                f"{each.query.name}: {sent_by(each.query)} is chosen, of {', '.join(dict.fromkeys(tried))}, by its "
                "error; --explain compares them"
            )


def _noise_left_out(planned: Plan) -> list[str]:
    """Return that noise is left out for epsilon_total, or which queries keep it out, each with why."""
    if planned.noise_needs is not None:
        return [_auto_words(planned)]
    return [f"noise = auto: {name} has none: {why}" for name, why in noise_kept_out(planned).items()]


def _budget_text(planned: Plan, budget: BudgetForecast, everyone: bool) -> str:
    total, delta = planned.draft.privacy.epsilon_total, planned.draft.privacy.delta
    one, every = budget.alone_of_one, budget.alone_of_all
    # If the first line promises what holds whatever others do (to `everyone`), these numbers must hold so too.
    if one is None or every is None or not everyone:
        one, every = budget.epsilon_of_one, budget.epsilon_of_all
    cost = f"on the first line's condition, one round costs ε ≤ {round_up_significant(one):.6g} at the minimum"
    if budget.rounds > 1:
        cost += f", all {budget.rounds} rounds together ε ≤ {round_up_significant(every):.6g}"
    which, verb = (f"all {budget.rounds} rounds", "cost") if budget.rounds > 1 else ("one round", "costs")
    local = round_up_significant(budget.local_of_all)
    cost += f", at δ = {delta:g}; if all services collude, {which} {verb} ε ≤ {local:.6g}"
    if total is None:
        return f"{cost}; the task has no epsilon_total, so nothing limits what its rounds cost together"
    if budget.within == budget.rounds:
        charged = ", which is charged for honest people" if every > total else ""
        return f"{cost}; all rounds fit epsilon_total = {total:g}{charged}"
    return (
        f"{cost}; {budget.within} of {budget.rounds} rounds fit epsilon_total = {total:g}, the others are erased and "
        "never released"
    )


def _sealing_text(planned: Plan) -> str:
    suite = suite_named(planned.draft.suite)
    return (
        f"sealed with {suite.name} ({suite.words}): a submission's envelope has {planned.submission_bytes:,} bytes; "
        f"sealing adds {suite.overhead_bytes:,} bytes to each query's report and {suite.overhead_bytes:,} to the whole"
    )


def _most_text(planned: Plan) -> str:
    draft = planned.draft
    usual = "" if draft.maximum_reports is not None else " (the default, as the task has no maximum_reports)"
    return (
        f"a round takes at most {draft.most_reports:,} submissions{usual}, which need "
        f"{planned.most_disk_bytes / 1e9:.2g} GB of the shuffler's disk until it is mixed; more are refused as "
        "round_full"
    )


def _randomizer(query: Query) -> str:
    """Return a randomizer's kind and its probabilities, to six digits."""
    content = query.randomizer.content()
    ratios = [f"{key} {value[0] / value[1]:.6f}" for key, value in content.items() if isinstance(value, list)]
    sizes = [f"{key} {value}" for key, value in content.items() if isinstance(value, int) and key != "categories"]
    return ", ".join([sent_by(query), *sizes, *ratios])


def _print_strategies(printer: Console, each: PlannedQuery) -> None:
    """Print what each strategy for a longitudinal question costs, and which was chosen."""
    columns = ("ε over all rounds", "ε_local over all", "std. error, mean", "largest")
    table = Table(f"{each.query.name}: strategy")
    for column in columns:
        table.add_column(column, justify="right")
    for found in each.strategies:
        document = found.as_json()
        names = ("epsilon_upper", "epsilon_local", "standard_error_mean", "standard_error_largest")
        numbers = ["" if document[name] is None else f"{document[name]:.5g}" for name in names]
        taken = " (chosen)" if found.sending is each.query.randomizer else ""
        table.add_row(f"{found.sent}{taken}", *numbers)
    print_table(printer, table)
    for found in each.strategies:
        if found.why_not is not None:
            printer.print(f"{found.name} does not apply: {found.why_not}", markup=False, soft_wrap=True)


def _words(query: Query) -> str:
    return f"{query.name}: randomizer {_randomizer(query)}; its error is that of {query.question.planned_for}"


def _noise_words(planned: Plan) -> Iterator[str]:
    """Yield what the shuffler adds to each query, by which rule, and who must be honest for what that promises."""
    queries = [each.query for each in planned.queries]
    if planned.draft.noise == "auto" and planned.noise_needs is None:
        yield _auto_words(planned)
    for query in queries:
        beside = query.mechanism
        if isinstance(beside, WithNoise):
            law, shufflers = beside.noise, query.shufflers
            # Only of a tree's node has one symbol more dummies than the others: its value 0, of which none is drawn.
            falling = isinstance(query.randomizer, SendingNodes) and query.symbols > 2
            of = "-1 and of +1" if falling else "each symbol"
            total = f"{query.expected_noise:,} in all{'' if beside.fixed_total else ' on average'}"
            who = "the shuffler" if shufflers == 1 else f"each of the {shufflers} shufflers"
            yield (
                f"{query.name}: {who} adds noise: of {of} a random number of reports, {law.reach:,} on average, "
                f"of standard deviation {float(law.variance) ** 0.5:.3g} ({law.family}); {total}"
            )
    if any(query.noise is not None for query in queries):
        if planned.draft.shufflers > 1:
            more = planned.draft.shufflers**0.5
            yield (
                f"noise: one honest shuffler of the {planned.draft.shufflers} is enough; for that, the standard "
                f"deviation of all noise is {more:.3g} times that of one shuffler's"
            )
        words = ladder_words(Terms.of(planned.draft), {each.name: each.mechanism for each in queries}, 1)
        yield f"noise: its ε holds {words[ALONE]}"
        yield f"ε_local holds {words['epsilon_local']}"


def _auto_words(planned: Plan) -> str:
    if planned.noise_needs is not None:
        none = "no noise but that of digits" if any(each.query.noise for each in planned.queries) else "no noise"
        return (
            f"noise = auto: {none}, as fewer rounds would fit epsilon_total; with epsilon_total = "
            f"{planned.noise_needs:.6g} all rounds fit with noise"
        )
    return (
        "noise = auto: a query has noise if it can, and if no query's standard error is then more than "
        f"{100 * (NOISE_WORTH - 1):.0f} % above that without noise"
    )


def _print_randomizers(printer: Console, planned: Plan) -> None:
    """Print how each query is randomized, and what its noise and its randomizer are."""
    for each in planned.queries:
        printer.print(_words(each.query), markup=False, soft_wrap=True)
        if each.strategies:
            _print_strategies(printer, each)
    for sentence in (*digits_words(planned), *_noise_words(planned)):
        printer.print(sentence, markup=False, soft_wrap=True)
    for sentence in meanings(sent_by(each.query) for each in planned.queries):
        printer.print(sentence, markup=False, soft_wrap=True)


def _print_queries(printer: Console, planned: Plan) -> None:
    """Print a row for each query."""
    table = Table("query")
    for column in ("k", "ε_local", "ε by itself", "std. error", "95 % ±", "range"):
        table.add_column(column, justify="right")
    digits = {each.name: each for each in planned.queries if each.digit_of is not None}
    for asked in planned.asked:
        rows: list[PlannedQuery | PlannedSum] = [asked]
        rows += [digits[query.name] for query in asked.queries] if isinstance(asked, PlannedSum) else []
        for each in rows:
            symbols = symbols_named(each.query) or "any text" if isinstance(each, PlannedQuery) else ""
            table.add_row(
                each.name,
                f"{symbols:,}" if isinstance(symbols, int) else symbols,
                f"{each.epsilon_local:.4f}",
                f"{each.epsilon_upper:.4f}",
                *significant((each.expected_error, half_width(each)), each.expected_error),
                f"{each.widest:,.0f}" if each.widest >= WHOLE_FROM else f"{each.widest:.6g}",
            )
    print_table(printer, table)


def _print_comparisons(printer: Console, planned: Plan) -> None:
    """Print the comparison for each query whose randomizer the draft leaves open."""
    for name, candidates in candidates_of(planned).items():
        printer.print(f"{name}: randomizers compared by the standard error of a count", soft_wrap=True)
        print_candidates(printer, candidates, best(candidates, planned.draft.privacy.dummies))
