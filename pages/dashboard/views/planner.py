"""The page that answers how large an error will be, before anyone is asked: a form, a table and two curves.

To plan costs nobody privacy, and up to some seconds of a core. So a page computes for `SECONDS` at most and keeps what
it found; a curve that is not whole then is completed when the page is loaded again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.written_numbers import FORMS, WHOLE_FORMS, real, whole
from hubbub.pages.dashboard.site import Site, download
from hubbub.pages.dashboard.views.curve import curve
from hubbub.planning.by_error import USUAL_EPSILONS
from hubbub.planning.plan import plan
from hubbub.planning.planned import Plan, randomizer_words
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.task.draft import read_draft

SECONDS = 4.0
"""CPU seconds that one page computes before it shows what it has; a single plan may take a few more."""

SIZES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
"""The numbers of people on the curve, as multiples of the given one."""

LATER = datetime(2096, 1, 1, tzinfo=UTC)
"""When a task that is only planned begins: no error depends on it, and it is never over."""

CHOICES: Mapping[str, Mapping[str, str]] = {
    "kind": {"histogram": "counts of categories", "sum": "sum and mean of a number", "text": "frequent texts"},
    "randomizer": {
        "auto": "the best",
        "krr": "k-ary randomized response",
        "unary": "unary encoding",
        "hashed": "hashed",
    },
    "noise": {"auto": "if it costs little", "always": "always", "none": "never"},
}
"""What the form lets people choose, with the words for it."""

MOST_CATEGORIES = 1000

_ONE_PLAN = threading.Lock()


@dataclass(frozen=True)
class PlannedQuestion:
    """The question whose error the form asks, with usual values."""

    kind: str = "histogram"
    categories: int = 10
    lower: float = 0.0
    upper: float = 100.0
    people: int = 10_000
    epsilon: float = 1.0
    delta: float = 1e-6
    epsilon_local: float = 8.0
    randomizer: str = "krr"
    noise: str = "auto"

    @classmethod
    def of(cls, given: Mapping[str, str]) -> PlannedQuestion:
        """Return what the parameters of an address ask; what is not given is as usual.

        Raises:
            UsageError: naming the parameter, its value and what is expected.
        """
        found: dict[str, int | float | str] = {}
        for each in fields(cls):
            text = given.get(each.name, "").strip()
            if text:
                found[each.name] = _value(each.name, text, type(each.default))
        made = cls(**found)  # type: ignore[arg-type] # each has the type of its field
        if not 2 <= made.categories <= MOST_CATEGORIES:
            raise UsageError(f"categories is {made.categories}; give 2 to {MOST_CATEGORIES}")
        return made

    def draft(self, start: datetime) -> str:
        """Return the draft of a task that asks it, to be edited."""
        # A sum takes what planning chooses; a text takes no randomizer with a list of answers.
        fixed = self.kind == "sum" or (self.kind == "text" and self.randomizer in ("krr", "unary"))
        randomizer = "" if fixed else f'randomizer = "{self.randomizer}"\n'
        return (
            "# A draft for `hubbub plan`: change its names, words and categories, and when it starts.\n\n"
            f'[task]\nname = "draft"\nstart = {start:%Y-%m-%dT%H:%M:%SZ}\nlength = "24h"\nrounds = 1\n'
            f"minimum_reports = {self.people}\n\n"
            f"[privacy]\nepsilon = {self.epsilon!r}\ndelta = {self.delta!r}\nepsilon_local = {self.epsilon_local!r}\n"
            f'noise = "{self.noise}"\n\n'
            f'[[query]]\nname = "answer"\nkind = "{self.kind}"\n{self._members}{randomizer}'
        )

    @property
    def _members(self) -> str:
        if self.kind == "histogram":
            names = ", ".join(f'"category {place + 1}"' for place in range(self.categories))
            return f"categories = [{names}]\n"
        return f"lower = {self.lower!r}\nupper = {self.upper!r}\n" if self.kind == "sum" else ""


def _value(name: str, text: str, kind: type) -> int | float | str:
    if name in CHOICES:
        if text not in CHOICES[name]:
            raise UsageError(f"{name} is {text!r:.40}; choose one of {', '.join(CHOICES[name])}")
        return text
    forms = WHOLE_FORMS if kind is int else FORMS
    try:
        number = (whole if kind is int else real)(text.strip())
    except ValueError as error:
        raise UsageError(f"{name} is {text!r:.40}; give a number, such as {forms}") from error
    if kind is int and not 0 < number < 1e12:
        raise UsageError(f"{name} is {text!r:.40}; give a whole number above 0")
    return number


@lru_cache(1024)
def _planned(asked: PlannedQuestion) -> Plan | str:
    """Return the plan, or why there is none."""
    with _ONE_PLAN:
        try:
            return plan(read_draft(asked.draft(LATER)))
        except (HubbubError, AccountingError) as error:
            return str(error)


@dataclass(frozen=True)
class ErrorAt:
    """The error at one ε and one number of people; `why_not` if there is none, both None if it is not computed yet."""

    asked: PlannedQuestion
    error: float | None = None
    why_not: str | None = None


def _errors(asked: PlannedQuestion, several: list[PlannedQuestion], enough: Callable[[], bool]) -> Iterator[ErrorAt]:
    for each in several:
        if enough() and each != asked:
            yield ErrorAt(each)
            continue
        found = _planned(each)
        yield ErrorAt(each, why_not=found) if isinstance(found, str) else ErrorAt(each, found.queries[0].expected_error)


def page(site: Site, request: Request) -> Response:
    """Show the form, and what it asks: the errors and the curves."""
    try:
        asked = PlannedQuestion.of(request.query_params)
    except UsageError as error:
        return _shown(site, PlannedQuestion(), why_not=str(error), status=400)
    if not request.query_params:
        return _shown(site, asked)
    found = _planned(asked)
    if isinstance(found, str):
        return _shown(site, asked, why_not=found)
    ends = time.thread_time() + SECONDS

    def enough() -> bool:
        return time.thread_time() > ends

    by_epsilon = [replace(asked, epsilon=each) for each in sorted({*USUAL_EPSILONS, asked.epsilon})]
    sizes = sorted({max(int(asked.people * each), 1) for each in SIZES})
    tables = {
        "epsilon": list(_errors(asked, by_epsilon, enough)),
        "people": list(_errors(asked, [replace(asked, people=each) for each in sizes], enough)),
    }
    return _shown(site, asked, plan=found, tables=tables)


def _shown(
    site: Site,
    asked: PlannedQuestion,
    plan: Plan | None = None,
    tables: Mapping[str, list[ErrorAt]] | None = None,
    why_not: str | None = None,
    status: int = 200,
) -> Response:
    pictures = {}
    for name, errors in (tables or {}).items():
        points = [(float(getattr(each.asked, name)), each.error) for each in errors if each.error]
        words = {"epsilon": "ε", "people": "people"}[name]
        pictures[name] = curve(points, own=float(getattr(asked, name)), across=words, up="Standard error")
    left = any(each.error is None and each.why_not is None for errors in (tables or {}).values() for each in errors)
    return site.page(
        "plan.html",
        status,
        asked=asked,
        choices=CHOICES,
        query=plan.queries[0] if plan else None,
        words=randomizer_words(plan.queries[0].query) if plan else {},
        submission_bytes=plan.submission_bytes if plan else None,
        tables=tables or {},
        pictures=pictures,
        left=left,
        why_not=why_not,
        same={each.name: getattr(asked, each.name) for each in fields(asked)},
    )


def draft(_site: Site, request: Request) -> Response:
    """Return the draft as a file: it begins tomorrow."""
    asked = PlannedQuestion.of(request.query_params)
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    text = asked.draft(tomorrow)
    read_draft(text)
    return download(text.encode(), "application/toml", "draft.toml")
