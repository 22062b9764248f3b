"""One browser for all tests of this folder, and the sites that it looks at, each started when it is first asked for."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from unit.pages.dashboard.views.test_services import Answering

from hubbub.deploy.init.folders import initialize
from hubbub.protos.messages import Incident, IncidentReport
from support.both_services import served
from support.chromium import LACKING, Tab, chromium, is_there, serving, tab_of
from support.shown_sites import DIRECTED, MADE, of_services


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a browser where there is none; all that needs one shares one loop."""
    for item in items:
        if "started" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
            if not is_there():
                item.add_marker(pytest.mark.skip(reason=LACKING))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def started() -> AsyncIterator[Any]:
    """The browser."""
    async with chromium() as found:
        yield found


class Lying(Answering):
    """Both services, whose words turn the direction of others."""

    async def get_incidents(self) -> IncidentReport:
        return IncidentReport((Incident("disk", f"the disk is {DIRECTED}", 1_767_225_600, 3),), 2)


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return initialize(tmp_path_factory.mktemp("browser") / "deployment").root


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def answers(deployment: Path) -> AsyncIterator[Lying]:
    """Both services behind the ports of the deployment's settings; of a copy beside it, they do not answer."""
    shutil.copytree(deployment, deployment.parent / "unanswered")
    found = Lying()
    async with served(deployment, found):
        yield found


@pytest.fixture(scope="session")
def sites(deployment: Path, answers: Lying) -> Iterator[Callable[[str], tuple[str, str]]]:
    """Start a site by its name, once; give its address, and that with the token."""
    running: dict[str, tuple[str, str]] = {}
    with contextlib.ExitStack() as stack:

        def start(name: str) -> tuple[str, str]:
            if name not in running:
                root = deployment.parent / "unanswered" if name == "unanswered" else deployment
                who = "operator" if name == "unanswered" else name
                site = MADE[name]() if name in MADE else of_services(root, who)
                running[name] = stack.enter_context(serving(site))
            return running[name]

        yield start


Entered = Callable[..., contextlib.AbstractAsyncContextManager[Tab]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def entered(started: Any, sites: Callable[[str], tuple[str, str]]) -> AsyncIterator[Entered]:
    """Give a tab that was let in to the site of this name: the same to all tests that ask for nothing special."""
    async with contextlib.AsyncExitStack() as stack:
        usual: dict[str, Tab] = {}

        @contextlib.asynccontextmanager
        async def enter(name: str, **options: Any) -> AsyncIterator[Tab]:
            at, address = sites(name)
            if options:
                async with tab_of(started, at, **options) as tab:
                    await tab.open(address)
                    yield tab
                return
            if name not in usual:
                usual[name] = await stack.enter_async_context(tab_of(started, at))
                await usual[name].open(address)
            await usual[name].renew()
            yield usual[name]

        yield enter
