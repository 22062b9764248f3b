"""Checks a task and plans its randomizers: `hubbub plan TASK.toml`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hubbub.cli.output import Json, console, failures, print_json
from hubbub.cli.progress import progress_bars

if TYPE_CHECKING:
    from rich.console import Console

    from hubbub.accountant.spending.budget import BudgetForecast
    from hubbub.planning.alternatives import Alternative
    from hubbub.planning.by_error import ErrorsAtEpsilon
    from hubbub.planning.plan import Plan, PlannedQuery
    from hubbub.protos.task.task import Draft
    from hubbub.queries.query import Query

_COLUMNS = (
    "k: the answers that a report distinguishes; ε_local: what the query promises if all services collude; "
    "ε by itself: what this query costs by itself, without the other queries; 95 % ±: half of the 95 % interval; "
    "range: the most that is possible"
)

_MORE = "--compare shows the errors if the shuffler adds nothing, dummies or noise, under several caps on ε_local"


def command(
    task: Annotated[Path, typer.Argument(metavar="TASK.toml", help="The task as written by hand.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the planned task to this file, to be signed.")
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(
            "--trust",
            help="Folder with the parties' *.pub.pem, for --out; the hops that have a key there count as shufflers. "
            "[default: trust/ next to TASK.toml]",
        ),
    ] = None,
    capacity: Annotated[
        float | None,
        typer.Option("--capacity", metavar="N", help="Also estimate the machines that N submissions a day need."),
    ] = None,
    peak: Annotated[
        float | None,
        typer.Option(
            "--peak",
            metavar="N",
            help="With --capacity: the peak rate, as a multiple of the average. [default: 3]",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            "--costs",
            metavar="bench.json",
            help="With --capacity: costs measured by `make bench` on your machine. [default: costs of two cores]",
        ),
    ] = None,
    core_hour: Annotated[
        float | None,
        typer.Option("--core-hour", metavar="PRICE", help="With --capacity: price of one core for one hour."),
    ] = None,
    gigabyte_month: Annotated[
        float | None,
        typer.Option("--gigabyte-month", metavar="PRICE", help="With --capacity: price of 1 GB of disk for 30 days."),
    ] = None,
    error: Annotated[
        list[str] | None,
        typer.Option(
            "--error",
            metavar="QUERY=ERROR",
            help="A standard error that a query must reach, in its unit; ERROR alone is for every query. Repeatable; "
            "it replaces the draft's `error`.",
        ),
    ] = None,
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare",
            help="Also plan the task with uniform dummies, with noise and with other caps. [default: without dummies, "
            "if that is quick]",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="Draw the errors over ε into this .svg or .png; needs hubbub[plots]."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a task, choose its randomizers and predict its errors.

    Nobody is asked anything: the errors are computed from the task alone.

    With --error, or `error` in the draft, ε is solved for: it is the least one, up to the draft's epsilon, with which
    each stated error is reached at the minimum of reports. δ, the minimum, the cap on ε_local, weights, dummies and
    noise stay as they are written. A task written by --out has the ε that was found.

    With --compare it also shows the errors that the task would have if the shuffler added nothing, uniform dummies or
    noise, under several caps on ε_local, and at several ε.

    With --capacity it also prints the rates, bytes, cores and hours that each step needs, and the limits of one
    machine that are exceeded. These figures are computed from measured costs; --costs takes the costs of your own
    machine.

    Examples: hubbub plan deployment/operator/task.toml --out deployment/operator/task.json;
    hubbub plan deployment/operator/task.toml --capacity 1e6;
    hubbub plan deployment/operator/task.toml --error 30 --picture errors.svg
    """
    with failures(as_json):
        import time

        from hubbub.deploy.files import draft_in, naming
        from hubbub.deploy.pki.trusted_keys import shufflers_in
        from hubbub.planning.capacity import CapacityRequest
        from hubbub.planning.plan import check_not_over, forecast_of

        asked = CapacityRequest.asked(capacity, peak, costs, core_hour, gigabyte_month)
        keys = trust or task.parent / "trust"
        # Every shuffler of the chain adds noise, so the errors depend on how many hops the task will name.
        draft = replace(_with_errors(draft_in(task), error or ()), shufflers=shufflers_in(keys))
        _check_picture(picture)
        with naming(task):
            check_not_over(draft, time.time())
        if out is not None:
            _check_trust(keys)
        with naming(task):
            planned = _planned(draft)
        more = _compared(planned, compare, picture)
        task_id = _write(planned, out, keys) if out is not None else None
        budget = forecast_of(planned)
        if as_json:
            members = _document(planned, task_id) | {"budget": _budget_document(planned, budget)}
            members |= _more_document(planned, more)
            print_json(members | ({} if asked is None else {"capacity": asked.document(planned)}))
        else:
            _print(planned, budget, out, more)
            if asked is not None:
                from hubbub.cli.tables.capacity import print_capacity

                print_capacity(console(), asked.of(planned), asked.costs, planned.draft.suite)


@dataclass(frozen=True)
class Compared:
    """What is shown beside a plan, as far as it was computed: the alternatives by query, and the errors over ε."""

    alternatives: Mapping[str, Sequence[Alternative]]
    by_epsilon: Sequence[ErrorsAtEpsilon]
    picture: Path | None


def _with_errors(draft: Draft, words: Sequence[str]) -> Draft:
    """Return the draft with the errors of the options, in place of those that it states.

    Raises:
        UsageError: if one is no QUERY=ERROR, no query has that name, its error is not above 0, or a query has two.
    """
    from hubbub.protos.errors import UsageError
    from hubbub.queries.longitudinal.over_rounds import Repeated
    from hubbub.queries.questions.question import listed

    if not words:
        return draft
    every = [question.name for question in draft.questions if not isinstance(question, Repeated)]
    found: dict[str, float] = {}
    for word in words:
        name, stated, number = word.rpartition("=")
        if stated and name not in every:
            raise UsageError(f"--error {word!r}: the queries that take an error are {listed(every)}; name one of them")
        error = _error_in(word, number)
        for asked in [name] if stated else every:
            if asked in found:
                raise UsageError(
                    f"--error {word}: {asked} has the error {found[asked]:g} already; state one for each query"
                )
            found[asked] = error
    return replace(draft, errors=tuple(found.items()))


def _error_in(word: str, number: str) -> float:
    from hubbub.protos.errors import UsageError

    try:
        value = float(number)
    except ValueError as error:
        raise UsageError(f"--error {word!r} is not QUERY=ERROR or ERROR, such as carrier=30 or 30") from error
    if not 0 < value < inf:
        raise UsageError(
            f"--error {word}: give a standard error above 0, in the unit of the estimate, such as 30 people"
        )
    return value


def _check_picture(picture: Path | None) -> None:
    """Refuse a picture that could not be drawn, before anything is planned."""
    if picture is not None:
        from hubbub.cli.plots.draw import check_drawable

        check_drawable(picture, "--picture")


def _planned(draft: Draft) -> Plan:
    from hubbub.planning.plan import plan

    if not draft.errors:
        return plan(draft)
    with progress_bars() as bars:
        bar = bars.add_task("solving for ε", total=None)
        planned = plan(draft)
        bars.update(bar, total=1, completed=1)
    return planned


def _compared(planned: Plan, compare: bool | None, picture: Path | None) -> Compared:
    """Compute what is shown beside a plan: alternatives that are quick or asked for, and errors over ε if asked for."""
    from hubbub.planning import alternatives
    from hubbub.planning.by_error import USUAL_EPSILONS
    from hubbub.planning.plan import errors_by_epsilon

    draft = planned.draft
    shown = alternatives.is_quick(draft) if compare is None else compare
    asked = compare or planned.epsilon_most is not None
    over_epsilon = picture is not None or (asked and compare is not False)
    if not shown and not over_epsilon:
        return Compared({}, (), None)
    with_dummies, points = compare is True, len(USUAL_EPSILONS) + 1 if over_epsilon else 0
    with progress_bars() as bars:
        steps = alternatives.alternative_steps(draft, with_dummies) if shown else 0
        bar = bars.add_task("comparing", total=steps + points)
        found = alternatives.alternatives_of(draft, with_dummies, lambda: bars.advance(bar)) if shown else {}
        rows = errors_by_epsilon(planned) if over_epsilon else ()
        bars.update(bar, completed=steps + points)
    return Compared(found, rows, picture)


def _more_document(planned: Plan, more: Compared) -> dict[str, object]:
    """Write the picture, and return what is beside the plan as JSON values."""
    from hubbub.cli.tables.planned_errors import alternatives_document, stated_document

    members: dict[str, object] = {"alternatives": alternatives_document(more.alternatives)} if more.alternatives else {}
    stated = stated_document(planned)
    members |= {} if stated is None else {"by_error": stated}
    members |= {"errors_by_epsilon": [each.as_json() for each in more.by_epsilon]} if more.by_epsilon else {}
    _draw(planned, more)
    return members


def _draw(planned: Plan, more: Compared) -> None:
    if more.picture is not None:
        from hubbub.cli.plots.draw import check_drawable, drawn
        from hubbub.cli.tables.planned_errors import errors_plot
        from hubbub.deploy.files import save

        save(more.picture, drawn(errors_plot(planned, more.by_epsilon), check_drawable(more.picture, "--picture")))


def _print_compared(planned: Plan, more: Compared) -> None:
    from hubbub.cli.tables.planned_errors import (
        print_alternatives,
        print_errors_by_epsilon,
        stated_text,
        unstated_text,
    )

    printer, privacy, rounds = console(), planned.draft.privacy, planned.draft.schedule.rounds
    for sentence in (stated_text(planned), unstated_text(planned)):
        if sentence is not None:
            printer.print(sentence, markup=False, soft_wrap=True)
    if more.by_epsilon:
        print_errors_by_epsilon(printer, planned, more.by_epsilon)
    if more.alternatives:
        together = f"each is planned so that all {rounds} rounds fit epsilon_total = {privacy.epsilon_total}"
        notes = (together,) if rounds > 1 and privacy.epsilon_total is not None else ()
        print_alternatives(printer, more.alternatives, privacy.epsilon_local, notes)
    else:
        printer.print(_MORE, markup=False, soft_wrap=True)
    if more.picture is not None:
        _draw(planned, more)
        printer.print(f"wrote {more.picture}", markup=False, soft_wrap=True)


def _document(planned: Plan, task_id: str | None) -> dict[str, object]:
    from hubbub.cli.tables.flooding import flood_document
    from hubbub.cli.tables.prefixes import steps_document
    from hubbub.planning.full_rounds import too_weak_when_full
    from hubbub.planning.plan import candidates_of, expected_errors, expected_sums, steps_of
    from hubbub.protos.task.task import largest_delta

    members: dict[str, object] = {
        "task": planned.draft.name,
        "task_id": task_id,
        "suite": planned.draft.suite,
        "shufflers": planned.draft.shufflers,
        "submission_bytes": planned.submission_bytes,
        "maximum_reports": planned.draft.most_reports,
        "maximum_disk_bytes": planned.most_disk_bytes,
        "largest_delta": largest_delta(planned.draft.minimum_reports),
        "too_weak_when_full": too_weak_when_full(planned),
        "queries": expected_errors(planned.queries),
    }
    sums = expected_sums(planned.queries)
    members |= {"sums": sums} if sums else {}
    compared = {name: [each.as_json() for each in found] for name, found in candidates_of(planned).items()}
    members |= {"compared": compared} if compared else {}
    prefixes = {name: steps_document(steps) for name, steps in steps_of(planned).items()}
    members |= {"prefixes": prefixes} if prefixes else {}
    return members | {"flood": flood_document(planned)}


def _check_trust(folder: Path) -> None:
    """Refuse a missing folder of public keys before the plan is made, which takes up to half a minute."""
    from hubbub.protos.errors import UsageError

    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder} with the parties' public keys; name the operator's trust/ with --trust, or "
            "put the draft next to it"
        )


def _write(planned: Plan, out: Path, trust: Path) -> str:
    from hubbub.deploy.files import save
    from hubbub.deploy.pki.trusted_keys import identities_in
    from hubbub.protos.task.signed_task import SignedTask

    frozen = planned.task(identities_in(trust))
    save(out, SignedTask(frozen).encode())
    return frozen.id.hex()


def _budget_document(planned: Plan, budget: BudgetForecast) -> dict[str, object]:
    return {
        "epsilon_total": planned.draft.privacy.epsilon_total,
        "rounds": budget.rounds,
        "rounds_within": budget.within,
        "epsilon_of_one_round": budget.epsilon_of_one,
        "epsilon_of_all_rounds": budget.epsilon_of_all,
        "epsilon_local_of_all_rounds": budget.local_of_all,
    }


def _budget_text(planned: Plan, budget: BudgetForecast) -> str:
    from hubbub.accountant.numbers import round_up_significant

    total, delta = planned.draft.privacy.epsilon_total, planned.draft.privacy.delta
    cost = f"one round costs ε ≤ {budget.epsilon_of_one:.6g} at the minimum"
    if budget.rounds > 1:
        cost += f", all {budget.rounds} rounds together ε ≤ {budget.epsilon_of_all:.6g}"
    which = f"all {budget.rounds} rounds" if budget.rounds > 1 else "one round"
    cost += f", at δ = {delta:g}; by the device alone {which}: ε ≤ {round_up_significant(budget.local_of_all):.6g}"
    if total is None:
        return f"{cost}; the task has no epsilon_total, so nothing limits what its rounds cost together"
    if budget.within == budget.rounds:
        return f"{cost}; all rounds fit epsilon_total = {total:g}"
    return (
        f"{cost}; {budget.within} of {budget.rounds} rounds fit epsilon_total = {total:g}, the others are erased and "
        "never released"
    )


def _sealing_text(planned: Plan) -> str:
    from hubbub.protos.sealing.suites import suite_named

    suite = suite_named(planned.draft.suite)
    return (
        f"sealed with {suite.name} ({suite.words}): a submission has {planned.submission_bytes:,} bytes; "
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
    from hubbub.planning.plan import sent_by

    content = query.randomizer.content()
    ratios = [f"{key} {value[0] / value[1]:.6f}" for key, value in content.items() if isinstance(value, list)]
    sizes = [f"{key} {value}" for key, value in content.items() if isinstance(value, int) and key != "categories"]
    return ", ".join([sent_by(query), *sizes, *ratios])


def _print_strategies(printer: Console, each: PlannedQuery) -> None:
    """Print what each strategy for a longitudinal question costs, and which was chosen."""
    from hubbub.cli.tables.tables import print_table

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
    from hubbub.accountant.certificate.ladder import ALONE, ladder_words
    from hubbub.accountant.certificate.terms import Terms
    from hubbub.accountant.mechanisms import WithNoise
    from hubbub.queries.longitudinal.tree import SendingNodes

    queries = [each.query for each in planned.queries]
    if planned.draft.noise == "auto":
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
    from hubbub.accountant.calibration.noise import NOISE_WORTH

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


def _print(planned: Plan, budget: BudgetForecast, out: Path | None, more: Compared) -> None:
    from hubbub.cli.tables.delta_warnings import delta_text, full_warning
    from hubbub.cli.tables.flooding import print_flood
    from hubbub.planning.full_rounds import too_weak_when_full

    draft, privacy = planned.draft, planned.draft.privacy
    printer = console()
    printer.print(
        f"task {draft.name}: ε = {privacy.epsilon:g} at δ = {privacy.delta:g} for everything one person sends in a "
        f"round of at least {draft.minimum_reports} reports",
        markup=False,
        soft_wrap=True,
    )
    _print_queries(planned)
    printer.print(_COLUMNS, markup=False, soft_wrap=True)
    _print_comparisons(planned)
    _print_compared(planned, more)
    _print_randomizers(printer, planned)
    printer.print("errors are worst cases, at the task's minimum of reports", markup=False, soft_wrap=True)
    printer.print(_budget_text(planned, budget), markup=False, soft_wrap=True)
    _print_steps(planned, budget)
    print_flood(printer, planned)
    printer.print(_sealing_text(planned), markup=False, soft_wrap=True)
    printer.print(_most_text(planned), markup=False, soft_wrap=True)
    printer.print(delta_text(privacy, draft.minimum_reports), markup=False, soft_wrap=True)
    warning = full_warning(privacy, draft.most_reports, too_weak_when_full(planned))
    if warning is not None:
        printer.print(warning, markup=False, soft_wrap=True)
    if out is not None:
        printer.print(
            f"wrote {out}; next, operator and shuffler sign it: hubbub sign {shlex.quote(str(out))} --key …",
            markup=False,
            soft_wrap=True,
        )


def _print_randomizers(printer: Console, planned: Plan) -> None:
    """Print how each query is randomized, and what its noise and its randomizer are."""
    from hubbub.cli.tables.planned_errors import digits_words
    from hubbub.cli.tables.randomizers import meanings
    from hubbub.planning.plan import sent_by

    for each in planned.queries:
        printer.print(_words(each.query), markup=False, soft_wrap=True)
        if each.strategies:
            _print_strategies(printer, each)
    for sentence in (*digits_words(planned), *_noise_words(planned)):
        printer.print(sentence, markup=False, soft_wrap=True)
    for sentence in meanings(sent_by(each.query) for each in planned.queries):
        printer.print(sentence, markup=False, soft_wrap=True)


def _print_queries(planned: Plan) -> None:
    """Print a row for each query."""
    from hubbub.cli.tables.significant_digits import significant
    from hubbub.cli.tables.tables import print_table
    from hubbub.planning.digits import PlannedSum
    from hubbub.planning.plan import PlannedQuery, half_width, symbols_named

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
                str(symbols),
                f"{each.epsilon_local:.4f}",
                f"{each.epsilon_upper:.4f}",
                *significant((each.expected_error, half_width(each)), each.expected_error),
                f"{each.widest:.6g}",
            )
    print_table(console(), table)


def _print_steps(planned: Plan, budget: BudgetForecast) -> None:
    """Print what each round finds of the texts that are asked by prefixes."""
    from hubbub.cli.tables.prefixes import print_steps
    from hubbub.planning.plan import steps_of

    for name, steps in steps_of(planned).items():
        print_steps(console(), name, steps, budget.within)


def _print_comparisons(planned: Plan) -> None:
    """Print the comparison for each query whose randomizer the draft leaves open."""
    from hubbub.cli.tables.randomizers import print_candidates
    from hubbub.planning.comparison import best
    from hubbub.planning.plan import candidates_of

    for name, candidates in candidates_of(planned).items():
        console().print(f"{name}: randomizers compared by the standard error of a count", soft_wrap=True)
        print_candidates(console(), candidates, best(candidates, planned.draft.privacy.dummies))
