"""Every value of tests/vectors/accountant.json that belongs to one round or to calibration, or who else uses it."""

import json
from math import exp
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.mechanisms import KRR, Generic
from support.krr_queries import calibrate_sum, sum_mse
from support.source_tree import ROOT

VECTORS: dict[str, Any] = json.loads((ROOT / "tests" / "vectors" / "accountant.json").read_text())

HERE = {
    "krr_epsilon": 2,
    "krr_delta": 3,
    "weak_adversary": 2,
    "strong_adversary_joint": 5,
    "clones_generic": 1,
    "calibrate_sum": 2,
    "stronger_clones": 1,
    "two_rr": 1,
}
"""Sections used by this module, with their number of values."""

ELSEWHERE = {"balle": 2, "renyi_2rr": 1}
"""Sections of closed forms and Rényi divergences."""


def count(section: Any) -> int:
    if isinstance(section, list):
        return len(section)
    if "deltas" in section:
        return len(section["deltas"])
    return len(section["blanket"]) if "blanket" in section else 1


def test_every_section_is_known_and_complete() -> None:
    found = {name: count(section) for name, section in VECTORS.items() if not isinstance(section, str)}
    assert found == HERE | ELSEWHERE


def assert_just_above(upper: float, exact: float, relative: float = 1e-4) -> None:
    assert exact * (1 - 1e-9) <= upper <= exact * (1 + relative)


def assert_just_below(lower: float | None, exact: float, relative: float = 1e-4) -> None:
    assert lower is not None
    assert exact * (1 - relative) <= lower <= exact * (1 + 1e-9)


@pytest.mark.parametrize("case", VECTORS["krr_epsilon"], ids=lambda case: str(case["reports"]))
def test_krr_epsilon_values(case: dict[str, float]) -> None:
    mechanism = KRR.from_local_epsilon(int(case["categories"]), case["local_epsilon"])
    found = epsilon_bracket(mechanism, int(case["reports"]), case["delta"])
    assert_just_above(found.epsilon_upper, case["blanket_exact"])
    assert_just_below(found.epsilon_lower, case["krr_lower_exact"])
    clones = epsilon_bracket(mechanism, int(case["reports"]), case["delta"], bound="clones")
    assert_just_above(clones.epsilon_upper, case["clones_exact"])


@pytest.mark.parametrize("case", VECTORS["krr_delta"], ids=lambda case: str(case["epsilon"]))
def test_krr_delta_values(case: dict[str, float]) -> None:
    categories = int(case["categories"])
    if "gamma" in case:
        mechanism = KRR.from_numerator(categories, int(case["gamma"] * 2**32))
    else:
        mechanism = KRR.from_local_epsilon(categories, case["local_epsilon"])
    found = delta_bracket(mechanism, int(case["reports"]), case["epsilon"], bound="blanket")
    assert_just_above(found.delta_upper, case["blanket_exact"], 2e-4)
    assert found.numerical_slack < 2e-4


def test_weak_adversary_values() -> None:
    case = VECTORS["weak_adversary"]
    mechanism = KRR.from_numerator(case["categories"], int(case["gamma"] * 2**32))
    for delta, exact, published in zip(case["deltas"], case["epsilon_exact"], case["published"], strict=True):
        upper = epsilon_bracket(mechanism, case["reports"], delta).epsilon_upper
        assert exact * (1 - 1e-6) <= upper <= exact * (1 + 1e-4)
        assert upper < published


def test_strong_adversary_is_above_the_weak_one() -> None:
    """The strong adversary knows who is truthful: its ε is larger, so the blanket's must stay below it."""
    case = VECTORS["strong_adversary_joint"]
    mechanism = KRR.from_numerator(case["categories"], int(case["gamma"] * 2**32))
    uppers = [epsilon_bracket(mechanism, case["reports"], delta).epsilon_upper for delta in case["deltas"]]
    assert all(upper < exact for upper, exact in zip(uppers, case["epsilon_exact"], strict=True))


def test_the_strong_adversary_has_the_joint_values_times_the_chance_of_a_truthful_victim() -> None:
    case = VECTORS["strong_adversary_joint"]
    mechanism = KRR.from_numerator(case["categories"], int(case["gamma"] * 2**32))
    for delta, exact in zip(case["deltas"], case["epsilon_exact"], strict=True):
        found = BOUNDS["koskela-strong"].epsilon(mechanism, case["reports"], delta * (1 - case["gamma"]))
        assert found.lower * (1 - 1e-6) <= exact <= found.upper * (1 + 1e-6)
        assert found.upper <= exact * (1 + 2e-5)
    stated = BOUNDS["koskela-strong"].epsilon(mechanism, case["reports"], 1e-4).upper
    assert stated == pytest.approx(0.531, abs=5e-4)


def scalar_delta(epsilon: float, reports: int, chance: float) -> float:
    """What koskela-2021 (5.1) compares: Bin(n − 1, γ/k) + 1 against Bin(n − 1, γ/k), the scalars alone."""
    law = binom.pmf(np.arange(reports), reports - 1, chance)
    sides = (np.append(0.0, law), np.append(law, 0.0))
    return max(float(np.sum(np.maximum(a - exp(epsilon) * b, 0.0))) for a, b in (sides, sides[::-1]))


def test_scalar_comparison_is_too_small_for_the_strong_adversary() -> None:
    case = VECTORS["strong_adversary_joint"]
    reports, chance = case["reports"], case["gamma"] / case["categories"]
    for delta, exact in zip(case["deltas"], case["epsilon_exact"], strict=True):
        joint = IidSum(
            reports, (1 / chance, -exp(exact) / chance), (chance, chance), 0.0, 1 - 2 * chance, 1 / chance, 1 / reports
        )
        found = positive_part(joint, 0.001)
        assert exp(found.lower) * (1 - 1e-5) <= delta <= exp(found.upper) * (1 + 1e-5)
        assert scalar_delta(exact, reports, chance) < delta / 4
    assert scalar_delta(0.4302, reports, chance) == pytest.approx(1e-4, rel=5e-3)


def test_clones_generic_value_lies_in_the_published_bracket() -> None:
    case = VECTORS["clones_generic"]
    upper = epsilon_bracket(
        Generic(case["local_epsilon"]), case["reports"], case["delta"], bound="clones"
    ).epsilon_upper
    assert case["published_lower"] <= upper <= case["published_upper"] < case["closed_form"]


def test_stronger_clones_value() -> None:
    (case,) = VECTORS["stronger_clones"]
    mechanism = Generic(case["local_epsilon"])
    assert_just_above(epsilon_bracket(mechanism, case["reports"], case["delta"]).epsilon_upper, case["exact"])
    clones = epsilon_bracket(mechanism, case["reports"], case["delta"], bound="clones")
    assert_just_above(clones.epsilon_upper, case["clones_exact"])


def test_two_rr_value() -> None:
    (case,) = VECTORS["two_rr"]
    mechanism = KRR.from_local_epsilon(2, case["local_epsilon"])
    found = epsilon_bracket(mechanism, case["reports"], case["delta"])
    assert found.epsilon_upper == pytest.approx(case["truth_about"], rel=1e-3)
    blanket = BOUNDS["blanket"].epsilon(mechanism, case["reports"], case["delta"])
    assert blanket.upper == pytest.approx(case["blanket"], rel=1e-3)


def test_calibrate_sum_values() -> None:
    case = VECTORS["calibrate_sum"]
    found = calibrate_sum(case["epsilon"], case["delta"], case["reports"])
    best = case["blanket"][1]
    assert found.size - 1 == best["levels"]
    assert float(found.mechanism.gamma) == pytest.approx(best["gamma"], rel=1e-3)
    assert best["worst_case_mse_exact"] * (1 - 1e-4) <= found.mse <= 1995
    for row in case["blanket"]:
        mechanism = KRR.from_numerator(row["levels"] + 1, round(row["gamma"] * 2**32))
        assert sum_mse(mechanism, row["levels"], case["reports"]) == pytest.approx(
            row["worst_case_mse_exact"], rel=1e-4
        )
