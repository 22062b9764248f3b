"""The papers' closed forms and Rényi theorems: published values, conditions on both sides, direction of rounding."""

import json
from fractions import Fraction
from math import exp, inf, isfinite, log, sqrt
from typing import Any

import pytest

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.errors import OutsideConditions
from hubbub.accountant.mechanisms import KRR, Gaussian, Generic, Laplace, LocalMechanism, Mechanism
from support.source_tree import ROOT

VECTORS: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "accountant.json").read_text())


def epsilon(name: str, mechanism: LocalMechanism, reports: int, delta: float) -> float:
    return CATALOG[name].epsilon(mechanism, reports, delta).upper


@pytest.mark.parametrize(
    ("key", "name", "categories"),
    [
        ("hoeffding_laplace", "balle-hoeffding", 0),
        ("hoeffding_rr2", "balle-hoeffding", 2),
        ("bennett_rr2", "balle-bennett", 2),
        ("hoeffding_rr10", "balle-hoeffding", 10),
        ("bennett_rr10", "balle-bennett", 10),
    ],
)
def test_published_values_of_the_blanket_inequalities(key: str, name: str, categories: int) -> None:
    case = VECTORS["balle"][0]
    local = case["local_epsilon"]
    mechanism = KRR.from_local_epsilon(categories, local) if categories else Laplace(local)
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
    found = CATALOG[name].rdp(mechanism, case["reports"], case["order"])
    assert found == pytest.approx(case[key], rel=1e-7)
    if CATALOG[name].direction == "upper":
        assert found > case["exact"]
    else:
        assert found < case["exact"]


def test_renyi_lower_bounds_are_not_made_lower_bounds_on_epsilon() -> None:
    for name in ("girgis-lower", "girgis-lower-simple"):
        with pytest.raises(OutsideConditions, match="no lower bound on ε"):
            CATALOG[name].epsilon(Generic(1.0), 1000, 1e-6)


E = exp(1.0)
CROWD = 16 * log(2 / 1e-6) * E
"""Clients from which `clones-closed` covers ε₀ = 1 at δ = 1e-6."""

SMALL_GAMMA = KRR(4, Fraction(1, 100))

EDGES: list[tuple[str, tuple[Mechanism, int, float], tuple[Mechanism, int, float], str]] = [
    ("erlingsson", (Generic(1.0), 2, 0.1), (Generic(1.0), 1, 0.1), "1 client"),
    ("erlingsson", (Generic(1e-20), 2, 0.1), (Generic(0.0), 2, 0.1), "local ε is 0"),
    ("erlingsson-middle", (Generic(1.0), 81, 0.1), (Generic(1.0), 80, 0.1), "at most ln"),
    (
        "erlingsson-middle",
        (Generic(log(25) / 3 - 1e-9), 100, 0.1),
        (Generic(log(25) / 3 + 1e-9), 100, 0.1),
        "at most ln",
    ),
    ("erlingsson-simple", (Generic(0.4), 1000, 1e-3), (Generic(0.4), 999, 1e-3), "at least 1000"),
    ("erlingsson-simple", (Generic(0.4999999), 1000, 1e-3), (Generic(0.5), 1000, 1e-3), "below 1/2"),
    ("erlingsson-simple", (Generic(0.4), 1000, 0.00999999), (Generic(0.4), 1000, 0.01), "below 1/100"),
    ("erlingsson-rdp", (Generic(0.4), 2, 1e-3), (Generic(0.4), 1, 1e-3), "conditions"),
    ("clones-closed", (Generic(1.0), int(CROWD) + 1, 1e-6), (Generic(1.0), int(CROWD), 1e-6), "16 ln"),
    (
        "feldman-closed",
        (Generic(1.0), int(CROWD * (E + 1) / E / 2) + 1, 1e-6),
        (Generic(1.0), int(CROWD * (E + 1) / E / 2), 1e-6),
        "8 ln",
    ),
    ("feldman-closed", (Generic(1.0), 10**6, 1e-6), (Gaussian(1.0), 10**6, 1e-6), "a local ε"),
    ("clones-closed", (Generic(1.0), 10**6, 1e-6), (Generic(6.0), 10**4, 1e-6), "16 ln"),
    ("balle-closed", (SMALL_GAMMA, 81250, 1e-6), (SMALL_GAMMA, 81249, 1e-6), "at most 1"),
    ("balle-closed", (SMALL_GAMMA, 10801, 0.5), (SMALL_GAMMA, 10800, 0.5), "at most 1"),
    ("balle-closed", (SMALL_GAMMA, 10**6, 1e-6), (Generic(1.0), 10**6, 1e-6), "kRR"),
    ("balle-generic", (Generic(1.0), 10**4, 1e-6), (Generic(1.0), 10, 1e-6), "and no ε below"),
    ("balle-hoeffding", (Generic(1.0), 10**4, 1e-6), (Gaussian(1.0), 10**4, 1e-6), "a local ε"),
    ("balle-bennett", (KRR(3, Fraction(1, 2)), 10**4, 1e-6), (KRR(3, Fraction(1, 2)), 5, 1e-6), "and no ε below"),
    ("girgis-upper-1", (Generic(1.0), 10**4, 1e-6), (Gaussian(1.0), 10**4, 1e-6), "a local ε"),
]


@pytest.mark.parametrize(("name", "inside", "outside", "says"), EDGES, ids=lambda value: str(value)[:40])
def test_conditions_hold_on_one_side_of_their_edge_and_are_named_on_the_other(
    name: str, inside: tuple[Mechanism, int, float], outside: tuple[Mechanism, int, float], says: str
) -> None:
    assert isfinite(CATALOG[name].epsilon(*inside).upper)
    with pytest.raises(OutsideConditions, match=says) as raised:
        CATALOG[name].epsilon(*outside)
    assert "; " in str(raised.value), "a remedy"


@pytest.mark.parametrize(
    ("name", "people", "local", "order", "holds"),
    [
        ("girgis-simplified", 10**4, 0.1, 5.0, True),
        ("girgis-simplified", 10**4, 0.1, 6.0, False),
        ("girgis-simplified", 10**4, 0.1, 4.5, True),
        ("girgis-simplified", 10**4, 0.1, 5.5, False),
        ("girgis-simplified", 10**5, 1e-4, 2.0, True),
        ("girgis-simplified", 150, 1e-4, 2.0, False),
        ("girgis-lower", 100, 1.0, 2.0, True),
        ("girgis-lower", 100, 1.0, 1.99, False),
        ("girgis-lower-simple", 100, 1.0, 2.5, True),
        ("girgis-upper-1", 100, 1.0, 1.001, True),
        ("clones-rdp", 1, 40.0, 1e6, True),
        ("clones-rdp", 10**9, 1e-20, 1.0001, True),
    ],
)
def test_orders_inside_and_outside(name: str, people: int, local: float, order: float, holds: bool) -> None:
    bound = CATALOG[name]
    if holds:
        assert 0 < bound.rdp(Generic(local), people, order) < inf
    else:
        with pytest.raises(OutsideConditions, match="the theorem needs"):
            bound.rdp(Generic(local), people, order)


def test_closed_blanket_theorem_gives_delta_only_where_it_holds() -> None:
    bound, mechanism = CATALOG["balle-closed"], KRR(4, Fraction(1, 10))
    lower, upper = bound.delta(mechanism, 40_001, 0.5)
    assert lower == pytest.approx(2 * exp(-1000 * 0.25 / 14), rel=1e-12)
    assert lower < upper <= lower * (1 + 1e-14)
    for epsilon, says in ((1.0001, "at most 1"), (0.0269, "27/ε")):
        with pytest.raises(OutsideConditions, match=says):
            bound.delta(mechanism, 40_001, epsilon)
    assert bound.delta(mechanism, 40_001, 0.0271)[1] == 1.0


@pytest.mark.parametrize("name", ["balle-generic", "balle-hoeffding", "balle-bennett"])
def test_delta_formulas_return_the_epsilon_that_was_checked(name: str) -> None:
    bound = CATALOG[name]
    for mechanism in (KRR(3, Fraction(1, 3)), Generic(0.7)):
        ends = bound.epsilon(mechanism, 50_000, 1e-8)
        assert bound.delta(mechanism, 50_000, ends.upper)[1] <= 1e-8 * (1 + 1e-12)
        assert bound.delta(mechanism, 50_000, ends.lower)[1] > 1e-8
        assert ends.upper <= ends.lower * (1 + 1e-9)
        assert bound.delta(mechanism, 50_000, mechanism.epsilon_local) == (0.0, 0.0)
        assert bound.delta(mechanism, 50_000, 0.0)[1] == 1.0


@pytest.mark.parametrize("name", ["erlingsson", "clones-closed", "girgis-upper-1", "feldman-closed"])
def test_formulas_refuse_what_their_theorem_is_silent_about(name: str) -> None:
    bound = CATALOG[name]
    with pytest.raises(OutsideConditions, match="gives no δ"):
        bound.delta(Generic(1.0), 10**5, 0.1)
    if "rdp" not in bound.gives:
        with pytest.raises(OutsideConditions, match="gives no Rényi"):
            bound.rdp(Generic(1.0), 10**5, 2.0)


def test_dummies_count_as_clients_above_and_not_at_all_below() -> None:
    for name, bound in CATALOG.items():
        if bound.cost.startswith("a formula") and bound.direction == "upper" and name != "balle-closed":
            try:
                more = bound.epsilon(Generic(0.3), 1500, 1e-4).upper
            except OutsideConditions:
                continue
            assert bound.epsilon(Generic(0.3), 1000, 1e-4, 500).upper == more
    with pytest.raises(OutsideConditions, match="takes no dummies"):
        CATALOG["girgis-lower"].rdp(Generic(0.3), 1000, 2.0, 1)
