"""Docs/howto/use-the-accountant.md runs as it is written, and names every public name."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys

import pytest

import hubbub.accountant
from hubbub.accountant import api
from support.source_tree import ROOT

PAGE = ROOT / "docs" / "howto" / "use-the-accountant.md"


@pytest.mark.filterwarnings("ignore")  # dp_accounting warns of its own dependencies
def test_the_page_runs_as_it_is_written() -> None:
    failed, tried = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL | doctest.ELLIPSIS
    )
    assert tried > 30
    assert failed == 0


def test_the_page_names_every_public_name_and_no_other() -> None:
    table = PAGE.read_text().partition("## Every public name")[2]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(api.__all__)


def test_public_names_are_those_of_the_package() -> None:
    assert hubbub.accountant.__all__ == api.__all__
    for name in api.__all__:
        assert getattr(hubbub.accountant, name) is getattr(api, name)
        assert name in dir(hubbub.accountant)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hubbub.accountant.nothing


def test_importing_a_submodule_from_the_package_loads_no_public_name() -> None:
    script = "import sys\nfrom hubbub.accountant import mechanisms\nprint('hubbub.accountant.api' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
