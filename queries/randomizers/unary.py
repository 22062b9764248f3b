"""Unary encoding (basic one-time RAPPOR): a report has a bit for each symbol, each randomized independently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.accountant.mechanisms import RAPPOR
from hubbub.queries.errors import FieldError, TaskError
from hubbub.queries.fields import DENOMINATOR, Fields
from hubbub.queries.randomizers.sampling import DRAW_BYTES, Random

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import RandomizerFamily, Tally, Vector

MAXIMUM_BITS = 4096
"""Most symbols: a report has a bit for each, and every device sends one such report of half a kilobyte."""

HALF = DENOMINATOR // 2

_BITS_AT_ONCE = 2**20
"""Bits drawn or unpacked together: some 10 MB, however many reports there are."""


@dataclass(frozen=True)
class UnaryEncoding:
    """The bit of the symbol is sent as 1 with probability `truthful` / 2³², every other bit with `other` / 2³².

    Bit j of a report is bit j % 8, from the lowest, of its byte j // 8; bits above the last symbol's are 0.
    """

    kind: ClassVar[str] = "unary"
    in_words: ClassVar[str] = (
        "a device says yes or no to each answer, and by chance some of these wrongly (unary encoding)"
    )
    most_symbols: ClassVar[int] = MAXIMUM_BITS
    needs_known_domain: ClassVar[bool] = True
    one_symbol_per_report: ClassVar[bool] = False

    symbols: int
    truthful: int
    other: int

    @cached_property
    def mechanism(self) -> RAPPOR:
        return RAPPOR.from_numerators(self.symbols, self.truthful, self.other)

    def content(self) -> dict[str, Any]:
        """Return the form of the mechanism."""
        return self.mechanism.content()

    @property
    def report_bytes(self) -> int:
        """Length of a report: a bit for each symbol."""
        return -(-self.symbols // 8)

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Read both probabilities as [w, 2³²]."""
        check_bits(fields.table, symbols)
        truthful = fields.ratio("truthful", "with 0 or 1, a bit could identify its sender")
        other = fields.ratio("other", "with 0 or 1, a bit could identify its sender")
        if other >= truthful:
            limit = f"must be below truthful, which is {truthful}. If equal, lower it; if above, exchange 0 and 1"
            raise FieldError(fields.table, "other", f"is {other}; it {limit}")
        return cls(symbols, truthful, other)

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return two, by rising `other`: "optimized" (truthful = 1/2), and symmetric (truthful = 1 − other).

        The first has the least error for rare symbols under a cap on ε_local, the second for common ones.
        """
        if symbols > MAXIMUM_BITS:
            raise TaskError(_too_many(symbols))
        return (_Optimized(symbols), _Symmetric(symbols))

    @classmethod
    def shown_families(cls, symbols: int) -> Sequence[RandomizerFamily]:  # noqa: ARG003 - one number of symbols has one law
        """Return none: `families` has all there are."""
        return ()

    def randomize(self, symbol: int, random: Random) -> bytes:
        """Return the report for a symbol in range(symbols); each bit has its own 32-bit draw, so its law is exact."""
        drawn, bits = random(DRAW_BYTES * self.symbols), 0
        for place in range(self.symbols):
            number = int.from_bytes(drawn[DRAW_BYTES * place : DRAW_BYTES * (place + 1)], "big")
            bits |= (number < (self.truthful if place == symbol else self.other)) << place
        return bits.to_bytes(self.report_bytes, "little")

    def dummies(self, count: int, random: Random) -> bytes:
        """Return reports of uniform symbols; the accountant counts them as further people (accounting-crowds.md)."""
        import numpy as np

        from hubbub.queries.randomizers.counting import uniform_symbols

        found, parts = uniform_symbols(count, self.symbols, random), []
        at_once = max(1, _BITS_AT_ONCE // self.symbols)
        for start in range(0, count, at_once):
            some = found[start : start + at_once]
            draws = np.frombuffer(random(DRAW_BYTES * len(some) * self.symbols), dtype=">u4").reshape(-1, self.symbols)
            limits = np.full(draws.shape, self.other, dtype=np.uint32)
            limits[np.arange(len(some)), some] = self.truthful
            parts.append(np.packbits(draws < limits, axis=1, bitorder="little").tobytes())
        return b"".join(parts)

    def likelihoods(self, reports: bytes, symbol: int) -> Vector:
        """Return t/o if the symbol's bit is 1 and (1 − t)/(1 − o) if it is 0, shape (reports,).

        t and o are the probabilities of a 1 in the symbol's bit and in another bit. The common factor, the probability
        of the report if every bit were another symbol's, is left out.
        """
        import numpy as np

        rows = np.frombuffer(reports, dtype=np.uint8).reshape(-1, self.report_bytes)
        is_set = (rows[:, symbol // 8] >> symbol % 8 & 1).astype(bool)
        return np.where(is_set, self._truthful / self.support_other, (1 - self._truthful) / (1 - self.support_other))

    def tally(self, reports: bytes) -> Tally:
        """Count each bit; a report with a bit above the last symbol's is invalid."""
        import numpy as np

        from hubbub.queries.randomizers.randomizer import Tally

        rows = np.frombuffer(reports, dtype=np.uint8).reshape(-1, self.report_bytes)
        # Only a report that does not follow the protocol has a set bit beyond the last symbol's.
        spare = 0xFF << ((self.symbols - 1) % 8 + 1) & 0xFF
        good = rows[(rows[:, -1] & spare) == 0]
        counts = np.zeros(self.symbols, dtype=np.int64)
        at_once = max(1, _BITS_AT_ONCE // self.symbols)
        for start in range(0, len(good), at_once):
            bits = np.unpackbits(good[start : start + at_once], axis=1, count=self.symbols, bitorder="little")
            counts += bits.sum(axis=0, dtype=np.int64)
        return Tally(counts, len(good), len(rows) - len(good))

    def check(self, tally: Tally) -> None:
        """Return only if the tally can be this randomizer's; raise ValueError otherwise."""
        from hubbub.queries.randomizers.counting import check_counts

        check_counts(tally, self.symbols)

    def debias(self, tally: Tally, dummies: int) -> tuple[Vector, Vector]:
        """Return the symbols' counts, linear in those of the reports."""
        from hubbub.queries.randomizers.counting import debiased

        return debiased(self, tally, dummies)

    @property
    def _truthful(self) -> float:
        return self.truthful / DENOMINATOR

    @property
    def support_gap(self) -> float:
        """How much more probably the bit of the own symbol is 1 than another bit."""
        return (self.truthful - self.other) / DENOMINATOR

    @property
    def support_other(self) -> float:
        """The bit of another symbol is 1 with probability `other`."""
        return self.other / DENOMINATOR

    @property
    def dummy_mean(self) -> float:
        """Each bit belongs to a dummy's symbol with probability 1/k."""
        return self.support_other + self.support_gap / self.symbols

    @property
    def _bit_variances(self) -> tuple[float, float]:
        """Return p(1−p)/(p−q)² for the own bit and q(1−q)/(p−q)² for another, with p = truthful and q = other."""
        own, another = self._truthful * (1 - self._truthful), self.support_other * (1 - self.support_other)
        return own / self.support_gap**2, another / self.support_gap**2

    def variances(self, weights: Vector) -> Vector:
        """Return v_q Σ_j w_j² + (v_p − v_q) w_y²: given the symbol, the bits are independent."""
        own, another = self._bit_variances
        variances: Vector = another * float(weights @ weights) + (own - another) * weights**2
        return variances

    def dummy_variance(self, weights: Vector) -> float:
        """Return the mean of `variances` over the dummy's uniform symbol y, plus the variance of its mean w_y."""
        return float(self.variances(weights).mean() + weights.var())


def check_bits(table: str, symbols: int) -> None:
    """Return only if unary encoding takes so many symbols.

    Raises:
        FieldError: otherwise.
    """
    if symbols > MAXIMUM_BITS:
        raise FieldError(table, "randomizer", f"is unary; {_too_many(symbols)}")


def _too_many(symbols: int) -> str:
    return f"{symbols} symbols are too many for a bit each; ask about at most {MAXIMUM_BITS}, or use krr"


@dataclass(frozen=True)
class _Optimized:
    symbols: int

    def at(self, noise_level: int) -> UnaryEncoding:
        return UnaryEncoding(self.symbols, HALF, max(1, noise_level // 2))


@dataclass(frozen=True)
class _Symmetric:
    symbols: int

    def at(self, noise_level: int) -> UnaryEncoding:
        other = max(1, noise_level // 2)
        return UnaryEncoding(self.symbols, DENOMINATOR - other, other)
