"""Builds the blanket of RAPPOR, Laplace and Gaussian noise: densities of the worst two inputs relative to the blanket.

A blanket is a law m below every input's, of total mass γ. balle-2019, Lemma 5.3 bounds the divergence of a batch by
(1/n)·E[(Y₁ + … + Yₙ)₊], Y = (A_x − αA_x')(W), A_x = dμ_x/dm, α = e^ε, with density m(W), else 0. A `Point` (a, a') of
mass m is one place of (A_x, A_x'). Two facts make the points here safe for *every* pair of inputs.

**The worst inputs.** RAPPOR: exchanging categories exchanges inputs, so all pairs are alike. Noise on [0, 1]: the two
ends. For let ≤ be the convex order and q the quantile integral ∫_t^1 of a variable's quantile function: Y ≤ Y' means
the same mean and q_Y ≤ q_Y' for all t, and q is subadditive, with equality if both terms rise and fall together. So
q of A_x − αA_x' is at most q_{A_x} + q_{−αA_x'}, and A_0 − αA_1 has equality: A_0 falls and A_1 rises in the report y.
Hence it suffices that A_x ≤ A_0 under m for every x (then A_x ≤ A_1 by mirroring y to 1 − y, under which m stays):

- Laplace, x ≤ 1/2 (else mirror): ln A_x/ε₀ is 1 + x − 2y cut off at 1 − x above and at x below, which falls in y, and
  A_0 − A_x is > 0 for y < x/2 and then ≤ 0: one change of sign, and means are equal. With f convex,
  E f(A_0) − E f(A_x) ≥ E f'(A_x)(A_0 − A_x) ≥ 0, as f'(A_x) falls in y.
- Gaussian: E(A_x − c)₊ must be at most E(A_0 − c)₊ for every c. As A_x ≥ 1, both are 1 − cγ for c ≤ 1. For c > 1 let
  s = 2σ² ln c and h(t) the hockey stick at c of two Gaussians t apart; E(A_0 − c)₊ = h(1). If x(1−x) ≥ s, A_x ≥ c
  everywhere, so the left side is 1 − cγ, at most the right by Jensen. Else {A_x > c} falls apart into two half-lines,
  on which m is the law of the input 1, and of 0: the left side is h(1−x) + h(x). Now h'(t) = φ((t − s/t)/2σ)/σ, and for
  t ≤ x ≤ 1/2 (or mirrored) |t − s/t| ≥ |(1−t) − s/(1−t)| since s ≥ t(1−t); so h(x) = ∫h'(t) ≤ ∫h'(1−t) = h(1) − h(1−x).

**Finitely many points.** On y < 1/2, (A_0, A_1) = (a, 1) with a falling to 1, and mirrored beyond. An interval of a is
split between its two ends, keeping masses and means: Y is affine there, so this is a mean-preserving spread and E(Σ·)₊
grows, for every ε at once. Merging an interval into its mean is a post-processing of the reports and makes the lower
end. For the Gaussian, a beyond a cut is lowered to the cut, and the P-mass so lost, `missing`, is added to δ, since
(x + y)₊ ≤ x₊ + y₊ and E(ΣA_0)/n = 1; a' beyond it is lowered without a charge, which only raises Y.

The proof is valid for every α ≥ 0 and the points are symmetric, so the pair of laws of the sum dominates a batch's
views at every ε of either sign, and composes (`losses.curves`).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.noise_cells import CELLS, Cell, gaussian_cells, laplace_cells
from hubbub.accountant.divergence.sums import IidSum, SumPoints
from hubbub.accountant.mechanisms import RAPPOR, Gaussian, Laplace

_PAD = Fraction(1, 10**110)
"""Room for the mass that an 80-digit law has lost: far below any δ."""


@dataclass(frozen=True)
class Point:
    """One place (first, second) of the two inputs' densities relative to the blanket, and its mass under it."""

    first: Fraction
    second: Fraction
    mass: Fraction


@dataclass(frozen=True, eq=False)
class Points:
    """`spread` dominates the blanket's pair up to the P-mass `missing`, `joined` is dominated by it; both symmetric."""

    spread: tuple[Point, ...]
    joined: tuple[Point, ...]
    missing: Fraction

    @cached_property
    def _above(self) -> SumPoints:
        return SumPoints.of([(at.first, at.second, at.mass) for at in self.spread])

    @cached_property
    def below(self) -> SumPoints:
        """The points of a pair below the blanket's."""
        return SumPoints.of([(at.first, at.second, at.mass) for at in self.joined])

    def upper_sum(self, reports: int, epsilon: float) -> IidSum:
        """The sum whose positive part, and `missing`, bound δ from above."""
        return self._above.sum(reports, epsilon)

    def lower_sum(self, reports: int, epsilon: float) -> IidSum:
        """The sum whose positive part is below that of the blanket itself."""
        return self.below.sum(reports, epsilon)

    def variance(self) -> float:
        """The second moment about its resting value of one draw at ε = 0."""
        at_zero = self.upper_sum(1, 0.0)
        return sum(mass * step**2 for mass, step in zip(at_zero.masses, at_zero.steps, strict=True))

    def ends(self, people: int, epsilon: float, precision: float) -> LogBracket:
        """Both ends of the sum that bounds δ from above, but for `missing`."""
        return positive_part(self.upper_sum(people, epsilon), precision)

    def log_upper(self, people: int, epsilon: float, precision: float) -> float:
        """The logarithm of an upper end of δ but for `missing`."""
        return positive_part(self.upper_sum(people, epsilon), precision).upper

    def log_lower(self, people: int, epsilon: float, precision: float) -> float:
        """The logarithm of a lower end of δ."""
        return positive_part(self.lower_sum(people, epsilon), precision).lower


@lru_cache(maxsize=64)
def rappor_points(mechanism: RAPPOR) -> Points:
    """Return the exact blanket's pair: four kinds of report."""
    exact = tuple(Point(*kind) for kind in mechanism.kinds)
    return Points(exact, exact, Fraction(0))


@lru_cache(maxsize=64)
def laplace_points(mechanism: Laplace, cells: int = CELLS) -> Points:
    """Put the blanket's pair on points."""
    return _laid(laplace_cells(mechanism, cells))


@lru_cache(maxsize=64)
def gaussian_points(mechanism: Gaussian, missing: float, cells: int = CELLS) -> Points:
    """Put the blanket's pair on points; `missing` > 0 is roughly the P-mass that may be cut."""
    return _laid(gaussian_cells(mechanism, missing, cells))


def _laid(laid: tuple[Cell, ...]) -> Points:
    spread: list[tuple[Fraction, Fraction]] = []
    lost = Fraction(0)
    for cell in laid:
        top = min(cell.first, cell.high * cell.second)
        lost += cell.first - top
        # Keeps both masses of the cell: their sum is `second`, and up·high + (second − up)·low is `top`.
        up = (top - cell.low * cell.second) / (cell.high - cell.low) if cell.high > cell.low else cell.second
        spread += [(cell.high, up), (cell.low, cell.second - up)]
    joined = [(cell.first / cell.second, cell.second) for cell in laid]
    return Points(_mirrored(spread), _mirrored(joined), lost + _PAD)


def _mirrored(half: list[tuple[Fraction, Fraction]]) -> tuple[Point, ...]:
    """Return (a, mass) for y < 1/2 as points, with their mirror images; equal places are merged."""
    masses: dict[Fraction, Fraction] = {}
    for place, mass in half:
        masses[place] = masses.get(place, Fraction(0)) + mass
    one = Fraction(1)
    # (1, 1) is its own mirror image, so the masses of both halves meet there.
    middle = tuple(Point(one, one, 2 * mass) for place, mass in masses.items() if place == 1)
    outer = [(place, mass) for place, mass in masses.items() if place != 1]
    left = tuple(Point(place, one, mass) for place, mass in outer)
    return left + tuple(Point(one, place, mass) for place, mass in outer) + middle
