"""Paths are there, programs run, hooks check what the make targets check."""

from __future__ import annotations

import re
import subprocess
import tomllib

import pytest
import yaml

from hubbub.cli.registry import NEEDS, SERVICES
from support.source_tree import ROOT

PROGRAM = re.compile(r"(?ms)^```python\n(.*?)^```$")
NAMED = re.compile(r"`([\w.-]+/[\w./*-]*)`")
MADE = (".venv", "site/", "src/hubbub/")
"""Beginnings of paths that a target makes, or that are there as links."""

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "reference" / "api").glob("*.md"))


@pytest.mark.parametrize("page", [page for page in PAGES if PROGRAM.search((ROOT / page).read_text())])
def test_programs_of_the_reference_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for program in PROGRAM.findall((ROOT / page).read_text()):
        exec(compile(program, page, "exec"), {})  # noqa: S102
    assert capsys.readouterr().out


@pytest.mark.parametrize("text", ["CONTRIBUTING.md", "docs/explanation/design.md"])
def test_files_that_are_named_are_there(text: str) -> None:
    named = set(NAMED.findall((ROOT / text).read_text()))
    there = {name for name in named if not name.startswith(MADE) and not re.search(r"NAME|FOLDER", name)}
    assert len(there) > 1
    # A file may be named from its folder on: `unit/` of the tests.
    places = [ROOT, *(ROOT / folder for folder in ("tests", "tests/simulation"))]
    assert sorted(name for name in there if not any(list(place.glob(name)) for place in places)) == []


def test_hooks_run_what_the_make_targets_run_and_download_nothing() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [each["repo"] for each in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
    entries = [hook["entry"].replace(" --force-exclude", "") for hook in hooks]
    assert [entry for entry in entries if entry not in makefile] == []
    assert len(entries) == 4


def test_notebooks_are_run_without_touching_the_environment_of_services() -> None:
    """An install replaces files that a running service has not read yet."""
    words = ["make", "--dry-run", "--what-if", "pyproject.toml", "notebooks"]
    planned = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"\.venv[-\w]*", planned)) == {".venv-notebooks"}


def test_every_extra_is_on_the_page_on_installing() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "howto" / "install.md").read_text()
    tools = ("browser", "dev", "docs", "notebooks")
    assert [extra for extra in extras if extra not in tools and f"hubbub[{extra}]" not in page] == []


@pytest.mark.parametrize("page", ["README.md", "docs/howto/install.md"])
def test_what_the_services_do_not_bring_is_named(page: str) -> None:
    (row,) = (line for line in (ROOT / page).read_text().splitlines() if "every other command" in line)
    more = {name for name, extra in NEEDS.items() if not set(extra.modules) <= set(SERVICES.modules)}
    assert more == {"dashboard", "dictionary", "report"}
    assert [name for name in (*more, "demo") if f"`{name}`" not in row] == []
