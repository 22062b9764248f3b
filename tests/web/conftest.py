"""The TypeScript client, built once; and tabs of a real browser in which a page of it has the shuffler's origin."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support import chromium, web_client
from support.chromium import Tab, tab_of

ORIGIN = "https://app.example.org"
"""The origin of pages that call nobody; no request leaves the browser."""

TEST_PAGE = '<!doctype html><title>test</title><script type="module" src="/test/page.js"></script>'
POLICY = "default-src 'none'; script-src 'self'; connect-src 'self' https://127.0.0.1:*"
KINDS = {".js": "text/javascript", ".html": "text/html; charset=utf-8", ".css": "text/css"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot be built or shown here; all that needs a browser shares one loop."""
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "built" in names and not web_client.is_there():
            item.add_marker(pytest.mark.skip(reason=web_client.LACKING))
        if "started" in names:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            if not chromium.is_there():
                item.add_marker(pytest.mark.skip(reason=chromium.LACKING))


@pytest.fixture(scope="session")
def built() -> None:
    """The client as it is now."""
    web_client.build()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def started(built: None) -> AsyncIterator[Any]:
    """The browser."""
    async with chromium.chromium() as found:
        yield found


Pages = Callable[..., contextlib.AbstractAsyncContextManager[Tab]]


@pytest.fixture
def pages(started: Any) -> Pages:
    """Give a tab whose pages are those of `dist`, at an origin: a shuffler's, whose calls go through, or nobody's.

    `served` has more files, by their paths.
    """

    @contextlib.asynccontextmanager
    async def enter(origin: str = ORIGIN, served: dict[str, str] | None = None, **options: Any) -> AsyncIterator[Tab]:
        async with tab_of(started, origin, ignore_https_errors=True, **options) as tab:
            await serve(tab.page.context, origin, served or {})
            yield tab

    return enter


async def serve(context: Any, origin: str, served: dict[str, str]) -> None:
    """Have all pages of a profile find the files of the client at an origin."""

    async def answer(route: Any) -> None:
        path = route.request.url.removeprefix(origin)
        if "/hubbub.v1." in path and (origin != ORIGIN or ":" in path):
            # To a shuffler: that of the page's own origin, or another one.
            await route.continue_()
        elif path in served:
            await route.fulfill(body=served[path])
        elif path == "/":
            headers = {"content-security-policy": POLICY, "content-type": KINDS[".html"]}
            await route.fulfill(body=TEST_PAGE, headers=headers)
        elif (file := file_of(path)) is not None:
            kind = KINDS.get(file.suffix, "application/octet-stream")
            await route.fulfill(body=file.read_bytes(), content_type=kind)
        else:
            await route.fulfill(status=404)

    await context.route("**/*", answer)


def file_of(path: str) -> Path | None:
    """The file that a page asks for: a vector, or a part of the build."""
    if path.startswith("/vectors/"):
        file = web_client.vector(path.removeprefix("/vectors/"))
    else:
        file = web_client.DIST / path.lstrip("/")
    return file if file.is_file() else None
