"""The TypeScript client conforms in Node and in a real browser, wherever it is killed: each round is answered once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from web.conftest import Pages, serve

from hubbub.deploy.conformance.default_draft import default_draft
from hubbub.deploy.conformance.logged_tasks import LOG_CHECKS
from hubbub.deploy.conformance.trial import FILE, Trial, trial
from hubbub.pages.report.rendering import browser
from support.patience import PATIENCE
from support.samples import make_tls
from support.thoroughness import usually
from support.web_client import DIST, node, play

ANSWERS = {"theme": "dark", "session": 12.5}
DONE = {"round": 0, "used": True, "sent": True}
FEWEST_POINTS = 15
"""Fewest points before and after each change of the state, and each call, of one submission."""
EVERY, EVERY_OF_PAGES = usually(4, 1), usually(3, 1)
"""Every how many points a program is killed at, and a page."""


def running_in(
    folder: Path, *, faults: bool = True, one_question: bool = False, logged: bool = False
) -> contextlib.AbstractAsyncContextManager[Trial]:
    """A trial; without `faults` no first try is refused: who is killed by then does not know that it was."""
    draft = default_draft()
    if one_question:
        draft = replace(draft, questions=draft.questions[:1])
    return trial(draft, folder / "client", "127.0.0.1:0", lambda _finding: None, faults=faults, logged=logged)


def about(found: Trial) -> dict[str, str]:
    content: dict[str, str] = json.loads((found.folder / FILE).read_text())
    return content


async def test_it_conforms_in_node(built: None, tmp_path: Path) -> None:
    async with running_in(tmp_path) as running:
        assert await running.run([str(node()), str(DIST / "test" / "device.js")]) == 0
    assert running.verdict.problems == {}
    assert running.verdict.is_good


async def test_it_refuses_each_wrong_proof_of_a_log_in_node(built: None, tmp_path: Path) -> None:
    async with running_in(tmp_path, logged=True) as running:
        assert await running.run([str(node()), str(DIST / "test" / "device.js")]) == 0
    assert running.verdict.problems == {}
    assert set(LOG_CHECKS) <= set(running.verdict.expected)
    assert running.verdict.is_good


def plays(of: dict[str, str], devices: list[dict[str, Any]]) -> dict[str, Any]:
    """The file from which `device.js` plays devices."""
    common = {name: of[name] for name in ("task", "authority")}
    keys = {"operatorKey": Path(of["operator_key"]).read_text(), "shufflerKey": Path(of["shuffler_key"]).read_text()}
    return {**common, **keys, "shuffler": of["https"], "devices": devices}


def numbered_tickets(of: dict[str, str]) -> Iterator[str]:
    yield from Path(of["tickets"]).read_text().splitlines()


async def test_killed_at_any_point_a_program_answers_a_round_once(built: None, tmp_path: Path) -> None:
    kills = 0
    async with running_in(tmp_path, faults=False) as running:
        of = about(running)
        for place, ticket in enumerate(numbered_tickets(of)):
            device = {"state": str(tmp_path / str(place)), "ticket": ticket, "answers": ANSWERS}
            killed = {**device, "killAt": 1 + place * EVERY}
            status, results = await play(plays(of, [killed]), tmp_path)
            if status == 0:
                assert results == [DONE]
                break
            assert (status, results) == (-signal.SIGKILL, [])
            kills += 1
            status, (result,) = await play(plays(of, [device]), tmp_path)
            assert (status, result["round"]) == (0, 0), result
    assert kills >= FEWEST_POINTS // EVERY
    assert running.verdict.problems == {}
    assert running.verdict.accepted == kills + 1


async def test_a_shuffler_that_the_authority_did_not_certify_is_not_called_again(built: None, tmp_path: Path) -> None:
    async with running_in(tmp_path) as running:
        of = about(running)
        device = {"state": str(tmp_path / "state"), "ticket": next(numbered_tickets(of)), "answers": ANSWERS}
        other = make_tls(tmp_path / "other", "service")["service"].authority
        status, (result,) = await play(plays({**of, "authority": str(other)}, [device]), tmp_path)
    assert (status, result["error"].partition(":")[0]) == (0, "Distrusted")
    assert running.verdict.seen.total() == 0


OPENED = """async ([options, play, answers]) => {
  const device = await hubbub.opened(options, play);
  return device.submit(answers);
}"""


def options_of(of: dict[str, str], ticket: str) -> dict[str, Any]:
    keys = {"operatorKey": Path(of["operator_key"]).read_text(), "shufflerKey": Path(of["shuffler_key"]).read_text()}
    return {"task": Path(of["task"]).read_text(), **keys, "shuffler": of["https"], "ticket": ticket}


async def test_it_conforms_in_a_real_browser(pages: Pages, started: Any, tmp_path: Path) -> None:
    async with running_in(tmp_path) as running:
        of = about(running)
        async with pages(of["https"]) as tab:
            await tab.open("/")
            options = options_of(of, next(numbered_tickets(of)))
            assert await tab.page.evaluate(OPENED, [options, {}, ANSWERS]) == DONE
    assert running.verdict.problems == {}
    assert running.verdict.is_good


async def test_killed_at_any_point_a_page_answers_a_round_once(pages: Pages, started: Any, tmp_path: Path) -> None:
    """Its page goes in the middle of a call or of a change of its storage, which the next page finds."""
    kills = 0
    async with running_in(tmp_path, faults=False) as running, pages(about(running)["https"]) as tab:
        of, died = about(running), asyncio.Event()
        await tab.page.context.expose_function("die", died.set)
        for place, ticket in enumerate(numbered_tickets(of)):
            options, named = options_of(of, ticket), {"name": f"device {place}"}
            page = await tab.page.context.new_page()
            await page.goto(of["https"])
            going = asyncio.ensure_future(
                page.evaluate(OPENED, [options, {**named, "killAt": 1 + place * EVERY_OF_PAGES}, ANSWERS])
            )
            ended = asyncio.ensure_future(died.wait())
            await asyncio.wait({going, ended}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if not died.is_set():
                assert await going == DONE
                break
            died.clear()
            kills += 1
            await page.close()
            await asyncio.gather(going, return_exceptions=True)
            page = await tab.page.context.new_page()
            await page.goto(of["https"])
            assert (await page.evaluate(OPENED, [options, named, ANSWERS]))["round"] == 0
            await page.close()
    assert kills >= FEWEST_POINTS // EVERY_OF_PAGES
    assert running.verdict.problems == {}
    assert running.verdict.accepted == kills + 1


@contextlib.asynccontextmanager
async def profile(folder: Path, origin: str) -> AsyncIterator[Any]:
    """A page of a browser whose storage is in a folder; the block may kill the browser."""
    from playwright.async_api import Error, async_playwright

    async with async_playwright() as playwright:
        started = await playwright.chromium.launch_persistent_context(
            folder, executable_path=browser(), ignore_https_errors=True, timeout=1000 * PATIENCE
        )
        try:
            await serve(started, origin, {})
            await started.expose_function("die", lambda: None)
            page = await started.new_page()
            await page.goto(origin)
            yield page
        finally:
            # A browser that was killed may be known to be gone, or not yet.
            with contextlib.suppress(Error):
                await started.close()


def kill_browser(folder: Path) -> None:
    """Kill the browser whose storage is in a folder, with all of its processes."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"--user-data-dir={folder}".encode() in place.read_bytes().split(b"\0"):
                os.kill(int(place.parent.name), signal.SIGKILL)


KEPT = """async ([options, answers]) => {
  const device = await hubbub.opened(options, {});
  return device.keep(answers);
}"""


async def test_what_was_drawn_counts_after_the_whole_browser_was_killed(
    pages: Pages, started: Any, tmp_path: Path
) -> None:
    storage = tmp_path / "profile"
    async with running_in(tmp_path, faults=False) as running:
        of = about(running)
        options = options_of(of, next(numbered_tickets(of)))
        async with profile(storage, of["https"]) as page:
            assert await page.evaluate(KEPT, [options, ANSWERS]) == {"round": 0, "used": True}
            kill_browser(storage)
        async with profile(storage, of["https"]) as page:
            found = await page.evaluate(OPENED, [options, {}, {"theme": "light", "session": None}])
            assert found == {"round": 0, "used": False, "sent": True}
    assert running.verdict.problems == {}
    assert running.verdict.accepted == 1
