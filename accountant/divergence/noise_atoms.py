"""Computes the pair of noise of a shuffler as atoms: what is seen of one person if everybody else's report is known.

All other reports are known; their senders may all collude. What is released are the counts of the symbols: the others'
reports, the draws z_j, and the victim's report. A *coordinate* is the law of z + 1 (`p` here, A on the page) against
that of z (`q`, or B), on one symbol. If two symbols have a fixed total one coordinate is all there is, as the count of
one symbol tells that of the other.

For kRR and answers x, x', let S be the sum of the ratios p/q of all symbols but x and x'. The view is a pair (P, Q) of
the counts of x and x', and of S, which is independent of them. Proven in docs/explanation/accounting-noise.md, "The
pair beside k-ary randomized response", for every ε of either sign:

- with a spread of S in place of S, the pair dominates the view, and is the same for all answers. It is symmetric, and
  fixed before the round. So it composes with all other pairs, adaptively. A smaller S is safe, too: what it leaves of
  the mass is *even*, alike under both answers;
- with a contraction of S, the pair is what an attack sees (`divergence.other_symbols`).

A unit of a tree's nodes is the pair of one coordinate, with E the largest ratio of a report's chances under two values
that differ by one. A value that differs by two moves two coordinates by one answer, and two units are never below it:
as measures P − Q is the same, and P + Q differs so that every hockey stick of the units is at least as large. So units
compose as rounds do. (docs/explanation/accounting-noise-over-time.md has the proofs.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.divergence.other_symbols import POINTS, OtherSymbols, contracted_sum, spread_sum
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw

WHOLE = 1 << TABLE_BITS
"""What a table's numbers add up to."""

ALIKE = 2**80
"""Atoms whose ratios differ by a smaller share than 1 / ALIKE are added up: most geometric laws then have four."""

JOINED = 8 / ALIKE
"""More than such sums change any hockey stick, however many symbols there are (`_classes`)."""

MOST_ATOMS = 1200
"""Most atoms of a coordinate; if there are more they are put on a grid that dominates them."""

MOST_BESIDE_OTHERS = 400
"""The same if other symbols count too: a pair has as many atoms for each point of their sum."""

PRODUCTS = MOST_ATOMS * MOST_ATOMS
"""About the most atoms of a pair, before those are left out that are another one's mirror image."""

MOST_VALUES_ALONE = 100_000
"""Most values of a count that are told apart from below if one coordinate is all there is."""

_TOLD = 1e-290
"""Least mass of an atom whose ratio is told: a point of S far out, at the ends of both counts, may have less."""

_NEAR = 1e-13
"""Relative distance of ratios that are not told apart by a quick sum."""

_ALPHA = 8 * 2.0**-53
"""Error of α in a quick sum, relative to the sum of its two terms: near the local ε it has lost its digits."""


@dataclass(frozen=True)
class Coordinate:
    """Atoms of the law of z + 1 (`p`) against that of z (`q`), with `p` − `q` = `gap`, and mass that counts as lost."""

    p: Array
    q: Array
    gap: Array
    cut: float


@dataclass(frozen=True)
class NoiseAtoms:
    """Atoms of a pair: those at the ends of the law, where one answer's report leaves no trace, and all others."""

    inner: Atoms
    ends: Atoms

    @property
    def parts(self) -> tuple[Atoms, Atoms]:
        """Both of them."""
        return self.inner, self.ends


@lru_cache(maxsize=32)
def dominating_atoms(krr: KRR, law: NoiseLaw, one_moves: bool) -> NoiseAtoms:
    """Return atoms of the pair above: the noise of the shuffler beside one person's report."""
    if one_moves:
        return _alone(krr, coordinate(law, MOST_ATOMS))
    return _beside(krr, _above(law, krr.categories), others_above(law, krr.categories))


@lru_cache(maxsize=32)
def dominated_atoms(krr: KRR, law: NoiseLaw, one_moves: bool) -> NoiseAtoms:
    """Return atoms of the pair below: what an attack sees, with counts joined if there are many."""
    if one_moves:
        return _alone(krr, _coordinate_below(law, MOST_ATOMS, MOST_VALUES_ALONE))
    return _beside(krr, _below(law, krr.categories), others_below(law, krr.categories))


def _most_atoms(categories: int) -> int:
    return MOST_ATOMS if categories == 2 else MOST_BESIDE_OTHERS


def _above(law: NoiseLaw, categories: int) -> Coordinate:
    return coordinate(law, _most_atoms(categories))


def _below(law: NoiseLaw, categories: int) -> Coordinate:
    return _coordinate_below(law, _most_atoms(categories), _most_atoms(categories))


def _coordinate_below(law: NoiseLaw, most: int, blocks: int) -> Coordinate:
    """Return a coordinate that the true one dominates: the true one without its lost mass, or blocks of counts."""
    if not _is_on_grid(law, most):
        return replace(coordinate(law, most), cut=0.0)
    stay, rise = _blocks(law, blocks)
    # The law of z + 1 is the mirror image of that of z. Written so, mirror images have exactly the same mass, and no
    # atom of ratio 1 is taken for one of another ratio and counted twice.
    return Coordinate(stay[::-1], stay, rise, 0.0)


@lru_cache(maxsize=32)
def others_above(law: NoiseLaw, categories: int) -> OtherSymbols:
    """Return a spread of the sum over all symbols but two."""
    one = _above(law, categories)
    return spread_sum(one.p, one.q, categories - 2, _most_points(one))


@lru_cache(maxsize=32)
def others_below(law: NoiseLaw, categories: int) -> OtherSymbols:
    """Return a contraction of the sum over all symbols but two: how many counts are above the middle."""
    weights, reach = law.weights, law.reach
    # z + 1 is up to the middle if z is below it.
    moved, stays = sum(weights[:reach]), sum(weights[: reach + 1])
    ratios = moved / stays, (WHOLE - weights[-1] - moved) / (WHOLE - stays)
    larger = (WHOLE - stays) / WHOLE
    return contracted_sum(ratios, larger, categories - 2, _most_points(_below(law, categories)))


def _most_points(one: Coordinate) -> int:
    return min(POINTS + 1, max(3, PRODUCTS // len(one.p) ** 2))


def _alone(krr: KRR, one: Coordinate) -> NoiseAtoms:
    """Return the atoms of the pair if one coordinate is all there is; then the report is one of two."""
    own, other, lean = _chances(krr)
    larger = one.gap > 0
    q = own * one.q[larger] + other * one.p[larger]
    return _with_even(q, lean * one.gap[larger], one.q[larger] == 0, one.cut)


def _beside(krr: KRR, one: Coordinate, others: OtherSymbols) -> NoiseAtoms:
    """Return the atoms of the pair from those of a coordinate, for the counts of x and x', and a law of S."""
    own, other, lean = _chances(krr)
    # The second coordinate is reflected: with it report x has the law p, and x' has q. So M is q·p.
    a, b, neither = (np.outer(*sides).ravel() for sides in ((one.p, one.p), (one.q, one.q), (one.q, one.p)))
    gap = _gaps(one, a, b)
    larger = gap > 0
    a, b, neither, gap = a[larger], b[larger], neither[larger], gap[larger]
    q = np.outer(others.masses, own * b + other * a) + np.outer(other * others.masses * others.values, neither)
    gaps = np.outer(others.masses, lean * gap)
    return _with_even(q.ravel(), gaps.ravel(), np.tile(b == 0, len(others.values)), one.cut)


def _gaps(one: Coordinate, a: Array, b: Array) -> Array:
    """Return p·p' − q·q', which is `a` − `b`, with as few digits lost as can be.

    Ratios near 1 need the gaps of the coordinates; if one coordinate's ratio is large and the other's small, these
    cancel, and the products themselves do not. Mirror images have the same gap, but for its sign: so of each two
    exactly one is larger than 0.
    """
    both = one.p + one.q
    first, second = np.outer(one.gap, both).ravel() / 2, np.outer(both, one.gap).ravel() / 2
    return np.where(np.abs(first) + np.abs(second) > a + b, a - b, first + second)


def _with_even(q: Array, gap: Array, at_end: NDArray[np.bool_], cut: float) -> NoiseAtoms:
    """Return the atoms; what they and their mirror images leave of the whole mass is even."""
    both = 2 * q + gap
    even, told = max(0.0, 1.0 - float(both.sum())), q >= _TOLD
    # Near the end of double precision masses have no digits, so their ratios are none: they are as good as lost.
    cut += float(both[~told].sum())
    q, gap, at_end = q[told], gap[told], at_end[told]
    return NoiseAtoms(Atoms(q[~at_end], gap[~at_end], even, cut), Atoms(q[at_end], gap[at_end], 0.0, 0.0))


@lru_cache(maxsize=32)
def _chances(krr: KRR) -> tuple[float, float, float]:
    """Return the chances of the own answer and of another one, and their difference: exact, and rounded once.

    Cached, as a search asks for them at every step.
    """
    return float(krr.truthful), float(krr.other), float(krr.truthful - krr.other)


@dataclass(frozen=True, eq=False)
class RatioOrder:
    """The atoms of a coordinate by falling ratio p / q, without those that have no p, and sums from the first on.

    With a law of S they are all that a quick sum needs.
    """

    p: Array
    q: Array
    ratio: Array
    sums_p: Array
    sums_q: Array
    others: OtherSymbols
    cut: float

    @classmethod
    def of(cls, one: Coordinate, others: OtherSymbols, cut: float) -> RatioOrder:
        """Return the order; an atom without p adds nothing to a positive part, whatever its partner."""
        kept = one.p > 0
        p, q = one.p[kept], one.q[kept]
        ratio = np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0)
        order = np.argsort(-ratio)
        p, q = p[order], q[order]
        sums_p, sums_q = (np.append(0.0, np.cumsum(side)) for side in (p, q))
        return cls(p, q, ratio[order], sums_p, sums_q, others, cut)


@lru_cache(maxsize=32)
def order_above(law: NoiseLaw, categories: int) -> RatioOrder:
    """Return the order of the coordinate of `dominating_atoms`, of two coordinates."""
    one = _above(law, categories)
    return RatioOrder.of(one, others_above(law, categories), one.cut)


@lru_cache(maxsize=32)
def order_below(law: NoiseLaw, categories: int) -> RatioOrder:
    """Return the order of the coordinate of `dominated_atoms`, of two coordinates."""
    return RatioOrder.of(_below(law, categories), others_below(law, categories), 0.0)


def delta_near(krr: KRR, one: RatioOrder, epsilon: float) -> tuple[float, float]:
    """Return ends of the δ of a pair of two such coordinates, in a thousandth of the time of a sum over its atoms.

    The ends are wide if ε or δ is tiny. They also contain what a sum over all atoms gives, with its error.

    With r = e^ε − 1, an atom (i, j) has P − e^ε·Q = α·p_i·p_j − β·q_i·q_j − κ·S·q_i·p_j, α = lean − r·other,
    β = lean + r·own, κ = r·other. So for each S each i takes the j whose ratio is above β / (α·ratio_i − κ·S), and sums
    from the largest ratio down have them all. A sum of n terms, of sums of n terms, has a relative error of 2n
    roundings. The limit is lowered by `_NEAR`, and is that of an α raised by its error, all of it if ε is near the
    local one: then atoms near it are all in the sums that the error is relative to.
    """
    own, other, lean = _chances(krr)
    rate = float(np.expm1(epsilon))
    alpha, beta, shared = lean - rate * other, lean + rate * own, rate * other * one.others.values
    if alpha <= 0:
        return 0.0, one.cut + _NEAR
    raised = (alpha + _ALPHA * (lean + rate * other)) * (1 + _NEAR)
    over = raised * one.ratio - shared[:, None] * (1 - _NEAR)
    limit = np.divide(beta * (1 - _NEAR), over, out=np.full(over.shape, np.inf), where=over > 0)
    above = np.searchsorted(-one.ratio, -limit, side="right")
    above[over <= 0] = 0
    sums_p, sums_q = one.sums_p[above], one.sums_q[above]
    masses = one.others.masses
    # Not `@`, which takes all cores for so few numbers.
    both = float((masses * (sums_p * one.p).sum(1)).sum())
    behind = float((masses * (sums_q * one.q).sum(1)).sum())
    crossed = float((masses * shared * (sums_p * one.q).sum(1)).sum())
    found = alpha * both - beta * behind - crossed
    # Terms of both coordinates, of all points, and some roundings of each.
    roundings = (2 * len(one.p) + len(masses) + 40) * 2.0**-53
    doubt = ((lean + rate * other) * both + beta * behind + crossed) * (2 * _NEAR + roundings)
    return found - doubt + one.cut, found + doubt + one.cut


@lru_cache(maxsize=32)
def coordinate(law: NoiseLaw, most: int) -> Coordinate:
    """Return the atoms of z + 1 against z: exact masses, rounded once; symmetric under swapping the two laws."""
    upper = _classes(law)
    # A quotient of two whole numbers is rounded once.
    sides = zip(*((p, q, p - q) for p, q in upper), strict=True)
    p, q, gap = (np.array([each / WHOLE for each in side]) for side in sides)
    cut = 0.0 if len(upper) == law.reach + 1 else JOINED
    if _is_on_grid(law, most):
        p, q, gap = _on_grid(p, q, gap, most)
    return Coordinate(np.append(p, q), np.append(q, p), np.append(gap, -gap), cut)


def _is_on_grid(law: NoiseLaw, most: int) -> bool:
    return 2 * len(_classes(law)) > most


@lru_cache(maxsize=32)
def _classes(law: NoiseLaw) -> list[tuple[int, int]]:
    """Return (P, Q), in units of the table, of all values at which P is larger; those with nearly one ratio added up.

    The values at which P is larger are reach + 1 … 2·reach + 1. The others are their mirror images.

    Each value is compared with the first of its class, so that a class never drifts. What joining changes is proven in
    docs/explanation/accounting-noise-computed.md, "Classes of one ratio".
    """
    weights = law.weights
    found: list[tuple[int, int]] = []
    first_p, first_q = 0, 0
    for value in range(law.reach + 1, law.largest + 2):
        p, q = weights[value - 1], weights[value] if value <= law.largest else 0
        if found and q and abs(p * first_q - first_p * q) * ALIKE < first_p * q:
            found[-1] = (found[-1][0] + p, found[-1][1] + q)
            continue
        first_p, first_q = p, q
        found.append((p, q))
    return found


def _on_grid(p: Array, q: Array, gap: Array, most: int) -> tuple[Array, Array, Array]:
    """Return fewer atoms that dominate these, which have P > Q: the dots of a grid are connected (`losses.grid`)."""
    finite = q > 0
    loss = np.log1p(gap[finite] / q[finite])
    points = most // 2 - 2
    step = float(loss.max()) / points
    index = np.minimum(np.floor(loss / step), points).astype(np.int64)
    up = np.clip(np.expm1(-(loss - index * step)) / np.expm1(-step), 0.0, 1.0)
    mass = p[finite]
    on = np.bincount(index, mass * (1 - up), points + 2) + np.bincount(index + 1, mass * up, points + 2)
    losses = np.arange(points + 2) * step
    kept = on > 0
    on, losses = on[kept], losses[kept]
    below = on * np.exp(-losses)
    ends = ~finite
    return (
        np.append(on, p[ends]),
        np.append(below, q[ends]),
        np.append(-on * np.expm1(-losses), gap[ends]),
    )


def _blocks(law: NoiseLaw, most: int) -> tuple[Array, Array]:
    """Return the law of z, and by how much that of z + 1 is above it, in about so many symmetric blocks at most.

    The values at both ends are blocks of their own: one of the two laws has no mass there.
    """
    weights = law.weights
    size = -(-(len(weights) + 1) // most)
    values = np.arange(len(weights) + 1)
    # Counted from both ends towards the middle: the mirror image of a block is a block.
    block = -(-np.minimum(values, values[::-1]) // size)
    block = np.where(values < len(values) / 2, block, 2 * block.max() + 1 - block)
    stay, move = [0] * (int(block.max()) + 1), [0] * (int(block.max()) + 1)
    for place, z, above in zip(block.tolist(), (*weights, 0), (0, *weights), strict=True):
        stay[place], move[place] = stay[place] + z, move[place] + above
    rises = [(after - before) / WHOLE for before, after in zip(stay, move, strict=True)]
    return np.array([each / WHOLE for each in stay]), np.array(rises)
