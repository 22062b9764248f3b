"""What all pages of the dashboard share: the templates, the results, and how errors are shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from hubbub.accountant.errors import AccountingError
from hubbub.deploy.settings import OperatorSettings
from hubbub.pages.dashboard.access import Access
from hubbub.pages.dashboard.checked_results import CheckedResults, NotThere
from hubbub.pages.dashboard.verifier import VerifierPage
from hubbub.pages.environment import environment
from hubbub.pages.shown_rows import plain
from hubbub.protos.errors import HubbubError, Unreachable, UsageError
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.schedule import at

T = TypeVar("T")

_NOT_FOR_FILES = re.compile(r"[^A-Za-z0-9._-]+")


@cache
def _environment() -> Environment:
    """Return the templates, all read: the first look at a page need not wait for that."""
    made = environment("hubbub.pages.dashboard")
    made.filters |= {"plain": plain, "at": at, "epsilon": lambda value: f"{value:.6g}"}
    for name in made.list_templates(["html"]):
        made.get_template(name)
    return made


@dataclass(frozen=True)
class Site:
    """One dashboard.

    Attributes:
        results: the tasks and their verified rounds.
        access: who may read it.
        source: where its results come from, in words.
        services: the settings to ask the services with; None for saved results.
        acts: whether these are the operator's own, so that pages may close rounds and revoke devices.
        verifier: the page for browsers that checks without this dashboard, if it is served.
    """

    results: CheckedResults
    access: Access
    source: str
    services: OperatorSettings | None = None
    acts: bool = False
    verifier: VerifierPage | None = None
    templates: Environment = field(default_factory=_environment, repr=False)

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Return a page made of a template."""
        shared = {"site": self, "problem": None, **values}
        return HTMLResponse(self.templates.get_template(template).render(shared), status)

    def failed(self, _request: Request, error: Exception) -> Response:
        """Return the page that says what went wrong."""
        statuses: Mapping[type[Exception], int] = {NotThere: 404, UsageError: 400, Unreachable: 503}
        status = next((number for kind, number in statuses.items() if isinstance(error, kind)), 502)
        if isinstance(error, Refusal) and error.passes:
            status = 503
        return self.page("problem.html", status, what=str(error))


def asked(question: Callable[[], T], otherwise: Callable[[], T]) -> tuple[T, str | None]:
    """Return the answer of a service and None; if it does not answer, what is known without it, and why."""
    try:
        return question(), None
    except (NotThere, UsageError):
        raise
    except (HubbubError, AccountingError) as error:
        return otherwise(), str(error)


def whole_number(request: Request, name: str) -> int | None:
    """Return a parameter of the address as a whole number; None if it is not given.

    Raises:
        UsageError: if it is none.
    """
    text = request.query_params.get(name, "")
    found = number_of(text)
    if text and found is None:
        raise UsageError(f"{name} is {text!r:.40}; give a whole number, such as 3")
    return found


def number_of(text: str) -> int | None:
    """Return the whole number of fewer than ten digits that a text is; None if it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def file_name(*words: str) -> str:
    """Return the name of a file to download: letters and digits of any system."""
    return "-".join(_NOT_FOR_FILES.sub("_", word)[:80] for word in words)


def download(content: bytes, kind: str, name: str) -> Response:
    """Return a file that the browser saves, and never shows."""
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
