"""koskela-2021, Figs. 1 and 2: δ(ε) of one and several rounds, from the corrected pairs.

Two pairs are used by these figures only: that of the adversary A_s, and (6.1). Both are walks (`losses.walks`). Let μ
be the law of the victim's report, ω that of anybody else's, and n the number of reports: then the density of the batch
with respect to n reports of ω is the mean of μ/ω over the reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from scipy.stats import binom

from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.composition import composed_delta
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import LossGrid, connect_dots
from hubbub.accountant.losses.walks import Walk, spread_atoms
from hubbub.accountant.mechanisms import KRR, Generic
from hubbub.accountant.pairs import Part
from hubbub.cli.mechanisms.arguments import delta_of
from hubbub.cli.plots.plan import Axis, CurvePlan, PanelPlan, PlotPlan

ROUNDS = (1, 2, 4)
"""Numbers of rounds drawn (n_c in the paper)."""

SMALLEST = 1e-10
"""The smallest δ that is shown."""

LOG_TAIL = 60.0
"""Outcomes with a mass of e^−60 per round are cut, and that mass is added to δ."""

KRR_4 = KRR(4, Fraction(1, 4))
KRR_REPORTS = 1000

COMMON = Generic(4.0)
COMMON_REPORTS = 10_000

CAPTION_1 = (
    "After koskela-2021, Fig. 1: δ(ε) of kRR with k = 4, γ = 0.25, n = 1000, after T = 1, 2 and 4 rounds. A_w sees the "
    "shuffled reports and knows everyone else's answers and which of them are truthful; A_s knows that of the victim "
    "too. The curves come from the joint law of the two counts, for A_s with the factor 1 − γ of a truthful victim. "
    "The paper's curves come from single counts, (5.1) and Thm 10, so they differ. The dotted curve is (5.1) as "
    "printed, T = 1; it is below the truth of A_s everywhere here. Thm 3.1 is balle-2019's, for ε ≤ 1. The paper's "
    "text does not name the T of its curves; these are those of its Fig. 4."
)

CAPTION_2 = (
    "After koskela-2021, Fig. 2: δ(ε) of any randomizer with ε₀ = 4, n = 10⁴. Its pair (6.1) after T = 1, 2 and 4 "
    "rounds, and for T = 1 the clone pair of the compared method (feldman-2022, Thm B.1), which is tighter than (6.1). "
    "Here both are evaluated without the paper's q = e^−ε₀ of Lemma B.2, a misprint for e^ε₀/(e^ε₀+1). Added here: the "
    "stronger clones, for a randomizer that is common to all, or places of the batch with randomizers of their own. "
    "The paper's text does not name the T of its curves; these are those of its Fig. 4."
)


def plan_1() -> PlotPlan:
    """Plan Fig. 1."""
    x = _values(2.5)
    curves = [CurvePlan(f"A_w, T = {rounds}", "upper", x, partial(_weak, rounds), True) for rounds in ROUNDS]
    curves += [CurvePlan(f"A_s, T = {rounds}", "upper", x, partial(strong_delta, rounds)) for rounds in ROUNDS]
    curves += [
        CurvePlan(
            "balle-2019, Thm 3.1, T = 1", "upper", x, lambda at: CATALOG["balle-closed"].delta(KRR_4, 1000, at)[1]
        ),
        CurvePlan("(5.1) as printed, T = 1", "neither", x, scalar_delta),
    ]
    title = "kRR over rounds, after koskela-2021, Fig. 1: n = 1000, k = 4, γ = 0.25"
    return PlotPlan(title, CAPTION_1, (_panel(title, curves),))


def plan_2() -> PlotPlan:
    """Plan Fig. 2."""
    x = _values(2.0)
    curves = [CurvePlan(f"(6.1), T = {rounds}", "upper", x, partial(half_clones_delta, rounds)) for rounds in ROUNDS]
    curves += [CurvePlan("clones, T = 1", "upper", x, _clones)]
    curves += [
        CurvePlan(f"stronger clones, T = {rounds}", "upper", x, partial(_composed, rounds), True) for rounds in ROUNDS
    ]
    title = "Any randomizer over rounds, after koskela-2021, Fig. 2: n = 10⁴, ε₀ = 4"
    return PlotPlan(title, CAPTION_2, (_panel(title, curves),))


def _values(last: float) -> tuple[float, ...]:
    return tuple(float(f"{each:.6g}") for each in np.linspace(last / 50, last, 50))


def _panel(title: str, curves: list[CurvePlan]) -> PanelPlan:
    y = Axis("δ", "log", (SMALLEST, 1.0))
    return PanelPlan(title, Axis("central ε (nats)", "linear"), y, tuple(curves), shaded=False)


def _weak(rounds: int, epsilon: float) -> float:
    return delta_of(Part(KRR_4, KRR_REPORTS, rounds), epsilon).delta_upper


def strong_delta(rounds: int, epsilon: float) -> float:
    """Return δ of A_s at `epsilon`, never below the truth."""
    return composed_delta([(strong_grid(), rounds)], epsilon)


def half_clones_delta(rounds: int, epsilon: float) -> float:
    """Return δ of (6.1) at `epsilon`, never below the truth."""
    return composed_delta([(half_clones_grid(), rounds)], epsilon)


def _clones(epsilon: float) -> float:
    return CATALOG["clones"].delta(COMMON, COMMON_REPORTS, epsilon)[1]


def _composed(rounds: int, epsilon: float) -> float:
    return delta_of(Part(COMMON, COMMON_REPORTS, rounds), epsilon).delta_upper


@lru_cache(maxsize=1)
def strong_grid() -> LossGrid:
    """Losses of A_s (Def. 8): a truthful victim, ω = (γ/k, γ/k, 1 − 2γ/k), μ = (1, 0, 0); else nothing is seen."""
    walk = Walk(KRR_REPORTS, 2 * KRR_4.other, Fraction(1, 2), Fraction(1, 2))
    return connect_dots(_given(float(KRR_4.gamma), spread_atoms(walk, LOG_TAIL)))


def _given(hidden: float, atoms: Iterator[Atoms]) -> Iterator[Atoms]:
    """Yield the atoms with probability 1 − `hidden`; with probability `hidden` nothing is seen, which is ratio 1."""
    yield Atoms(np.zeros(0), np.zeros(0), hidden, 0.0)
    for each in atoms:
        seen = 1 - hidden
        yield Atoms(each.q * seen, each.gap * seen, each.even * seen, each.cut * seen)


@lru_cache(maxsize=1)
def half_clones_grid() -> LossGrid:
    """Losses of (6.1): ω = (1/(2E), 1/(2E), 1 − 1/E), μ = (q, 0, 1 − q), q = E/(E + 1), E = e^ε₀."""
    clone = 1 / COMMON.likelihood_ratio
    own = COMMON.likelihood_ratio / (COMMON.likelihood_ratio + 1)
    walk = Walk(COMMON_REPORTS, clone, own, own, (1 - own) * clone / (1 - clone), Fraction(1))
    return connect_dots(spread_atoms(walk, LOG_TAIL))


def scalar_delta(epsilon: float) -> float:
    """Return the larger of both directions' divergences of (5.1) as it is printed, which is not a bound."""
    count = np.arange(KRR_REPORTS + 1)
    law = binom(KRR_REPORTS - 1, float(KRR_4.other))
    more, less = law.pmf(count - 1), law.pmf(count)
    both = ((more, less), (less, more))
    return max(float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum()) for p, q in both)
