"""Describes a query to calibration: its encodings, its randomizers by rising noise, and the target that they meet.

The accountant knows no query and no randomizer here: a design lists the choices, and the error of each.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Generic, Literal, Protocol, TypeVar, get_args

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms import LocalMechanism, WithNoise
from hubbub.accountant.mechanisms.noise_law import ChainNoise
from hubbub.accountant.mechanisms.with_noise import Imitated
from hubbub.accountant.numbers import (
    checked_delta,
    checked_dummies,
    checked_epsilon,
    checked_reports,
    checked_whole,
    honest_reports,
    real,
)
from hubbub.accountant.pairs import ROUNDS_LIMIT

NOISE_LEVELS = 2**32
"""A family's noise levels are the whole numbers from 1 to below this: a task writes probabilities over this number."""


SHUFFLERS_LIMIT = 64
"""The most shufflers of a chain that noise is planned for; a task names at most eight."""

Noise = Literal["none", "auto", "always"]
"""Whether the shuffler adds noise to a query's batch: never, if that is worth its error (`NOISE_WORTH`), or always."""


class Randomized(Protocol):
    """A randomizer with an exact law."""

    @property
    def mechanism(self) -> LocalMechanism:
        """The law, in the form that bounds take."""


R = TypeVar("R", bound=Randomized)
R_co = TypeVar("R_co", bound=Randomized, covariant=True)


class MechanismFamily(Hashable, Protocol[R_co]):
    """Randomizers of one kind, from the least private (1) to the most (`NOISE_LEVELS` - 1); hashable."""

    def at(self, noise_level: int) -> R_co:
        """Return the randomizer at that level of noise; that of a larger one is more private, its error no smaller."""


class QueryDesign(Protocol[R]):
    """A query: the numbers of answers it may be encoded into, the randomizers of each, and their errors."""

    @property
    def weight(self) -> float:
        """Its part of the shared privacy budget."""

    @property
    def sizes(self) -> range:
        """The possible numbers of answers; along them the error first falls and then rises, apart from ripples."""

    def families(self, size: int) -> Sequence[MechanismFamily[R]]:
        """Return the families that may randomize the encoding of that size."""

    def mse(self, size: int, randomizer: R, reports: int, dummies: int, noise: ChainNoise | None = None) -> float:
        """Return the exact worst-case mean squared error over inputs, of n values scaled to [0, 1]; may be infinite.

        The first shuffler adds uniform `dummies`, or all shufflers add `noise`.
        """


@dataclass(frozen=True)
class Calibration(Generic[R]):
    """A randomizer that meets its target, with its ε and its error.

    `size` is the number of answers of the encoding. `epsilon_upper` is certified at the given δ and reports, and never
    above the target. `noise` is what each shuffler adds; then the ε holds by that of one honest shuffler alone,
    whatever all others sent. `mse` is the design's; `expected_standard_error` is its square root, in the same unit.
    """

    randomizer: R
    size: int
    epsilon_local: float
    epsilon_upper: float
    mse: float
    expected_standard_error: float
    noise: ChainNoise | None = None

    @property
    def mechanism(self) -> LocalMechanism:
        """The randomizer's law, beside the noise if there is any."""
        mechanism = self.randomizer.mechanism
        if self.noise is None or not isinstance(mechanism, Imitated):
            return mechanism
        return WithNoise(mechanism, self.noise.law)


def is_within(mechanism: LocalMechanism, epsilon_local: float) -> bool:
    """Return whether the mechanism's local ε is at most `epsilon_local`."""
    # The local ε is computed to 80 digits, which takes long. Far from the limit a float tells as well.
    return log(mechanism.likelihood_ratio) * (1 - 1e-9) <= epsilon_local and mechanism.epsilon_local <= epsilon_local


@dataclass(frozen=True)
class Target:
    """(epsilon, delta) of one batch of `reports`, of which `hiding` are honest; `cap` is the largest epsilon_local.

    `rounds` is how many such batches a task has; noise of the shufflers is drawn up for them. All of them together must
    be within `total` at the same δ. Each of the `shufflers` of the chain adds noise if there is any.
    """

    epsilon: float
    delta: float
    reports: int
    hiding: int
    dummies: int
    cap: float
    noise: Noise = "none"
    rounds: int = 1
    total: float = inf
    shufflers: int = 1

    @classmethod
    def of(
        cls,
        epsilon: float,
        delta: float,
        reports: int,
        cap: float | None,
        honest_share: float,
        dummies: int,
        noise: Noise = "none",
        rounds: int = 1,
        total: float | None = None,
        shufflers: int = 1,
    ) -> Target:
        """Check the numbers and count the honest reports.

        Raises:
            AccountingError: names the number that is out of range, and the remedy.
        """
        epsilon, delta, reports = checked_epsilon(epsilon), checked_delta(delta), checked_reports(reports)
        if epsilon == 0:
            raise AccountingError("epsilon is 0, at which a report has no information; give a number above 0")
        if cap is not None and not 0 < real(cap) < inf:
            raise AccountingError(f"epsilon_local cap is {shown(cap)}; give a number above 0, such as 8")
        hiding = honest_reports(reports, reports, honest_share)
        if hiding < 1:
            raise AccountingError(f"honest_share {honest_share} of {reports} reports leaves nobody; raise one of them")
        if noise not in get_args(Noise):
            raise AccountingError(f"noise is {shown(noise)}; give one of {', '.join(get_args(Noise))}")
        if noise != "none" and dummies:
            raise AccountingError(
                f"noise is {noise} beside {dummies} uniform dummies; noise hides more than they do: leave one out"
            )
        if total is not None and not 0 < real(total) < inf:
            raise AccountingError(f"epsilon of all rounds is {shown(total)}; give a number above 0, or none for no cap")
        largest, together = (inf if limit is None else real(limit) for limit in (cap, total))
        repeated = checked_whole("rounds", rounds, 1, ROUNDS_LIMIT)
        chain = checked_whole("shufflers", shufflers, 1, SHUFFLERS_LIMIT)
        added = checked_dummies(dummies)
        return cls(epsilon, delta, reports, hiding, added, largest, noise, repeated, together, chain)

    @property
    def over_rounds(self) -> bool:
        """Whether what all rounds cost together is limited too."""
        return self.rounds > 1 and self.total < inf

    def share(self, epsilon: float, delta: float, cap: float, total: float) -> Target:
        """Return the target of a query with these parts of the budget."""
        return replace(self, epsilon=epsilon, delta=delta, cap=cap, total=total)
