"""What people do in a real browser: get in, move by keyboard alone, fill in forms, act twice, and save files."""

from __future__ import annotations

from typing import Any

from browser.addresses import CERTIFICATE, DEVICE, HERE, given
from browser.conftest import Entered, Lying
from hubbub.protos.messages import RoundState
from hubbub.results import ResultsTable, Trust
from support.chromium import Tab, tab_of
from support.dashboard import made_rounds
from support.shown_sites import ATTACKED, DIRECTED, NAMES

FOCUSED = (
    """(at => (at.tagName === "SELECT" ? at.value : at.innerText || at.value || "").trim())(document.activeElement)"""
)


async def tab_to(tab: Tab, words: str, most: int = 60) -> None:
    """Press the tabulator until what has these words has the focus."""
    for _ in range(most):
        await tab.page.keyboard.press("Tab")
        if await tab.page.evaluate(FOCUSED) == words:
            return
    raise AssertionError(f"the keyboard does not reach {words!r}")


async def follow(tab: Tab, words: str) -> None:
    """Follow a link or press a button by keyboard, and wait for the page that it leads to."""
    await tab_to(tab, words)
    async with tab.page.expect_navigation():
        await tab.page.keyboard.press("Enter")


async def test_the_address_with_the_token_lets_in_and_no_script_has_the_cookie(started: Any, sites: Any) -> None:
    at, address = sites("drinks")
    async with tab_of(started, at) as tab:
        assert (await tab.open("/")).status == 403
        await tab.open(address)
        assert tab.page.url == f"{at}/"
        assert await tab.page.evaluate("document.cookie") == ""
        (cookie,) = await tab.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


async def test_the_first_stop_skips_the_navigation_and_is_in_sight(started: Any, entered: Entered) -> None:
    async with entered("drinks") as tab:
        await tab.open(HERE)
        box = "document.querySelector('.skip').getBoundingClientRect().left"
        assert await tab.page.evaluate(box) < 0
        await tab.page.keyboard.press("Tab")
        assert await tab.page.evaluate(FOCUSED) == "Skip to the content"
        assert await tab.page.evaluate(box) >= 0
        await tab.page.keyboard.press("Enter")
        await tab.page.keyboard.press("Tab")
        assert await tab.page.evaluate("document.activeElement.closest('main') !== null")


async def test_two_rounds_are_compared_by_keyboard_alone_without_javascript(started: Any, entered: Entered) -> None:
    async with entered("drinks", java_script_enabled=False) as tab:
        await follow(tab, "drinks")
        await follow(tab, "Compare two rounds")
        await tab_to(tab, "1")
        await tab.page.keyboard.press("Home")
        await follow(tab, "Compare")
        assert "Round 2 less round 0." in await tab.words()
        table = ResultsTable(made_rounds(), Trust(True))
        wanted = table.compare_all(table.where(round=2).rows, table.where(round=0).rows)
        shown = await tab.page.eval_on_selector_all("data", "all => all.map(each => Number(each.value))")
        assert shown == [each.value for each in wanted]


async def test_the_operator_closes_and_revokes_by_keyboard_in_two_forms(
    started: Any, entered: Entered, answers: Lying
) -> None:
    async with entered("operator") as tab:
        try:
            await tab.open("/services")
            await follow(tab, "Close…")
            assert answers.done == []
            await follow(tab, "Close round 0 now")
            assert "Round 0 is closed" in await tab.words()
            await tab.open("/services")
            await tab_to(tab, "")
            await tab.page.keyboard.type(DEVICE)
            await follow(tab, "Revoke…")
            assert [what for what, *_ in answers.done] == ["close"]
            await follow(tab, "Revoke 1 device")
            assert [what for what, *_ in answers.done] == ["close", "revoke"]
            assert tab.said == []
        finally:
            answers.done.clear()
            answers.state = RoundState.OPEN


async def test_a_file_that_is_dropped_into_the_form_is_checked_and_every_file_is_saved(
    started: Any, entered: Entered
) -> None:
    async with entered("drinks") as tab:
        await tab.open("/certificate")
        await given(CERTIFICATE)(tab)
        assert "The certificate is valid." in await tab.words()
        await tab.open(f"{HERE}/round/1")
        async with tab.page.expect_download() as saved:
            await tab.page.click("text='certificate'")
        path = await (await saved.value).path()
        assert path.read_bytes() == CERTIFICATE


async def test_names_that_attack_a_page_are_shown_as_they_are_and_nothing_runs(started: Any, entered: Entered) -> None:
    async with entered("attacked") as tab:
        await tab.open(f"/task/{ATTACKED.id.hex()}/round/0")
        labels = await tab.page.locator("table").first.locator("th[scope=row]").all_inner_texts()
        assert labels == list(NAMES)
        assert await tab.page.evaluate("document.querySelectorAll('main b, main img, script').length") == 0
        assert await tab.page.title() == f"{ATTACKED.name}, round 0"


async def test_words_that_turn_the_direction_of_others_have_lost_that(started: Any, entered: Entered) -> None:
    async with entered("reader") as tab:
        await tab.open("/services")
        words = await tab.words()
        assert "the disk is " in words
        assert not set(words) & set(DIRECTED[:1] + "\u2066")
    async with entered("down") as tab:
        await tab.open("/")
        assert "does not answer \ufffdgnp.exe\ufffd<b>" in await tab.words()
