"""feldman-2022: the closed forms behind the clone pairs, whose exact divergences are `clones` and `stronger-clones`."""

from __future__ import annotations

from decimal import Decimal

from hubbub.accountant.bounds.balle import COMMON
from hubbub.accountant.bounds.closed import Case, EpsilonFormula, any_local, one_common


def _crowd(case: Case, delta: Decimal, factor: int, offset: int) -> None:
    """Check ε₀ ≤ ln(n/(factor·ln(2/δ)) − offset)."""
    limit = f"must be at most ln(n/({factor} ln(2/δ)){' − 1' if offset else ''}), with n = {case.people}"
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

    The paper proves it for the divergence of the stronger-clone pair. That this pair covers every common randomizer is
    the proof of docs/accounting.md; the paper's own was withdrawn except for a class of them.
    """
    _crowd(case, delta, 8, 1)
    ratio, people = case.ratio, case.people
    inner = 4 * (2 * (4 / delta).ln() / ((ratio + 1) * people)).sqrt() + Decimal(4) / people
    return (1 + (ratio - 1) * inner).ln()


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
        covers=one_common,
        needs=COMMON,
        formula=stronger_closed,
    ),
)
"""The paper's closed forms."""
