"""The site's extensions: what the sidebar lists, how docstrings are read, and what the finished pages may not have."""

from __future__ import annotations

from pathlib import Path
from types import FunctionType

import pytest

from extensions.docstrings import is_foreign, members_of, readable, restructured
from extensions.finished_site import faults, read
from extensions.tree import below, front_of, toctree, with_paths
from hubbub import client
from hubbub.client import Answer, Reason, Retrying
from support.source_tree import ROOT

TREE = ["README.md", "docs/index.md", "docs/a.md", "docs/how/index.md", "docs/how/x.md", "docs/how/in/y.md"]


@pytest.mark.parametrize(
    ("page", "front"),
    [
        ("docs/index.md", None),
        ("README.md", "docs/index.md"),
        ("docs/a.md", "docs/index.md"),
        ("docs/how/index.md", "docs/index.md"),
        ("docs/how/x.md", "docs/how/index.md"),
        ("docs/how/in/y.md", "docs/how/index.md"),
    ],
)
def test_a_page_is_below_the_nearest_front_page(page: str, front: str | None) -> None:
    assert front_of(page, TREE) == front


def test_pages_are_in_the_order_of_the_front_pages_links_and_then_by_name(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[last](z.md), [first](b.md)\n")
    pages = ["docs/index.md", "docs/a.md", "docs/b.md", "docs/c.md", "docs/z.md"]
    found = below("docs/index.md", pages, tmp_path)
    assert found == ["docs/z.md", "docs/b.md", "docs/a.md", "docs/c.md"]
    assert "\n/docs/z\n/docs/b\n" in toctree(found)


def test_a_link_to_a_file_that_is_no_page_becomes_its_path() -> None:
    text = "[a](queries/README.md), [b](docs/glossary.md#x), [c](nothing.md), ![d](setup.py)\n"
    text += "\n```sh\n[e](setup.py)\n```\n"
    changed = with_paths(text, "CONTRIBUTING.md", ["docs/glossary.md"])
    assert changed == text.replace("[a](queries/README.md)", "`queries/README.md`")


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("At most |x| of `p_`, a_ and *all*.", r"At most \|x\| of ``p_``, a\_ and \*all\*."),
        ("Use:\n\n    run(|x|)\n\nMore.", "Use:\n\n::\n\n    run(|x|)\n\nMore."),
        ("Of it:\n- one\n  more\n- two", "Of it:\n\n- one\n  more\n- two"),
        ("Do.\n\nRaises:\n    Wrong: if it is\n    so.", "Do.\n\nRaises:\n    Wrong: if it is\n        so."),
        ("Do.\n\nArgs:\n    x: the value", "Do.\n\nArgs:\n    x: the value"),
        ("Do.\n\nArgs:\n    x: it\n    y, z: they", "Do.\n\nArgs:\n    x: it\n    y, z: they"),
        ("Do.\n\nRaises:\n    A, B: if\n        never: so", "Do.\n\nRaises:\n    A, B: if\n            never: so"),
    ],
)
def test_docstrings_become_what_autodoc_takes(docstring: str, expected: str) -> None:
    assert restructured(docstring) == expected


def test_a_signature_is_one_that_sphinx_parses() -> None:
    read_by = "(v: TypeAliasForwardRef('Value'), a: ~x.Y = <factory>, "
    read_by += "b: int = <built-in function urandom>, c: int = <function sleep at 0x7f>)"
    assert readable(read_by) == "(v: Value, a: ~x.Y = ..., b: int = urandom, c: int = sleep)"
    assert readable(None) is None


def test_members_without_a_docstring_are_listed_and_functions_of_others_left_out() -> None:
    (listed,) = members_of(Reason)
    assert [each.name for each in Reason if f"``{each.name}``" not in listed] == []
    assert members_of(Answer) == members_of(Retrying) == []
    assert is_foreign(Retrying.monotonic)
    assert is_foreign(Retrying.sleep)
    assert not is_foreign(Retrying.begun)


def test_what_an_application_imports_is_all_on_its_page() -> None:
    """A name that is no class or function of the package is on the page by itself: autodoc does not find it."""
    page = (ROOT / "docs/reference/api/client.md").read_text()
    unlisted = [name for name in client.__all__ if not isinstance(getattr(client, name), type | FunctionType)]
    assert unlisted == ["Value"]
    assert [name for name in unlisted if f".{name}\n" not in page] == []


def test_a_page_that_loads_from_another_host_or_links_to_nothing_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="here"></p><a href="https://example.org">x</a><a href="#here">y</a>')
    (tmp_path / "b.html").write_text(
        '<script src="https://example.org/x.js"></script><link href="//example.org/x.css">'
        '<a href="a.html#here">x</a><a href="a.html#there">y</a><img src="none.svg">'
    )
    read.cache_clear()
    assert list(faults(tmp_path)) == [
        "b.html loads https://example.org/x.js from another host",
        "b.html loads //example.org/x.css from another host",
        "b.html links to none.svg, which is not there",
        "b.html links to a.html#there, and that page has no such anchor",
    ]
