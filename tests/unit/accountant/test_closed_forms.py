"""The papers' closed forms and Rényi theorems: published values, conditions on both sides, direction of rounding."""

import json
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import pytest

from hubbub.accountant.bounds.catalogue import CATALOGUE
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, Generic, Mechanism

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors" / "accountant.json").read_text())


def epsilon(name: str, mechanism: Mechanism, reports: int, delta: float) -> float:
    return CATALOGUE[name].epsilon(mechanism, reports, delta).upper


@pytest.mark.parametrize(
    ("key", "name", "categories"),
    [
        ("hoeffding_rr2", "balle-hoeffding", 2),
        ("bennett_rr2", "balle-bennett", 2),
        ("hoeffding_rr10", "balle-hoeffding", 10),
        ("bennett_rr10", "balle-bennett", 10),
    ],
)
def test_published_values_of_the_blanket_inequalities(key: str, name: str, categories: int) -> None:
    case = VECTORS["balle"][0]
    mechanism = KRR.from_local_epsilon(categories, case["local_epsilon"])
    assert epsilon(name, mechanism, case["reports"], case["delta"]) == pytest.approx(case[key], rel=1e-8)


def test_published_value_of_the_simple_first_bound() -> None:
    case = VECTORS["balle"][1]
    found = epsilon("erlingsson-simple", Generic(case["local_epsilon"]), case["reports"], case["delta"])
    assert case["erlingsson_simple"] <= found <= case["erlingsson_simple"] * (1 + 1e-14)


def test_clones_closed_is_just_below_what_the_released_tool_prints() -> None:
    """The tool divides by 1 + e^(−ε₀ − ε₁), ε₁ = ln(1 + a + c), where the theorem has 1 + e^−ε₀: slightly looser."""
    case = VECTORS["clones_generic"]
    people, local, delta = case["reports"], case["local_epsilon"], case["delta"]
    inner = 8 * sqrt(exp(local) * log(4 / delta) / people) + 8 * exp(local) / people
    tool = log(1 + inner * (1 - exp(-local)) / (1 + exp(-local) / (1 + inner)))
    found = epsilon("clones-closed", Generic(local), people, delta)
    assert found == pytest.approx(log(1 + inner * (1 - exp(-local)) / (1 + exp(-local))), rel=1e-12)
    assert tool == pytest.approx(case["closed_form"], rel=1e-9)
    assert 0.99 * case["closed_form"] < found < case["closed_form"]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("girgis_lower_10", "girgis-lower"),
        ("girgis_lower_simple_11", "girgis-lower-simple"),
        ("girgis_upper_5", "girgis-upper-1"),
        ("girgis_upper_8", "girgis-upper-2"),
        ("erlingsson_9", "erlingsson-rdp"),
    ],
)
def test_published_renyi_divergences_of_binary_response(key: str, name: str) -> None:
    case = VECTORS["renyi_2rr"][0]
    mechanism = KRR.from_local_epsilon(2, case["local_epsilon"])
    found = CATALOGUE[name].rdp(mechanism, case["reports"], case["order"])
    assert found == pytest.approx(case[key], rel=1e-7)
    if CATALOGUE[name].direction == "upper":
        assert found > case["exact"]
    else:
        assert found < case["exact"]


def test_renyi_lower_bounds_are_not_made_lower_bounds_on_epsilon() -> None:
    for name in ("girgis-lower", "girgis-lower-simple"):
        with pytest.raises(OutsideConditions, match="no lower bound on ε"):
            CATALOGUE[name].epsilon(Generic(1.0), 1000, 1e-6)
