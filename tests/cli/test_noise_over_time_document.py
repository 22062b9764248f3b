"""The page on noise over time: its table is what planning finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.planning.longitudinal.goals import Goal
from hubbub.planning.longitudinal.plan import StrategyTargets, compare_strategies

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "accounting-noise-over-time.md").read_text()
ROWS = re.findall(
    r"^\| (\d+) \| (\d+) \| (\d+) \| (none|\d+) \| (direct|tree) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
)


def test_the_table_is_read() -> None:
    assert len(ROWS) == 6


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("periods", "changes", "reports", "cap", "strategy", "without", "beside"), ROWS)
def test_errors_are_those_that_planning_finds(
    periods: str, changes: str, reports: str, cap: str, strategy: str, without: str, beside: str
) -> None:
    goal = Goal.over_all(1.0, 1e-6, int(reports), None if cap == "none" else float(cap))
    for noise, stated in (("none", without), ("always", beside)):
        wanted = StrategyTargets.of(Horizon(int(periods), int(changes)), goal, noise=noise)  # type: ignore[arg-type]
        (found,) = compare_strategies(wanted, [strategy])
        assert found.standard_error_mean == pytest.approx(float(stated), rel=2e-3)


def test_the_largest_errors_of_a_tree_are_those_that_are_stated() -> None:
    (stated,) = re.findall(r"at most ([\d.]+) with noise, and (\d+) without", " ".join(PAGE.split()))
    goal = Goal.over_all(1.0, 1e-6, 10**6, None)
    for noise, largest in zip(("always", "none"), stated, strict=True):
        (found,) = compare_strategies(StrategyTargets.of(Horizon(64, 4), goal, noise=noise), ["tree"])  # type: ignore[arg-type]
        assert found.standard_error_changing == pytest.approx(float(largest), rel=2e-3)
