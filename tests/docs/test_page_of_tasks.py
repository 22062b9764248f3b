"""The page of tasks names each member of each kind of query, and its formulas of ε_local are those of devices."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from hubbub.accountant.mechanisms import one_round
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.query import Query
from hubbub.queries.questions.question import symbols_of
from hubbub.queries.registry import PLANNED, RANDOMIZERS
from support.source_tree import ROOT

PAGE = (ROOT / "docs" / "wire.md").read_text()
ANSWERS = json.loads((ROOT / "tests" / "vectors" / "wire" / "answers.json").read_bytes())
QUERIES: list[dict[str, Any]] = [query for case in ANSWERS for query in case["queries"]]

HEADS = ("kind", "mechanism", "strategy")
"""The first cells of the tables' heads."""


def rows(title: str) -> dict[str, set[str]]:
    """The words in code of each row of a section, by the row's first one; "the same" has those of the row above."""
    (section,) = re.findall(rf"(?ms)^### {title}$(.*?)^### ", PAGE)
    found: dict[str, set[str]] = {}
    above: set[str] = set()
    for name, text in re.findall(r"(?m)^\| `([a-z]+)` \| (.*) \|$", section):
        above = set(re.findall(r"`([a-z_]+)`", text)) | (above if text.startswith("the same") else set())
        found[name] = above
    return {name: words for name, words in found.items() if name not in HEADS}


def test_the_page_names_each_kind_randomizer_and_strategy() -> None:
    randomizers = rows("Randomizers")
    assert set(rows("Questions")) == set(PLANNED)
    assert set(randomizers) == {*RANDOMIZERS, *SENDINGS}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query["kind"])
def test_the_page_names_each_member_of_a_query(query: dict[str, Any]) -> None:
    common = {"kind", "name", "weight", "mechanism"}
    common |= set() if query["kind"] in ("bit", "longitudinal") else {"optional"}
    chosen = query.get("mechanism", query.get("strategy"))
    named = rows("Questions")[query["kind"]] | rows("Randomizers")[str(chosen)]
    assert set(query) - common - named == set()
    assert common - set(query) <= {"mechanism"}


def ratio(query: dict[str, Any], symbols: int) -> float:
    """e^ε_local as the page has it."""

    def share(name: str) -> float:
        return float(query[name][0]) / 2**32

    strategy, changes = query.get("strategy"), query.get("changes", 0)
    if query.get("mechanism") == "unary":
        p, q = share("truthful"), share("other")
        return p * (1 - q) / (q * (1 - p))
    if strategy in ("sampled", "vector"):
        odds = int(query["odds"]) / 2**32
        g = (odds - 1) / ((odds + 1) * changes)
        if strategy == "vector":
            weights = [math.comb(changes, m) * (odds if m <= query["minuses"] else 1) for m in range(changes + 1)]
            g = sum(each * (1 - 2 * m / changes) for m, each in enumerate(weights)) / sum(weights)
        return (1 + g) / (1 - g) if query["periods"] > 1 else 1 / (1 - g)
    gamma = share("gamma")
    if strategy == "tree":
        side = share("side")
        return 1 + (1 - gamma) / (gamma * min(side, 1 - side * (2 if changes > 1 else 1)))
    k = query["cells"] if query.get("mechanism") == "hashed" else symbols
    return 1 + k * (1 - gamma) / gamma


ONE_PERIOD = [query | {"periods": 1, "changes": 1} for query in QUERIES if query["kind"] == "longitudinal"]


@pytest.mark.parametrize("query", QUERIES + ONE_PERIOD, ids=lambda query: query["kind"])
def test_epsilon_local_is_what_the_page_says(query: dict[str, Any]) -> None:
    read = Query.read("query", query)
    found = one_round(read.mechanism).epsilon_local
    assert math.log(ratio(query, symbols_of(read.question))) == pytest.approx(found, rel=1e-12)
