"""Docs/howto/use-the-accountant.md runs as it is written, and names every public name."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hubbub.accountant
from hubbub import planning
from hubbub.accountant import (
    KRR,
    RAPPOR,
    AccountingError,
    Finite,
    NoiseLaw,
    WithNoise,
    api,
    delta_bracket,
    epsilon_bracket,
)
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


def test_a_repr_of_a_law_is_short_and_exact_where_it_can_be() -> None:
    """The fractions of a mechanism of given local ε have eighty digits on each side."""
    given = (KRR.from_local_epsilon(20, 4.0), RAPPOR.from_local_epsilon(5, 1.0, None))
    third = Fraction(1, 3)
    law = Finite(((third, third, third),) * 3)
    for mechanism in (*given, law, WithNoise(given[0], NoiseLaw("geometric", 2**31, 9))):
        assert len(repr(mechanism)) < 200, repr(mechanism)
    assert repr(given[0]).startswith("KRR(categories=20, gamma=≈0.2717")
    assert repr(KRR(3, Fraction(5, 2**32))) == "KRR(categories=3, gamma=Fraction(5, 4294967296))"


@pytest.mark.parametrize("several", [[100, 2000], (100, 2000), range(100, 3900, 1900), np.array([100, 2000])])
def test_an_array_of_reports_gives_the_answers_one_by_one(several: Any) -> None:
    krr = KRR(4, Fraction(1, 4))
    assert epsilon_bracket(krr, several, 1e-6) == [epsilon_bracket(krr, each, 1e-6) for each in (100, 2000)]
    assert delta_bracket(krr, several, 0.1) == [delta_bracket(krr, each, 0.1) for each in (100, 2000)]
    assert planning.count_error(krr, several) == [planning.count_error(krr, each) for each in (100, 2000)]
    chosen = planning.choose(4, 1.0, 1e-6, several)
    for each, count in zip(chosen, (100, 2000), strict=True):
        assert each.expected_standard_error == pytest.approx(planning.count_error(each.mechanism, count))


def test_one_number_of_reports_gives_one_answer_and_a_text_is_refused() -> None:
    krr = KRR(4, Fraction(1, 4))
    assert epsilon_bracket(krr, np.int64(100), 1e-6) == epsilon_bracket(krr, 100, 1e-6)
    with pytest.raises(AccountingError, match="reports is '100'"):
        epsilon_bracket(krr, "100", 1e-6)  # type: ignore[call-overload]  # that is what is refused
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = planning.nothing
