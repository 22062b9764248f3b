"""The sample page asks one question, and says what is sent, what protects a person, and what it costs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from web.conftest import Pages
from web.test_conformance import about, numbered_tickets, options_of, running_in

from hubbub.deploy.conformance.trial import Trial
from support.chromium import PHONE, Tab
from support.web_client import FOLDER

PAGE = "/sample/index.html"


async def asked(tab: Tab) -> None:
    """Open the page; return once it asks."""
    await tab.open(PAGE)
    await tab.page.wait_for_selector("#form:not([hidden])")


@contextlib.asynccontextmanager
async def shown(pages: Pages, running: Trial) -> AsyncIterator[tuple[Tab, dict[str, str]]]:
    """A tab at the origin of a trial's shuffler, with what the page is told of it."""
    of = about(running)
    told = {"/sample/hubbub.json": json.dumps(options_of(of, next(numbered_tickets(of))))}
    async with pages(of["https"], told) as tab:
        yield tab, of


def test_its_policy_allows_its_own_files_alone() -> None:
    page = (FOLDER / "sample" / "index.html").read_text()
    (policy,) = (line for line in page.splitlines() if "Content-Security-Policy" in line)
    assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy


async def test_it_says_what_is_sent_before_it_is_sent_and_sends_one_answer(
    pages: Pages, started: Any, tmp_path: Path
) -> None:
    # The page's task is of one question: of more, the others would have no answer.
    async with running_in(tmp_path, one_question=True) as running, shown(pages, running) as (tab, of):
        await asked(tab)
        await tab.page.click("text=dark")
        await tab.page.click("#preview")
        await tab.page.wait_for_selector("#shown:not([hidden])")
        words = await tab.words()
        assert "Your answer is encoded as “dark”" in words
        assert "116 bytes leave this browser, whatever you answer" in words
        assert "at least 1000 people answer" in words
        assert await tab.faults() == []
        assert running.verdict.accepted == 0
        await tab.page.click("text=Send privately")
        await tab.page.wait_for_selector("text=Thank you. Your answer arrived.")
        await tab.page.click("text=Send privately")
        await tab.page.wait_for_selector("text=your first answer counts")
        assert {each.split("/")[2] for each in tab.asked} == {of["https"].split("/")[2]}
    assert running.verdict.problems == {}
    assert running.verdict.accepted == 1


async def test_who_does_not_want_to_be_asked_is_not_and_phones_show_all_of_it(
    pages: Pages, started: Any, tmp_path: Path
) -> None:
    async with running_in(tmp_path, one_question=True) as running, shown(pages, running) as (tab, _):
        await tab.page.set_viewport_size(PHONE)
        await asked(tab)
        assert await tab.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        await tab.page.click("#opt-out")
        await tab.page.wait_for_selector("text=Done.")
        assert await tab.page.is_hidden("#form")
        await tab.open(PAGE)
        await tab.page.wait_for_selector("#opt-in:not([hidden])")
        assert await tab.page.is_hidden("#form")
        assert await tab.faults() == []
        assert tab.said == []
    assert running.verdict.seen.total() == 0
