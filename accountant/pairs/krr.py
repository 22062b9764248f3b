"""Defines the pairs of k-ary randomized response: the exact blanket, also with dummies or randomly chosen people."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hubbub.accountant.divergence.binomials import Binomial
from hubbub.accountant.divergence.contour import positive_part
from hubbub.accountant.divergence.dummies import diluted_blanket
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum, blanket_sum
from hubbub.accountant.losses.atoms import Atoms
from hubbub.accountant.losses.walks import (
    Walk,
    attack_walk,
    blanket_walk,
    contracted_atoms,
    fixed_walk,
    poisson_attack_walk,
    poisson_walk,
    spread_atoms,
    subsampled_walk,
)
from hubbub.accountant.mechanisms import KRR
from hubbub.accountant.pairs.amplification_variable import Amplification, around
from hubbub.accountant.pairs.base import LocalPairs
from hubbub.accountant.pairs.composition_part import Part

BLANKET_BINS = 48
"""Bins for the number of blankets if dummies are added; each is counted at its smallest number."""

BIN_BUDGET = 200_000
"""Atoms of one such bin."""


@dataclass(frozen=True)
class KrrPairs(LocalPairs[KRR]):
    """kRR of three or more values: its bound shows the observer more than the batch; the attack is hardly lower."""

    exact_blanket: ClassVar[bool] = True

    def described(self) -> str:
        """Return a short description."""
        return f"kRR with {self.mechanism.categories} categories and local ε {self.mechanism.epsilon_local:.4g}"

    @property
    def symbols(self) -> int:
        """As many as categories."""
        return self.mechanism.categories

    def upper_bounds(self) -> tuple[str, ...]:
        """The blanket."""
        return "blanket", "local"

    def attack_bound(self, dummies: int) -> str | None:
        """Everyone else has a third value; beside dummies, a uniform one."""
        return "krr-lower"

    @property
    def attacked(self) -> KRR | None:
        """Itself."""
        return self.mechanism

    def amplification(self, power: Fraction) -> Amplification:
        """Return it by balle-2019, Lemma 5.7; exact except for e^ε."""
        gamma, categories = self.mechanism.gamma, self.mechanism.categories
        above, below = around(power)
        truthful = (1 - gamma) * categories
        squared = gamma * (2 - gamma) * (1 - above) ** 2 + (1 - gamma) ** 2 * categories * (1 + above**2)
        return Amplification.rounded(
            gamma, gamma * (1 - above) - truthful * above, gamma * (1 - below) + truthful, squared
        )

    def blanket_sum(self, people: int, epsilon: float, missing: float) -> IidSum:
        """Return the four-point sum of Lemma 5.3."""
        return blanket_sum(self.mechanism, people, epsilon)

    def blanket_delta(self, reports: int, epsilon: float, dummies: int, precision: float, missing: float) -> LogBracket:
        """Return ends of ln δ; with dummies at B + D blankets, or at n + D clients if that is less."""
        counted = positive_part(self.blanket_sum(reports + dummies, epsilon, missing), precision)
        if not dummies or counted.upper == -math.inf:
            return counted
        diluted = diluted_blanket(self.mechanism, reports, epsilon, dummies, precision)
        # Both bound the same batch, so the smaller one is valid. The lower end must not be above it: cap it there.
        upper = min(diluted.upper, counted.upper)
        return LogBracket(min(diluted.lower, upper), upper)

    def is_attack_on_itself(self, part: Part) -> bool:
        """Everybody's report, no dummies: then the attack is on the bounded batch itself, within 0.1 % of the bound."""
        return not part.dummies and not part.sampled

    def attacking_walk(self, part: Part) -> Walk | None:
        """Everyone else has a third value (feldman-2022, Thm 5.3), also if clients take part at random.

        Beside dummies everyone else has a uniform value, so that all reports but the victim's are uniform.
        """
        krr = self.mechanism
        if part.dummies:
            return fixed_walk(part.reports + part.dummies, krr.categories, krr.gamma)
        if part.sampling_rate is not None:
            return poisson_attack_walk(part.reports, krr.categories, krr.gamma, part.sampling_rate)
        return attack_walk(part.reports, krr.categories, krr.gamma)

    def dominating_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of the blanket's pair, with the dummies or the secret choice of people of `part`."""
        if part.sampling_rate is not None:
            yield from self._by_chance(part, part.sampling_rate, log_tail)
        elif part.dummies:
            yield from self._with_dummies(part, log_tail)
        else:
            yield from spread_atoms(self._walk(part), log_tail)

    def dominated_atoms(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield atoms of a lower pair: bins are counted at the end at which most people hide the victim."""
        if part.clients is not None:
            yield from contracted_atoms(self._walk(part), log_tail)
            return
        for walk, mass in self._kinder_walks(part, log_tail):
            # A lower end may leave a bin out: that only lowers δ.
            if mass > math.exp(-log_tail):
                atoms = contracted_atoms(walk, log_tail + math.log(mass) + 8, thin=8)
                yield from (_scaled(each, mass) for each in atoms)

    def _walk(self, part: Part) -> Walk:
        """The blanket's pair of everybody's reports, or of those of a secret subset of fixed size."""
        krr = self.mechanism
        if part.clients is not None:
            return subsampled_walk(part.reports, part.clients, krr.categories, krr.gamma)
        return blanket_walk(part.reports, krr.categories, krr.gamma)

    def _with_dummies(self, part: Part, log_tail: float) -> Iterator[Atoms]:
        """Yield the blanket pair with B + D blankets.

        If m = B + 1 + D uniform values are shown, the densities (γ + (1−γ)k·N_j/m) are a reverse martingale in m, so a
        smaller m dominates: each bin of m is counted at its smallest m.
        """
        # The two tails of B that no bin covers.
        yield Atoms(np.zeros(0), np.zeros(0), 0.0, 2 * math.exp(-log_tail))
        for smallest, _, mass in self._blanket_bins(part, log_tail):
            yield from _bin_atoms(self._fixed(smallest, part), mass, log_tail)

    def _by_chance(self, part: Part, rate: Fraction, log_tail: float) -> Iterator[Atoms]:
        """Yield the pair of Poisson sampling (`walks.poisson_walk`).

        The number t of others who take part and answer truthfully is shown. The larger t, the fewer can hide the
        victim. Adding people who take part at random, for any victim, is a post-processing: so each bin of t is counted
        at its largest t.
        """
        # The two tails of t that no bin covers.
        yield Atoms(np.zeros(0), np.zeros(0), 0.0, 2 * math.exp(-log_tail))
        for _, largest, mass in self._truthful_bins(part, rate, log_tail):
            yield from _bin_atoms(self._poisson(largest, part, rate), mass, log_tail)

    def _kinder_walks(self, part: Part, log_tail: float) -> Iterator[tuple[Walk, float]]:
        """Yield each bin's mass and its pair at the end of the bin at which most people hide the victim."""
        rate = part.sampling_rate
        if rate is not None:
            for smallest, _, mass in self._truthful_bins(part, rate, log_tail):
                yield self._poisson(smallest, part, rate), mass
            return
        for _, largest, mass in self._blanket_bins(part, log_tail):
            yield self._fixed(largest, part), mass

    def _fixed(self, blankets: int, part: Part) -> Walk:
        return fixed_walk(blankets + 1 + part.dummies, self.mechanism.categories, self.mechanism.gamma)

    def _poisson(self, truthful: int, part: Part, rate: Fraction) -> Walk:
        return poisson_walk(part.reports - truthful, self.mechanism.categories, self.mechanism.gamma, rate)

    def _blanket_bins(self, part: Part, log_tail: float) -> Iterator[tuple[int, int, float]]:
        """Yield bins of the number of blankets among the others; the smallest one and the dummies hide the victim."""
        law = Binomial(part.reports - 1, self.mechanism.gamma)
        return _bins(law, law.window(log_tail)[0] + part.dummies, log_tail)

    def _truthful_bins(self, part: Part, rate: Fraction, log_tail: float) -> Iterator[tuple[int, int, float]]:
        """Yield bins of the number of others who take part and answer truthfully; the rest may hide the victim."""
        law = Binomial(part.reports - 1, rate * (1 - self.mechanism.gamma))
        return _bins(law, part.reports - law.window(log_tail)[1], log_tail)


def _bin_atoms(walk: Walk, mass: float, log_tail: float) -> Iterator[Atoms]:
    """Yield atoms of a pair that occurs with probability `mass`."""
    # So light a bin is not worth a pair: it counts as cut, all such bins together as at most e^−log_tail.
    if mass < math.exp(-log_tail) / BLANKET_BINS:
        yield Atoms(np.zeros(0), np.zeros(0), 0.0, mass)
        return
    # The cut is scaled by the bin's mass, so a rare bin may cut more.
    for atoms in spread_atoms(walk, max(log_tail + math.log(mass), 8.0), BIN_BUDGET):
        yield _scaled(atoms, mass)


def _bins(law: Binomial, hidden_by: int, log_tail: float) -> Iterator[tuple[int, int, float]]:
    """Yield (smallest, largest, mass) of bins of `law`.

    There are at most BLANKET_BINS; neighboring bins are merged up to a width of 0.01 % of `hidden_by`.
    """
    low, high = law.window(log_tail)
    step = -(-(high - low + 1) // BLANKET_BINS)
    edges = low + step * np.arange((high - low) // step + 2)
    masses, _ = law.bins(edges)
    starts = np.arange(0, len(masses), max(1, hidden_by // 10**4 // step))
    lefts, joined = edges[starts], np.add.reduceat(masses, starts)
    # The last edge may be beyond all trials, where there is no mass: nobody is left to hide the victim there.
    rights = np.minimum(np.append(lefts[1:], edges[-1]) - 1, law.trials)
    yield from zip(lefts.tolist(), rights.tolist(), joined.tolist(), strict=True)


def _scaled(atoms: Atoms, mass: float) -> Atoms:
    return Atoms(mass * atoms.q, mass * atoms.gap, mass * atoms.even, mass * atoms.cut)
