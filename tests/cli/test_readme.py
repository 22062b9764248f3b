"""The README is one screen whose links lead somewhere; the pages it sends a newcomer to run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import run_pages
from support.patience import PATIENCE
from support.source_tree import ROOT

README = (ROOT / "README.md").read_text()
MOST_LINES = 150

RUN = {
    "run-on-one-machine": ("acknowledged: task usage, round 0", "Receipt(", "the certificate is valid"),
    "account-for-batches": ("epsilon_upper", "0.36159142", '"epsilon_upper"'),
}
"""Pages whose blocks are one script, in an empty folder, with some of what it prints."""


@pytest.mark.timeout(2 * PATIENCE)
@pytest.mark.parametrize("page", RUN)
def test_pages_for_newcomers_run_as_they_stand(tmp_path: Path, page: str) -> None:
    printed = "".join(run_pages.run(run_pages.steps(f"howto/{page}"), tmp_path))
    assert [text for text in RUN[page] if text not in printed] == []


def test_the_readme_is_one_screen_that_leads_on() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    named = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_pictures_of_the_readme_are_in_the_repository() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert pictures
    begun = {"svg": b"<svg", "webp": b"RIFF"}
    kinds = {name: begun[name.rpartition(".")[2]] for name in pictures}
    assert [name for name, kind in kinds.items() if kind not in (ROOT / name).read_bytes()[:400]] == []


def test_commands_that_the_readme_names_are_there() -> None:
    from hubbub.cli.main import COMMANDS

    assert set(re.findall(r"hubbub ([a-z]+)", README)) & set(COMMANDS) >= {"demo", "plan", "verify"}
    assert set(re.findall(r"`hubbub ([a-z]+)", README)) <= set(COMMANDS)
