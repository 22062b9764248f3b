"""Pages of an analyst: tasks, a round's estimates, series over rounds, and the comparison of two rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from hubbub.accountant.errors import AccountingError
from hubbub.pages import charts
from hubbub.pages.dashboard.desk import NotThere, ShownRound, ShownTask, TaskDesk, left_of
from hubbub.pages.dashboard.site import Site, asked, number_of, whole_number
from hubbub.pages.shown_rows import parts, table
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.results import QueryResult, SumResult
from hubbub.queries.estimation.significant_digits import fineness, significant
from hubbub.results import Difference, PublishedRow

SHOWN_ROUNDS = 20
"""Rounds in the table below a series; the files to download have all."""


LOOK_UP = "Texts are not shown here: hubbub results --candidates FILE looks up those that you list in a file."
"""Said of a query that takes any text: its rows follow from what somebody looks up."""


def tasks(site: Site, _request: Request) -> Response:
    """Show every task."""

    def kept() -> list[tuple[ListedTask, ShownTask]]:
        return [(ListedTask(bytes.fromhex(id_), each.task.name), each) for id_, each in site.desk.known().items()]

    found, problem = asked(site.desk.tasks, kept)
    return site.page("analyst/tasks.html", tasks=found, problem=problem)


def task(site: Site, request: Request) -> Response:
    """Show a task: who asks what, the budget, and its rounds. The rounds are checked from here on."""
    task_id = request.path_params["task"]
    shown, desk = site.desk.task(task_id), site.desk.of(task_id)

    def looked() -> TaskDesk:
        listed = site.desk.listed(task_id).listed
        if listed and max(listed) not in desk.wrong:
            site.desk.round(task_id, max(listed))
        return site.desk.check_all(task_id)

    _, problem = asked(looked, lambda: desk)
    return site.page(
        "analyst/task.html",
        shown=shown,
        task=shown.task,
        desk=desk,
        budget=_budget(shown, desk.newest),
        rounds=desk.part("rounds", lambda: _rounds(site, shown, desk)),
        queries=desk.newest.table.queries if desk.newest else (),
        problem=problem,
    )


def _rounds(site: Site, shown: ShownTask, desk: TaskDesk) -> Markup:
    lines = site.templates.get_template("analyst/rounds.html").render(shown=shown, task=shown.task, desk=desk)
    return Markup(lines)  # noqa: S704 - the template escaped it


@dataclass(frozen=True)
class Spent:
    """What a task's rounds cost so far, and what is left; None where it is not known or has no limit."""

    picture: Markup
    left: float | None
    rounds_left: int
    within: int | None


def _budget(shown: ShownTask, newest: ShownRound | None) -> Spent | None:
    if newest is None:
        return None
    whole = shown.task.privacy.epsilon_total
    try:
        within = None if whole is None else shown.budget.within
    except AccountingError:
        within = None
    left = None if whole is None else left_of(newest.spent, whole)
    after = shown.task.schedule.rounds - newest.number - 1
    # The newest round may be one that is not shown, and spent more.
    picture = charts.budget(newest.spent, whole, about=f"all rounds up to round {newest.number}")
    return Spent(picture, left, after, within)


@dataclass(frozen=True)
class ShownQuery:
    """One query of a round as a page shows it."""

    name: str
    result: QueryResult | None
    withheld: str | None
    pictures: Sequence[tuple[Markup, Markup]]
    notes: Sequence[str]


def round_(site: Site, request: Request) -> Response:
    """Show a round's estimates, and what its certificate promises."""
    task_id, text = request.path_params["task"], request.path_params["number"]
    number = number_of(text)
    if number is None:
        raise NotThere(f"{text!r:.40} is no round's number; the task's page lists the rounds")
    found = site.desk.round(task_id, number)
    desk = site.desk.of(task_id)
    return site.page(
        "analyst/round.html",
        shown=site.desk.task(task_id),
        found=found,
        listed=desk.listed,
        queries=desk.part(("round", number), lambda: _queries(site, found)),
    )


def _queries(site: Site, found: ShownRound) -> Markup:
    made = [shown_query(found, name) for name in found.table.queries]
    return Markup(site.templates.get_template("analyst/queries.html").render(queries=made))  # noqa: S704 - escaped there


def shown_query(found: ShownRound, name: str) -> ShownQuery:
    """Return the pictures and tables of a query, or why it is withheld."""
    rows = found.table.where(query=name).rows
    results: dict[str, QueryResult | SumResult] = {each.name: each for each in found.results.sums}
    results |= {each.name: each for each in found.results.queries}
    result = results[name]
    why = next((row.reason for row in rows if row.withheld), None)
    several = [part for part in parts(rows) if not part[0].withheld]
    pictures = [(charts.estimates(part), table(part, f"{name}: {part[0].statistic}")) for part in several]
    notes = result.estimates.notes if result.estimates else ()
    if result.estimates is not None and result.estimates.table:
        notes = (*notes, LOOK_UP)
    return ShownQuery(name, result if isinstance(result, QueryResult) else None, why, pictures, notes)


def series(site: Site, request: Request) -> Response:
    """Show a query over all verified rounds."""
    task_id, query = request.path_params["task"], request.query_params.get("query", "")
    shown, desk = site.desk.task(task_id), site.desk.of(task_id)
    _, problem = asked(lambda: site.desk.check_all(task_id), lambda: desk)
    names = desk.newest.table.queries if desk.newest else ()
    name = query if query in names else next(iter(names), query)
    drawn = desk.part(("series", name), lambda: _series(desk.rows(name)))
    return site.page(
        "analyst/series.html", shown=shown, desk=desk, name=name, names=names, drawn=drawn, problem=problem
    )


def _series(rows: Sequence[PublishedRow]) -> Markup:
    newest = set(sorted({row.round for row in rows}, reverse=True)[:SHOWN_ROUNDS])
    made = []
    for part in parts(rows):
        recent = [row for row in part if row.round in newest]
        made += [charts.series(part), table(recent, f"{part[0].query}: the newest {len(newest)} rounds")]
    return Markup("\n").join(made)


@dataclass(frozen=True)
class ShownDifference:
    """A difference with the digits that its error allows."""

    found: Difference
    value: str
    error: str
    interval: str

    @classmethod
    def of(cls, found: Difference) -> ShownDifference:
        """Return it with its simultaneous interval."""
        ends = (found.simultaneous_lower, found.simultaneous_upper)
        if found.standard_error is None:
            value, lower, upper = significant((found.value, *ends), fineness(ends))
            return cls(found, value, "", f"{lower} … {upper}")
        numbers = (found.value, found.standard_error, *ends)
        value, error, lower, upper = significant(numbers, found.standard_error)
        return cls(found, value, error, f"{lower} … {upper}")


def compare(site: Site, request: Request) -> Response:
    """Show the differences of two rounds: the second that is named less the first."""
    task_id = request.path_params["task"]
    shown, desk = site.desk.task(task_id), site.desk.of(task_id)
    _, problem = asked(lambda: site.desk.listed(task_id), lambda: desk)
    first, second = whole_number(request, "a"), whole_number(request, "b")
    chosen = desk.listed[-2:] if len(desk.listed) > 1 else ()
    if first is not None and second is not None:
        chosen = (first, second)
    found: list[ShownDifference] = []
    trust = None
    query = request.query_params.get("query", "")
    if chosen:
        joined = site.desk.joined(task_id, list(dict.fromkeys(chosen)))
        trust = joined.trust
        rows = [row for row in joined if query in ("", row.query)]
        earlier, later = ([row for row in rows if row.round == number] for number in chosen)
        found = [ShownDifference.of(each) for each in joined.compare_all(later, earlier)]
    names = desk.newest.table.queries if desk.newest else ()
    return site.page(
        "analyst/compare.html",
        shown=shown,
        desk=desk,
        chosen=chosen,
        found=found,
        trust=trust,
        names=names,
        query=query,
        problem=problem,
    )
