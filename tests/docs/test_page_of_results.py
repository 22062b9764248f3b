"""docs/howto/read-results-in-python.md runs as it is written."""

from __future__ import annotations

import doctest

import pytest

from support.source_tree import ROOT

PAGE = ROOT / "docs" / "howto" / "read-results-in-python.md"


def test_the_page_runs_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 12
    assert failed == 0
