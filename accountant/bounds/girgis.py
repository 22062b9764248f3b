"""Implements girgis-2021: bounds on Rényi divergences of the shuffled batch, with the lost formulas restored.

The paper states the upper bounds for one common randomizer. They cover places with different randomizers, too, since
Thm 3.6, their only step about the batch, does (docs/explanation/accounting-clones.md, "Other bounds for places").
The paper states them for randomizers with countably many outputs. A Rényi divergence is the supremum over finite
partitions of the outputs (van Erven and Harremoës, 2014, Thm 2), so the upper bounds are valid for densities too. (10)
and (11), the lower bounds, are divergences of binary randomized response with everyone else at 0, the zero's law in the
denominator. They do not apply to kRR with k ≥ 3. For an unknown randomizer they show only that *some* mechanism with
this ε₀ reaches them.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from math import exp, floor, inf, log, log1p

import numpy as np
from scipy.special import gammaln

from hubbub.accountant.bounds.closed_form import ROUNDING, Case, RenyiFormula, any_local, double
from hubbub.accountant.bounds.renyi import divergence, log_sum
from hubbub.accountant.mechanisms import KRR, AnyMechanism, Generic
from hubbub.accountant.mechanisms.exact import PRECISE
from hubbub.accountant.pairs import pairs_of
from hubbub.accountant.pairs.renyi import ERROR, TOO_LARGE, zeros_moments

CHUNK = 1 << 12
"""Number of terms of (5) that are computed at once."""


def _crowd(case: Case) -> int:
    """Return n̄ = ⌊(n − 1)/(2E)⌋ + 1."""
    with localcontext(PRECISE):
        return floor(Decimal(case.people - 1) / (2 * case.ratio)) + 1


def _log_rare(case: Case, order: float) -> float:
    """Return the exponent ε₀λ − (n − 1)/(8E) of the case of few clones, rounded up."""
    with localcontext(PRECISE):
        return double(case.local * Decimal(order) - Decimal(case.people - 1) / (8 * case.ratio), inf)


def _error(order: float) -> float:
    """Return the charge for a sum's logarithm: the ln Γ of its terms reach λ ln λ, each with an error of 1e-15."""
    return 1e-11 + 4e-15 * order * log(order)


def upper_1(case: Case, order: float) -> float:
    """(5), λ an integer ≥ 2, everything inside the log and (λ choose 2) as its first coefficient.

    ln(1 + C(λ,2)(E−1)²/(n̄E) + Σ_{i=3..λ} C(λ,i)·i·Γ(i/2)·((E²−1)²/(2E²n̄))^{i/2} + e^{ε₀λ − (n−1)/(8E)})/(λ − 1).
    """
    crowd = _crowd(case)
    with localcontext(PRECISE):
        gain = float((case.ratio - 1) ** 2 / case.ratio / crowd)
        log_x = float(((case.ratio - 1 / case.ratio) ** 2 / 2 / crowd).ln()) if case.ratio > 1 else -inf
    first = log(order * (order - 1) / 2) + log(gain) if gain else -inf
    inside = log_sum(log_sum(first, _log_higher(int(order), log_x)), _log_rare(case, order))
    return divergence(inside + _error(order), order)


def _log_higher(order: int, log_x: float) -> float:
    """Return ln Σ_{i=3..λ} C(λ,i)·i·Γ(i/2)·x^{i/2}.

    Γ((i+1)/2)/Γ(i/2) ≤ √(i/2), so a term is at most (λ − i)√x/√(2i) times the one before. That factor falls with i:
    once it is below 1/2 and the terms are negligible, the rest adds at most the last term.
    """
    if log_x == -inf or order < 3:
        return -inf
    logs: list[float] = []
    for start in range(3, order + 1, CHUNK):
        i = np.arange(start, min(start + CHUNK, order + 1), dtype=float)
        choose = gammaln(order + 1.0) - gammaln(i + 1) - gammaln(order - i + 1)
        terms = choose + np.log(i) + gammaln(i / 2) + i / 2 * log_x
        peak = float(np.max(terms))
        logs.append(peak + log(float(np.sum(np.exp(terms - peak)))))
        ratio = log(max(order - float(i[-1]), 0.5)) + log_x / 2 - log(2 * float(i[-1])) / 2
        if ratio < -log(2) and float(terms[-1]) < max(logs) - 60:
            return _total(logs) + 1e-20
    return _total(logs)


def _total(logs: list[float]) -> float:
    high = max(logs)
    return high + log(sum(exp(each - high) for each in logs))


def simplified(case: Case, order: float) -> float:
    """(6), λ an integer ≥ 2: ln(1 + C(λ,2)·4(E−1)²/n)/(λ − 1), for λ⁴e^{5ε₀} < n/9 and its proof's (47).

    (47) is e^{ε₀λ − (n−1)/(8E)} ≤ (λ(E²−1)/√(2E²n̄))³; the proof calls it automatic, but at small n or ε₀ it is not.
    The proof takes n̄ = (n−1)/(2E) + 1, without the floor of (5). With the floor, 1/(n̄E) ≤ 2/(n − 1), and the higher
    terms are at most 9/16·(n/(n−1))^{3/2} of their share C(λ,2)(E−1)²·2/n, since (E²−1)(E+1)²/(3E⁴) ≤ 9/16, reached at
    E = 2; as n > 144, both fit into 4/n. (47) is required at the larger n̄, which is the stronger condition.
    """
    with localcontext(PRECISE):
        whole, ratio, people = Decimal(order), case.ratio, case.people
        power = whole**4 * ratio**5
        limit = f"but the theorem needs values below n/9 = {people / 9:.6g}"
        case.require(9 * power < people, f"λ⁴e^{{5ε₀}} is {power:.6g}", limit, "lower the order or raise the reports")
        step = whole * (ratio**2 - 1) / (2 * ratio**2 * (Decimal(people - 1) / (2 * ratio) + 1)).sqrt()
        rare = (case.local * whole - (people - 1) / (8 * ratio)).exp()
        limit = f"but the theorem needs at most {step**3:.6g}, by (47) of its proof"
        case.require(rare <= step**3, f"e^{{ε₀λ − (n−1)/(8E)}} is {rare:.6g}", limit, "raise the reports")
        value = (1 + whole * (whole - 1) * 2 * (ratio - 1) ** 2 / people).ln() / (whole - 1)
        return double(value * (1 + ROUNDING), inf)


def upper_2(case: Case, order: float) -> float:
    """(8), λ ≥ 2: ln(e^{λ²(E−1)²/n̄} + e^{ε₀λ − (n−1)/(8E)})/(λ − 1).

    The paper states it for λ ≥ 1, but its proof (Thm 7.1) needs λ ≥ 2. Below 2 this is the chord of (7) between 1 and
    2.
    """
    if order < 2:
        return upper_2(case, 2.0) * (1 + 1e-14)
    crowd = _crowd(case)
    with localcontext(PRECISE):
        square = double((Decimal(order) * (case.ratio - 1)) ** 2 / crowd * (1 + ROUNDING), inf)
    return log_sum(square, _log_rare(case, order)) / (order - 1) * (1 + 1e-12)


def lower(case: Case, order: float) -> float:
    """(10), λ an integer ≥ 2: the Rényi divergence of all zeros but one from all zeros, of binary randomized response.

    (10) expands E[r^λ], r the likelihood ratio at N ~ B(n, 1/(E+1)) ones, in central moments of N. Here E[r^λ] itself
    is summed over bins of N, merged on the safe side. If the terms are too large for doubles, the result is the
    divergence of a smaller order, which is never larger.
    """
    krr = _binary(case)
    if order * krr.epsilon_local > TOO_LARGE:
        order = max(2.0, TOO_LARGE / krr.epsilon_local // 1)
    return log1p(zeros_moments(krr, case.people, order)[0] * (1 - ERROR)) / (order - 1)


def lower_simple(case: Case, order: float) -> float:
    """(11), λ an integer ≥ 2: ln(1 + C(λ,2)(E−1)²/(nE))/(λ − 1)."""
    with localcontext(PRECISE):
        whole, gain = Decimal(order), (case.ratio - 1) ** 2 / (case.people * case.ratio)
        value = (1 + whole * (whole - 1) / 2 * gain).ln() / (whole - 1)
        return double(value * (1 - 10**30 * ROUNDING), -inf)


def _binary(case: Case) -> KRR:
    return case.mechanism if isinstance(case.mechanism, KRR) else KRR.from_local_epsilon(2, float(case.local))


def _reached(mechanism: AnyMechanism) -> bool:
    return isinstance(mechanism, Generic) or pairs_of(mechanism).binary


ATTAINED = "kRR with 2 categories, or an unknown randomizer (some attain it)"

GIRGIS = (
    RenyiFormula(
        name="girgis-upper-1",
        source="girgis-2021, Thm 3.1 (5)",
        covers=any_local,
        needs="a local ε",
        formula=upper_1,
        integer=True,
        cost="a sum of order terms",
    ),
    RenyiFormula(
        name="girgis-simplified",
        source="girgis-2021, Cor. 3.2 (6), with its proof's (47)",
        covers=any_local,
        needs="a local ε",
        formula=simplified,
        integer=True,
    ),
    RenyiFormula(
        name="girgis-upper-2",
        source="girgis-2021, Thm 3.3 (8), as its proof has it",
        covers=any_local,
        needs="a local ε",
        formula=upper_2,
        integer=False,
    ),
    RenyiFormula(
        name="girgis-lower",
        source="girgis-2021, Thm 3.4 (10), of binary randomized response",
        covers=_reached,
        needs=ATTAINED,
        formula=lower,
        integer=True,
        direction="lower",
        cost="a sum over the bins of one binomial",
    ),
    RenyiFormula(
        name="girgis-lower-simple",
        source="girgis-2021, Cor. 3.5 (11), of binary randomized response",
        covers=_reached,
        needs=ATTAINED,
        formula=lower_simple,
        integer=True,
        direction="lower",
    ),
)
"""The bounds of the paper."""
