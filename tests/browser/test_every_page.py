"""Every page in a real browser: accessible, quiet, by keyboard, on a phone, in the dark, without JavaScript."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from browser.addresses import PLACES
from browser.conftest import Entered
from browser.visits import Visit, faults_of, look

SEEN: dict[str, Visit] = {}
"""What was noted of each page that this process looked at: several tests ask for it."""

EXPECTED = "Failed to load resource: the server responded with a status of 40"
"""What a console says of a page whose status is an error: that is no fault of the page."""

every_page = pytest.mark.parametrize("name", PLACES)
# The others differ from one of these in their words.
usual = pytest.mark.sampled("withheld", "gap", "valid", "millions", "no plan", "attacked", "operator", "services down")


async def visited(entered: Entered, name: str) -> Visit:
    """Look at a page in every way, once in this process."""
    if name not in SEEN:
        place = PLACES[name]
        async with entered(place.site) as tab:
            await place.reach(tab)
            SEEN[name] = await look(tab)
    return SEEN[name]


@every_page
@usual
async def test_it_is_accessible_by_keyboard_on_a_phone_and_in_the_dark(
    started: Any, entered: Entered, name: str
) -> None:
    assert faults_of(await visited(entered, name)) == []


@every_page
@usual
async def test_the_console_says_nothing_and_no_other_host_is_asked(started: Any, entered: Entered, name: str) -> None:
    visit = await visited(entered, name)
    errors = [line for line in visit.said if not line.startswith(EXPECTED)]
    assert (errors, visit.title == "run") == ([], False)
    assert any(line.startswith(EXPECTED) for line in visit.said) == (name in ("no page", "no plan"))
    hosts = {urlsplit(each)[:2] for each in visit.asked}
    assert hosts == {("http", urlsplit(visit.asked[0]).netloc)}


# A cheaper test of each page has no script in it: tests/unit/pages/dashboard/views/test_analyst.py.
@every_page
@pytest.mark.sampled("compare", "close")
async def test_without_javascript_it_says_the_same(started: Any, entered: Entered, name: str) -> None:
    place = PLACES[name]
    async with entered(place.site, java_script_enabled=False) as tab:
        await place.reach(tab)
        without = await tab.words()
    assert undated(without) == undated((await visited(entered, name)).words)


def undated(words: str) -> str:
    """The words of a page without the time when services were asked."""
    return re.sub(r"As of \S+;", "", words)
