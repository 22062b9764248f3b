"""A randomizer that the accountant knows nothing of but its law: neighboring symbols are taken for one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hubbub.accountant.mechanisms import Finite
from hubbub.queries.fields import DENOMINATOR, Fields
from hubbub.queries.randomizers.counting import check_counts, debiased
from hubbub.queries.randomizers.randomizer import RandomizerFamily, Tally
from hubbub.queries.randomizers.sampling import Random, draw, uniform

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Vector


@dataclass(frozen=True)
class Ladder:
    """A uniform symbol with probability `gamma` / 2³², else the symbol or, a quarter of the time, the next one."""

    kind: ClassVar[str] = "ladder"
    in_words: ClassVar[str] = "a device sends its answer, the next one, or by chance any (a ladder)"
    most_symbols: ClassVar[int] = 16
    needs_known_domain: ClassVar[bool] = True
    one_symbol_per_report: ClassVar[bool] = True

    symbols: int
    gamma: int

    @property
    def mechanism(self) -> Finite:
        """The law of a report, which is all that its certificate needs. A dummy is a uniform symbol."""
        rows = [self._row(symbol) for symbol in range(self.symbols)]
        return Finite(tuple(rows), dummy=(Fraction(1, self.symbols),) * self.symbols)

    def _row(self, symbol: int) -> tuple[Fraction, ...]:
        hidden = Fraction(self.gamma, DENOMINATOR)
        row = [hidden / self.symbols] * self.symbols
        row[symbol] += (1 - hidden) * Fraction(3, 4)
        row[(symbol + 1) % self.symbols] += (1 - hidden) / 4
        return tuple(row)

    def content(self) -> dict[str, Any]:
        return {"mechanism": self.kind, "gamma": [self.gamma, DENOMINATOR]}

    @property
    def report_bytes(self) -> int:
        return 1

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        return cls(symbols, fields.ratio("gamma", "choose one in between"))

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        return (_Ladders(symbols),)

    @classmethod
    def shown_families(cls, symbols: int) -> Sequence[RandomizerFamily]:  # noqa: ARG003 - others need it
        return ()

    def randomize(self, symbol: int, random: Random) -> bytes:
        if draw(random) < self.gamma:
            return bytes([uniform(self.symbols, random)])
        return bytes([(symbol + (draw(random) < DENOMINATOR // 4)) % self.symbols])

    def dummies(self, count: int, random: Random) -> bytes:
        return bytes(uniform(self.symbols, random) for _ in range(count))

    def likelihoods(self, reports: bytes, symbol: int) -> Vector:
        law = np.array([float(chance) for chance in self._row(symbol)])
        return law[np.frombuffer(reports, dtype=np.uint8)]

    def tally(self, reports: bytes) -> Tally:
        seen = np.frombuffer(reports, dtype=np.uint8)
        good = seen[seen < self.symbols]
        return Tally(np.bincount(good, minlength=self.symbols), len(good), len(seen) - len(good))

    def check(self, tally: Tally) -> None:
        check_counts(tally, self.symbols)

    def debias(self, tally: Tally, dummies: int) -> tuple[Vector, Vector]:
        return debiased(self, tally, dummies)

    # What an analyzer needs is not what a certificate needs: no estimates are tried with this randomizer.

    support_gap = support_other = dummy_mean = 0.0

    def variances(self, weights: Vector) -> Vector:
        return weights**2

    def dummy_variance(self, weights: Vector) -> float:
        return float(weights @ weights)


@dataclass(frozen=True)
class _Ladders:
    symbols: int

    def at(self, noise_level: int) -> Ladder:
        return Ladder(self.symbols, noise_level)


@dataclass(frozen=True)
class MuteLadder(Ladder):
    """The same, in three families, with a law that states no dummy."""

    kind: ClassVar[str] = "mute"

    @property
    def mechanism(self) -> Finite:
        """The law of a report alone."""
        return Finite(tuple(self._row(symbol) for symbol in range(self.symbols)))

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Three families, which are alike: of so many, planning compares the errors first."""
        return tuple(_MuteLadders(symbols) for _ in range(3))


@dataclass(frozen=True)
class _MuteLadders:
    symbols: int

    def at(self, noise_level: int) -> Ladder:
        return MuteLadder(self.symbols, noise_level)
