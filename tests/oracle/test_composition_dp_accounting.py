"""Composition against the dp_accounting library, from the exact masses of the pairs."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.stats import binom, multinomial

from hubbub.accountant.composition import compose
from hubbub.accountant.library.dp_accounting import to_dp_accounting
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part


def blanket_masses(reports: int, categories: int, gamma: float) -> tuple[dict, dict]:
    """P and Q of the blanket pair, outcome (B, N₁, N₂), from scipy's masses and the ratio of that pair."""
    log_p, log_q = {}, {}
    share = [1 / categories, 1 / categories, 1 - 2 / categories]
    for blankets in range(reports):
        total = blankets + 1
        weight = binom.logpmf(blankets, reports - 1, gamma)
        for first in range(total + 1):
            for second in range(total - first + 1):
                if categories == 2 and first + second < total:
                    continue
                counts = [first, second, total - first - second]
                base = weight + multinomial.logpmf(counts, total, share)
                scale = categories / total
                log_p[blankets, first, second] = base + math.log(
                    scale * (first * (1 - gamma) + gamma / categories * total)
                )
                log_q[blankets, first, second] = base + math.log(
                    scale * (second * (1 - gamma) + gamma / categories * total)
                )
    return log_p, log_q


@pytest.mark.parametrize(("categories", "rounds", "delta"), [(3, 10, 1e-6), (3, 200, 1e-8)])
def test_krr_rounds_lie_between_the_library_s_ends(categories: int, rounds: int, delta: float) -> None:
    mechanism = KRR.from_local_epsilon(categories, 1.0)
    log_p, log_q = blanket_masses(12, categories, float(mechanism.gamma))
    ends = [
        privacy_loss_distribution.from_two_probability_mass_functions(
            log_q, log_p, pessimistic_estimate=pessimistic, value_discretization_interval=1e-3
        )
        .self_compose(rounds)
        .get_epsilon_for_delta(delta)
        for pessimistic in (False, True)
    ]
    ours = compose([Part(mechanism, 12, rounds)], delta).epsilon_upper
    assert ends[0] <= ours <= ends[1] * 1.001


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "part",
    [Part(KRR.from_local_epsilon(4, 2.0), 1000, 20), Part(Generic(1.0), 500, 20), Part(Generic(3.0), 5000, 2)],
)
def test_a_part_handed_over_composes_to_the_same_epsilon(part: Part) -> None:
    ours = compose([part], 1e-6).epsilon_upper
    theirs = to_dp_accounting(part, 1e-3).get_epsilon_for_delta(1e-6)
    assert theirs == pytest.approx(ours, rel=5e-3)
    assert theirs >= compose([part], 1e-6).epsilon_lower


def test_a_part_handed_over_is_pessimistic_at_every_epsilon() -> None:
    part = Part(KRR.from_local_epsilon(3, 1.0), 12)
    log_p, log_q = blanket_masses(12, 3, float(part.mechanism.gamma))  # type: ignore[union-attr]
    p, q = (np.exp(np.array(list(masses.values()))) for masses in (log_p, log_q))
    handed = to_dp_accounting(part, 1e-2)
    for epsilon in np.linspace(0, 0.95, 20):
        exact = np.maximum(p - math.exp(epsilon) * q, 0).sum()
        assert handed.get_delta_for_epsilon(epsilon) >= exact * (1 - 1e-9)
