"""Every page of the dashboard as somebody gets there: by its address, or by the forms that lead to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from hubbub.protos.records.results_document import results_document
from support.chromium import Tab
from support.dashboard import TASK, made_rounds
from support.shown_sites import ATTACKED

HERE = f"/task/{TASK.id.hex()}"
THERE = f"/task/{ATTACKED.id.hex()}"
PLANNED = "/plan?kind=histogram&categories=3&randomizer=krr&noise=none"
CERTIFICATE = made_rounds()[1].certificate
RESULTS = json.dumps(results_document(made_rounds()[0])).encode()
DEVICE = "ab" * 16

Act = Callable[[Tab], Awaitable[None]]


@dataclass(frozen=True)
class Place:
    """A page: the site, the address, and what is done there to come to it."""

    site: str
    path: str
    act: Act | None = None

    async def reach(self, tab: Tab) -> None:
        """Go there, in a tab that was let in to the site."""
        await tab.open(self.path)
        if self.act is not None:
            await self.act(tab)


def given(content: bytes, name: str = "certificate.json", known: bool = True) -> Act:
    """Give a file to the page of certificates."""

    async def act(tab: Tab) -> None:
        file = {"name": name, "mimeType": "application/json", "buffer": content}
        await tab.page.set_input_files("input[name=file]", file)
        if not known:
            await tab.page.uncheck("input[type=checkbox]")
        await tab.page.click("button")
        await tab.page.wait_for_selector("section[aria-label='What was found']")

    return act


async def close(tab: Tab) -> None:
    """Fill in the first form that closes a round."""
    await tab.page.click("button[aria-label='Close round 0']")
    await tab.page.wait_for_selector("text=Close round 0 now?")


async def revoke(tab: Tab) -> None:
    """Fill in the first form that revokes a device."""
    await tab.page.fill("textarea", DEVICE)
    await tab.page.click("text=Revoke…")
    await tab.page.wait_for_selector("text=Revoke 1 device?")


PLACES: Mapping[str, Place] = {
    "tasks": Place("drinks", "/"),
    "task": Place("drinks", HERE),
    "round": Place("drinks", f"{HERE}/round/0"),
    "withheld": Place("drinks", f"{HERE}/round/1"),
    "series": Place("drinks", f"{HERE}/series?query=drink"),
    "series with a gap": Place("drinks", f"{HERE}/series?query=milk"),
    "compare": Place("drinks", f"{HERE}/compare?a=0&b=2"),
    "no services": Place("drinks", "/services"),
    "certificate": Place("drinks", "/certificate"),
    "valid": Place("drinks", "/certificate", given(CERTIFICATE)),
    "of unknown keys": Place("drinks", "/certificate", given(RESULTS, "r.json", known=False)),
    "wrong": Place("drinks", "/certificate", given(CERTIFICATE[:-40], "x" * 200 + ".json")),
    "plan": Place("drinks", "/plan"),
    "planned": Place("drinks", f"{PLANNED}&people=1000"),
    "planned for millions": Place("drinks", f"{PLANNED}&people=1000000"),
    "no plan": Place("drinks", "/plan?people=x"),
    "no page": Place("drinks", "/nothing"),
    "attacked tasks": Place("attacked", "/"),
    "attacked task": Place("attacked", THERE),
    "attacked round": Place("attacked", f"{THERE}/round/1"),
    "attacked series": Place("attacked", f"{THERE}/series"),
    "attacked compare": Place("attacked", f"{THERE}/compare"),
    "spent": Place("spent", HERE),
    "down tasks": Place("down", "/"),
    "down task": Place("down", HERE),
    "down series": Place("down", f"{HERE}/series"),
    "services": Place("reader", "/services"),
    "operator": Place("operator", "/services"),
    "close": Place("operator", "/services", close),
    "revoke": Place("operator", "/services", revoke),
    "services down": Place("unanswered", "/services"),
}
"""Every page, by what it shows."""
