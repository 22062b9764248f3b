"""The verifier in a real browser: it finds what Node finds, and its page is one file that calls nobody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from web.conftest import Pages
from web.test_verifier import EXAMPLE, NOISE, SIGNED, Verifying, of, pinned, sound
from web.test_verifier import verifying as verifying

from support.chromium import PHONE, Tab, tab_of
from support.web_client import DIST
from vectors.make_signed import PARTIES

PAGE = DIST / "verify" / "index.html"


async def test_a_real_browser_finds_what_node_finds(pages: Pages, started: Any, verifying: Verifying) -> None:
    names = ("kinds/noise", "example", "history", "results of several", "results of distribution", "results of text")
    cases = [sound()[name] for name in names] + [of(SIGNED.read_bytes().replace(b"120", b"121", 1))]
    async with pages() as tab:
        await tab.open("/")
        found = await tab.page.evaluate("cases => hubbub.verified(cases)", cases)
        assert tab.said == []
    assert found == verifying(cases)


def test_its_policy_allows_its_own_script_and_style_alone(built: None) -> None:
    page = PAGE.read_text()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert rules.pop(rule) == f"'sha256-{digest}'"
    assert set(rules) == {
        *("default-src", "base-uri", "form-action", "require-trusted-types-for", "trusted-types"),
    }
    assert {rules[name] for name in ("default-src", "base-uri", "form-action", "trusted-types")} == {"'none'"}
    assert not re.search(r"<(link|img|iframe)|https?://(?!www\.w3\.org)", page.split("<script>")[0])


async def check(tab: Tab, *files: Path, **typed: str) -> tuple[str, list[str]]:
    """Choose files and type keys; return the verdict, and the lines."""
    await tab.page.set_input_files("#files", [str(each) for each in files])
    for name, text in typed.items():
        await tab.page.fill(f"#{name}", text)
    await tab.page.click("text=Check >> nth=-1")
    # Not by a function: the page's policy lets nobody evaluate one.
    await tab.page.wait_for_selector("#verdict:text-matches('^(Nothing|Something)')")
    lines: list[str] = await tab.page.locator("#lines li").all_inner_texts()
    return await tab.page.inner_text("#verdict"), lines


async def test_from_a_file_it_checks_and_asks_nobody(started: Any, tmp_path: Path) -> None:
    changed = tmp_path / "results.json"
    results = json.loads((EXAMPLE / "results.json").read_text())
    results["queries"][0]["counts"][0]["estimate"] += 1e-5
    changed.write_text(json.dumps(results))
    async with tab_of(started) as tab:
        await tab.open(PAGE.as_uri())
        assert await tab.faults() == []
        verdict, lines = await check(tab, EXAMPLE / "certificate.json", EXAMPLE / "results.json")
        assert verdict.startswith("Nothing is wrong in what was checked here. ")
        assert verdict.endswith("Anybody could have made it, until you compare the keys.")
        assert any("every number of transport, duration follows from the counts" in line for line in lines)
        assert any(line.startswith("not checked here: ") and "hubbub verify" in line for line in lines)
        assert sum(line.startswith("compare this yourself: ") for line in lines) == 3
        assert await tab.faults() == []
        keys = {role: (EXAMPLE / f"{role}.pub.pem").read_text().replace("\n", " ") for role in pinned(PARTIES)}
        verdict, lines = await check(tab, EXAMPLE / "certificate.json", **keys)
        assert not any(line.startswith("compare this yourself: ") for line in lines)
        verdict, lines = await check(tab, NOISE, operator=pinned(PARTIES)["shuffler"])
        assert verdict == "Something is wrong: do not use these numbers."
        assert "(pin)" in lines[0]
        verdict, lines = await check(tab, changed, operator="")
        assert verdict == "Something is wrong: do not use these numbers."
        assert "estimate" in lines[0]
        await tab.page.set_viewport_size(PHONE)
        assert await tab.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
        assert {each for each in tab.asked if not each.startswith("file:")} == set()
        assert tab.said == []


@pytest.mark.parametrize("typed", ["no key", "00" * 31, "zz" * 32])
async def test_what_is_typed_as_a_key_and_is_none_stops_the_check(started: Any, typed: str) -> None:
    async with tab_of(started) as tab:
        await tab.open(PAGE.as_uri())
        verdict, (line,) = await check(tab, NOISE, shuffler=typed)
        assert verdict == "Nothing was checked."
        assert "the shuffler has no readable public key" in line
