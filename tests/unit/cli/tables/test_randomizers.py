"""What a randomizer's numbers mean is said once for each kind, and nothing is said of a kind without words."""

from __future__ import annotations

import io
from dataclasses import replace
from math import inf

import pytest
from rich.console import Console

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.cli.tables.randomizers import candidates_document, meanings, print_candidates
from hubbub.planning.comparison import PrivacyTarget, RandomizerCandidate, best, errors_at
from hubbub.queries.design import Design
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.registry import RANDOMIZERS


def test_each_kind_is_explained_once_in_order() -> None:
    assert [each.partition(":")[0] for each in meanings(["unary", "krr", "unary"])] == ["unary", "krr"]


def test_every_randomizer_has_words_and_others_have_none() -> None:
    assert len(meanings({"krr", "unary", "hashed"} & set(RANDOMIZERS))) == 3
    assert meanings(["a-kind-of-your-own"]) == []


KRR = RandomizerCandidate("krr", 0, None, {}, inf, "its symbols are the answers, which must be known")
"""A kind that does not apply."""


@pytest.fixture(scope="module")
def candidates() -> tuple[RandomizerCandidate, ...]:
    """One calibration by three names: without dummies, with a larger error, and with dummies; and one that fails."""
    question = Histogram("on", ("yes", "no"))
    design, aim = Design(question), PrivacyTarget(1.0, 1e-4, 100)
    (chosen,) = calibrate([design], aim.epsilon, aim.delta, aim.reports)
    errors = errors_at(design, chosen, aim.reports, 0)
    krr = RandomizerCandidate("krr", 0, chosen, errors, 9.87654)
    return krr, replace(krr, kind="unary", largest=12.0), replace(krr, dummies=1000, largest=8.0), KRR


@pytest.mark.parametrize("width", [40, 200])
@pytest.mark.parametrize(("dummies", "error"), [(0, "9.877"), (1000, "8")])
def test_the_chosen_randomizer_is_marked_and_named_in_any_terminal(
    candidates: tuple[RandomizerCandidate, ...], width: int, dummies: int, error: str
) -> None:
    chosen = best(candidates, dummies)
    assert chosen is not None
    printed = io.StringIO()
    print_candidates(Console(file=printed, width=width), candidates, chosen)
    text = printed.getvalue()
    assert text.count("(chosen)") == 1
    among = f"is the least of those with {dummies:,} dummies; a task asks for it"
    told = f"chosen: krr, 2 categories, as its largest error, {error}, {among}"
    assert told in text
    assert f"krr with 0 dummies does not apply: {KRR.why_not}" in text
    marks = [each["chosen"] for each in candidates_document(candidates, chosen)]
    assert (sum(marks), marks.index(True)) == (1, candidates.index(chosen))


def test_dummies_that_nobody_asked_for_are_not_named() -> None:
    printed = io.StringIO()
    print_candidates(Console(file=printed, width=200), [KRR], None)
    assert f"krr does not apply: {KRR.why_not}" in printed.getvalue()
    assert "dummies" not in printed.getvalue()
