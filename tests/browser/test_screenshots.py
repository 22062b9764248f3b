"""Pictures of pages in the documentation: small, shown, of pages as they are now, and taken by a command."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from PIL import Image

from browser.screenshots import DIGESTS, FOLDER, LARGEST, ROOT, SCREENS, file_of, taken
from extensions.screens import dark_of
from extensions.tree import pages


def test_every_picture_is_small_and_in_the_light_and_in_the_dark() -> None:
    files = {file_of(name, scheme) for name in SCREENS for scheme in ("light", "dark")}
    assert set(FOLDER.glob("*.webp")) == files
    assert [path.name for path in files if not 0 < path.stat().st_size <= LARGEST] == []
    sizes = {path: Image.open(io.BytesIO(path.read_bytes())).size for path in files}
    assert {name for name in SCREENS if sizes[file_of(name, "light")] != sizes[file_of(name, "dark")]} == set()


def test_every_picture_is_shown_with_words_and_its_twin_is_found() -> None:
    texts = {page: (ROOT / page).read_text() for page in pages()}
    shown = {
        (path, words): dark_of(path, (ROOT / page).parent)
        for page, text in texts.items()
        for words, path in re.findall(r"!\[([^\]]*)\]\(([^)]*/screens/[^)]*)\)", text)
    }
    assert {path.rpartition("/")[2] for path, _ in shown} == {f"{name}.webp" for name in SCREENS}
    assert all(len(words) > 30 for _, words in shown)
    assert [path for (path, _), twin in shown.items() if twin != path.replace(".webp", "-dark.webp")] == []
    assert dark_of("https://example.org/round.webp", FOLDER) is None
    assert dark_of("round-dark.webp", FOLDER) is None


@pytest.mark.sampled("round", "certificate", "plan")
@pytest.mark.parametrize("name", SCREENS)
def test_a_page_says_what_it_said_when_its_picture_was_taken(name: str) -> None:
    assert SCREENS[name].digest == json.loads(DIGESTS.read_text())[name], "run make screenshots"


@pytest.mark.sampled("certificate")
@pytest.mark.parametrize("name", SCREENS)
async def test_a_picture_that_is_taken_anew_is_like_the_one_that_is_there(started: Any, name: str) -> None:
    for scheme, ground in (("light", (255, 255, 255)), ("dark", (22, 22, 26))):
        found = await taken(started, SCREENS[name], scheme)
        assert len(found) <= LARGEST
        image, there = (Image.open(io.BytesIO(each)) for each in (found, file_of(name, scheme).read_bytes()))
        # Fonts differ between machines, and so do heights.
        assert image.width == there.width
        assert image.getpixel((0, 0)) == there.getpixel((0, 0)) == ground
        assert abs(image.height - there.height) < there.height / 4
