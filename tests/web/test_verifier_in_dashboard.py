"""The dashboard's page of certificates leads to the verifier, which checks in the browser, apart from all pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from web.test_verifier import EXAMPLE
from web.test_verifier_page import PAGE, check

from hubbub.pages.dashboard.verifier import ADDRESS, BUILT, verifier_in
from support.chromium import Tab, serving, tab_of
from support.dashboard import made_rounds, site_of, stub
from support.source_tree import ROOT

# Where the page would reach the dashboard, or the window that it was opened from, if it could.
OUTSIDE = {
    "the cookie": "document.cookie",
    "what is stored": "localStorage.length",
    "another page in a frame": """new Promise((found, lost) => {
        const frame = document.createElement("iframe");
        frame.onload = () => frame.contentDocument ? found("its text") : lost(new Error("another origin"));
        frame.src = "/services";
        document.body.append(frame);
    })""",
    "another page by a call": "fetch('/services', {credentials: 'include'}).then(answer => answer.text())",
    "another window": "(found => { if (found === null) throw new Error('no window'); })(window.open('/services'))",
}


def test_the_built_page_is_one_that_the_dashboard_serves(built: None) -> None:
    assert ROOT / BUILT == PAGE
    assert verifier_in(PAGE).text == PAGE.read_text()


async def does(tab: Tab, script: str) -> bool:
    """Whether a script of the page gets what it is after, and is not refused."""
    from playwright.async_api import Error

    try:
        await tab.page.evaluate(script)
    except Error:
        return False
    return True


async def test_the_page_of_certificates_leads_to_a_check_in_the_browser(
    built: None, started: Any, tmp_path: Path
) -> None:
    certificate, changed = tmp_path / "certificate.json", tmp_path / "changed.json"
    certificate.write_bytes(made_rounds()[1].certificate)
    changed.write_bytes(certificate.read_bytes().replace(b"120", b"121", 1))
    with serving(replace(site_of(stub()), verifier=verifier_in(PAGE))) as (at, address):
        async with tab_of(started, at) as tab:
            await tab.open(address)
            await tab.open("/certificate")
            assert await tab.faults() == []
            await tab.page.click("text=The verifier's page")
            await tab.page.wait_for_url(f"{at}{ADDRESS}")
            # The address is the dashboard's, the origin is nobody's.
            assert await tab.page.evaluate("self.origin") == "null"
            asked = len(tab.asked)
            verdict, lines = await check(tab, EXAMPLE / "certificate.json", EXAMPLE / "results.json")
            assert verdict.startswith("Nothing is wrong in what was checked here. ")
            assert any("follows from the counts" in line for line in lines)
            verdict, _ = await check(tab, certificate)
            assert verdict.startswith("Nothing is wrong in what was checked here. ")
            verdict, _ = await check(tab, changed)
            assert verdict == "Something is wrong: do not use these numbers."
            assert (tab.asked[asked:], tab.said) == ([], [])
            assert [what for what, script in OUTSIDE.items() if await does(tab, script)] == []
