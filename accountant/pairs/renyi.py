"""Computes Rényi divergences of one round, of real order λ > 1, from the dominating pairs themselves.

E_Q[(dP/dQ)^λ] − 1 is summed over the atoms of a pair as Σ q·(r^λ − 1 − λ(r − 1)), whose terms are all ≥ 0, so nothing
cancels and D_λ keeps its relative precision down to 1e-18. This is tighter than any closed form of girgis-2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.divergence.binomials import Array
from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.grid import dot, grid_atoms
from hubbub.accountant.losses.largest_curve import zeros_law
from hubbub.accountant.losses.walks import contracted_atoms
from hubbub.accountant.mechanisms import KRR, AnyMechanism, Gaussian, LocalMechanism, WithNoise
from hubbub.accountant.numbers import real
from hubbub.accountant.pairs import GaussianRound, Part, dominating_grid, pairs_of

ORDER_LIMIT = 1e6
"""Largest order accepted."""

LOG_TAIL_LIMIT = 300.0
"""Windows are not cut beyond e^−300; if an order needs more, the local bounds are used."""

ERROR = 1e-8
"""Relative error charged for masses and sums."""

TOO_LARGE = 690.0
"""Exponents from which on sums are not computed; an upper value is then the local one, a lower one stays valid."""


@answering
def rdp_upper(mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float:
    """Return an upper bound on the Rényi divergence of order `order` of one round, in nats; never below the truth.

    Of Gaussian noise it is that of one report alone, λ/(2σ²) for the two ends of the interval: others' reports do not
    depend on it, so adding and shuffling them is a post-processing.

    Otherwise it is at most `rdp_local`. Cut mass counts as the pair's hockey stick at all ratios up to e^ε_local, which
    adds at most mass·(λ(e^{(λ−1)ε_local} − 1) + λ − 1) to the moment.
    Raises AccountingError unless 1 < order ≤ 1e6.
    """
    if isinstance(mechanism, Gaussian):
        GaussianRound(mechanism, reports, dummies=dummies)
        return checked_order(order) / (2 * mechanism.sigma**2) * (1 + 1e-15)
    order = checked_order(order)
    ceiling = rdp_local(mechanism, order)
    part, pairs = Part(mechanism, reports, dummies=dummies), pairs_of(mechanism)
    local = mechanism.epsilon_local
    log_tail = _log_tail(order, local, part.reports + part.dummies)
    # Cut mass costs e^{(λ−1)ε₀} times itself: beyond these limits that charge would exceed the local bound.
    if log_tail > LOG_TAIL_LIMIT or order * local > TOO_LARGE:
        return ceiling
    found = _upper(pairs.dominating_atoms(part, log_tail), order, local)
    if pairs.grid_is_tighter(part):
        found = min(found, _upper([grid_atoms(dominating_grid(part, log_tail))], order, local))
    if isinstance(mechanism, WithNoise):
        # Noise is a post-processing of the batch without it.
        found = min(found, rdp_upper(mechanism.randomizer, reports, order, dummies))
    # A batch with dummies is a post-processing of the batch without: a bound of the latter is one of the former.
    return min(ceiling, found, rdp_upper(mechanism, reports, order) if dummies else ceiling)


@answering
def rdp_lower(mechanism: AnyMechanism, reports: int, order: float, dummies: int = 0) -> float | None:
    """Return a Rényi divergence that inputs of one round reach: no value below it is valid. None with dummies.

    kRR with k ≥ 3, and RAPPOR: everyone else has a third value (None for RAPPOR with 2). k = 2: everyone else has 0,
    the larger of both directions. Generic: the attack on kRR of three values, which is such a randomizer. Laplace:
    everyone else has 1/2. Gaussian: the sum of n reports alone, whose mean the victim moves by up to 1: λ/(2nσ²).
    """
    order = checked_order(order)
    if isinstance(mechanism, Gaussian):
        batch = GaussianRound(mechanism, reports, dummies=dummies)
        return None if batch.dummies else order / (2 * batch.reports * mechanism.sigma**2) * (1 - 1e-15)
    part, pairs = Part(mechanism, reports, dummies=dummies), pairs_of(mechanism)
    if dummies:
        return None
    walk, law = pairs.attacking_walk(part), pairs.zeros_law(part.reports, LOG_TAIL_LIMIT)
    if walk is None and law is None:
        return None
    # If sums would overflow the answer is 0, which is below every divergence.
    if order * mechanism.epsilon_local > TOO_LARGE:
        return 0.0
    moment = 0.0
    if walk is not None:
        log_tail = min(LOG_TAIL_LIMIT, _log_tail(order, mechanism.epsilon_local, part.reports))
        moment = _moment((part.accurate() for part in contracted_atoms(walk, log_tail)), order)
    elif law is not None:
        moment = max(_both_ways(law, order))
    return math.log1p(moment * (1 - ERROR)) / (order - 1)


def rdp_bound(mechanism: AnyMechanism, upper: float, order: float) -> str:
    """Return what `upper`, of `rdp_upper`, rests on: `local` if it is that of one report alone, else `pairs`."""
    alone = isinstance(mechanism, Gaussian) or upper >= rdp_local(mechanism, order)
    return "local" if alone else "pairs"


def rdp_local(mechanism: LocalMechanism, order: float) -> float:
    """Return min(ε₀, λ·ε₀²/2), the bound of one report alone (Bun and Steinke, 2016, Prop. 3.3)."""
    local = mechanism.epsilon_local
    return min(local, checked_order(order) * local * local / 2 * (1 + 1e-15))


def checked_order(order: float) -> float:
    """Return `order` if 1 < order ≤ 1e6, else raise AccountingError."""
    if not 1 < real(order) <= ORDER_LIMIT:
        raise AccountingError(
            f"order is {shown(order)}; give a number above 1 and at most {ORDER_LIMIT:.0e} (for 1, one slightly above)"
        )
    return float(order)


def _log_tail(order: float, local: float, people: int) -> float:
    needed = (
        (order - 1) * local + 2 * math.log(order) + math.log(people + 1.0) - 2 * math.log(min(local, 1.0) or 1.0) + 30
    )
    return 10.0 * math.ceil(needed / 10)


def _upper(atoms: Iterable[Atoms], order: float, local: float) -> float:
    kept = [part.accurate() for part in atoms]
    charge = sum(part.cut for part in kept) * (order * math.expm1((order - 1) * local) + order - 1)
    return math.log1p((_moment(kept, order) + charge) * (1 + ERROR)) / (order - 1) * (1 + 1e-14)


def _moment(atoms: Iterable[Atoms], order: float) -> float:
    """Return E_Q[r^λ] − 1 over atoms and their mirror images."""
    total = 0.0
    for part in atoms:
        if part.q.size:
            p = part.q + part.gap
            total += dot(part.q, excess(part.gap / part.q, order)) + dot(p, excess(-part.gap / p, order))
    return total


def excess(x: Array, order: float) -> Array:
    """Return (1+x)^λ − 1 − λx ≥ 0 for x ≥ −1, with relative accuracy about 1e-12, for λ near 1 too.

    If x is not small it is h((1+x)L − x) + (1+x)(e^{hL} − 1 − hL), h = λ − 1 and L = ln(1+x): two terms ≥ 0, which
    vanish with h.
    """
    # Avoids ln(0) at a ratio of 0; the value changes by far less than `ERROR`.
    x = np.maximum(x, -1 + 1e-16)
    small = np.abs(x) * order < 0.01
    series = np.ones_like(x)
    for term in range(9, 2, -1):
        series = 1 + series * x * ((order - term + 1) / term)
    near = order * (order - 1) / 2 * x * x * series
    wide = np.where(small, 0.0, x)
    logs = np.log1p(wide)
    powers = (order - 1) * logs
    far = (order - 1) * ((1 + wide) * logs - wide) + (1 + wide) * (np.expm1(powers) - powers)
    return np.asarray(np.where(small, near, far))


def zeros_moments(mechanism: KRR, reports: int, order: float) -> tuple[float, float]:
    """Return E_Q[r^λ] − 1 for the victim among zeros, both directions; bins of the count are merged (lower)."""
    return _both_ways(zeros_law(mechanism, reports, LOG_TAIL_LIMIT), order)


def _both_ways(law: tuple[Array, Array, Array], order: float) -> tuple[float, float]:
    q, gain, ratio = law
    return dot(q, excess(gain, order)), dot(q * ratio, excess(-gain / ratio, order))
