"""The dashboard as one application: which address shows which page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from hubbub.accountant.errors import AccountingError
from hubbub.pages.dashboard.access import Access, Guard
from hubbub.pages.dashboard.checked_results import CheckedResults
from hubbub.pages.dashboard.site import Site
from hubbub.pages.dashboard.sources import OpenedSource
from hubbub.pages.dashboard.verifier import ADDRESS, VerifierPage
from hubbub.pages.dashboard.views import analyst, certificates, downloads, planner, services, texts
from hubbub.pages.environment import icon, style
from hubbub.protos.errors import HubbubError

Page = Callable[[Site, Request], Response]
Posted = Callable[[Site, Request], Awaitable[Response]]


def site_at(found: OpenedSource, host: str, port: int, verifier: VerifierPage | None = None) -> Site:
    """Return the dashboard of an opened source, with new secrets, for whoever listens there."""
    access = Access.at(host, port)
    return Site(CheckedResults(found.reader, found.pins), access, found.source, found.services, found.acts, verifier)


def application(site: Site) -> ASGIApp:
    """Return the application, guarded by the site's access."""

    def page(path: str, make: Page) -> Route:
        # Not a coroutine, so that each page is made in a thread: pages call services and compute.
        return Route(path, lambda request: make(site, request), methods=["GET"])

    def posted(path: str, make: Posted) -> Route:
        async def answer(request: Request) -> Response:
            return await make(site, request)

        return Route(path, answer, methods=["POST"])

    routes = [
        page("/", analyst.tasks),
        page("/task/{task}", analyst.task),
        page("/task/{task}/round/{number}", analyst.round_),
        posted("/task/{task}/round/{number}/texts", texts.look_up),
        page("/task/{task}/series", analyst.series),
        page("/task/{task}/compare", analyst.compare),
        page("/task/{task}/file/{what}", downloads.file),
        page("/certificate", certificates.empty),
        posted("/certificate", certificates.check),
        page("/services", services.services),
        posted("/services/close", services.close),
        posted("/services/revoke", services.revoke),
        page("/plan", planner.page),
        page("/plan/draft.toml", planner.draft),
        page("/style.css", _style),
        page("/icon.svg", _icon),
    ]

    policies = {}
    if site.verifier is not None:
        routes.append(page(ADDRESS, _verifier))
        policies[ADDRESS] = site.verifier.served_policy

    failures = dict.fromkeys((HubbubError, AccountingError), site.failed)
    app = Starlette(routes=routes, exception_handlers={**failures, HTTPException: partial(_missing, site)})
    return Guard(app, site.access, policies)


def _missing(site: Site, request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code != 404:
        return site.page("problem.html", error.status_code, what=f"the request cannot be read: {error.detail}")
    return site.page("problem.html", 404, what=f"there is no page {request.url.path:.80}; begin with the tasks")


def _verifier(site: Site, _request: Request) -> Response:
    if site.verifier is None:
        raise RuntimeError("this address is there only with a verifier")
    return HTMLResponse(site.verifier.text)


def _style(_site: Site, _request: Request) -> Response:
    return Response(style(), media_type="text/css")


def _icon(_site: Site, _request: Request) -> Response:
    return Response(icon(), media_type="image/svg+xml")
