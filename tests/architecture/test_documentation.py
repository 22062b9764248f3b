"""Paths are there, programs run, hooks check what the make targets check."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml

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


SHOWN = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def attacks() -> dict[str, list[tuple[str, str]]]:
    """The rows of SECURITY.md's table of attacks: for each the tests that it names, as file and function."""
    section = (ROOT / "SECURITY.md").read_text().partition("## Attacks and answers\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    assert rows[0] == ["attack", "who", "answer", "what is left", "shown by"]
    assert {len(row) for row in rows} == {5}
    return {row[0]: SHOWN.findall(row[-1]) for row in rows[1:]}


def test_every_attack_in_the_table_names_tests_that_are_there() -> None:
    found = attacks()
    assert len(found) > 30
    assert [attack for attack, tests in found.items() if not tests] == []
    named = {test for tests in found.values() for test in tests}
    missing = [
        f"{path}::{name}"
        for path, name in sorted(named)
        if not (ROOT / path).is_file() or not re.search(rf"(?m)^(async )?def {name}\(", (ROOT / path).read_text())
    ]
    assert missing == []


def test_nothing_else_stands_where_a_table_of_attacks_names_its_tests() -> None:
    section = (ROOT / "SECURITY.md").read_text().partition("## Attacks and answers\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    for line in lines:
        assert SHOWN.sub("", line.strip("| ").split(" | ")[-1]).replace("<br>", "") == "", line


def test_hooks_run_what_the_make_targets_run_and_download_nothing() -> None:
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [each["repo"] for each in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
    entries = [hook["entry"].replace(" --force-exclude", "") for hook in hooks]
    assert [entry for entry in entries if entry not in makefile] == []
    assert len(entries) == 4


def test_every_extra_is_on_the_page_on_installing() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "howto" / "install.md").read_text()
    assert [extra for extra in extras if extra not in ("dev", "docs") and f"hubbub[{extra}]" not in page] == []
