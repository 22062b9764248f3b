"""docs/tutorial.md runs to the letter in a fresh folder, and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support import run_pages
from support.patience import PATIENCE
from support.source_tree import ROOT

PAGE = ROOT / "docs" / "tutorial.md"


@pytest.mark.timeout(2 * PATIENCE)
def test_the_tutorial_runs_to_the_letter(tmp_path: Path) -> None:
    """All but the installation, which this environment stands for."""
    script = run_pages.steps("tutorial", after="Then make an empty folder")
    assert len(script) > 9
    printed = run_pages.run(script, tmp_path)
    unlike = [run_pages.unlike(step.shown, out) for step, out in zip(script, printed, strict=True)]
    assert [lines for lines in unlike if lines] == [], "\n".join(printed)
    assert (tmp_path / "trips" / "estimates.csv").read_text().count('"transport"') == 6


def test_the_tutorial_installs_as_the_page_on_installing_does() -> None:
    extra = re.search(r"pip install '\.\[(\w+)\]'", PAGE.read_text())
    assert extra is not None
    assert f"hubbub[{extra[1]}]" in (ROOT / "docs" / "howto" / "install.md").read_text()


def test_lines_are_compared_in_shape() -> None:
    printed = "made 7 of a\n│ car │ 1,142 │ ███▎ │\ndone in 3 s, at last\n"
    assert run_pages.unlike("made 12 of a\n…\ndone in 4 s, …\n", printed) == []
    assert run_pages.unlike("│ car │   -9 │ █ │\n", printed) == []
    assert run_pages.unlike("┏━━━┳━━━━━┓\n│ car │ 9 │ may be 0 │\n", "┏━━┳━━┳━━┓\n│ car │ 12 │\n") == []
    assert run_pages.unlike("│ bus │ 9 │\n", printed) == ["│ bus │ 9 │"]
    assert run_pages.unlike("done in 3 s\nmade 12 of a\n", printed) == ["done in 3 s"]
    assert run_pages.unlike("done in 3 s, …\nmade 12 of a\n", printed) == ["made 12 of a"]
