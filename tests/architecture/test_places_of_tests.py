"""Where the test of a module is has one answer: `tests/unit/FOLDER/test_NAME.py` is that of `FOLDER/NAME.py`."""

from __future__ import annotations

import ast
from collections.abc import Collection
from pathlib import Path

import pytest

from support.source_tree import FOLDERS, MODULES, NAMES, ROOT, imported, parsed

UNIT = ROOT / "tests" / "unit"
TESTS = {path.relative_to(UNIT): path for path in sorted(UNIT.rglob("test_*.py"))}

TESTED = {path.relative_to(ROOT).with_suffix("") for path in MODULES if path.stem != "__init__"}
TESTED |= {path.parent.relative_to(ROOT) for path in MODULES if path.stem == "__init__"}
"""What has a test of its name: modules and folders of them, by their paths."""

OF_ONE = {
    "protos/sealing/test_rfc9180.py": "published vectors, beside what is ours to say in test_suites.py",
    "protos/test_frozen.py": "each form that is signed or sent, by the formats that name them",
    "service/observability/test_metric_names.py": "the metrics of all services, by the mark of rounded ones",
    "shuffler/hop/test_old_copy.py": "a hop and the party behind it, by the reason of the refusal",
    "shuffler/test_stopping.py": "a whole program, by the ports that it opens",
}
"""Tests of a behavior that import one module all the same, each with why."""


def of_name(test: Path) -> Path:
    """What a test has the name of."""
    return test.with_name(test.stem.removeprefix("test_"))


def misplaced(test: Path, tested: Collection[Path]) -> list[Path]:
    """The namesakes of a test elsewhere, if nothing has its name where it is."""
    name = of_name(test)
    return [] if name in tested else sorted(other for other in tested if other.name == name.name)


def test_unit_tests_are_in_the_folders_of_what_they_test() -> None:
    folders = {path.parent.relative_to(ROOT) for path in MODULES}
    assert {str(test.parent) for test in TESTS if test.parent not in folders} == set()


def test_a_test_with_the_name_of_a_module_is_where_that_module_is() -> None:
    found = {str(test): list(map(str, others)) for test in TESTS if (others := misplaced(test, TESTED))}
    assert found == {}, "move the test to its module, or name it for the behavior that it tests"


def test_a_test_of_one_module_has_its_name() -> None:
    """What imports several modules tests a behavior across them, and is called for that."""
    across = {test: path for test, path in TESTS.items() if of_name(test) not in TESTED}
    of_one = {
        str(test): modules
        for test, path in across.items()
        if len(modules := {name for name in imported(path) if name in NAMES}) == 1
    }
    assert of_one.keys() == OF_ONE.keys(), "the exceptions are those that are needed"


def test_a_test_of_a_behavior_says_which() -> None:
    silent = [
        str(test)
        for test, path in TESTS.items()
        if of_name(test) not in TESTED and not ast.get_docstring(parsed(path.read_text()))
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("test", "elsewhere"),
    [
        ("analyzer/test_charges.py", []),
        ("accountant/test_mechanisms.py", []),
        ("analyzer/test_no_module_is_called_so.py", []),
        ("shuffler/test_charges.py", ["analyzer/charges", "service/ledger/charges"]),
        ("accountant/spending/test_mechanisms.py", ["accountant/mechanisms"]),
    ],
)
def test_the_check_itself_knows_a_test_that_is_in_the_wrong_place(test: str, elsewhere: list[str]) -> None:
    tested = {Path(name) for name in (*FOLDERS, "accountant/mechanisms", "analyzer/charges", "service/ledger/charges")}
    assert list(map(str, misplaced(Path(test), tested))) == elsewhere
