"""Decides who may read the pages: a token, a cookie, the name of the host, and a word in each form.

Every page shows what the settings file may read, and with the operator's it can close rounds. So a request is answered
only if three things hold:

- Its Host is a name of this dashboard. A page of another site cannot make its own name lead here (DNS rebinding).
- It has the cookie that the address with the token gives. The cookie is HttpOnly and SameSite=Strict, so no script
  reads it and no other site sends it.
- If it is a POST, its form has the word that only these pages know, and it does not come from another site.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"  # noqa: S105 - a name
"""The parameter of the address that has the token."""

WORD = "word"
"""The field of a form that shows that one of these pages made it."""

LARGEST_BODY = 16 * 1024 * 1024
"""Most bytes of a request: a certificate of a task with many rounds has about one million."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine for itself; a tunnel of ssh ends at one of them, at any port."""

POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer: nothing is loaded from elsewhere, kept, framed, or told to other sites.

The verifier's page alone has another policy, which is as strict (`verifier.py`).
"""

_ASK_AGAIN = "open the address that `hubbub dashboard` printed, with its token"


@dataclass(frozen=True)
class Access:
    """What lets somebody in: the names of the host, the token, and what the cookie and the forms have.

    `cookie` is the cookie's name. It differs between dashboards, as browsers do not tell ports apart.
    """

    names: frozenset[str]
    cookie: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    word: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @classmethod
    def at(cls, host: str, port: int) -> Access:
        """Return new secrets for a dashboard that listens there; a loopback host has all names of loopback."""
        names = LOOPBACK if host in LOOPBACK else frozenset({host.lower()})
        return cls(names, f"hubbub-dashboard-{port}")

    def check_form(self, word: object) -> bool:
        """Return whether the word of a form is that of these pages."""
        return isinstance(word, str) and _same(word, self.word)


def _same(given: str, known: str) -> bool:
    # Texts outside ASCII cannot be compared in constant time, bytes can.
    return secrets.compare_digest(given.encode(), known.encode())


class Guard:
    """Lets through what `Access` allows, and puts `HEADERS` on every answer.

    `policies` has, by its address, a page whose policy is another one.
    """

    def __init__(self, app: ASGIApp, access: Access, policies: Mapping[str, str]) -> None:
        """Guard `app`."""
        self._app, self._access, self._policies = app, access, policies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise RuntimeError(f"the dashboard speaks HTTP alone, not {scope['type']}")

        answer = self._instead(Request(scope))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = dict(HEADERS)
                if answer is None and message["status"] == 200:
                    headers["Content-Security-Policy"] = self._policies.get(scope["path"], POLICY)
                kept = [pair for pair in message["headers"] if pair[0].decode("latin-1").title() not in HEADERS]
                added = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
                message = {**message, "headers": [*kept, *added]}
            await send(message)

        await (self._app if answer is None else answer)(scope, receive, guarded)

    def _instead(self, request: Request) -> Response | None:
        """Return what is answered instead of the page; None if the page may be shown."""
        if _host(request) not in self._access.names:
            named = " or ".join(sorted(self._access.names))
            return _refused(421, f"this dashboard is at {named}, and at no other name; {_ASK_AGAIN}")
        given = request.query_params.get(TOKEN)
        if given is not None and request.method == "GET":
            return self._let_in(request, given)
        if not _same(request.cookies.get(self._access.cookie, ""), self._access.session):
            return _refused(403, f"you are not known here; {_ASK_AGAIN}. If you just did, reload this page once")
        if request.method not in ("GET", "HEAD", "POST"):
            return _refused(405, "pages take GET and POST alone")
        return _post_refused(request) if request.method == "POST" else None

    def _let_in(self, request: Request, given: str) -> Response:
        if not _same(given, self._access.token):
            return _refused(403, f"the token is wrong: each start of the dashboard makes a new one; {_ASK_AGAIN}")
        # Without the token, so that it stays out of bookmarks and of what is shown on a screen.
        answer = RedirectResponse(request.url.path, 303)
        answer.set_cookie(self._access.cookie, self._access.session, httponly=True, samesite="strict", path="/")
        return answer


def _host(request: Request) -> str | None:
    found = request.headers.getlist("host")
    try:
        return urlsplit(f"//{found[0]}").hostname if len(found) == 1 else None
    except ValueError:
        return None


def _post_refused(request: Request) -> Response | None:
    """Return the refusal of a POST that another site sent, or that is too large; its form is checked later."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return _refused(403, "another site sent this form; nothing was done")
    # Without a referrer, browsers send "null" for the pages' own forms too.
    origin = request.headers.get("origin", "null")
    if origin != "null" and origin.partition("://")[2] != request.headers["host"]:
        return _refused(403, "another site sent this form; nothing was done")
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return _refused(411, "a form must state its length")
    if int(length) > LARGEST_BODY:
        return _refused(413, f"this is larger than {LARGEST_BODY >> 20} MiB; use the command line for larger files")
    return None


def _refused(status: int, why: str) -> Response:
    return PlainTextResponse(f"Refused: {why}.\n", status)
