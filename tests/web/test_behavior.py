"""What the TypeScript client stores, sends again, discards and refuses: over files, and over IndexedDB in a browser.

The claims are in `clients/typescript/test/behavior.ts`; each is a result of its own.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from web.conftest import Pages
from web.test_vectors import failed

from support.patience import PATIENCE
from support.web_client import DIST, node, run_program, vector_folders

CLAIMS = 36


@pytest.fixture(scope="session")
def claimed(built: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[str, str | None]], Path]:
    states = tmp_path_factory.mktemp("states")
    return run_program("vectors.js", vector_folders(), "--behavior", states), states


def test_every_claim_holds_over_files(claimed: tuple[list[tuple[str, str | None]], Path]) -> None:
    results, _ = claimed
    assert failed(results) == {}
    assert len(results) == CLAIMS


def test_others_cannot_read_the_files_and_one_alone_has_a_state(
    claimed: tuple[list[tuple[str, str | None]], Path],
) -> None:
    _, states = claimed
    for folder in states.iterdir():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = list(folder.iterdir())
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} <= {0o600}
        assert len([file for file in files if file.stat().st_size]) == 1
        assert {file.name.partition("-")[0] for file in files} == {"state"}


async def test_every_claim_holds_in_a_real_browser(
    pages: Pages, claimed: tuple[list[tuple[str, str | None]], Path], started: Any
) -> None:
    async with pages() as tab:
        await tab.open("/")
        results = await tab.page.evaluate("hubbub.behavior()")
        assert tab.said == []
    assert failed(results) == {}
    assert [name for name, _ in results] == [name for name, _ in claimed[0]]


async def test_a_page_by_plain_http_is_told_what_it_lacks(pages: Pages, started: Any) -> None:
    async with pages("http://app.example.org") as tab:
        await tab.open("/")
        said = await tab.page.evaluate("hubbub.opened({}, {name: 'plain'}).catch((error) => error.message)")
        assert said.startswith("this page cannot encrypt answers")


MANY_CHANGES = """
import { FileStore } from %r;
const [, , folder, name, count] = process.argv;
const store = new FileStore(folder);
for (let place = 0; place < Number(count); place++) {
  await store.change((state) => { state.successions.push(`${name} ${place}`); });
}
"""


def test_programs_that_change_one_state_at_once_lose_no_change(built: None, tmp_path: Path) -> None:
    program = tmp_path / "change.mjs"
    program.write_text(MANY_CHANGES % str(DIST / "node.js"))
    folder, count = tmp_path / "state", 40
    running = [
        subprocess.Popen([str(node()), program, folder, name, str(count)], stderr=subprocess.PIPE) for name in "abc"
    ]
    for each in running:
        _, said = each.communicate(timeout=PATIENCE)
        assert each.returncode == 0, said
    (newest,) = (file for file in folder.iterdir() if file.stat().st_size)
    changes = json.loads(newest.read_text())["successions"]
    assert sorted(changes) == sorted(f"{name} {place}" for name in "abc" for place in range(count))


def test_what_a_killed_program_left_behind_is_erased_by_the_next(built: None, tmp_path: Path) -> None:
    program = tmp_path / "change.mjs"
    program.write_text(MANY_CHANGES % str(DIST / "node.js"))
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "new-0123").write_text("drawn, and never kept")
    (folder / "state-1").write_text('{"format": "hubbub-device/1", "successions": [], "tasks": {}}')
    os.link(folder / "state-1", folder / "state-2")
    (folder / "state-1").unlink()
    (folder / "state-1").write_text("an earlier state, which the killed program was about to erase")
    subprocess.run([str(node()), program, folder, "a", "1"], check=True, timeout=PATIENCE)
    sizes = {file.name: file.stat().st_size > 0 for file in folder.iterdir()}
    assert sizes == {"state-1": False, "state-2": False, "state-3": True}
