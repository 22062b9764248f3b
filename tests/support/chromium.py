"""A real browser for tests: the machine's Chromium by Playwright, which notes all that it asks for and complains of."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from hubbub.pages.dashboard.access import TOKEN, Access
from hubbub.pages.dashboard.app import application
from hubbub.pages.dashboard.server import listening, server_of
from hubbub.pages.dashboard.site import Site
from hubbub.pages.report.rendering import NotPrinted, browser
from support.patience import PATIENCE

PACKAGES = ("playwright", "axe_playwright_python")
LACKING = "no real browser is tried; get Chromium (apt-get install chromium), then run make browser"
"""Why tests are skipped where there is none, and what to do."""

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1100, "height": 900}
EVERY_RULE = {
    "resultTypes": ["violations"],
    "runOnly": [
        *(f"wcag{version}{level}" for version in ("2", "21", "22") for level in ("a", "aa")),
        *("best-practice", "experimental"),
    ],
    # Against another rule: who has only a keyboard scrolls a wide table by it, so it takes the focus.
    "rules": {"focus-order-semantics": {"enabled": False}},
}
"""What axe looks for: WCAG 2.2 AA, good practice, and rules that it tries out."""


def is_there() -> bool:
    """Whether this machine has a browser, and this environment what drives it."""
    with contextlib.suppress(NotPrinted):
        return bool(browser()) and all(find_spec(each) is not None for each in PACKAGES)
    return False


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Any]:
    """Start the machine's Chromium, and end it."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=browser(), timeout=1000 * PATIENCE)
        try:
            yield started
        finally:
            await started.close()


@dataclass
class Tab:
    """A tab of a browser; `asked` are the addresses of its requests, `said` the console's warnings and errors."""

    page: Any
    at: str
    asked: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    async def renew(self) -> None:
        """Forget what was noted, and be as a tab that was just opened."""
        await self.page.set_viewport_size(DESK)
        await self.page.emulate_media(color_scheme="light")
        await self.page.goto("about:blank")
        self.asked, self.said = [], []

    async def open(self, path: str) -> Any:
        """Open a page of the site, or a whole address."""
        return await self.page.goto(path if ":" in path else self.at + path)

    def note_failed(self, request: Any) -> None:
        """Note a request that got no answer, unless the tab itself left the page that made it."""
        if "ERR_ABORTED" not in request.failure:
            self.said.append(f"failed: {request.url}: {request.failure}")

    async def words(self) -> str:
        """The visible text of the page, in one line."""
        return " ".join((await self.page.inner_text("body")).split())

    async def faults(self, **options: Any) -> list[str]:
        """What axe finds on the page as it is now: the rule, the element, and what is wrong."""
        from axe_playwright_python.base import AXE_SCRIPT

        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE_SCRIPT)
        found = (await self.page.evaluate("options => axe.run(options)", {**EVERY_RULE, **options}))["violations"]
        return [f"{rule['id']}: {node['html']}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@contextlib.asynccontextmanager
async def tab_of(started: Any, at: str = "", **options: Any) -> AsyncIterator[Tab]:
    """Open a tab with a profile of its own; `options` are those of Playwright's contexts."""
    profile = await started.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
    profile.set_default_timeout(1000 * PATIENCE)
    try:
        tab = Tab(await profile.new_page(), at)
        tab.page.on("request", lambda request: tab.asked.append(request.url))
        tab.page.on("requestfailed", tab.note_failed)
        tab.page.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.page.on("console", lambda line: tab.said.append(line.text) if line.type in ("error", "warning") else None)
        yield tab
    finally:
        await profile.close()


@contextlib.contextmanager
def serving(site: Site) -> Iterator[tuple[str, str]]:
    """Serve a site on a port as `hubbub dashboard` does, in a thread; give its address, and that with the token."""
    with listening("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        site = replace(site, access=Access.at("127.0.0.1", port))
        server = server_of(application(site))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port}/?{TOKEN}={site.access.token}"
        finally:
            server.should_exit = True
            thread.join()
