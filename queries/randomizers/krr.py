"""kRR: k-ary randomized response with an exact rational γ (balle-2019, Alg. 1), sampled with integers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.accountant.mechanisms import KRR
from hubbub.queries.fields import DENOMINATOR, MAXIMUM_SYMBOLS, Fields
from hubbub.queries.randomizers.sampling import DRAW_BYTES, Random, draw, uniform

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import RandomizerFamily, Tally, Vector

SYMBOL_BYTES = 4
"""A report is a symbol, big-endian; every symbol fits into four bytes."""


@dataclass(frozen=True)
class KRandomizedResponse:
    """Uniform on all `symbols` with probability γ = `gamma` / 2³², else the symbol itself."""

    kind: ClassVar[str] = "krr"
    in_words: ClassVar[str] = (
        "a device sends its answer, or by chance any of the answers (k-ary randomized response, krr)"
    )
    most_symbols: ClassVar[int] = MAXIMUM_SYMBOLS
    needs_known_domain: ClassVar[bool] = True
    one_symbol_per_report: ClassVar[bool] = True

    symbols: int
    gamma: int

    @cached_property
    def mechanism(self) -> KRR:
        return KRR.from_numerator(self.symbols, self.gamma)

    def content(self) -> dict[str, Any]:
        """Return the form of the mechanism."""
        return self.mechanism.content()

    @property
    def report_bytes(self) -> int:
        """Length of a report."""
        return SYMBOL_BYTES

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Read γ as [w, 2³²]."""
        # Never 0 or 1: at 0 each report is the answer itself, and at 1 the reports allow no estimate.
        return cls(symbols, fields.ratio("gamma", "at 0 there is no privacy, at 1 no answer"))

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return one family, with rising γ."""
        return (_ByGamma(symbols),)

    @classmethod
    def shown_families(cls, symbols: int) -> Sequence[RandomizerFamily]:  # noqa: ARG003 - one number of symbols has one law
        """Return none: `families` has all there are."""
        return ()

    def randomize(self, symbol: int, random: Random) -> bytes:
        """Return the report for a symbol in range(symbols).

        A 32-bit draw is compared with `gamma`, and the uniform symbol is drawn by rejection: the law is exactly the one
        that the certificate is computed for. For every two symbols and every report, the ratio of the report's
        probabilities is at most e^epsilon_local, with epsilon_local = ln(1 + k (1 - γ) / γ) and k = `symbols`.
        """
        reported = uniform(self.symbols, random) if draw(random, DRAW_BYTES) < self.gamma else symbol
        return reported.to_bytes(SYMBOL_BYTES, "big")

    def dummies(self, count: int, random: Random) -> bytes:
        """Return uniform symbols: the accountant counts a dummy of kRR as one more report from the blanket."""
        from hubbub.queries.randomizers.counting import uniform_symbols

        return uniform_symbols(count, self.symbols, random).astype(">u4").tobytes()

    @property
    def report_symbols(self) -> int:
        """Each symbol is one of reports too."""
        return self.symbols

    def reports_of(self, counts: Sequence[int]) -> bytes:
        """Return so many reports of each symbol, in order."""
        from hubbub.queries.randomizers.counting import repeated

        return repeated(counts, self.symbols).astype(">u4").tobytes()

    def likelihoods(self, reports: bytes, symbol: int) -> Vector:
        """Return 1 − γ + γ/k for the symbol itself and γ/k for every other, shape (reports,)."""
        import numpy as np

        found = np.frombuffer(reports, dtype=">u4")
        return np.where(found == symbol, self.support_gap + self.support_other, self.support_other)

    def tally(self, reports: bytes) -> Tally:
        """Count each symbol; a number that is not a symbol is invalid."""
        import numpy as np

        from hubbub.queries.randomizers.randomizer import Tally

        found = np.frombuffer(reports, dtype=">u4")
        inside = found[found < self.symbols].astype(np.int64)
        counts = np.bincount(inside, minlength=self.symbols).astype(np.int64)
        return Tally(counts, len(inside), len(found) - len(inside))

    def check(self, tally: Tally) -> None:
        """Return only if the tally can be this randomizer's; raise ValueError otherwise."""
        from hubbub.queries.randomizers.counting import check_counts

        check_counts(tally, self.symbols)

    def debias(self, tally: Tally, dummies: int, noise: ChainNoise | None = None) -> tuple[Vector, Vector]:  # noqa: ARG002 - hashed counts need it
        """Return the symbols' counts, linear in those of the reports."""
        from hubbub.queries.randomizers.counting import debiased

        return debiased(self, tally, dummies)

    @property
    def _gamma(self) -> float:
        return self.gamma / DENOMINATOR

    @property
    def support_gap(self) -> float:
        """The report is the symbol itself with probability 1 − γ."""
        return 1 - self._gamma

    @property
    def support_other(self) -> float:
        """A uniform report is each symbol with probability 1/k."""
        return self._gamma / self.symbols

    @property
    def dummy_mean(self) -> float:
        """A dummy is each symbol with probability 1/k."""
        return 1 / self.symbols

    def variances(self, weights: Vector) -> Vector:
        """Return γ [(1−γ)(w_y − w̄)² + Var_U(w)] / (1−γ)², w̄ and Var_U(w) over the k symbols.

        The report is y with probability 1−γ, and uniform with γ. By the law of total variance over these two cases, the
        expected variance within a case is γ Var_U(w), and the variance of the case's mean, w_y or w̄, is
        γ (1−γ) (w_y − w̄)². In this form no digits cancel if γ is small.
        """
        deviations = (weights - weights.mean()) ** 2
        variances: Vector = self._gamma * (self.support_gap * deviations + deviations.mean()) / self.support_gap**2
        return variances

    def dummy_variance(self, weights: Vector) -> float:
        """Return Var_U(w) / (1−γ)²."""
        return float(((weights - weights.mean()) ** 2).mean()) / self.support_gap**2


@dataclass(frozen=True)
class _ByGamma:
    symbols: int

    def at(self, noise_level: int) -> KRandomizedResponse:
        return KRandomizedResponse(self.symbols, noise_level)
