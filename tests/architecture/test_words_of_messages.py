"""Words that several tests look for in messages are in one place, so that a rewording is one change of tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from support import messages
from support.source_tree import ROOT, parsed

PLACE = ROOT / "tests" / "support" / "messages.py"
WORDS = {name: words for name, words in vars(messages).items() if name.isupper()}


@cache
def sources() -> dict[str, str]:
    """Every source in `tests/` by its path, but for the place of the words."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths if path != PLACE}


def looked_for(source: str) -> Iterator[str]:
    """Every text that a test looks for: in an error that it expects, or in what it says is in something."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "raises":
            found = [keyword.value for keyword in node.keywords if keyword.arg == "match"]
        elif isinstance(node, ast.Assert):
            compared = [each for each in ast.walk(node.test) if isinstance(each, ast.Compare)]
            found = [each.left for each in compared if isinstance(each.ops[0], ast.In | ast.NotIn)]
        else:
            continue
        for each in (inner for outer in found for inner in ast.walk(outer)):
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def test_words_that_have_a_name_are_written_out_nowhere_else() -> None:
    found = {}
    for path, source in sources().items():
        written = {name: words for name, words in WORDS.items() if words in source}
        # Most tests have none of them anywhere, and are not parsed.
        texts = [*looked_for(source)] if written else []
        if names := {name for name, words in written.items() if any(words in text for text in texts)}:
            found[path] = names
    assert found == {}, "take the words from support.messages"


def test_words_have_a_name_if_several_tests_look_for_them() -> None:
    users = Counter(
        name for source in sources().values() for name in {*re.findall(r"[A-Z][A-Z_]+", source)} & WORDS.keys()
    )
    assert {name for name in WORDS if users[name] < 2} == set()
    assert len(set(WORDS.values())) == len(WORDS)


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("with pytest.raises(ValueError, match='a b'): ...", ["a b"]),
        ("with pytest.raises(ValueError, match=f'{x} a b{y}'): ...", [" a b"]),
        ("assert 'a b' in said and f'c {d}' not in said", ["a b", "c "]),
        ("assert said == 'the whole message'", []),
        ("said = 'a b'", []),
    ],
)
def test_the_check_itself_sees_what_a_test_looks_for(source: str, texts: list[str]) -> None:
    assert list(looked_for(source)) == texts
