"""Defines a part of a composition: one query over its rounds, with one report of a person in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from hubbub.accountant.errors import AccountingError, OutsideConditions, shown
from hubbub.accountant.mechanisms import KRR, Gaussian, LocalMechanism, left_out
from hubbub.accountant.mechanisms.exact import checked_probability
from hubbub.accountant.numbers import checked_dummies, checked_reports, checked_whole

ROUNDS_LIMIT = 10**7
"""Most rounds of one part."""


NOT_COMPOSED = "Gaussian noise has no local epsilon to compose; ask for one round at a time, without sampling"


@dataclass(frozen=True)
class Part:
    """One query over its rounds: every round's batch has at least `reports` reports made by `mechanism`.

    The shuffler adds `dummies` uniform reports in every round. With `clients`, every round's reports come from a
    uniformly random subset of that many people, drawn anew and kept secret. With `sampling_rate`, each of `reports`
    people takes part in a round with that probability, independently, and nobody learns who did. Numbers become plain
    integers, as the exact fractions need them.

    Raises:
        AccountingError: a number is out of range.
        OutsideConditions: sampling of any mechanism but kRR without dummies, dummies of a mechanism that does not
            define them, or Gaussian noise, which has no local ε.
    """

    mechanism: LocalMechanism
    reports: int
    rounds: int = 1
    dummies: int = 0
    clients: int | None = None
    sampling_rate: Fraction | None = None

    def __post_init__(self) -> None:
        if isinstance(self.mechanism, Gaussian):
            raise OutsideConditions(NOT_COMPOSED)
        if not isinstance(self.mechanism, LocalMechanism):
            raise AccountingError(f"mechanism is {shown(self.mechanism)}; give a mechanism such as KRR or Generic")
        object.__setattr__(self, "reports", checked_reports(self.reports))
        object.__setattr__(self, "dummies", checked_dummies(self.dummies))
        if self.dummies and not self.mechanism.counts_dummies:
            raise OutsideConditions(
                f"{self.mechanism.kind} does not define a dummy, but there are {self.dummies}; give the law of a "
                "dummy, or leave dummies out, which is safe"
            )
        object.__setattr__(self, "rounds", checked_whole("rounds", self.rounds, 1, ROUNDS_LIMIT))
        if self.clients is not None:
            clients = checked_whole("clients", self.clients, 1)
            object.__setattr__(self, "clients", clients)
            if clients < self.reports:
                raise AccountingError(f"clients is {clients}; give at least the {self.reports} reports drawn from them")
        if self.sampling_rate is not None:
            checked_probability("sampling_rate", self.sampling_rate)
        self._check_sampling()

    def _check_sampling(self) -> None:
        if self.clients is not None and self.sampling_rate is not None:
            raise AccountingError("clients and sampling_rate are both given; leave one out")
        # The theorem is about kRR alone; a proof for another mechanism needs a change here and a sampled walk.
        if self.sampled and (not isinstance(self.mechanism, KRR) or self.dummies):
            dummies = f" with {self.dummies} dummies" if self.dummies else ""
            given = "sampling_rate" if self.clients is None else "clients"
            raise OutsideConditions(
                f"subsampling is proven for kRR without dummies, not for {self.mechanism.kind}{dummies}; leave {given} "
                "out, which is safe"
            )

    @property
    def sampled(self) -> bool:
        """Whether the people who take part in a round are random and secret."""
        return self.clients is not None or self.sampling_rate is not None


@dataclass(frozen=True)
class GaussianRound:
    """One round of Gaussian noise: a batch like one of a `Part`, but without a local ε, so it is never composed.

    Raises:
        AccountingError: a number is out of range.
        OutsideConditions: more than one round.
    """

    sampled: ClassVar[bool] = False

    mechanism: Gaussian
    reports: int
    rounds: int = 1
    dummies: int = 0

    def __post_init__(self) -> None:
        if checked_whole("rounds", self.rounds, 1, ROUNDS_LIMIT) != 1:
            raise OutsideConditions(NOT_COMPOSED)
        object.__setattr__(self, "reports", checked_reports(self.reports))
        object.__setattr__(self, "dummies", checked_dummies(self.dummies))


def one_round(part: Part) -> Part:
    """Return one round of `part`, on which a pair depends."""
    return part if part.rounds == 1 else replace(part, rounds=1)


def charged_share(parts: Sequence[Part]) -> float:
    """Return the share of δ for the events that the parts' bounds leave out, summed over queries.

    One person's reports over the rounds of a query are one report, one round of its part. m events of a chance of at
    most β each, which depend on nobody's answers, add mβ to δ: P(S) ≤ P(event) + P(S | no event), and the bound is
    valid for the latter.

    Raises:
        AccountingError: if nothing would be left of δ.
    """
    share = sum(part.rounds * left_out(part.mechanism) for part in parts)
    if share >= 1:
        raise AccountingError(
            f"{len(parts)} parts have chances that add up to {share:g} of delta, which leaves nothing of it; ask fewer "
            "questions"
        )
    return share


def kept_delta(parts: Sequence[Part], delta: float) -> float:
    """Return the δ that `charged_share` leaves, rounded down: the parts' bounds are evaluated at it."""
    share = charged_share(parts)
    return delta * (1 - share) * (1 - 1e-15) if share else delta


def charged_delta(parts: Sequence[Part], kept: float) -> float:
    """Return the δ of which `kept_delta` leaves `kept`, rounded up."""
    share = charged_share(parts)
    return min(1.0, kept / (1 - share) * (1 + 1e-15)) if share else kept
