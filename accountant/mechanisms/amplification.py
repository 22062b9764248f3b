"""What balle-2019's Lemmas 5.5 and 5.6 need of a mechanism: the range and second moment of its amplification variable.

L = (μ(W) − e^ε μ'(W))/ω(W), with W drawn from the blanket ω and μ, μ' the laws of one report for two inputs; its mean
is 1 − e^ε whatever the mechanism. Everything is rounded so that bounds made of it only grow.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, nextafter

from hubbub.accountant.errors import AccountingError, OutsideConditions, shown
from hubbub.accountant.mechanisms.exact import exp_decimal, grown_exp
from hubbub.accountant.mechanisms.generic import Generic
from hubbub.accountant.mechanisms.krr import KRR
from hubbub.accountant.mechanisms.laplace import Laplace
from hubbub.accountant.mechanisms.rappor import RAPPOR

_PAD = Fraction(1, 10**60)
"""Relative room around 80-digit exponentials."""


@dataclass(frozen=True)
class Amplification:
    """The privacy amplification variable L at one ε, for any two inputs of the mechanism.

    Attributes:
        gamma: a probability with which a report is drawn from the blanket, never above the true one: there are
            B(n, gamma) blanket reports, or more.
        lowest: never above the least value of L.
        highest: never below the largest value of L.
        second_moment: never below E[L²].
    """

    gamma: float
    lowest: float
    highest: float
    second_moment: float


def amplification(mechanism: object, epsilon: float) -> Amplification:
    """Return what is known of the amplification variable of `mechanism` at `epsilon` ≥ 0.

    Raises:
        OutsideConditions: places of a batch with randomizers of their own (`mixed`) have no common blanket.
        AccountingError: a mechanism that is not known here.
    """
    power = Fraction(exp_decimal(epsilon))
    if isinstance(mechanism, KRR):
        return _krr(mechanism, power)
    if isinstance(mechanism, Generic):
        return _generic(mechanism, power)
    if isinstance(mechanism, Laplace):
        return _laplace(mechanism, power)
    if isinstance(mechanism, RAPPOR):
        return _rappor(mechanism, power)
    raise AccountingError(f"mechanism is {shown(mechanism)}, its amplification variable is not known; choose another")


def _krr(mechanism: KRR, power: Fraction) -> Amplification:
    """balle-2019, Lemma 5.7; exact but for e^ε."""
    gamma, categories = mechanism.gamma, mechanism.categories
    above, below = power * (1 + _PAD), power * (1 - _PAD)
    truthful = (1 - gamma) * categories
    squared = gamma * (2 - gamma) * (1 - above) ** 2 + (1 - gamma) ** 2 * categories * (1 + above**2)
    return _rounded(gamma, gamma * (1 - above) - truthful * above, gamma * (1 - below) + truthful, squared)


def _generic(mechanism: Generic, power: Fraction) -> Amplification:
    """balle-2019, Lemmas 5.2 and 5.4, as its authors evaluate them: γ = e^−ε₀ counts the blankets, γ = 1 elsewhere.

    The true γ lies in [1/E, 1], E = e^ε₀, and a range at γ = 1 holds at any γ while it has 0 inside (ε < 2ε₀). The
    second moment at γ = 1, E(e^{2ε} + 1) − 2e^ε/E², is not the largest that Lemma 5.4 gives over those γ if ε₀ is
    small; it is an upper bound nevertheless. With s = μ/ω and s' = μ'/ω in [γ, γE], both of mean 1:
    E[s²] ≤ γ + γE − γ²E ≤ E, from (s − γ)(γE − s) ≥ 0 and since the middle is at most (1+E)²/(4E); and
    E[ss'] ≥ 2γ − γ² ≥ (2E − 1)/E² ≥ 1/E², from (s − γ)(s' − γ) ≥ 0.
    """
    if mechanism.mixed:
        raise OutsideConditions(f"{mechanism!r} has no common blanket: places may differ; drop mixed, or ask clones")
    ratio = mechanism.likelihood_ratio
    above, below = power * (1 + _PAD), power * (1 - _PAD)
    squared = ratio * (above**2 + 1) - 2 * below / ratio**2
    return _rounded(1 / ratio, 1 / ratio - above * ratio, max(ratio - below / ratio, Fraction(0)), squared)


def _laplace(mechanism: Laplace, power: Fraction) -> Amplification:
    """balle-2019, Lemmas 5.1 and 5.8. With s = e^(ε₀/2) rounded up, every term is on its safe side.

    The lemma's second moment is that of the ends of the interval. Its proof writes E[μμ'/ω²] ≤ 2/s − 1/s² where ≥ is
    needed; that no other two answers have a larger moment follows from the ends being largest in the convex order
    (`divergence.blankets`), as L² is convex in L.
    """
    half = grown_exp(mechanism.epsilon_local / 2)
    above, below = power * (1 + _PAD), power * (1 - _PAD)
    squared = (above**2 + 1) / 3 * (2 * half + 1 / half**2) - 2 * below * (2 / half - 1 / half**2)
    return _rounded(1 / half, 1 / half - above * half, max(half - below / half, Fraction(0)), squared)


def _rappor(mechanism: RAPPOR, power: Fraction) -> Amplification:
    """The four values γ(E − e^ε), γ(1 − Ee^ε), γE(1 − e^ε), γ(1 − e^ε), with the masses of `RAPPOR.kinds`."""
    gamma, ratio = mechanism.gamma, mechanism.likelihood_ratio
    above, below = power * (1 + _PAD), power * (1 - _PAD)
    squared = gamma * sum(mass * (first - power * second) ** 2 for first, second, mass in mechanism.kinds)
    return _rounded(
        gamma,
        gamma * (1 - above * ratio) * (1 + _PAD),
        max(gamma * (ratio - below) * (1 + _PAD), Fraction(0)),
        squared * (1 + 4 * _PAD) + _PAD,
    )


def _rounded(gamma: Fraction, lowest: Fraction, highest: Fraction, second_moment: Fraction) -> Amplification:
    return Amplification(_down(gamma), _down(lowest), _up(highest), _up(second_moment))


def _up(value: Fraction) -> float:
    result = float(value)
    return result if Fraction(result) >= value else nextafter(result, inf)


def _down(value: Fraction) -> float:
    return -_up(-value)
