"""Pages of docs/howto that run as they stand, in one folder, and print what they show."""

from __future__ import annotations

import shutil
from pathlib import Path

from support import run_pages
from support.markdown_blocks import fenced
from support.source_tree import ROOT
from support.thoroughness import EXHAUSTIVE

EXAMPLE = ROOT / "docs" / "examples" / "commute"


def _run_in_a_copy(page: str, script: list[run_pages.Step], folder: Path, *, from_nothing: bool = False) -> list[str]:
    """Run steps of a page where it says: in a copy of the example, so that nothing is left in the checkout."""
    bash = (block.text for block in fenced((ROOT / "docs" / f"{page}.md").read_text()) if block.language == "bash")
    copying = next(bash)
    assert str(EXAMPLE.relative_to(ROOT)) in copying
    before = sorted(EXAMPLE.rglob("*"))
    printed = run_pages.run(
        script, ROOT, f"export TMPDIR='{folder}'\n{copying}\ntest \"$PWD\" != '{ROOT}'", from_nothing=from_nothing
    )
    assert sorted(EXAMPLE.rglob("*")) == before
    return printed


def test_commands_of_planning_by_error_print_what_the_page_shows(tmp_path: Path) -> None:
    """In a usual run all but other values of the same options, and solving for an error: test_plan_by_error.py does."""
    left_out = () if EXHAUSTIVE else ("heavier.toml", "weaker.toml", "larger.toml", "--error")
    script = [
        step for step in run_pages.steps("howto/plan-by-error") if not any(name in step.commands for name in left_out)
    ]
    assert len(script) > 4
    printed = run_pages.run(script, tmp_path)
    for step, out in zip(script, printed, strict=True):
        assert run_pages.unlike(step.shown, out, exactly=True) == [], out


def test_an_outsider_sees_what_the_page_shows(tmp_path: Path) -> None:
    """All but the proof, which takes most of a minute: tests of `--rigorous` are elsewhere.

    With the program that is installed: other pages' commands are forked.
    """
    page = "howto/verify-as-an-outsider"
    script = [step for step in run_pages.steps(page) if "--rigorous" not in step.commands]
    assert len(script) > 3
    printed = _run_in_a_copy(page, script, tmp_path, from_nothing=True)
    for step, out in zip(script, printed, strict=True):
        assert run_pages.unlike(step.shown, out, exactly=True) == [], out


def test_a_report_is_written_as_the_page_says(tmp_path: Path) -> None:
    page = "howto/hand-on-a-report"
    script = run_pages.steps(page)
    assert len(script) == 2
    for step, out in zip(script, _run_in_a_copy(page, script, tmp_path), strict=True):
        assert run_pages.unlike(step.shown, out, exactly=True) == [], out


def test_a_log_is_kept_witnessed_and_checked_as_the_page_says(tmp_path: Path) -> None:
    page = "howto/keep-a-transparency-log"
    script = run_pages.steps(page)
    assert len(script) == 7
    for step, out in zip(script, _run_in_a_copy(page, script, tmp_path), strict=True):
        assert run_pages.unlike(step.shown, out, exactly=True) == [], out


def test_other_clients_compile_the_calls_and_open_the_vector_as_the_page_says(tmp_path: Path) -> None:
    for folder in ("protos", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    *script, client = [*run_pages.steps("howto/write-a-client"), *run_pages.steps("howto/check-a-client")]
    assert "CONFORMANCE" in client.commands  # tests/cli/test_conformance.py runs it
    printed = run_pages.run(script, tmp_path, 'protoc() { python -m grpc_tools.protoc "$@"; }')
    assert printed == [step.shown for step in script]
    assert len(script) == 2
    assert printed[-1] == "True\nTrue\n"


def test_a_randomizer_is_contributed_as_the_page_says(tmp_path: Path) -> None:
    """In a copy of the sources, which Python finds before those that are installed."""
    for folder in (each.parent for each in ROOT.glob("*/__init__.py")):
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "src" / "hubbub").mkdir(parents=True)
    shutil.copy(ROOT / "src" / "hubbub" / "__init__.py", tmp_path / "src" / "hubbub")
    script = run_pages.steps("howto/contribute-a-randomizer")
    before = 'export PYTHONPATH=src\nhubbub() { python -m hubbub.cli.main "$@"; }'
    printed = run_pages.run(script, tmp_path, before)
    for step, out in zip(script, printed, strict=True):
        assert run_pages.unlike(step.shown, out, exactly=True) == [], out
