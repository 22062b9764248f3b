"""Strategies calibrated to a horizon's target: references, caps, reasons, and the search."""

from __future__ import annotations

import math
from functools import lru_cache

import pytest

from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.longitudinal.calibrate import Candidate, best, compare, level_reports
from hubbub.accountant.longitudinal.spent import parts_of_horizon
from hubbub.accountant.mechanisms.longitudinal import Horizon


@lru_cache
def found(periods: int, changes: int, cap: float | None = None, reports: int = 10**6) -> dict[str, Candidate]:
    return {each.kind: each for each in compare(Horizon(periods, changes), 1.0, 1e-6, reports, epsilon_local_cap=cap)}


def mean_error(candidate: Candidate) -> float:
    assert candidate.standard_error_mean is not None
    return candidate.standard_error_mean


@pytest.mark.slow
def test_errors_of_64_periods_and_4_changes_are_the_references_and_the_goal() -> None:
    candidates = found(64, 4)
    assert mean_error(candidates["direct"]) == pytest.approx(34.2, rel=0.01)
    # kRR on −1, 0, 1 has 91.7; a Gaussian estimate of what a blanket heavier on 0 can reach is 70.5.
    assert mean_error(candidates["tree"]) <= 70
    assert mean_error(candidates["sampled"]) >= 18_330
    assert mean_error(candidates["vector"]) == pytest.approx(4617, rel=0.01)
    assert best(tuple(candidates.values())).kind == "direct"


@pytest.mark.slow
def test_errors_of_1024_periods_and_1_change_are_the_references_and_the_goal() -> None:
    candidates = found(1024, 1)
    assert mean_error(candidates["direct"]) == pytest.approx(136, rel=0.01)
    # kRR on −1, 0, 1 has 86.6; a boolean that changes once never falls, so a report has two values only.
    assert mean_error(candidates["tree"]) <= 45
    assert mean_error(candidates["sampled"]) == pytest.approx(7416, rel=0.01)
    assert best(tuple(candidates.values())).kind == "tree"


@pytest.mark.slow
def test_what_is_stated_is_what_the_parts_compose_to_and_within_the_target() -> None:
    for candidate in found(4, 2, reports=10_000).values():
        assert candidate.strategy is not None
        assert candidate.epsilon_upper is not None
        assert candidate.epsilon_upper <= 1.0
        assert candidate.epsilon_local == candidate.strategy.epsilon_local()
        variances = [float(candidate.strategy.variance(period, 10_000)) for period in range(1, 5)]
        assert mean_error(candidate) == pytest.approx(math.sqrt(sum(variances) / 4))
        assert candidate.standard_error_largest == pytest.approx(math.sqrt(max(variances)))
        if candidate.kind in {"direct", "tree"}:
            assert candidate.epsilon_upper == compose_upper(parts_of_horizon(candidate.strategy, 10_000), 1e-6)
            assert candidate.epsilon_upper >= 0.99


@pytest.mark.slow
def test_a_cap_on_the_local_epsilon_is_kept_by_every_strategy() -> None:
    candidates = found(4, 2, 2.0, 10_000)
    for candidate in candidates.values():
        assert candidate.epsilon_local is not None
        assert candidate.epsilon_local <= 2.0
        assert candidate.epsilon_local >= 1.99
    assert mean_error(candidates["vector"]) < mean_error(candidates["sampled"])


@pytest.mark.slow
def test_changing_devices_are_taken_into_account() -> None:
    asked = Horizon(4, 1), 1.0, 1e-6, 100_000
    still, busy = (
        next(each for each in compare(*asked, changing=share) if each.kind == "tree") for share in (0.0, 0.5)
    )
    assert still.strategy is not None
    assert busy.strategy is not None
    each_half = max(float(still.strategy.variance(period, 100_000, 0, 50_000)) for period in range(1, 5))
    assert busy.standard_error_largest is not None
    assert busy.standard_error_largest**2 < each_half


def test_levels_are_never_counted_larger_than_they_are_but_for_the_tail() -> None:
    assert level_reports(1, 1000, 10.0) == 1000
    reports, levels, tail = 500, 4, 9.0
    least = level_reports(levels, reports, tail)
    others = reports - 1
    below = sum(math.comb(others, count) * 0.25**count * 0.75 ** (others - count) for count in range(least - 1))
    assert below <= math.exp(-tail)
    assert least >= 80


def test_what_does_not_apply_says_why() -> None:
    candidates = {each.kind: each for each in compare(Horizon(4, 2), 0.01, 1e-22, 50)}
    assert candidates["tree"].strategy is None
    assert "delta is 1e-22" in str(candidates["tree"].why_not)
    with pytest.raises(AccountingError, match="no strategy meets the target"):
        best((candidates["tree"],))
    with pytest.raises(AccountingError, match="changing is 2"):
        compare(Horizon(4, 2), 1.0, 1e-6, 50, changing=2.0)
