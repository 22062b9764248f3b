"""Composes several batches of one person in balls: connects a few points of each curve, and multiplies polynomials.

Let H(x) be the largest P(S) − x·Q(S) over a part's neighboring inputs. Swapped inputs are neighbors too, so
H(1/x) = 1 − 1/x + H(x)/x. H is convex, falls, and H(0) = 1. With U ≥ H at points x₋ₗ < … < xₗ, xᵢ = e^{ih}:

* The polygon through (0, 1) and all (xᵢ, Uᵢ), flat after xₗ, is above H. It is Σ qᵢ(xᵢ − x)₊ + Uₗ, qᵢ its kinks: the
  curve of masses pᵢ = qᵢxᵢ under P at the ratios xᵢ, and Uₗ at an infinite one. A kink below 0 counts as 0, which
  only raises the curve.
* For masses that are not negative, the composed δ rises with each curve: it is ∫ ψ dQ with ψ(y) = y·H₂(e^ε/y), which is
  convex with ψ(0) = 0, so it is ψ'(0)·H₁(0) + ∫ H₁(x) dψ'(x). Each round's pair is fixed before it, so this covers
  rounds that are chosen adaptively (Zhu, Dong and Wang, 2022, Thm 10).
* Ratios multiply, so exponents add: T rounds are a power of Σ pᵢzⁱ, different parts are multiplied, and
  δ(ε) = Σ_c mass(c)·(1 − e^{ε − ch})₊ + the mass at an infinite ratio.

Connecting adds about h²/6 to the variance of each loss; nothing else is approximated.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import nextafter

from flint import arb_poly

from hubbub.accountant.bounds import epsilon_bracket, epsilon_upper
from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.numbers import fraction_down, round_up_significant
from hubbub.accountant.pairs import Part
from hubbub.accountant.rigorous.balls import Enclosure, arb, ball, precision, written
from hubbub.accountant.rigorous.noise import noise_curve
from hubbub.accountant.rigorous.proof import NotProvenError, Progress, Proof, quiet
from hubbub.accountant.rigorous.prove import LOOSER, prove, prove_local
from hubbub.accountant.rigorous.routes import route_of

COMPOSED_TERMS = 5_000_000
"""Most summands for the curves of all parts together, about half a minute."""

FEW_BATCHES = 16
"""Up to this many batches, basic composition is tried first."""

BATCHES_LIMIT = 1000
"""Most batches that are multiplied."""

_POINTS = 24
"""Grid steps up to the smallest one-round ε; twice as many are tried if these are not enough."""

_NOISE_POINTS = 1024
"""The same beside noise, whose curves cost little."""

_PRODUCTS = 4_000
"""Most grid steps up to the smallest one-round ε, of all batches together: products of so many masses take seconds."""

_NEGLIGIBLE = Fraction(1, 10**6)
"""A curve ends at the first value that is at most this share of δ."""

_BITS = 320


def prove_composed(parts: Sequence[Part], epsilon: float, delta: float, progress: Progress = quiet) -> Proof:
    """Prove that all `parts` together are (`epsilon`, `delta`)-private; `prove` proves one batch alone.

    If `epsilon` stays undecided, up to 1.01 times that is tried.

    Raises:
        NotProvenError: if none of these is decided within `COMPOSED_TERMS` and `BATCHES_LIMIT`.
    """
    batches = sum(part.rounds for part in parts)
    if batches == 1:
        alone = parts[0]
        return prove(alone.mechanism, alone.reports, epsilon, delta, dummies=alone.dummies, progress=progress)
    if batches > BATCHES_LIMIT:
        raise NotProvenError(f"{batches} batches are more than the {BATCHES_LIMIT} that are composed in balls", False)
    try:
        # If the stated ε is at least the sum of the local ones, it is valid without any shuffling.
        return prove_local(tuple(part.mechanism for part in parts for _ in range(part.rounds)), epsilon)
    except NotProvenError:
        stated, target = written(epsilon), written(delta)
    for part in parts:
        route_of(part.mechanism)  # fail at once, before minutes are spent on the other parts
    summed = _basic(parts, epsilon, delta, progress)
    if summed is not None:
        return summed
    found = _beside_noise(parts, epsilon, delta, progress)
    if found is not None:
        return found
    terms = 0
    for points in (_POINTS, 2 * _POINTS):
        composed = Composed(_step(parts, delta, points), target)
        for left, part in zip(range(len(parts), 0, -1), parts, strict=True):
            composed.add(part, (COMPOSED_TERMS - terms - composed.terms) // left, progress)
        terms += composed.terms
        for multiple in LOOSER:
            if composed.at_most(stated * multiple):
                return Proof(stated * multiple, target, stated, "composition", terms)
    raise NotProvenError(f"the curves of {len(parts)} parts do not prove epsilon = {epsilon:g}", False)


def _basic(parts: Sequence[Part], epsilon: float, delta: float, progress: Progress) -> Proof | None:
    """Prove it by basic composition: each batch has its own ε at an equal share of δ; None if that is not enough.

    Basic composition holds adaptively too (Dwork and Roth, 2014, Thm 3.16). For a few batches whose losses have few
    values, as beside noise, it gives nearly what their losses give.
    """
    batches = sum(part.rounds for part in parts)
    if batches > FEW_BATCHES:
        return None
    share = fraction_down(written(delta) / batches)
    # The sum of the shares, and of the ε, must not be above what is stated: both are taken as exact decimals.
    while written(share) * batches > written(delta):
        share = nextafter(share, 0.0)
    each = [epsilon_upper(part.mechanism, part.reports, share, dummies=part.dummies) for part in parts]
    tried = [round_up_significant(found * (1 + 1e-9), 12) for found in each]
    total = sum((written(one) * part.rounds for one, part in zip(tried, parts, strict=True)), Fraction(0))
    if total > written(epsilon):
        return None
    proofs = []
    for part, one in zip(parts, tried, strict=True):
        try:
            proofs.append(prove(part.mechanism, part.reports, one, share, dummies=part.dummies, progress=progress))
        except NotProvenError:
            return None
    if any(proof.epsilon > proof.stated for proof in proofs):
        return None
    return Proof(written(epsilon), written(delta), written(epsilon), "basic composition", sum(p.terms for p in proofs))


def _beside_noise(parts: Sequence[Part], epsilon: float, delta: float, progress: Progress) -> Proof | None:
    """Prove it by the noise of all parts alone, on a grid as fine as their products permit; None if that is not enough.

    Curves of noise cost little at many points (`noise_curve`). Few points would not do: beside noise a loss has few
    values, and connecting points spreads each.
    """
    noises = [part.mechanism for part in parts if isinstance(part.mechanism, WithNoise)]
    if len(noises) < len(parts):
        return None
    stated, target = written(epsilon), written(delta)
    batches = sum(part.rounds for part in parts)
    composed = Composed(_step(parts, delta, max(2 * _POINTS, min(_NOISE_POINTS, _PRODUCTS // batches))), target)
    for part, mechanism in zip(parts, noises, strict=True):
        progress(f"curve of the noise beside {mechanism.randomizer.kind}, {part.rounds} rounds")
        composed.add_noise(mechanism, part.rounds)
    for multiple in LOOSER:
        if composed.at_most(stated * multiple):
            return Proof(stated * multiple, target, stated, "composition", composed.terms)
    return None


def _step(parts: Sequence[Part], delta: float, points: int) -> Fraction:
    """Return a grid step for curves of this steepness; any step is safe."""
    least = min(
        epsilon_bracket(part.mechanism, part.reports, delta, dummies=part.dummies).epsilon_upper or 1e-9
        for part in parts
    )
    return Fraction(max(1, round(least / points * 2**60)), 2**60)


class Composed:
    """Masses by exponent of e^step whose curve is above the composition of all added parts; `terms` counts summands."""

    def __init__(self, step: Fraction, target: Fraction) -> None:
        self._step, self._target = step, target
        self._masses, self._lowest = arb_poly([1]), 0
        self._whole = arb(1)
        self.terms = 0

    def add(self, part: Part, budget: int, progress: Progress = quiet) -> None:
        """Compose with all rounds of `part`.

        Raises:
            NotProvenError: if its curve would take more than `budget` summands.
        """
        self._multiply(self._curve(part, budget, progress), part.rounds)

    def add_noise(self, mechanism: WithNoise, rounds: int) -> None:
        """Compose with so many rounds of `mechanism`, whose noise alone counts."""
        curve = noise_curve(mechanism, self._step, self._target * _NEGLIGIBLE)
        self.terms += len(curve)
        self._multiply(curve, rounds)

    def _multiply(self, curve: Sequence[arb], rounds: int) -> None:
        with precision(_BITS):
            masses = _masses(curve, self._step)
            total = sum(masses, arb(0)) + curve[-1]
            self._masses = self._masses * arb_poly(masses) ** rounds
            self._whole *= total**rounds
            self._lowest -= (len(curve) - 1) * rounds

    def _curve(self, part: Part, budget: int, progress: Progress) -> list[arb]:
        """Return upper ends of the part's δ at 0, step, 2·step, … until they are negligible."""
        curve: list[arb] = []
        last, before = ball(self._target * _NEGLIGIBLE), self.terms
        while not curve or not bool(curve[-1] <= last):
            progress(f"curve of {part.reports} reports, {part.rounds} rounds: point {len(curve) + 1}")
            found = _point(part, len(curve) * self._step, self._target * _NEGLIGIBLE)
            self.terms += found.terms
            curve.append(found.upper.upper())
            # One point shows the approximate cost of all: better to give up now than after minutes.
            if max(found.terms * _POINTS, self.terms - before) > budget:
                raise NotProvenError(f"composing it in balls takes more than {COMPOSED_TERMS} summands", False)
        return curve

    def delta(self, epsilon: Fraction) -> arb:
        """Return an upper bound of the composed δ at `epsilon`."""
        with precision(_BITS):
            coefficients = self._masses.coeffs()
            # Mass in no coefficient has an infinite ratio in some round, and counts in full at every ε.
            total = self._whole - sum(coefficients, arb(0))
            for place, mass in enumerate(coefficients, self._lowest):
                if place * self._step > epsilon:
                    total += mass * (1 - ball(epsilon - place * self._step).exp())
            return total

    def at_most(self, epsilon: Fraction) -> bool:
        """Whether the composed δ at `epsilon` surely is at most the target."""
        found = self.delta(epsilon)
        with precision(_BITS):
            return bool(found <= ball(self._target))


def _point(part: Part, epsilon: Fraction, scale: Fraction) -> Enclosure:
    return route_of(part.mechanism).point(part.reports, epsilon, scale, part.dummies)


def _masses(curve: Sequence[arb], step: Fraction) -> list[arb]:
    """Return P-masses at the exponents −l … l of a curve with the upper values Uᵢ at 0 … l."""
    last = len(curve) - 1
    points = [ball(i * step).exp() for i in range(-last, last + 1)]
    # Below ratio 1 the curve follows from the swapped inputs: H(1/x) = 1 − 1/x + H(x)/x.
    heights = [1 - points[last - i] + points[last - i] * curve[i] for i in range(last, 0, -1)] + list(curve)
    slopes, before = [], (arb(0), arb(1))
    for here in zip(points, heights, strict=True):
        slopes.append((here[1] - before[1]) / (here[0] - before[0]))
        before = here
    kinks = [after - slope for slope, after in zip(slopes, [*slopes[1:], arb(0)], strict=True)]
    return [arb(0).max(x * kink) for x, kink in zip(points, kinks, strict=True)]
