"""Takes the pictures of pages in docs/pictures/screens, in the light and in the dark: `make screenshots`.

Each is of a page that tests look at too. `pages.json` has a digest of the words of each page, without its numbers: a
test compares it with the page as it is now, also where there is no browser.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from hubbub.pages.dashboard.access import Access
from hubbub.pages.dashboard.checked_results import CheckedResults
from hubbub.pages.dashboard.site import Site
from hubbub.pages.dashboard.sources import opened
from hubbub.protos.task.about import About
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Privacy
from hubbub.queries.questions.histogram import Histogram
from support.chromium import LACKING, Tab, chromium, is_there, serving, tab_of
from support.dashboard import PARTIES, Browser, MadeUp, StubReader, at_once, site_of
from support.html_page import Page
from support.krr_queries import krr_query
from support.samples import START, changed, sample_task, signed

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures" / "screens"
DIGESTS = FOLDER / "pages.json"
COMMUTE = ROOT / "docs" / "examples" / "commute"

LARGEST = 60_000
"""Bytes of a picture: a page of the documentation has a few."""

WIDTH, SHARP, COLORS = 760, 1.5, 96
"""Of a page, in its own units; how many pixels a unit has; and how many colors a picture keeps."""

MEALS = ("soup", "pasta", "salad", "nothing")
DAYS = 9
LUNCH = changed(
    sample_task(
        PARTIES,
        name="lunch",
        minimum_reports=500,
        schedule=Schedule(START, length=86_400, grace=60, rounds=14),
        queries=(krr_query(Histogram("lunch", MEALS), 2**29),),
        privacy=Privacy(epsilon=10.0, delta=1e-4, epsilon_local=20.0, epsilon_total=100.0),
    ),
    about=About("the canteen", "How much to cook", None, (("lunch", "What did you eat?"),)),
)


def eaten(day: int, device: int, many: int) -> int:
    """The meal of a device: more soup each day, and less salad."""
    return 0 if device % 24 < 4 + day else 1 if device % 24 < 13 else 2 if device % 24 < 20 else many - 1


@cache
def lunches() -> Site:
    """Return the dashboard of made-up rounds, of which one has too few answers."""
    valid = tuple((300 if day == 5 else 600,) for day in range(DAYS))
    return site_of(StubReader(MadeUp(LUNCH, valid, 600, eaten).rounds(), signed(LUNCH, PARTIES)))


@cache
def commute() -> Site:
    """Return the dashboard of the example."""
    found = opened([COMMUTE / "results.json"], COMMUTE)
    return Site(
        CheckedResults(found.reader, found.pins, at_once), Access.at("127.0.0.1", 8737), "docs/examples/commute"
    )


@dataclass(frozen=True)
class Screen:
    """A page to take a picture of, down to an element; with a file, the answer to it."""

    site: Any
    path: str
    until: str
    file: Path | None = None

    @property
    def digest(self) -> str:
        """A digest of the words of the page as it is now, without its numbers."""
        browser = Browser(self.site())
        if self.file is None:
            seen = browser.get(self.path)
        else:
            files = {"file": (self.file.name, self.file.read_bytes())}
            seen = browser.post(self.path, {"pinned": "yes"}, files=files)
        words = re.sub(r"\d+", "#", " ".join(Page(seen.text).words.split()))
        return hashlib.sha256(words.encode()).hexdigest()

    async def reach(self, tab: Tab) -> None:
        """Come to the page."""
        await tab.open(self.path)
        if self.file is not None:
            await tab.page.set_input_files("input[name=file]", str(self.file))
            async with tab.page.expect_navigation():
                await tab.page.click("button")


def _task(name: str) -> str:
    task_id = json.loads((COMMUTE / "results.json").read_text())["task"]["id"] if name == "commute" else LUNCH.id.hex()
    return f"/task/{task_id}"


SCREENS: Mapping[str, Screen] = {
    "round": Screen(commute, f"{_task('commute')}/round/0", "main figure >> nth=0"),
    "series": Screen(lunches, f"{_task('lunch')}/series", "main figure >> nth=2"),
    "certificate": Screen(commute, "/certificate", "main ul >> nth=0", COMMUTE / "certificate.json"),
    "plan": Screen(commute, "/plan?categories=5&people=2000&epsilon=1&noise=none", "main figure >> nth=0"),
}
"""Every picture, by its name."""


async def taken(started: Any, screen: Screen, scheme: str) -> bytes:
    """Take the picture of a page, as WebP."""
    from PIL import Image

    options = {"viewport": {"width": WIDTH, "height": 800}, "device_scale_factor": SHARP, "color_scheme": scheme}
    with serving(screen.site()) as (at, address):
        async with tab_of(started, at, **options) as tab:
            await tab.open(address)
            await screen.reach(tab)
            box = await tab.page.locator(screen.until).bounding_box()
            clip = {"x": 0, "y": 0, "width": WIDTH, "height": box["y"] + box["height"] + 16}
            shot = await tab.page.screenshot(clip=clip, full_page=True)
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    written = io.BytesIO()
    image.convert("RGB").save(written, "webp", lossless=True, quality=100, method=6)
    return written.getvalue()


def file_of(name: str, scheme: str) -> Path:
    """Return where a picture is."""
    return FOLDER / (f"{name}.webp" if scheme == "light" else f"{name}-dark.webp")


async def take_all() -> None:
    """Take all pictures, and write them with the digests of their pages."""
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as started:
        for name, screen in SCREENS.items():
            for scheme in ("light", "dark"):
                file_of(name, scheme).write_bytes(await taken(started, screen, scheme))
    digests = {name: screen.digest for name, screen in SCREENS.items()}
    DIGESTS.write_text(json.dumps(digests, indent=2) + "\n")


def main() -> None:
    if not is_there():
        raise SystemExit(LACKING)
    asyncio.run(take_all())


if __name__ == "__main__":
    main()
