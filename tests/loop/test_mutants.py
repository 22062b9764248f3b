"""Each is one, all else stays as it is written, and only what a commit touched is changed."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
from loop import mutants

PATH = Path("client/one.py")
SOURCE = '''"""A module."""

LIMIT = 3  # not in a function


def untouched(x: int) -> bool:
    return x > 2


def touched(x: int, y: int) -> int:
    """Say what it does: 1 < 2."""
    if x < y and not y:  # kept as it is written
        raise ValueError(f"{x + 1} is too small")
    log(x)
    return x + (
        y * 2
    )
'''


def made(lines: set[int]) -> dict[str, mutants.Mutant]:
    return {str(each): each for each in mutants.mutants(PATH, SOURCE, lines)}


def test_what_a_commit_touched_is_changed_in_every_way_and_nothing_else() -> None:
    assert {name.removeprefix("client/one.py:") for name in made({12})} == {
        "12: x < y and (not y)  →  (x < y or not y)",
        "12: x < y  →  x <= y",
        "12: not y  →  (y)",
        "13: raise ValueError(f'{x + 1} is too small')  →  pass",
        "14: log(x)  →  pass",
        "15: return x + y * 2  →  return None",
        "15: x + y * 2  →  (x - y * 2)",
        "16: y * 2  →  (y // 2)",
        "16: 2  →  3",
    }
    assert made({3}) == {}


def test_a_change_leaves_the_rest_as_it_is_written() -> None:
    assert made({12})["client/one.py:12: x < y  →  x <= y"].source == SOURCE.replace("x < y and", "x <= y and")
    for each in made({7, 12}).values():
        compile(each.source, "one.py", "exec")
        changed = [line for line in difflib.ndiff(SOURCE.splitlines(), each.source.splitlines()) if line[0] in "+-"]
        assert 1 <= len(changed) <= 4


@pytest.mark.parametrize("noticed", ["x <= y", "pass"])
def test_what_no_test_notices_survives_and_the_tree_is_as_it_was(tmp_path: Path, noticed: str) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / PATH).write_text(SOURCE)
    every = list(made({12}).values())

    def passing(folder: Path, tests: list[Path]) -> bool:
        assert tests == [Path("tests/unit/client/test_one.py")]
        return noticed not in (folder / PATH).read_text()

    left = list(mutants.survivors(every, tmp_path, lambda _: [Path("tests/unit/client/test_one.py")], passing))
    assert left == [each for each in every if noticed not in each.source]
    assert 0 < len(left) < len(every)
    assert (tmp_path / PATH).read_text() == SOURCE
