"""Pages of an analyst: tasks, a round's estimates, series over rounds, and the comparison of two rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from hubbub.pages import charts
from hubbub.pages.dashboard.checked_results import NotThere
from hubbub.pages.dashboard.shown_round import QueryFacts, ShownRound
from hubbub.pages.dashboard.shown_task import ShownTask, TaskRounds
from hubbub.pages.dashboard.site import Site, asked, number_of, whole_number
from hubbub.pages.shown_rows import parts, table
from hubbub.protos.messages import ListedTask
from hubbub.queries.estimation.significant_digits import fineness, significant
from hubbub.results import Difference, PublishedRow, Trust
from hubbub.results.differences import differences_of_rounds

SHOWN_ROUNDS = 20
"""Rounds in the table below a series; the files to download have all."""


def tasks(site: Site, _request: Request) -> Response:
    """Show every task."""

    def kept() -> list[tuple[ListedTask, ShownTask]]:
        return [(ListedTask(bytes.fromhex(id_), each.task.name), each) for id_, each in site.results.known().items()]

    found, problem = asked(site.results.tasks, kept)
    return site.page("analyst/tasks.html", tasks=found, problem=problem)


def task(site: Site, request: Request) -> Response:
    """Show a task: who asks what, the budget, and its rounds. The rounds are checked from here on."""
    task_id = request.path_params["task"]
    shown, of_task = site.results.task(task_id), site.results.of(task_id)

    def looked() -> TaskRounds:
        listed = site.results.listed(task_id).listed
        if listed and max(listed) not in of_task.wrong:
            site.results.look(task_id, max(listed))
        return site.results.check_all(task_id)

    _, problem = asked(looked, lambda: of_task)
    # A check that ends meanwhile may change which is the newest.
    newest = of_task.newest
    return site.page(
        "analyst/task.html",
        shown=shown,
        task=shown.task,
        of_task=of_task,
        newest=newest,
        budget=_budget(shown, newest),
        rounds=of_task.part("rounds", lambda: _rounds(site, shown, of_task)),
        queries=newest.queries if newest else (),
        problem=problem,
    )


def _rounds(site: Site, shown: ShownTask, of_task: TaskRounds) -> Markup:
    lines = site.templates.get_template("analyst/rounds.html").render(shown=shown, task=shown.task, of_task=of_task)
    return Markup(lines)  # noqa: S704 - the template escaped it


@dataclass(frozen=True)
class Spent:
    """What a task's rounds cost so far, and how many can still come.

    `within` is how many rounds fit the budget: None where it is not known or has no limit, or is still `computed`.
    """

    picture: Markup
    rounds_left: int
    within: int | None
    computed: bool


def _budget(shown: ShownTask, newest: ShownRound | None) -> Spent | None:
    if newest is None:
        return None
    whole = shown.task.privacy.epsilon_total
    found = shown.budget if whole is not None and shown.knows_budget else None
    after = shown.task.schedule.rounds - newest.number - 1
    # The newest round may be one that is not shown, and spent more.
    picture = charts.budget(newest.spent, whole, about=f"all rounds up to round {newest.number}")
    return Spent(picture, after, found.within if found else None, whole is not None and not shown.knows_budget)


@dataclass(frozen=True)
class ShownQuery:
    """One query of a round as a page shows it."""

    facts: QueryFacts
    withheld: str | None
    pictures: Sequence[tuple[Markup, Markup]]


def round_(site: Site, request: Request) -> Response:
    """Show a round's estimates, and what its certificate promises."""
    task_id, text = request.path_params["task"], request.path_params["number"]
    number = number_of(text)
    if number is None:
        raise NotThere(f"{text!r:.40} is no round's number; the task's page lists the rounds")
    found = site.results.look(task_id, number)
    of_task = site.results.of(task_id)
    return site.page(
        "analyst/round.html",
        shown=site.results.task(task_id),
        found=found,
        listed=of_task.listed,
        queries=of_task.part(("round", number), lambda: _queries(site, found)),
    )


def _queries(site: Site, found: ShownRound) -> Markup:
    made = [shown_query(facts, found.rows(facts.name)) for facts in found.facts]
    return Markup(site.templates.get_template("analyst/queries.html").render(queries=made))  # noqa: S704 - escaped there


def shown_query(facts: QueryFacts, rows: Sequence[PublishedRow]) -> ShownQuery:
    """Return the pictures and tables of a query, or why it is withheld."""
    why = next((row.reason for row in rows if row.withheld), None)
    several = [part for part in parts(rows) if not part[0].withheld]
    pictures = [(charts.estimates(part), table(part, f"{facts.name}: {part[0].statistic}")) for part in several]
    return ShownQuery(facts, why, pictures)


def series(site: Site, request: Request) -> Response:
    """Show a query over all rounds that were read."""
    task_id, query = request.path_params["task"], request.query_params.get("query", "")
    shown, of_task = site.results.task(task_id), site.results.of(task_id)
    _, problem = asked(lambda: site.results.check_all(task_id), lambda: of_task)
    newest = of_task.newest
    names = newest.queries if newest else ()
    name = query if query in names else next(iter(names), query)
    drawn = of_task.part(("series", name), lambda: _series(of_task.rows(name)))
    return site.page(
        "analyst/series.html",
        shown=shown,
        of_task=of_task,
        name=name,
        names=names,
        drawn=drawn,
        problem=problem,
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

    @property
    def changed(self) -> str:
        """Whether the two rounds differ, as people read it. Numbers without noise, such as who answered, may not."""
        found = self.found
        if found.significant:
            return "yes"
        exact = found.simultaneous_lower == found.simultaneous_upper
        return "no" if exact else "noise may be all of it"


def compare(site: Site, request: Request) -> Response:
    """Show the differences of two rounds: the second that is named less the first."""
    task_id = request.path_params["task"]
    shown, of_task = site.results.task(task_id), site.results.of(task_id)
    _, problem = asked(lambda: site.results.listed(task_id), lambda: of_task)
    first, second = whole_number(request, "a"), whole_number(request, "b")
    chosen = of_task.listed[-2:] if len(of_task.listed) > 1 else ()
    if first is not None and second is not None:
        chosen = (first, second)
    found: list[ShownDifference] = []
    trust = None
    query = request.query_params.get("query", "")
    if chosen:
        # Their rows are enough: what is behind both is in the task, so no certificate is read again.
        two = [site.results.look(task_id, number) for number in chosen]
        trust = Trust.joined([each.trust for each in two])
        earlier, later = (
            [row for name in each.queries if query in ("", name) for row in each.rows(name)] for each in two
        )
        found = [ShownDifference.of(each) for each in differences_of_rounds(shown.task, later, earlier)]
    newest = of_task.newest
    names = newest.queries if newest else ()
    return site.page(
        "analyst/compare.html",
        shown=shown,
        of_task=of_task,
        chosen=chosen,
        found=found,
        trust=trust,
        names=names,
        query=query,
        problem=problem,
    )
