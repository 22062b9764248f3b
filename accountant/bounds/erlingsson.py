"""Implements erlingsson-2019: the first amplification theorem, in its three forms, and its Rényi divergence.

All cover places with different ε₀-LDP algorithms, chosen adaptively (the paper's A_sl), and so also one common
randomizer. If clients have different randomizers and are shuffled afterwards, only those with the victim's randomizer
count as n (Cor. 9): ask with that number.
"""

from __future__ import annotations

from decimal import Decimal
from math import inf

from hubbub.accountant.bounds.closed_form import ROUNDING, Case, EpsilonFormula, RenyiFormula, any_local, double
from hubbub.accountant.mechanisms.exact import PRECISE

NEEDS = "a local ε"
SOURCE = "erlingsson-2019, Thm 7"


def _whole_batch(case: Case) -> None:
    case.require(
        case.people > 1, f"there is {case.people} client", "but the theorem needs at least 2", "wait for more reports"
    )
    case.require(
        case.local > 0, "the local ε is 0", "but the theorem needs values above 0", "nothing is left to amplify"
    )


def general(case: Case, delta: Decimal) -> Decimal:
    """ε₁√(2n ln(1/δ)) + nε₁(e^ε₁ − 1), ε₁ = 2e^{2ε₀}(e^ε₀ − 1)/n, for any n > 1, ε₀ > 0, δ > 0."""
    _whole_batch(case)
    people, each = case.people, 2 * case.ratio**2 * (case.ratio - 1) / case.people
    limit = "but only values below 600 can be computed"
    case.require(each < 600, f"its ε of one step is {each:.6g}", limit, "raise the reports or lower the local ε")
    return each * (-2 * people * delta.ln()).sqrt() + people * each * (each.exp() - 1)


def middle(case: Case, delta: Decimal) -> Decimal:
    """e^{2ε₀}(e^ε₀ − 1)√(8 ln(1/δ)/n) + 6e^{4ε₀}(e^ε₀ − 1)²/n, for ε₀ ≤ ln(n/4)/3."""
    _whole_batch(case)
    people, step = case.people, case.ratio**2 * (case.ratio - 1)
    limit = f"but the theorem needs at most ln(n/4)/3, with n = {people}"
    case.require(4 * case.ratio**3 <= people, f"local ε is {case.local:.6g}", limit, "lower it or raise the reports")
    return step * (-8 * delta.ln() / people).sqrt() + 6 * step**2 / people


def simple(case: Case, delta: Decimal) -> Decimal:
    """12ε₀√(ln(1/δ)/n), for n ≥ 1000, 0 < ε₀ < 1/2, 0 < δ < 1/100."""
    _whole_batch(case)
    case.require(
        case.people >= 1000, f"there are {case.people} clients", "but the theorem needs at least 1000", "wait for more"
    )
    case.require(
        case.local < Decimal("0.5"),
        f"local ε is {case.local:.6g}",
        "but the theorem needs values below 1/2",
        "lower it",
    )
    case.require(delta < Decimal("0.01"), f"δ is {delta:.6g}", "but the theorem needs values below 1/100", "lower it")
    return 12 * case.local * (-delta.ln() / case.people).sqrt()


def remark(case: Case, order: float) -> float:
    """2λe^{4ε₀}(e^ε₀ − 1)²/n at any order λ ≥ 1 (Remark 1, which is (9) of girgis-2021)."""
    _whole_batch(case)
    step = PRECISE.multiply(PRECISE.power(case.ratio, Decimal(2)), case.ratio - 1)
    value = PRECISE.divide(PRECISE.multiply(2 * Decimal(order), PRECISE.multiply(step, step)), Decimal(case.people))
    return double(PRECISE.multiply(value, 1 + ROUNDING), inf)


ERLINGSSON = (
    EpsilonFormula(name="erlingsson", source=SOURCE, covers=any_local, needs=NEEDS, formula=general),
    EpsilonFormula(
        name="erlingsson-middle",
        source=f"{SOURCE}, for ε₀ ≤ ln(n/4)/3",
        covers=any_local,
        needs=NEEDS,
        formula=middle,
    ),
    EpsilonFormula(
        name="erlingsson-simple",
        source=f"{SOURCE} and Cor. 9, for n ≥ 1000, ε₀ < 1/2, δ < 1/100",
        covers=any_local,
        needs=NEEDS,
        formula=simple,
    ),
    RenyiFormula(
        name="erlingsson-rdp",
        source="erlingsson-2019, Remark 1 (girgis-2021, (9))",
        covers=any_local,
        needs=NEEDS,
        formula=remark,
        integer=False,
    ),
)
"""The bounds of the paper."""
