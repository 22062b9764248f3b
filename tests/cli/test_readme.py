"""The README is one screen whose links lead somewhere; the pages it sends a newcomer to run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.patience import PATIENCE
from support.source_tree import ROOT

README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.M | re.S)
MOST_LINES = 150

RUN = {
    "run-on-one-machine": ("acknowledged: task usage, round 0", "Receipt(", "the certificate holds"),
    "account-for-batches": ("epsilon_upper", "0.3616", '"epsilon_upper"'),
}
"""Pages whose blocks are one script, in an empty folder, with some of what it prints."""


def script(page: str) -> str:
    """A page's blocks as one shell script that stops at the first failure, and stops its services at the end."""
    parts = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
    for language, block in BLOCK.findall((ROOT / f"docs/howto/{page}.md").read_text()):
        parts.append(block if language == "sh" else f"python - <<'PROGRAM'\n{block}PROGRAM")
    return "\n".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_pages_for_newcomers_run_as_they_stand(tmp_path: Path, page: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script(page)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [text for text in RUN[page] if text not in done.stdout] == []


def test_the_readme_is_one_screen_that_leads_on() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    named = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_pictures_of_the_readme_are_in_the_repository() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert pictures
    assert [name for name in pictures if "<svg" not in (ROOT / name).read_text()] == []


def test_commands_that_the_readme_names_are_there() -> None:
    from hubbub.cli.main import COMMANDS

    assert set(re.findall(r"hubbub ([a-z]+)", README)) & set(COMMANDS) >= {"demo", "plan", "verify"}
    assert set(re.findall(r"`hubbub ([a-z]+)", README)) <= set(COMMANDS)
