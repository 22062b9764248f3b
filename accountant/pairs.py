"""Dominating pairs of one round: what bounds everything that a person's report reveals, ready to be composed.

Each pair is symmetric and fixed before the round, so it composes over rounds, adaptively (Zhu, Dong and Wang, 2022,
Thm 10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from hubbub.accountant.binomials import Binomial
from hubbub.accountant.errors import AccountingError, OutsideConditions, shown
from hubbub.accountant.losses.curves import Curve, blanket_curve, grid_above, grid_below
from hubbub.accountant.losses.envelope import two_rr_grid, zeros_grid
from hubbub.accountant.losses.grid import LossGrid, connect_dots, grid_atoms, merge_dots
from hubbub.accountant.losses.walks import (
    Atoms,
    Walk,
    attack_walk,
    blanket_walk,
    clone_walk,
    contracted_atoms,
    fixed_walk,
    poisson_attack_walk,
    poisson_walk,
    rappor_attack_walk,
    sides_walk,
    spread_atoms,
    subsampled_walk,
)
from hubbub.accountant.mechanisms import KRR, RAPPOR, Gaussian, Generic, Laplace, LocalMechanism
from hubbub.accountant.mechanisms.exact import checked_probability
from hubbub.accountant.numbers import checked_dummies, checked_reports, checked_whole

ROUNDS_LIMIT = 10**7
"""Most rounds of one part."""

BLANKET_BINS = 48
"""Bins for the number of blankets where dummies are added; each is counted at its smallest number."""

BIN_BUDGET = 200_000
"""Atoms of one such bin."""

_ABOVE = 1 + Fraction(1, 10**45)
"""Brings a number that was rounded down beyond 50 digits back above the truth."""


@dataclass(frozen=True)
class Part:
    """One query over its rounds: every round's batch holds at least `reports` reports made by `mechanism`.

    `dummies` uniform reports are added by the shuffler in every round. With `clients`, every round's reports come
    from a uniformly random subset of that many people, drawn anew and kept secret. With `sampling_rate`, each of
    `reports` people takes part in a round with that probability, independently, and nobody learns who did. Numbers
    become plain integers, on which the exact fractions rest. Raises AccountingError for numbers out of range,
    OutsideConditions where sampling is asked of anything but kRR without dummies, and for Gaussian noise, which has no
    local ε.
    """

    mechanism: LocalMechanism
    reports: int
    rounds: int = 1
    dummies: int = 0
    clients: int | None = None
    sampling_rate: Fraction | None = None

    def __post_init__(self) -> None:
        if isinstance(self.mechanism, Gaussian):
            raise OutsideConditions(f"{self.mechanism!r} has no local epsilon to compose; ask for one round at a time")
        if not isinstance(self.mechanism, LocalMechanism):
            raise AccountingError(f"mechanism is {shown(self.mechanism)}, must be a KRR, Generic, …; build one of them")
        object.__setattr__(self, "reports", checked_reports(self.reports))
        object.__setattr__(self, "dummies", checked_dummies(self.dummies))
        object.__setattr__(self, "rounds", checked_whole("rounds", self.rounds, 1, ROUNDS_LIMIT))
        if self.clients is not None:
            clients = checked_whole("clients", self.clients, 1)
            object.__setattr__(self, "clients", clients)
            if clients < self.reports:
                raise AccountingError(
                    f"clients is {clients}, must be at least the {self.reports} reports drawn from them"
                )
        if self.sampling_rate is not None:
            checked_probability("sampling_rate", self.sampling_rate)
        self._check_sampling()

    def _check_sampling(self) -> None:
        if self.clients is not None and self.sampling_rate is not None:
            raise AccountingError("clients and sampling_rate are both given; a round is drawn in one of the two ways")
        if self.sampled and (not isinstance(self.mechanism, KRR) or self.dummies):
            raise OutsideConditions(
                f"subsampling is proven for kRR without dummies, got {self.mechanism!r} and {self.dummies} dummies; "
                "leave clients and sampling_rate out, which is safe"
            )

    @property
    def sampled(self) -> bool:
        """Whether it is by chance, and secret, who takes part in a round."""
        return self.clients is not None or self.sampling_rate is not None


def dominating_atoms(part: Part, log_tail: float) -> Iterator[Atoms]:
    """Yield atoms of a pair that dominates one round of `part`; mass of about e^−log_tail is cut and reported."""
    mechanism = part.mechanism
    if isinstance(mechanism, KRR):
        if part.clients is not None:
            walk = subsampled_walk(part.reports, part.clients, mechanism.categories, mechanism.gamma)
            yield from spread_atoms(walk, log_tail)
        elif part.sampling_rate is not None:
            yield from _by_chance(mechanism, part.reports, part.sampling_rate, log_tail)
        elif part.dummies:
            yield from _with_dummies(mechanism, part.reports, part.dummies, log_tail)
        else:
            yield from spread_atoms(blanket_walk(part.reports, mechanism.categories, mechanism.gamma), log_tail)
        return
    if isinstance(mechanism, Generic):
        yield from spread_atoms(generic_walk(part), log_tail)
        return
    yield grid_atoms(dominating_grid(part, log_tail))


def generic_walk(part: Part) -> Walk:
    """Return the pair of any ε₀-LDP randomizer: stronger clones where it is common to the batch, else clones.

    Dummies count as clients (docs/accounting.md): each must have the law of the randomizer at some random input.
    """
    if not isinstance(part.mechanism, Generic):
        raise AccountingError(f"mechanism is {part.mechanism}, must be generic; others have pairs of their own")
    ratio, people = part.mechanism.likelihood_ratio, part.reports + part.dummies
    if part.mechanism.mixed:
        return clone_walk(people, ratio)
    return blanket_walk(people, 2, 2 / (ratio + 1))


def _with_dummies(mechanism: KRR, reports: int, dummies: int, log_tail: float) -> Iterator[Atoms]:
    """Yield the blanket pair with B + D blankets.

    Given that m = B + 1 + D uniform values are shown, the densities (γ + (1−γ)k·N_j/m) form a reverse martingale in
    m, so
    a smaller m dominates: each bin of m is counted at its smallest m.
    """
    yield Atoms(np.zeros(0), np.zeros(0), 0.0, 2 * math.exp(-log_tail))
    for smallest, _, mass in _blanket_bins(mechanism, reports, dummies, log_tail):
        walk = fixed_walk(smallest + 1 + dummies, mechanism.categories, mechanism.gamma)
        yield from _bin_atoms(walk, mass, log_tail)


def _by_chance(mechanism: KRR, people: int, rate: Fraction, log_tail: float) -> Iterator[Atoms]:
    """Yield the pair of Poisson sampling (`walks.poisson_walk`).

    The number t of others who take part and answer truthfully is shown. The more they are, the fewer can hide the
    victim, and adding people who come by chance, whoever the victim is, is a post-processing: each bin of t is counted
    at its largest t.
    """
    yield Atoms(np.zeros(0), np.zeros(0), 0.0, 2 * math.exp(-log_tail))
    for _, largest, mass in _truthful_bins(mechanism, people, rate, log_tail):
        yield from _bin_atoms(
            poisson_walk(people - largest, mechanism.categories, mechanism.gamma, rate), mass, log_tail
        )


def _bin_atoms(walk: Walk, mass: float, log_tail: float) -> Iterator[Atoms]:
    """Yield atoms of a pair that is the case with probability `mass`."""
    if mass < math.exp(-log_tail) / BLANKET_BINS:
        yield Atoms(np.zeros(0), np.zeros(0), 0.0, mass)
        return
    for atoms in spread_atoms(walk, max(log_tail + math.log(mass), 8.0), BIN_BUDGET):
        yield _scaled(atoms, mass)


def dominated_atoms(part: Part, log_tail: float) -> Iterator[Atoms]:
    """Yield atoms of a pair below the one that `dominating_atoms` approximates: the distance is its slack."""
    mechanism = part.mechanism
    if isinstance(mechanism, Generic):
        yield from contracted_atoms(generic_walk(part), log_tail)
    elif not isinstance(mechanism, KRR):
        yield grid_atoms(dominating_grid(part, log_tail))
    elif part.clients is not None:
        walk = subsampled_walk(part.reports, part.clients, mechanism.categories, mechanism.gamma)
        yield from contracted_atoms(walk, log_tail)
    else:
        for walk, mass in _kinder_walks(mechanism, part, log_tail):
            if mass > math.exp(-log_tail):
                atoms = contracted_atoms(walk, log_tail + math.log(mass) + 8, thin=8)
                yield from (_scaled(each, mass) for each in atoms)


def _kinder_walks(mechanism: KRR, part: Part, log_tail: float) -> Iterator[tuple[Walk, float]]:
    """Yield each bin's mass and its pair at the end of the bin where most hide the victim."""
    if part.sampling_rate is not None:
        for smallest, _, mass in _truthful_bins(mechanism, part.reports, part.sampling_rate, log_tail):
            people = part.reports - smallest
            yield poisson_walk(people, mechanism.categories, mechanism.gamma, part.sampling_rate), mass
        return
    for _, largest, mass in _blanket_bins(mechanism, part.reports, part.dummies, log_tail):
        yield fixed_walk(largest + 1 + part.dummies, mechanism.categories, mechanism.gamma), mass


def _blanket_bins(mechanism: KRR, reports: int, dummies: int, log_tail: float) -> Iterator[tuple[int, int, float]]:
    """Yield bins of the number of blankets among the others; the smallest number and the dummies hide the victim."""
    law = Binomial(reports - 1, mechanism.gamma)
    return _bins(law, law.window(log_tail)[0] + dummies, log_tail)


def _truthful_bins(mechanism: KRR, people: int, rate: Fraction, log_tail: float) -> Iterator[tuple[int, int, float]]:
    """Yield bins of the number of others who take part and answer truthfully; the rest may hide the victim."""
    law = Binomial(people - 1, rate * (1 - mechanism.gamma))
    return _bins(law, people - law.window(log_tail)[1], log_tail)


def _bins(law: Binomial, hidden_by: int, log_tail: float) -> Iterator[tuple[int, int, float]]:
    """Yield (smallest, largest, mass) of bins of `law`.

    There are at most BLANKET_BINS; as many are joined as a hundredth of a per cent of all that hides is wide.
    """
    low, high = law.window(log_tail)
    step = -(-(high - low + 1) // BLANKET_BINS)
    edges = low + step * np.arange((high - low) // step + 2)
    masses, _ = law.bins(edges)
    starts = np.arange(0, len(masses), max(1, hidden_by // 10**4 // step))
    lefts, joined = edges[starts], np.add.reduceat(masses, starts)
    rights = np.append(lefts[1:], edges[-1]) - 1
    yield from zip(lefts.tolist(), rights.tolist(), joined.tolist(), strict=True)


def _scaled(atoms: Atoms, mass: float) -> Atoms:
    return Atoms(mass * atoms.q, mass * atoms.gap, mass * atoms.even, mass * atoms.cut)


def one_round(part: Part) -> Part:
    """Return one round of `part`: what a pair depends on."""
    return replace(part, rounds=1)


@lru_cache(maxsize=64)
def dominating_grid(part: Part, log_tail: float) -> LossGrid:
    """Return the losses of a pair that dominates one round of `part` (`rounds` must be 1), kept for the next call."""
    if is_two_rr(part):
        return _frozen(two_rr_grid(_krr(part), part.reports, part.dummies, log_tail))
    if isinstance(part.mechanism, RAPPOR | Laplace):
        return _frozen(grid_above(_curve(part.mechanism, part.reports + part.dummies, log_tail)))
    return _frozen(connect_dots(dominating_atoms(part, log_tail)))


@lru_cache(maxsize=64)
def attack_grid(part: Part, log_tail: float) -> LossGrid | None:
    """Return losses that an attack on one round of `part` reaches; None where none is known.

    kRR with k ≥ 3: everyone else holds a third value (feldman-2022, Thm 5.3); with k = 2: everyone else holds 0. A
    generic randomizer may be kRR on three values, so what covers all of them covers its attack.
    """
    if part.dummies or part.clients is not None:
        return None
    if is_two_rr(part):
        return _frozen(zeros_grid(_krr(part), part.reports, log_tail))
    walk = attacking_walk(part)
    return None if walk is None else _frozen(merge_dots(contracted_atoms(walk, log_tail)))


def attacking_walk(part: Part) -> Walk | None:
    """Return the pair of a data set and of a test that looks at part of it; None where none is known of this form.

    kRR with k ≥ 3: everyone else holds a third value (feldman-2022, Thm 5.3), also where clients come by chance;
    generic randomizers may be 3RR. RAPPOR with 3 or more categories: the same. Laplace noise: everyone else holds 1/2.
    """
    mechanism = part.mechanism
    if isinstance(mechanism, Laplace):
        return sides_walk(part.reports, min(Fraction(1), mechanism.gamma * _ABOVE))
    if isinstance(mechanism, RAPPOR):
        if mechanism.categories < 3:
            return None
        return rappor_attack_walk(part.reports, mechanism.truthful, mechanism.other)
    krr = attacked(mechanism)
    if krr.categories < 3:
        return None
    if part.sampling_rate is not None:
        return poisson_attack_walk(part.reports, krr.categories, krr.gamma, part.sampling_rate)
    return attack_walk(part.reports, krr.categories, krr.gamma)


@lru_cache(maxsize=64)
def dominated_grid(part: Part, log_tail: float) -> LossGrid:
    """Return losses below those of `dominating_grid`, of the same pair; for kRR itself, of the attack."""
    attack = attack_grid(part, log_tail) if is_plain_krr(part) else None
    if attack is not None:
        return attack
    if isinstance(part.mechanism, RAPPOR | Laplace):
        return _frozen(grid_below(_curve(part.mechanism, part.reports + part.dummies, log_tail)))
    return _frozen(merge_dots(dominated_atoms(part, log_tail)))


@lru_cache(maxsize=8)
def _curve(mechanism: RAPPOR | Laplace, people: int, log_tail: float) -> Curve:
    return blanket_curve(mechanism, people, log_tail)


def attacked(mechanism: KRR | Generic) -> KRR:
    """Return the kRR that the attack is made on: itself, or for a generic randomizer the one on three values."""
    return mechanism if isinstance(mechanism, KRR) else KRR.from_local_epsilon(3, mechanism.epsilon_local)


def is_plain_krr(part: Part) -> bool:
    """Whether the attack is on the very mechanism: kRR, everybody's report, no dummies."""
    return isinstance(part.mechanism, KRR) and not part.dummies and not part.sampled


def is_two_rr(part: Part) -> bool:
    """Whether the tighter pair of binary randomized response applies."""
    mechanism = part.mechanism
    binary = isinstance(mechanism, KRR) and mechanism.categories == 2
    return binary and mechanism.epsilon_local > 0 and not part.sampled


def _krr(part: Part) -> KRR:
    if not isinstance(part.mechanism, KRR):
        raise AccountingError(f"mechanism is {part.mechanism!r}, must be kRR; use the clone pairs for others")
    return part.mechanism


def _frozen(grid: LossGrid) -> LossGrid:
    grid.masses.setflags(write=False)
    return grid
