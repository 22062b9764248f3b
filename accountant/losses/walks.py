"""Builds dominating pairs as linear functions of binomial counts, put on few atoms in a safe direction.

Every pair of kRR and of the clones has this form. Under a reference measure V let S ~ B(n, p) count the reports that
confuse the two inputs, let D, given S, be a sum of S fair signs, and let M ~ B(n − S, p') given S count the other
blankets. Then

    dP/dV = (r + a·S + b·M + c·D)/z,    dQ/dV = (r + a·S + b·M − c·D)/z,    z = E[r + a·S + b·M],

with 0 ≤ c ≤ a, and a constant r that is 0 except for sampling. V is the law in which all n people are alike; the
size-biasing by the victim is in the densities:

- blanket: given B, P has density Σ_y (N_y/m)·k·R(x)(y) = γ + (1−γ)k·N₁/m against m = B+1 uniform values, and
  P[B = m−1]/m = P[B(n, γ) = m]/(nγ). So p = 2γ/k, a = γ + (1−γ)k/2, b = γ, c = (1−γ)k/2, z = nγ.
- stronger clones: the same at k = 2. Clones: p = e^−ε₀, a = 1, b = 0, c = (e^ε₀−1)/(e^ε₀+1), by the same step.
- attack on kRR, k ≥ 3 (everyone else has a third value): p = 2γ/k, M = n − S, a = (e^ε₀+1)/2, c = (e^ε₀−1)/2,
  b = γ(1−2/k)/(1−2γ/k), z = n.
- kRR subsampled, m of N clients, q = m/N (accounting-rounds.md): V has s ~ B(m, γ) uniform reports, the density is
  (1−q) + q·(γ·s + (1−γ)k·N₁)/(mγ): the blanket pair of m reports with r = (1−q)/q·mγ. Poisson: `poisson_walk`.

The hockey stick (x − e^ε y)₊ of the two densities is a convex function of them, and so is that of any product with
other pairs. Hence *every mean-preserving spread of (S, M, D) gives a dominating pair*, and every conditional mean a
dominated one (it is a post-processing). Only this is used:

- upper: S is split between the ends of its bin, keeping its mean; the number of signs is then S', the larger end (a sum
  of more fair signs is a spread of a sum of fewer); D is split between the ends of its bins. M − E[M | S] is a centered
  binomial of at most n − min S trials, so it is replaced by that one and split in the same way.
- lower: S and D become the means of their bins, M its mean, and the number of signs is the smaller end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hubbub.accountant.divergence.binomials import DIRECT_POINTS, Array, Binomial, bin_sums, fair_mass
from hubbub.accountant.losses.atoms import Atoms

FINE = 40
"""Grid points per standard deviation of D: a spread adds 1/(6·FINE²), a ten-thousandth, to its variance."""

DENSE = 400
"""The same for the lower direction: its atoms must be denser than the points on which they are merged."""

SHADE = 8e-3
"""Relative step of a·S + b·M in M: the relative change of ε is about 2.5·SHADE², two ten-thousandths."""

FINER_BUDGET = 500_000
"""Atoms of one pair up to which that step is made smaller, if S is enumerated one by one.

Among few people of a large local ε, and at a small δ, S and M are far from their means, and its square counts for more.
"""

BUDGET = 2_000_000
"""Most atoms of one pair for which S is enumerated one by one."""

BLOCK = 300_000
"""Atoms made at a time: a composition needs the memory of some ten arrays of this size."""

LOWER_BUDGET = 300_000
"""The same for the lower direction."""


@dataclass(frozen=True)
class Walk:
    """The pair described above; all numbers exact."""

    trials: int
    share: Fraction
    a: Fraction
    c: Fraction
    b: Fraction = Fraction(0)
    other_share: Fraction = Fraction(0)
    rest: Fraction = Fraction(0)

    @property
    def scale(self) -> Fraction:
        """z: the mean of a·S + b·M + rest."""
        return self.rest + self.trials * (self.a * self.share + self.b * self.other_share * (1 - self.share))


@dataclass(frozen=True)
class _Columns:
    """Values of S with their weight, a·S + b·M − c·S, S itself and the row of its signs."""

    weight: Array
    base: Array
    count: Array
    row: NDArray[np.int64]


@dataclass(frozen=True)
class _Signs:
    """Per row the places D ≥ 0 and their masses (of one side; the place 0 has all of its mass)."""

    places: Array
    masses: Array


def blanket_walk(reports: int, categories: int, gamma: Fraction) -> Walk:
    """Return the blanket pair of kRR (balle-2019, Lemma 5.3; koskela-2021, Def. 9 with B+1)."""
    share = 2 * gamma / categories
    c = (1 - gamma) * categories / 2
    if categories == 2:
        return Walk(reports, share, gamma + c, c)
    other = gamma * Fraction(categories - 2, categories) / (1 - share)
    return Walk(reports, share, gamma + c, c, gamma, other)


def subsampled_walk(reports: int, clients: int, categories: int, gamma: Fraction) -> Walk:
    """Return the exact pair of kRR if `reports` of `clients` clients are drawn without replacement."""
    rest = Fraction(clients - reports, reports) * reports * gamma
    return replace(blanket_walk(reports, categories, gamma), rest=rest)


def attack_walk(reports: int, categories: int, gamma: Fraction) -> Walk:
    """Return the pair that kRR attains if everyone else has a third value (feldman-2022, Thm 5.3); k ≥ 3."""
    ratio = 1 + categories * (1 - gamma) / gamma
    share = 2 * gamma / categories
    b = gamma * Fraction(categories - 2, categories) / (1 - share)
    return Walk(reports, share, (ratio + 1) / 2, (ratio - 1) / 2, b, Fraction(1))


def poisson_walk(people: int, categories: int, gamma: Fraction, rate: Fraction) -> Walk:
    """Return the exact pair of kRR if each client takes part with probability q = `rate` (accounting-rounds.md).

    Others who took part and answered truthfully are shown; `people` are the victim and all the rest: T of them. Each of
    the rest is then a blanket report with probability r = qγ/u, u = 1 − q(1−γ), or absent. The victim's own report is
    there with probability q, so N reports are seen with density (1−q)·b(N) + q·b(N−1)·(γ + (1−γ)k·N₁/N), b the law of
    B(T−1, r). Relative to V, N ~ B(T, r) uniform reports, b(N) is (T−N)/(T(1−r)) and b(N−1) is N/(T·r), and as
    (1−q)/(1−r) = qγ/r = u the N cancels: the density is u·(T + (1−γ)(k/γ)·N₁)/T.
    """
    apart = (1 - gamma) * categories / (2 * gamma)
    share = 2 * rate / (categories * (1 - rate * (1 - gamma))) * gamma
    return Walk(people, share, apart, apart, rest=Fraction(people))


def poisson_attack_walk(people: int, categories: int, gamma: Fraction, rate: Fraction) -> Walk:
    """Return the pair that kRR attains there, k ≥ 3: all others have a third value, and two values are observed."""
    ratio, other = 1 + categories * (1 - gamma) / gamma, rate * gamma / categories
    b = (1 - other * (ratio + 1)) / (1 - 2 * other)
    return Walk(people, 2 * other, (ratio + 1) / 2, (ratio - 1) / 2, b, Fraction(1))


def rappor_attack_walk(reports: int, truthful: Fraction, other: Fraction) -> Walk:
    """Return a pair that RAPPOR with 3 or more categories attains: everyone else has a third value.

    Of every report only the victim's two bits are observed, and the two cases of equal bits are one.
    """
    high, low = truthful / other, (1 - truthful) / (1 - other)
    b = (truthful * other + (1 - truthful) * (1 - other)) / (other**2 + (1 - other) ** 2)
    return Walk(reports, 2 * other * (1 - other), (high + low) / 2, (high - low) / 2, b, Fraction(1))


def sides_walk(reports: int, gamma: Fraction) -> Walk:
    """Return a pair that noise on [0, 1] attains: everyone else has 1/2, and only the side of each report is seen.

    A report of an end falls on the other side with probability gamma/2 (Laplace noise; balle-2019, Lemma 5.1).
    """
    return Walk(reports, Fraction(1), Fraction(1), 1 - gamma)


def fixed_walk(blankets: int, categories: int, gamma: Fraction) -> Walk:
    """Return the blanket pair if `blankets` reports, including the victim's, are shown."""
    c = (1 - gamma) * categories / 2
    if categories == 2:
        return Walk(blankets, Fraction(1), gamma + c, c)
    return Walk(blankets, Fraction(2, categories), gamma + c, c, gamma, Fraction(1))


def spread_atoms(walk: Walk, log_tail: float, budget: int = BUDGET) -> Iterator[Atoms]:
    """Yield the atoms of a pair that dominates `walk`; about 10·e^−log_tail is cut, and reported as `cut`."""
    low, high = _widened(Binomial(walk.trials, walk.share).window(log_tail), walk.trials)
    others = _other_law(walk, low, log_tail, SHADE)
    plan = _plan(walk, low, high, log_tail, (len(others[0]), FINE, budget))
    layers = FINER_BUDGET // ((high - low + 1) * _lattice(high, plan.reach))
    if plan.count_step == 1 and layers > len(others[0]) > 1:
        others = _other_law(walk, low, log_tail, SHADE * len(others[0]) / layers)
    if walk.trials <= 48:
        columns, signs = _exact_columns(walk), _lattice_signs(np.arange(walk.trials + 1.0), math.inf)
        yield from _combine(walk, columns, signs, [(0.0, 1.0)], 0.0)
        return
    columns, signs = _spread_columns(walk, low, high, plan)
    tail = math.exp(-log_tail)
    yield Atoms(np.zeros(0), np.zeros(0), 0.0, 8 * tail)
    yield from _combine(walk, columns, signs, list(zip(*others, strict=True)), tail)


def contracted_atoms(walk: Walk, log_tail: float, thin: int = 1) -> Iterator[Atoms]:
    """Yield the atoms of a pair that `walk` dominates, up to mass that is left out (which only lowers it).

    There are `thin` times fewer of them than usual, for pairs that are one of many.
    """
    low, high = _widened(Binomial(walk.trials, walk.share).window(log_tail), walk.trials)
    plan = _plan(walk, low, high, log_tail, (1, DENSE // thin, LOWER_BUDGET // thin))
    columns, signs = _contracted_columns(walk, low, high, plan)
    yield from _combine(walk, columns, signs, [(0.0, 1.0)], math.exp(-log_tail))


def _widened(window: tuple[int, int], trials: int) -> tuple[int, int]:
    """Widen the window for the victim: P's own count is a binomial of n − 1 trials, and at most one more."""
    return max(0, window[0] - 1), min(trials, window[1] + 1)


@dataclass(frozen=True)
class _GridSteps:
    """Steps of the grids: of S (1: one by one) and of D/2 (1: its own lattice), and the reach of D."""

    count_step: int
    sign_step: int
    reach: float


def _plan(walk: Walk, low: int, high: int, log_tail: float, effort: tuple[int, int, int]) -> _GridSteps:
    layers, fine, budget = effort
    reach = math.sqrt(2 * high * log_tail)
    window, lattice = high - low + 1, _lattice(high, reach)
    if window * lattice * layers <= budget:
        return _GridSteps(1, 1, reach)
    middle = max(float(walk.trials * walk.share), 1.0)
    sign_step = max(1, int(math.sqrt(middle) / (2 * fine)))
    rows = budget / (layers * lattice / sign_step)
    wanted = 2.5e3 * window / middle
    count_step = 2 * math.ceil(window / (2 * min(max(32.0, min(wanted, rows)), 500.0)))
    return _GridSteps(count_step, sign_step, reach)


def _lattice(high: int, reach: float) -> float:
    """Return how many values of D ≥ 0 there are at most."""
    return min(reach, high) / 2 + 1


def _other_law(walk: Walk, low: int, log_tail: float, shade: float) -> tuple[Array, Array]:
    """Return places and masses of b·(M − E[M | S] + p'·(n − low)), M of n − low trials, split onto a coarse grid."""
    law = Binomial(walk.trials - low, walk.other_share)
    if walk.b == 0 or walk.other_share in (0, 1):
        return np.array([float(walk.b * walk.other_share * (walk.trials - low))]), np.ones(1)
    first, last = _widened(law.window(log_tail), law.trials)
    wanted = max(1, min(int(shade * float(walk.scale / walk.b)), last - first))
    fine = wanted
    if last - first + 2 * wanted > DIRECT_POINTS:
        fine = max(1, min(int(law.deviation), wanted))
    step = fine * (wanted // fine)
    count = (last - first) // step + 1
    edges = first + fine * np.arange(count * (step // fine) + 1)
    down, up = _split_bins(law, edges, fine, step)
    masses = np.append(down, 0.0) + np.append(0.0, up)
    return float(walk.b) * (first + step * np.arange(count + 1.0)), masses


def _split_bins(law: Binomial, edges: NDArray[np.int64], fine: int, step: int) -> tuple[Array, Array]:
    """Split each coarse bin's mass on its two ends, keeping its mean; sums come from its fine bins."""
    mass, moment = law.bins(edges)
    parts = step // fine
    offset = fine * np.arange(parts, dtype=float)
    mass, moment = mass.reshape(-1, parts), moment.reshape(-1, parts)
    up = ((moment + mass * offset) / step).sum(axis=1)
    return np.maximum(mass.sum(axis=1) - up, 0.0), up


def _base(walk: Walk, count: Array, low: int) -> Array:
    """Return r + (a−c)·S + b·p'·(low − S): with `_other_law` it is a·S + b·M − c·S, and no large numbers cancel."""
    other = float(walk.b * walk.other_share) * (low - count)
    return np.asarray(float(walk.rest) + float(walk.a - walk.c) * count + other)


def _exact_columns(walk: Walk) -> _Columns:
    """Enumerate S and M one by one: for few people."""
    weights, bases, counts = [], [], []
    for number, mass in enumerate(Binomial(walk.trials, walk.share).mass(np.arange(walk.trials + 1.0))):
        law = Binomial(walk.trials - number, walk.other_share)
        others = np.arange(law.trials + 1.0)
        weights.append(mass * law.mass(others))
        bases.append(float(walk.rest) + float(walk.a - walk.c) * number + float(walk.b) * others)
        counts.append(np.full(len(others), float(number)))
    count = np.concatenate(counts)
    return _Columns(np.concatenate(weights), np.concatenate(bases), count, count.astype(np.int64))


def _spread_columns(walk: Walk, low: int, high: int, plan: _GridSteps) -> tuple[_Columns, _Signs]:
    law = Binomial(walk.trials, walk.share)
    if plan.count_step == 1:
        count = np.arange(low, high + 1.0)
        columns = _Columns(law.mass(count), _base(walk, count, low), count, np.arange(len(count)))
        return columns, _lattice_signs(count, plan.reach)
    edges = _even_edges(low, high, plan.count_step)
    down, up = _split_bins(law, edges, plan.count_step, plan.count_step)
    count = edges.astype(float)
    weight = np.append(down, 0.0) + np.append(0.0, up)
    # Signs of the bin's larger end: a sum of more fair signs is a spread of a sum of fewer.
    more = np.append(count[1:], count[-1])
    columns = _Columns(weight, _base(walk, count, low), count, np.arange(len(count)))
    return columns, _spread_signs(more, plan)


def _contracted_columns(walk: Walk, low: int, high: int, plan: _GridSteps) -> tuple[_Columns, _Signs]:
    law = Binomial(walk.trials, walk.share)
    other, rest = float(walk.b * walk.other_share), float(walk.rest)
    if plan.count_step == 1:
        count = np.arange(low, high + 1.0)
        base = rest + float(walk.a - walk.c) * count + other * (walk.trials - count)
        return _Columns(law.mass(count), base, count, np.arange(len(count))), _lattice_signs(count, plan.reach)
    edges = _even_edges(low, high, plan.count_step)
    weight, moment = law.bins(edges)
    count = edges[:-1] + moment / np.maximum(weight, 1e-300)
    base = rest + float(walk.a - walk.c) * count + other * (walk.trials - count)
    columns = _Columns(weight, base, count, np.arange(len(count)))
    return columns, _contracted_signs(edges[:-1].astype(float), plan)


def _even_edges(low: int, high: int, step: int) -> NDArray[np.int64]:
    # Even numbers of signs only: D/2 is then a whole number, with one place at 0.
    start = low - low % 2
    return np.asarray(start + step * np.arange((high - start) // step + 2), dtype=np.int64)


def _lattice_signs(count: Array, reach: float) -> _Signs:
    """Enumerate D ≥ 0 on its own lattice, for each number of signs."""
    size = int(min(reach, float(count[-1])) / 2) + 2
    places = (count % 2)[:, None] + 2.0 * np.arange(size)
    return _Signs(places, fair_mass((count[:, None] + places) / 2, count[:, None]))


def _sign_bins(count: Array, plan: _GridSteps) -> tuple[Array, Array, Array]:
    """Return (mass, Σ (x − left)·mass) of each bin of x = D/2 ≥ 0, and the mass at D = 0; count is even."""
    step = plan.sign_step
    bins = int(plan.reach / (2 * step)) + 2
    center = fair_mass(count / 2, count)
    if step < 4:
        x = np.arange(bins * step, dtype=float)
        masses = fair_mass(count[:, None] / 2 + x, count[:, None]).reshape(len(count), bins, step)
        return masses.sum(axis=2), masses @ np.arange(step, dtype=float), center
    edges = count[:, None] / 2 + step * np.arange(bins + 1.0)
    deviation = math.sqrt(float(count[-1])) / 2
    mass, moment = bin_sums(edges, count[:, None], _fair_density(count), 0.0, deviation)
    return mass, moment, center


def _fair_density(count: Array) -> Callable[[Array, Array | float], Array]:
    def density(x: Array, offset: Array | float) -> Array:
        return fair_mass(x, count.reshape((-1,) + (1,) * (x.ndim - 1)), offset)

    return density


def _spread_signs(count: Array, plan: _GridSteps) -> _Signs:
    mass, moment, center = _sign_bins(count, plan)
    up = moment / plan.sign_step
    down = np.maximum(mass - up, 0.0)
    masses = down.copy()
    masses[:, 1:] += up[:, :-1]
    # Both sides reach the place 0, and both counted the mass at D = 0 itself.
    masses[:, 0] = 2 * down[:, 0] - center
    places = np.broadcast_to(2.0 * plan.sign_step * np.arange(mass.shape[1]), mass.shape)
    return _Signs(places, masses)


def _contracted_signs(count: Array, plan: _GridSteps) -> _Signs:
    mass, moment, center = _sign_bins(count, plan)
    mass[:, 0] -= center
    left = plan.sign_step * np.arange(mass.shape[1], dtype=float)
    places = 2 * (left + moment / np.maximum(mass, 1e-300))
    zero = np.zeros((len(count), 1))
    return _Signs(np.hstack([zero, places]), np.hstack([center[:, None], np.maximum(mass, 0.0)]))


def _combine(
    walk: Walk, columns: _Columns, signs: _Signs, others: list[tuple[float, float]], tail: float
) -> Iterator[Atoms]:
    """Join S, M and D, a block at a time; an atom that adds nothing (tiny, or beyond S) is cut and charged."""
    scale, c = float(walk.scale), float(walk.c)
    least = max(tail / (signs.masses.size * len(others)), 1e-290)
    for some in _slices(columns, max(1, BLOCK // signs.masses.shape[1])):
        places, chances = signs.places[some.row], signs.masses[some.row]
        for place, chance in others:
            base = (some.base + place)[:, None]
            weight = (some.weight * (chance / scale))[:, None] * chances
            q = base + c * (some.count[:, None] - places)
            middle = weight * (base + c * some.count[:, None])
            kept = (middle > least) & (q > 0) & (places > 0)
            even = float(middle[places == 0].sum())
            dropped = 2 * float(middle[(places > 0) & ~kept].sum())
            yield Atoms((weight * q)[kept], (2 * c * weight * places)[kept], even, dropped)


def _slices(columns: _Columns, rows: int) -> Iterator[_Columns]:
    """The columns in chunks of `rows`."""
    for start in range(0, columns.row.size, rows):
        some = slice(start, start + rows)
        yield _Columns(columns.weight[some], columns.base[some], columns.count[some], columns.row[some])
