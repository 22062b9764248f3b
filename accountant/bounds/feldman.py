"""Implements feldman-2022: closed forms of the clone pairs; `clones` and `stronger-clones` evaluate them exactly."""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import expm1, floor, inf, log

from hubbub.accountant.bounds.closed_form import (
    ROUNDING,
    Case,
    EpsilonFormula,
    RenyiFormula,
    any_local,
    double,
)
from hubbub.accountant.bounds.renyi import divergence, log_sum
from hubbub.accountant.mechanisms.exact import PRECISE

LOG_ERROR = 1e-12
"""Relative room for the logarithms of `clones_renyi`, each a few double operations on numbers below 1e13."""


def _crowd(case: Case, delta: Decimal, factor: int, offset: int) -> None:
    """Check ε₀ ≤ ln(n/(factor·ln(2/δ)) − offset)."""
    limit = f"but the theorem needs at most ln(n/({factor} ln(2/δ)){' − 1' if offset else ''}), with n = {case.people}"
    fits = (case.ratio + offset) * factor * (2 / delta).ln() <= case.people
    case.require(fits, f"local ε is {case.local:.6g}", limit, "lower it, or raise the reports or δ")


def clones_closed(case: Case, delta: Decimal) -> Decimal:
    """ln(1 + (E−1)/(E+1)·(8√(E ln(4/δ)/n) + 8E/n)), E = e^ε₀, for ε₀ ≤ ln(n/(16 ln(2/δ)))."""
    _crowd(case, delta, 16, 0)
    ratio, people = case.ratio, case.people
    inner = 8 * (ratio * (4 / delta).ln() / people).sqrt() + 8 * ratio / people
    return (1 + (ratio - 1) / (ratio + 1) * inner).ln()


def stronger_closed(case: Case, delta: Decimal) -> Decimal:
    """ln(1 + (E−1)·(4√(2 ln(4/δ)/((E+1)n)) + 4/n)), E = e^ε₀, for ε₀ ≤ ln(n/(8 ln(2/δ)) − 1).

    The paper proves it for the divergence of the stronger-clone pair. accounting-clones.md proves that this pair covers
    every randomizer, and places with different ones; the paper withdrew its own proof, except for a class of them.
    """
    _crowd(case, delta, 8, 1)
    ratio, people = case.ratio, case.people
    inner = 4 * (2 * (4 / delta).ln() / ((ratio + 1) * people)).sqrt() + Decimal(4) / people
    return (1 + (ratio - 1) * inner).ln()


def clones_renyi(case: Case, order: float) -> float:
    """Cor. 7.2 (Cor. 4.3 corrected), of the clone pair, at any order λ > 1; never below the pair's divergence.

    ln(e^b + (e^{(λ−1)ε₀} − 1)(e^{−(n−1)/(8E)} + 2e^{−n̄/8}))/(λ − 1), where b = λ(λ−1)ρ²/(2n̄), n̄ = ⌊(n−1)/(2E)⌋ + 1
    and ρ = 2 ln((3E+1)/(E+3)). The paper leaves its constant open; accounting-clones.md proves this one. It also proves
    that the paper's form cλE((E−1)/(E+1))²/(n−1) follows with c < 5, except for the second term.
    """
    with localcontext(PRECISE):
        crowd = floor(Decimal(case.people - 1) / (2 * case.ratio)) + 1
        slope = 2 * ((3 * case.ratio + 1) / (case.ratio + 3)).ln()
        whole = Decimal(order)
        usual = double(whole * (whole - 1) * slope**2 / (2 * crowd) * (1 + ROUNDING), inf)
        worst = double((whole - 1) * case.local, inf)
        few_clones = double(-Decimal(case.people - 1) / (8 * case.ratio), inf)
    one_sided = log(2) - crowd / 8
    inside = log_sum(_log_expm1(usual), _log_expm1(worst) + log_sum(few_clones, one_sided))
    return divergence(inside + LOG_ERROR * min(abs(inside), 1e3), order) * (1 + LOG_ERROR)


def _log_expm1(exponent: float) -> float:
    """Return ln(e^exponent − 1) for an exponent ≥ 0; −∞ at 0."""
    if exponent > 1:
        return exponent + log(-expm1(-exponent))
    return log(expm1(exponent)) if exponent else -inf


FELDMAN = (
    EpsilonFormula(
        name="clones-closed",
        source="feldman-2022, Thm B.1 with Lemma A.4 (its predecessor's Thm 3.1)",
        covers=any_local,
        needs="a local ε",
        formula=clones_closed,
    ),
    EpsilonFormula(
        name="feldman-closed",
        source="feldman-2022, Thm 3.2, of the stronger-clone pair",
        covers=any_local,
        needs="a local ε",
        formula=stronger_closed,
    ),
    RenyiFormula(
        name="clones-rdp",
        source="feldman-2022, Cor. 7.2 (Cor. 4.3 corrected), constants by our proof",
        covers=any_local,
        needs="a local ε",
        formula=clones_renyi,
        integer=False,
    ),
)
"""The paper's closed forms."""
