"""Looks texts up that an analyst names, in the tables of a round's queries that take any text.

It is what `hubbub results --candidates` does. It costs nobody privacy: the tables were published.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from hubbub.deploy.operator.lookup import candidates_in, decoded
from hubbub.pages.dashboard.access import WORD
from hubbub.pages.dashboard.checked_results import NotThere
from hubbub.pages.dashboard.shown_round import QueryFacts
from hubbub.pages.dashboard.site import Site, number_of
from hubbub.pages.dashboard.views.analyst import ShownQuery, shown_query
from hubbub.pages.shown_rows import plain
from hubbub.protos.errors import UsageError
from hubbub.results import ResultsTable, Trust

MOST_FIELDS = 8

LONGEST = 16 * 1024 * 1024
"""Bytes of the area of texts: as many as a file may have."""

_ONE_LOOKUP = threading.Lock()
"""A look-up of a million texts takes seconds of a core and 100 MB: several at once would slow all pages."""


async def look_up(site: Site, request: Request) -> Response:
    """Show which of the texts in a form stand out in a round."""
    task_id, text = request.path_params["task"], request.path_params["number"]
    number = number_of(text)
    if number is None:
        raise NotThere(f"{text!r:.40} is no round's number; the task's page lists the rounds")
    async with request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=LONGEST) as form:
        if not site.access.check_form(form.get(WORD)):
            return site.page("problem.html", 403, what="this form is not of this dashboard's pages; nothing was done")
        name, content = await _given(form)
    found, trust = await run_in_threadpool(_found, site, task_id, number, name, content)
    shown = await run_in_threadpool(site.results.task, task_id)
    return site.page("analyst/texts.html", shown=shown, number=number, queries=found, trust=trust)


async def _given(form: FormData) -> tuple[str, bytes]:
    """Return the texts of a form with the name of where they are: its file, or its area if it has no file."""
    file, area = form.get("file"), form.get("texts")
    if isinstance(file, UploadFile) and file.size:
        return plain(file.filename or "the file"), await file.read()
    if isinstance(area, str) and area.strip():
        return "the list", area.encode()
    raise UsageError("no text was given; write one a line, or choose a file with one a line")


def _found(site: Site, task_id: str, number: int, name: str, content: bytes) -> tuple[list[ShownQuery], Trust]:
    texts = candidates_in(content, name)
    table = site.results.table_now(task_id, number)
    with _ONE_LOOKUP:
        results = decoded(table.results[0], texts)
    # Only what was looked up is shown; the round's page has the rest.
    asked = [each for each in results.queries if each.estimates is not None and each.estimates.table]
    rows = ResultsTable([replace(results, queries=tuple(asked), sums=())], table.trust)
    return [shown_query(QueryFacts.of(each), rows.where(query=each.name).rows) for each in asked], table.trust
