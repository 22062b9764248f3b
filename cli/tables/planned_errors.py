"""Shows a plan's expected errors: beside its alternatives, and over ε as a table and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from hubbub.cli.plots.plan import Axis, Panel, Plot, Series
from hubbub.cli.tables.printing import print_table
from hubbub.planning.alternatives import Alternative, who_must_be_honest
from hubbub.planning.by_error import ErrorsAtEpsilon
from hubbub.planning.digits import PlannedSum
from hubbub.planning.planned import Plan
from hubbub.queries.estimation.significant_digits import significant

Found = Mapping[str, Sequence[Alternative]]
"""The alternatives of each query by its name."""


def alternatives_document(found: Found) -> dict[str, object]:
    """Return the alternatives of each query as JSON values."""
    return {name: [each.as_json() for each in rows] for name, rows in found.items()}


def print_alternatives(console: Console, found: Found, own: float | None) -> None:
    """Print a table of the alternatives of each query, then why others are not, and who must be honest for each."""
    print_alternatives_alone(console, found, own)
    for sentence in alternatives_words(found):
        console.print(sentence, markup=False, soft_wrap=True)


def print_alternatives_alone(console: Console, found: Found, own: float | None) -> None:
    """Print a table of the alternatives of each query, and what the columns are.

    `own` is the task's cap on ε_local. Caps that give the same are in one row.
    """
    for name, rows in found.items():
        counts = list(dict.fromkeys(count for each in rows for count in each.errors or ()))
        table = Table("added", title=f"{name}: if the shuffler adds", title_justify="left")
        at = [f"at {count:,}" for count in counts]
        for column in ("cap", "ε_local", "added reports", "std. error", *at):
            table.add_column(column, justify="right")
        for caps, each in _joined(rows):
            table.add_row(each.added, _caps(caps, own), *_numbers(each, counts))
        print_table(console, table, spare=at)
    of_counts = any(each.errors for rows in found.values() for each in rows)
    console.print(_READING + (_AT if of_counts else ""), markup=False, soft_wrap=True)


def alternatives_words(found: Found, notes: Sequence[str] = ()) -> list[str]:
    """Return why some alternatives cannot be planned, and who must be honest for each of the others."""
    added = {each.added for rows in found.values() for each in rows}
    digits = [_DIGITS] if "digits" in added else []
    return [*_reasons(found), *notes, *digits, who_must_be_honest(added)]


_READING = (
    "cap: that on ε_local of the task, which its queries share; ε_local: this query's; added reports: on average in a "
    "batch; std. error: the worst case"
)
_AT = "; at c: that of a count of c people"


_DIGITS = (
    "digits: the sum by binary digits (`digits` in the query), each a query of its own beside noise, under caps with "
    "which that is better than one message, and the dummies of all its batches together; who must be honest is as with "
    "noise"
)


def _caps(caps: Sequence[float | None], own: float | None) -> str:
    first, last = ("none" if cap is None else f"{cap:g}" for cap in (caps[0], caps[-1]))
    text = first if first == last else f"{first} … {last}"
    return f"{text} (own)" if own in caps and len(caps) == 1 else text


def _joined(rows: Sequence[Alternative]) -> list[tuple[list[float | None], Alternative]]:
    """Return the alternatives that can be planned, those with the same numbers together."""
    joined: list[tuple[list[float | None], Alternative]] = []
    for each in rows:
        if each.why_not is not None:
            continue
        last = joined[-1][1] if joined else None
        if last is not None and (last.added, last.error) == (each.added, each.error):
            joined[-1][0].append(each.cap)
        else:
            joined.append(([each.cap], each))
    return joined


def _numbers(each: Alternative, counts: Sequence[int]) -> tuple[str, ...]:
    errors = each.errors or {}
    local, error = each.epsilon_local or 0.0, each.error or 0.0
    at = (significant((errors[count],), errors[count] / 10)[0] if count in errors else "" for count in counts)
    return (f"{local:.2f}", f"{each.dummies:,}", significant((error,), error)[0], *at)


def _reasons(found: Found) -> list[str]:
    told = [f"{each.added}: {each.why_not}" for rows in found.values() for each in rows if each.why_not is not None]
    return list(dict.fromkeys(told))


def stated_text(planned: Plan) -> str | None:
    """Return what was solved for the stated errors and what stayed as it was written; None if none is stated."""
    draft = planned.draft
    if planned.epsilon_most is None:
        return None
    stated = ", ".join(f"{name} {error:g}" for name, error in draft.errors)
    alike = len(draft.errors) > 1 and len({error for _, error in draft.errors}) == 1
    same = (
        "; one number is stated for all of them, each in its own unit: people of a count, the unit of the answers of a "
        "sum"
    )
    return (
        f"planned by error: ε = {draft.privacy.epsilon:g} is the least found that reaches the stated standard errors "
        f"({stated}); epsilon = {planned.epsilon_most:g} in the draft was the most. δ, minimum_reports, the cap on "
        f"ε_local, weights, dummies and noise stay as the draft has them{same * alike}"
    )


def unstated_text(planned: Plan) -> str | None:
    """Return the queries without a stated error, with their errors at the ε that was found; None if there are none."""
    others = _unstated(planned)
    if planned.epsilon_most is None or not others:
        return None
    errors = ", ".join(f"{name} {significant((error,), error)[0]}" for name, error in others.items())
    return (
        f"no error is stated for other queries; at ε = {planned.draft.privacy.epsilon:g} their standard errors are: "
        f"{errors}"
    )


def _unstated(planned: Plan) -> dict[str, float]:
    stated = dict(planned.draft.errors)
    return {each.name: each.expected_error for each in planned.asked if each.name not in stated}


def stated_document(planned: Plan) -> dict[str, object] | None:
    """Return the same as JSON values."""
    if planned.epsilon_most is None:
        return None
    privacy = planned.draft.privacy
    return {
        "stated": dict(planned.draft.errors),
        "unstated": _unstated(planned),
        "epsilon": privacy.epsilon,
        "epsilon_most": planned.epsilon_most,
    }


def print_errors_by_epsilon(console: Console, planned: Plan, rows: Sequence[ErrorsAtEpsilon]) -> None:
    """Print the standard error of each query at several ε of a round."""
    names = [each.name for each in planned.asked]
    table = Table("standard error at ε =")
    for name in names:
        table.add_column(name, justify="right")
    for each in rows:
        label = f"{each.epsilon:g} (this plan)" if each.planned else f"{each.epsilon:g}"
        errors = [each.errors.get(name) for name in names]
        table.add_row(label, *("" if error is None else significant((error,), error)[0] for error in errors))
    print_table(console, table)
    for each in rows:
        if each.why_not is not None:
            console.print(f"ε = {each.epsilon:g}: {each.why_not}", markup=False, soft_wrap=True)


def errors_plot(planned: Plan, rows: Sequence[ErrorsAtEpsilon]) -> Plot:
    """Return the plot of each query's standard error over ε, with the stated one, one panel for each query."""
    draft = planned.draft
    epsilons, stated = tuple(each.epsilon for each in rows), dict(draft.errors)
    caption = f"n = {draft.minimum_reports}, δ = {draft.privacy.delta:g}, ε_local ≤ {draft.privacy.epsilon_local:g}"
    panels = []
    for each in planned.asked:
        name, unit = each.name, each.planned_for
        errors = tuple(row.errors.get(name) for row in rows)
        series = [Series("expected, worst case", "promised", epsilons, errors)]
        if name in stated:
            series.append(Series("stated", "stated", epsilons, (stated[name],) * len(epsilons)))
        axes = Axis("ε of a round", "log"), Axis(f"standard error of {unit}", "log")
        panels.append(Panel(name, *axes, tuple(series), shaded=False))
    return Plot(f"{draft.name}: error over ε, {caption}", caption, tuple(panels))


def digits_words(planned: Plan) -> Iterator[str]:
    """Yield what a sum by digits gives up, for each that the plan has."""
    for each in planned.asked:
        if isinstance(each, PlannedSum):
            yield (
                f"{each.name}: asked by {len(each.queries)} digits, each a query of its own with noise of its own; if "
                f"shuffler and analyzer collude, ε_local = {each.epsilon_local:.4f} is all that is left for it, and "
                "one above 20 is next to no promise"
            )
