"""A new randomizer needs nothing from the accountant but its law: tasks name it, certificates state and prove it."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import isclose
from typing import Any, cast

import pytest

from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import read_mechanism
from hubbub.accountant.rigorous.statement import claims
from hubbub.planning.planned import randomizer_words
from hubbub.queries.errors import FieldError
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.registry import RANDOMIZERS
from support.ladder_randomizer import Ladder

HALF = DENOMINATOR // 2
LADDER = Ladder(3, HALF)
QUERY = Query(Histogram("step", ("a", "b", "c"), randomizer="ladder"), LADDER)
TERMS = Terms(1.5, 1e-6, 20.0, 0.9, 1000, dummies=50)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast("dict[str, Any]", RANDOMIZERS), "ladder", Ladder)


def test_a_task_names_its_kind_and_numbers_and_reads_them_back() -> None:
    content = json.loads(json.dumps(QUERY.content()))
    assert content["mechanism"] == "ladder"
    assert content["gamma"] == [HALF, DENOMINATOR]
    assert "law" not in content
    assert Query.read("query[0]", content) == QUERY
    assert randomizer_words(QUERY) == {"randomizer": "ladder", "gamma": f"{HALF}/{DENOMINATOR}"}
    with pytest.raises(FieldError, match="gamma"):
        Query.read("query[0]", {**content, "gamma": [0.5, 1]})


def test_a_report_is_drawn_from_the_law_it_states() -> None:
    """Every course of the draws, each of which is a half or a quarter here, is as likely as the law says."""
    seen: Counter[tuple[int, int]] = Counter()
    for symbol, (hidden, kept, place) in product(range(3), product(range(2), range(4), range(3))):
        draws = iter([hidden * HALF, place if hidden == 0 else kept * DENOMINATOR // 4])
        report = QUERY.randomizer.randomize(symbol, _handing_out(draws))
        seen[symbol, report[0]] += 1
    for symbol, row in enumerate(LADDER.mechanism.law):
        assert [Fraction(seen[symbol, report], 24) for report in range(3)] == list(row)


def _handing_out(draws: Iterator[int]) -> Any:
    return lambda width: next(draws).to_bytes(width, "big")


def certified() -> dict[str, Any]:
    history = [RoundCounts(0, (QueryCount("step", QUERY.mechanism, 1200, 1100, {"x": 100}),))]
    return {**json.loads(json.dumps(statement(TERMS, history))), "round": 0}


def test_a_certificate_states_the_law_and_holds() -> None:
    content = certified()
    (query,) = content["queries"]
    assert query["mechanism"] == "finite"
    assert query["bound"] == "whole-law"
    assert isclose(float(Fraction(query["law"][0][0])), 0.5 / 3 + 0.5 * 0.75)
    check_statement(TERMS, [("step", QUERY.mechanism)], content)
    form = {name: query[name] for name in ("mechanism", "law", "blanket", "neighbors", "dummy")}
    assert read_mechanism(form) == QUERY.mechanism


@pytest.mark.parametrize("member", ["epsilon_upper", "epsilon_local", "law", "dummy"])
def test_a_certificate_with_one_changed_number_does_not_hold(member: str) -> None:
    content = copy.deepcopy(certified())
    (query,) = content["queries"]
    query[member] = query[member] * 0.999 if isinstance(query[member], float) else query[member][::-1]
    if member == "dummy":
        query[member] = None
    with pytest.raises(AccountingError):
        check_statement(TERMS, [("step", QUERY.mechanism)], content)


def test_its_numbers_are_proven_in_balls() -> None:
    proven = [claim for claim in claims(TERMS, [("step", QUERY.mechanism)], certified()) if claim.required]
    assert {claim.member for claim in proven} == {"epsilon_local", "epsilon_upper", "epsilon_upper_alone"}
    for claim in proven:
        assert claim.proof().looser <= 0.002
