"""Compares two numbers under Poisson sampling: kRR's exact pair, which is proven, and the plot of girgis-2021.

Each person takes part in a round with probability q, independently and in secret. girgis-2021, §4 (Fig. 5) puts (5), a
Rényi divergence of *replacing* a report, into the theorem of Zhu and Wang (2019) on Poisson sampling, which is about
*adding or removing* a person. No bound follows. It is here for comparison, and is never part of a certificate.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import comb, exp, floor, inf, log, log1p

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.bounds.catalog import CATALOG, Assessment
from hubbub.accountant.bounds.renyi import converted
from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.numbers import checked_delta
from hubbub.accountant.pairs import Part

EXACT_PAIR = "sampled-blanket"
"""Name of the proven bound."""

NAMES = (EXACT_PAIR, "sampled-attack", "girgis-sampled")
"""Names of the two numbers that are compared under Poisson sampling."""

ORDERS = 128
"""Orders 2 … 128 are tried: each needs the divergences of all smaller ones."""

AS_PLOTTED = Assessment(
    NAMES[2],
    "girgis-2021, §4: (5) of the mean batch in the sampling theorem of Zhu and Wang (2019), as plotted",
    "upper",
    composition="rdp",
    proven=False,
)
"""The fields that are fixed in the row of the paper's way."""


@answering
def assess_sampled(
    mechanism: LocalMechanism, clients: int, delta: float, rate: Fraction, *, rounds: int = 1
) -> tuple[Assessment, ...]:
    """Return ε at `delta` of `rounds` rounds in which each of `clients` takes part with probability `rate`.

    The exact pair's upper end is proven, and its attack (k ≥ 3) is below it. The paper's way is marked as not proven.
    None is `chosen`: a task fixes its batches beforehand, so no certificate has sampling. The rule q·δ(ε), which is
    true for subsets of a fixed size, is false here and is not offered.
    Raises AccountingError for numbers out of range.
    """
    wanted = checked_delta(delta)
    plotted = _as_plotted(mechanism, clients, wanted, rate, rounds)
    exact = Assessment(
        EXACT_PAIR, "Poisson sampling, the exact pair of kRR (docs/explanation/accounting-rounds.md)", "upper", "losses"
    )
    attack = replace(exact, bound=NAMES[1], direction="lower")
    try:
        found = compose([Part(mechanism, clients, rounds, sampling_rate=rate)], wanted)
    except OutsideConditions as error:
        return replace(exact, composition=None, applies=False, why_not=str(error)), plotted
    if found.epsilon_lower is None:
        why = "no attack is known with 2 categories; use more categories"
        attack = replace(attack, composition=None, applies=False, why_not=why)
    exact = replace(exact, epsilon_upper=found.epsilon_upper)
    return exact, replace(attack, epsilon_lower=found.epsilon_lower), plotted


def _as_plotted(mechanism: LocalMechanism, clients: int, delta: float, rate: Fraction, rounds: int) -> Assessment:
    try:
        return replace(AS_PLOTTED, epsilon_upper=as_plotted(mechanism, clients, delta, rate, rounds))
    except OutsideConditions as error:
        return replace(AS_PLOTTED, composition=None, applies=False, why_not=str(error))


def as_plotted(mechanism: LocalMechanism, clients: int, delta: float, rate: Fraction, rounds: int = 1) -> float:
    """Return the ε that girgis-2021, §4 would plot at `delta`: *not* a bound.

    With ρ(ℓ) of (5) at ⌊q·clients⌋ reports (the paper does not state its number; a mean batch hides less than all
    clients would), the divergence of order λ of one round is
    ln((1−q)^{λ−1}(λq−q+1) + C(λ,2)q²(1−q)^{λ−2}e^{ρ(2)} + 3 Σ_{ℓ=3..λ} C(λ,ℓ)(1−q)^{λ−ℓ}q^ℓ e^{(ℓ−1)ρ(ℓ)})/(λ−1).
    Raises OutsideConditions if (5) does not cover the mechanism, AccountingError for a rate outside (0, 1].
    """
    if not 0 < rate <= 1:
        raise AccountingError(
            f"sampling_rate is {rate}; give a number above 0 and at most 1; 1 means that everyone takes part"
        )
    bound, batch = CATALOG["girgis-upper-1"], floor(rate * clients)
    if batch < 1:
        raise OutsideConditions(f"the mean batch is {float(rate * clients):g}, below 1; raise the clients")
    divergences = [0.0, 0.0] + [bound.rdp(mechanism, batch, float(order)) for order in range(2, ORDERS + 1)]
    best = inf
    for order in range(2, ORDERS + 1):
        best = min(best, converted(rounds * _sampled(divergences, order, float(rate)), order, delta))
    return best


def _sampled(divergences: list[float], order: int, q: float) -> float:
    """Return the divergence of `order` after sampling, from those of all orders up to it; inf if it overflows."""
    if q == 1:
        return divergences[order]
    keep = log1p(-q)
    logs = [(order - 1) * keep + log(order * q - q + 1)]
    for taken in range(2, order + 1):
        factor = log(comb(order, taken)) + (log(3) if taken > 2 else 0.0)
        logs.append(factor + (order - taken) * keep + taken * log(q) + (taken - 1) * divergences[taken])
    high = max(logs)
    return (high + log(sum(exp(each - high) for each in logs))) / (order - 1)
