"""Implements balle-2019: the closed forms of the privacy blanket.

`balle-closed` is Thm 3.1, of kRR. The others bound E[(L₁ + … + L_M)₊]/(γn), M ~ B(n, γ), of Lemma 5.3 (its exact
evaluation is the bound `blanket`): `balle-hoeffding` by Lemma 5.5, `balle-bennett` by Lemma 5.6 *as its proof has it*
(the printed factor 1/(a·m) is wrong; with it, numbers are below the truth), `balle-generic` by Thm 5.3.

The paper states them for one common randomizer. For an unknown one they cover places with different randomizers, too
(docs/explanation/accounting-clones.md, "Other bounds for places").
"""

from __future__ import annotations

from decimal import Decimal

from hubbub.accountant.bounds.closed_form import Case, DeltaFormula, EpsilonFormula, any_local
from hubbub.accountant.mechanisms import KRR, AnyMechanism, exact_decimal, exp_decimal
from hubbub.accountant.pairs import Amplification, amplification


def _is_krr(mechanism: AnyMechanism) -> bool:
    return isinstance(mechanism, KRR)


def _blankets(case: Case) -> Decimal:
    """Return c = γ(n − 1)/k, the expected blankets on one value."""
    krr = case.mechanism
    if not isinstance(krr, KRR):
        raise TypeError(f"{krr!r} passed the conditions of a bound for kRR")
    people = f"there is {case.people} client"
    case.require(case.people > 1, people, "but the theorem needs at least 2", "wait for more reports")
    return exact_decimal(krr.gamma) * (case.people - 1) / krr.categories


def closed_epsilon(case: Case, delta: Decimal) -> Decimal:
    """Thm 3.1 solved for ε: max(√(14k ln(2/δ)/((n−1)γ)), 27k/((n−1)γ)), which must be at most 1."""
    blankets = _blankets(case)
    value = max((14 * (2 / delta).ln() / blankets).sqrt(), 27 / blankets)
    case.require(
        value <= 1, f"its ε would be {value:.6g}", "but the theorem needs at most 1", "raise the reports, gamma or δ"
    )
    return value


def closed_log_delta(case: Case, epsilon: Decimal) -> Decimal:
    """Thm 3.1 solved for δ: 2·e^(−cε²/14), for ε ≤ 1 and c = γ(n−1)/k ≥ 27/ε."""
    blankets = _blankets(case)
    case.require(epsilon <= 1, f"ε is {epsilon:.6g}", "but the theorem needs at most 1", "lower it")
    enough = blankets * epsilon >= 27
    limit = f"and {blankets:.6g} blankets are expected on each value, but 27/ε are needed"
    case.require(enough, f"ε is {epsilon:.6g}", limit, "raise ε, the reports or gamma")
    return Decimal(2).ln() - blankets * epsilon**2 / 14


def generic_log_delta(case: Case, epsilon: float) -> Decimal:
    """Left side of (4), Thm 5.3, its logarithm."""
    power, ratio, people = exp_decimal(epsilon), case.ratio, case.people
    width = (power + 1) * (ratio - 1 / ratio)
    rate = min(1 / ratio, ((power - 1) / width) ** 2)
    return (width**2 / (4 * people * (power - 1))).ln() - (1 - Decimal(-2).exp()) * people * rate


def hoeffding_log_delta(case: Case, epsilon: float) -> Decimal:
    """Lemma 5.5: E[(Σ_m L)₊] ≤ b²/(4a)·e^(−2ma²/b²), with a = e^ε − 1 and b the width of L's range."""
    known = amplification(case.mechanism, epsilon)
    drift = exp_decimal(epsilon) - 1
    width = Decimal(known.highest) - Decimal(known.lowest)
    return mixture(known, case.people, width**2 / (4 * drift), 2 * (drift / width) ** 2)


def bennett_log_delta(case: Case, epsilon: float) -> Decimal:
    """Lemma 5.6 as derived in A.4: E[(Σ_m L)₊] ≤ b/ln(1 + ab/c)·e^(−(mc/b²)φ(ab/c)), φ(u) = (1+u)ln(1+u) − u.

    b is the largest value of L and c its second moment. The bound grows with b and c and falls with a, so rounding
    them outwards is safe. If b ≤ 0, no sum is positive.
    """
    known = amplification(case.mechanism, epsilon)
    top, second = Decimal(known.highest), Decimal(known.second_moment)
    if top <= 0:
        return Decimal("-Infinity")
    skew = (exp_decimal(epsilon) - 1) * top / second
    log = (1 + skew).ln()
    return mixture(known, case.people, top / log, second / top**2 * ((1 + skew) * log - skew))


def mixture(known: Amplification, people: int, scale: Decimal, rate: Decimal) -> Decimal:
    """Return ln of Lemma 5.3's (1/(γn))·Σ_{m≥1} P[B(n, γ) = m]·scale·e^(−rate·m), summed in closed form.

    The sum is (1 − γ + γe^−rate)^n − (1 − γ)^n. A smaller γ than the true one is safe: the bound on E[(Σ_m L)₊]/m falls
    with m, and it is averaged over m − 1 ~ B(n − 1, γ).
    """
    gamma = Decimal(known.gamma)
    total = (1 - gamma + gamma * (-rate).exp()).ln() * people
    front = (scale / (gamma * people)).ln()
    if gamma == 1:
        return front + total
    # Minus (1 − γ)^n, the term m = 0: without a blanket report the sum of Lemma 5.3 is empty.
    return front + total + (1 - ((1 - gamma).ln() * people - total).exp()).ln()


BALLE = (
    EpsilonFormula(
        name="balle-closed",
        source="balle-2019, Thm 3.1",
        covers=_is_krr,
        needs="kRR",
        formula=closed_epsilon,
        inverse=closed_log_delta,
    ),
    DeltaFormula(
        name="balle-generic",
        source="balle-2019, Thm 5.3",
        covers=any_local,
        needs="a local ε",
        formula=generic_log_delta,
    ),
    DeltaFormula(
        name="balle-hoeffding",
        source="balle-2019, Lemmas 5.3 and 5.5",
        covers=any_local,
        needs="a local ε",
        formula=hoeffding_log_delta,
    ),
    DeltaFormula(
        name="balle-bennett",
        source="balle-2019, Lemmas 5.3 and 5.6 (as derived in A.4)",
        covers=any_local,
        needs="a local ε",
        formula=bennett_log_delta,
    ),
)
"""The paper's closed forms."""
