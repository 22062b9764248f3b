"""Computes the pair of noise of a shuffler as atoms: what is seen of one person if everybody else's report is known.

Take all other reports as constants; their senders may all collude. What is released are the counts of the symbols:
the others' reports, the draws z_j, and the victim's report. The *coordinate pair* is the law of z + 1 against that of
z, on one symbol. Report i against report j is the pair of (z_i + 1, z_j) against (z_i, z_j + 1); the other counts have
the same law in both. By symmetry of the law around its middle, that is two independent coordinate pairs. If two symbols
have a fixed total it is one, as the count of one symbol tells that of the other.

For kRR and answers x, x', reveal whether the victim's report is neither of them, and then which it is: both answers
have the same law of that, so nothing else is told. Otherwise it is x with probability a = E/(E + 1) under x, and
1 − a under x', E = e^ε₀. With A the law of the view for report x, and B for x', the pair is

    P = s·(a·A + (1 − a)·B) + even,    Q = s·(a·B + (1 − a)·A) + even,    s = P[the report is x or x'].

Revealing more only adds to a divergence, so this pair dominates the view for every x, x' and every data set of the
others. It is symmetric, and it is fixed before the round, so it composes with all other pairs, adaptively.
(docs/explanation/accounting-noise.md has the proofs.)

A unit of a tree's nodes is the pair of one coordinate, with E the largest ratio of a report's chances under two values
that differ by one. A value that differs by two moves two coordinates by one answer, and two units are never below it:
as measures P − Q is the same, and P + Q differs so that every hockey stick of the units is at least as large. So units
compose as rounds do. (docs/explanation/accounting-noise-over-time.md has the proofs.)

The *attack* looks at the counts of x and x' alone, which is a post-processing of the view. The victim's report adds to
the first, to the second or to neither. With two symbols it is the pair itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw

WHOLE = 1 << TABLE_BITS
"""What a table's numbers add up to."""

ALIKE = 2**80
"""Atoms whose ratios differ by a smaller share than 1 / ALIKE are added up: most geometric laws then have four."""

MOST_ATOMS = 1200
"""Most atoms of a coordinate; if there are more they are put on a grid that dominates them."""

_NEAR = 1e-13
"""Relative distance of ratios that are not told apart by a quick sum."""

_ALPHA = 8 * 2.0**-53
"""Error of α in a quick sum, relative to the sum of its two terms: near the local ε it has lost its digits."""

MOST_VALUES = 2000
"""Most values of a count that the attack tells apart; it joins neighbouring ones if there are more."""

MOST_VALUES_ALONE = 100_000
"""The same of a pair of one coordinate from below: its atoms are not multiplied."""


@dataclass(frozen=True)
class Coordinate:
    """Atoms of the law of z + 1 (`p`) against that of z (`q`), with `p` − `q` = `gap`, and mass that counts as lost."""

    p: Array
    q: Array
    gap: Array
    cut: float


@lru_cache(maxsize=32)
def dominating_atoms(krr: KRR, law: NoiseLaw, one_moves: bool) -> Atoms:
    """Return atoms of the pair: the noise of the shuffler beside one person's report."""
    return _beside(krr, coordinate(law), one_moves)


@lru_cache(maxsize=32)
def dominated_atoms(krr: KRR, law: NoiseLaw, one_moves: bool, *, ends: bool = True) -> Atoms:
    """Return atoms that the pair dominates: its own, but for its lost mass; of blocks of counts if it is on a grid.

    Without `ends` the blocks at the ends of the law are left out, whose losses are far above all others.
    """
    if not _is_on_grid(law):
        return replace(dominating_atoms(krr, law, one_moves), cut=0.0)
    return _beside(krr, _coordinate_below(law, MOST_VALUES_ALONE if one_moves else MOST_ATOMS, ends=ends), one_moves)


def _coordinate_below(law: NoiseLaw, most: int, *, ends: bool = True) -> Coordinate:
    """Return a coordinate that the true one dominates: the true one without its lost mass, or blocks of counts."""
    if not _is_on_grid(law):
        return replace(coordinate(law), cut=0.0)
    stay, rise = _blocks(law, most)
    if not ends:
        stay, rise = stay[1:-1], rise[1:-1]
    # The law of z + 1 is the mirror image of that of z. Written so, mirror images have exactly the same mass, and no
    # atom of ratio 1 is taken for one of another ratio and counted twice.
    return Coordinate(stay[::-1], stay, rise, 0.0)


def _beside(krr: KRR, one: Coordinate, one_moves: bool) -> Atoms:
    """Return the atoms of the pair from those of a coordinate, or of two of them."""
    if one_moves:
        a, b, gap, lost = one.p, one.q, one.gap, one.cut
    else:
        a, b = (np.outer(side, side).ravel() for side in (one.p, one.q))
        # p·p' − q·q' without losing the digits of near ones. Mirror images have the same gap, but for its sign: so
        # of each two exactly one is kept below.
        both = one.p + one.q
        gap = (np.outer(one.gap, both) + np.outer(both, one.gap)).ravel() / 2
        lost = 2 * one.cut
    mine, other, lean, share = _shares(krr)
    larger = gap > 0
    even = float(a[gap == 0].sum()) * share + float(1 - krr.truthful - krr.other)
    mixed = share * (mine * b[larger] + other * a[larger])
    return Atoms(mixed, share * lean * gap[larger], even, lost)


@lru_cache(maxsize=32)
def _shares(krr: KRR) -> tuple[float, float, float, float]:
    """Return the chances that a report of x or x' is its own answer, and the other; their difference, and their sum.

    Exact, and rounded once. Cached, as a search asks for them at every step.
    """
    inside = krr.truthful + krr.other
    mine, other = (float(each / inside) for each in (krr.truthful, krr.other))
    return mine, other, float((krr.truthful - krr.other) / inside), float(inside)


@lru_cache(maxsize=32)
def _chances(krr: KRR) -> tuple[float, float, float, float]:
    """Return the chances of the own answer, of the other one, and of neither, and the difference of the first two."""
    own, other, neither = (float(each) for each in (krr.truthful, krr.other, 1 - krr.truthful - krr.other))
    return own, other, neither, float(krr.truthful - krr.other)


@dataclass(frozen=True, eq=False)
class RatioOrder:
    """The atoms of a coordinate by falling ratio p / q, without those that have no p, and sums from the first on."""

    p: Array
    q: Array
    ratio: Array
    sums_p: Array
    sums_q: Array
    cut: float

    @classmethod
    def of(cls, one: Coordinate) -> RatioOrder:
        """Return the order; an atom without p adds nothing to a positive part, whatever its partner."""
        kept = one.p > 0
        p, q = one.p[kept], one.q[kept]
        ratio = np.divide(p, q, out=np.full(len(p), np.inf), where=q > 0)
        order = np.argsort(-ratio)
        p, q = p[order], q[order]
        sums_p, sums_q = (np.append(0.0, np.cumsum(side)) for side in (p, q))
        return cls(p, q, ratio[order], sums_p, sums_q, one.cut)


@lru_cache(maxsize=32)
def order_above(law: NoiseLaw) -> RatioOrder:
    """Return the order of the coordinate of `dominating_atoms`."""
    return RatioOrder.of(coordinate(law))


@lru_cache(maxsize=32)
def order_below(law: NoiseLaw) -> RatioOrder:
    """Return the order of the coordinate of `dominated_atoms`, of two coordinates."""
    return RatioOrder.of(_coordinate_below(law, MOST_ATOMS))


@lru_cache(maxsize=32)
def order_attacking(law: NoiseLaw) -> RatioOrder:
    """Return the order of the counts that `attacking_atoms` tells apart, of two coordinates."""
    stay, rise = _blocks(law, MOST_VALUES)
    # Mirror images, as in `_coordinate_below`; nothing is lost.
    return RatioOrder.of(Coordinate(stay[::-1], stay, rise, 0.0))


def delta_near(krr: KRR, one: RatioOrder, epsilon: float) -> tuple[float, float]:
    """Return ends of the δ of a pair of two such coordinates, in a thousandth of the time of a sum over its atoms.

    The ends are wide if ε or δ is tiny. They also contain what a sum over all atoms gives, with its error.

    An atom (i, j) has P − e^ε·Q = s·(α·p_i·p_j − β·q_i·q_j), with α = lean − r·other, β = lean + r·mine, r = e^ε − 1.
    That is positive if the ratios' product is above β / α. So each i takes the j above a ratio: sums from the largest
    ratio down have them all. A sum of n terms, of sums of n terms, has a relative error of 2n roundings. The limit of
    ratios is lowered by `_NEAR`, and is that of an α raised by its error, all of it if ε is near the local one: then
    atoms near it are all in the sums that the error is relative to.
    """
    mine, other, lean, share = _shares(krr)
    rate = float(np.expm1(epsilon))
    alpha, beta = lean - rate * other, lean + rate * mine
    if alpha <= 0:
        return 0.0, 2 * one.cut + _NEAR
    limit = beta / (alpha + _ALPHA * (lean + rate * other)) * (1 - _NEAR)
    above = np.searchsorted(-one.ratio, -limit / one.ratio, side="right")
    mass_p, mass_q = float(one.p @ one.sums_p[above]), float(one.q @ one.sums_q[above])
    found = share * (alpha * mass_p - beta * mass_q)
    doubt = share * ((lean + rate * other) * mass_p + beta * mass_q) * _doubt(one)
    return found - doubt + 2 * one.cut, found + doubt + 2 * one.cut


def attack_near(krr: KRR, one: RatioOrder, epsilon: float) -> tuple[float, float]:
    """Return ends of the δ of `attacking_atoms` of two coordinates, as `delta_near` does, for `order_attacking`.

    The counts of the two answers are i and the mirror image of j. P − e^ε·Q is α·p_i·p_j − β·q_i·q_j − γ·q_i·p_j, with
    α = lean − r·other, β = lean + r·own, γ = r·neither and r = e^ε − 1. So each i takes the j whose ratio is above
    β / (α·ratio_i − γ).
    """
    own, other, neither, lean = _chances(krr)
    rate = float(np.expm1(epsilon))
    alpha, beta, gamma = lean - rate * other, lean + rate * own, rate * neither
    if alpha <= 0:
        return 0.0, _NEAR
    # Raised a little: digits that are lost in these differences leave no j out.
    over = (alpha + _ALPHA * (lean + rate * other)) * one.ratio * (1 + _NEAR) - gamma * (1 - _NEAR)
    limit = np.divide(beta * (1 - _NEAR), over, out=np.full(len(over), np.inf), where=over > 0)
    above = np.where(over > 0, np.searchsorted(-one.ratio, -limit, side="right"), 0)
    sums_p, sums_q = one.sums_p[above], one.sums_q[above]
    both, neither_p, crossed = float(one.p @ sums_p), float(one.q @ sums_q), float(one.q @ sums_p)
    found = alpha * both - beta * neither_p - gamma * crossed
    doubt = ((lean + rate * other) * both + beta * neither_p + gamma * crossed) * _doubt(one)
    return found - doubt, found + doubt


def _doubt(one: RatioOrder) -> float:
    """Return the relative error of a sum over all pairs of the atoms of a coordinate, in prefix sums."""
    return 2 * _NEAR + (2 * len(one.p) + 40) * 2.0**-53


@lru_cache(maxsize=32)
def coordinate(law: NoiseLaw) -> Coordinate:
    """Return the atoms of z + 1 against z: exact masses, rounded once; symmetric under swapping the two laws."""
    upper = _classes(law)
    # A quotient of two whole numbers is rounded once.
    sides = zip(*((p, q, p - q) for p, q in upper), strict=True)
    p, q, gap = (np.array([each / WHOLE for each in side]) for side in sides)
    # Ratios that differ by 2^−80 of themselves were added up: that changes any hockey stick by less than 2^−78.
    cut = 0.0 if len(upper) == law.reach + 1 else 2.0**-78
    if _is_on_grid(law):
        p, q, gap = _on_grid(p, q, gap)
    return Coordinate(np.append(p, q), np.append(q, p), np.append(gap, -gap), cut)


def _is_on_grid(law: NoiseLaw) -> bool:
    return 2 * len(_classes(law)) > MOST_ATOMS


@lru_cache(maxsize=32)
def _classes(law: NoiseLaw) -> list[tuple[int, int]]:
    """Return (P, Q), in units of the table, of all values at which P is larger; those with nearly one ratio added up.

    The values at which P is larger are reach + 1 … 2·reach + 1. The others are their mirror images.
    """
    weights = law.weights
    found: list[tuple[int, int]] = []
    for value in range(law.reach + 1, law.largest + 2):
        p, q = weights[value - 1], weights[value] if value <= law.largest else 0
        if found and q:
            before_p, before_q = found[-1]
            if abs(p * before_q - before_p * q) * ALIKE < before_p * q:
                found[-1] = (before_p + p, before_q + q)
                continue
        found.append((p, q))
    return found


def _on_grid(p: Array, q: Array, gap: Array) -> tuple[Array, Array, Array]:
    """Return fewer atoms that dominate these, which have P > Q: the dots of a grid are connected (`losses.grid`)."""
    finite = q > 0
    loss = np.log1p(gap[finite] / q[finite])
    points = MOST_ATOMS // 2 - 2
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


@lru_cache(maxsize=16)
def attacking_atoms(krr: KRR, law: NoiseLaw, one_moves: bool) -> Atoms:
    """Return atoms of an attack: what the counts of the two answers tell about the victim's."""
    if one_moves:
        return dominating_atoms(krr, law, one_moves) if law.reach < MOST_ATOMS // 2 else _joined(krr, law)
    return _joined(krr, law)


def _joined(krr: KRR, law: NoiseLaw) -> Atoms:
    stay, rise = _blocks(law, MOST_VALUES)
    own, other, neither, lean = _chances(krr)
    # Differences come from whole numbers: those of rounded masses would drown a small local ε.
    if krr.categories == 2:
        q, gap = own * stay + other * (stay + rise), lean * rise
    else:
        first = np.outer(stay + rise, stay)
        q = (other * first + own * first.T + neither * np.outer(stay, stay)).ravel()
        gap = lean * (np.outer(rise, stay) - np.outer(stay, rise)).ravel()
    larger = gap > 0
    return Atoms(q[larger], gap[larger], float(q[gap == 0].sum()), 0.0)


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
