"""Every command and every program of the README runs, in its order, in an empty folder; `make …` is CI's business."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.patience import PATIENCE

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.M | re.S)


def script() -> str:
    """The README's blocks as one shell script that stops at the first failure, and stops its services at the end."""
    parts = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
    for language, block in BLOCK.findall(README.read_text()):
        parts.append(block if language == "sh" else f"python - <<'PROGRAM'\n{block}PROGRAM")
    return "\n".join(parts)


@pytest.mark.slow
def test_readme_runs_as_it_stands(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script()],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "acknowledged: task usage, round 0" in done.stdout
    assert "Receipt(" in done.stdout
    assert "the certificate holds" in done.stdout


def test_every_command_is_in_the_readme() -> None:
    from hubbub.cli.main import COMMANDS

    text = README.read_text()
    assert [name for name in COMMANDS if f"hubbub {name}" not in text] == []


def test_the_readme_has_commands_and_programs_to_run() -> None:
    languages = [language for language, _ in BLOCK.findall(README.read_text())]
    assert (languages.count("sh"), languages.count("python")) >= (4, 2)


def test_pictures_of_the_readme_are_in_the_repository() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README.read_text())
    assert len(pictures) == 2
    for name in pictures:
        assert (README.parent / name).read_text().startswith("<?xml")
