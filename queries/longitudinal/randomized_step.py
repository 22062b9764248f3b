"""The base class of strategies whose `step` returns a symbol that is random already."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from hubbub.queries.longitudinal.strategy import Sending
from hubbub.queries.randomizers.krr import SYMBOL_BYTES, KRandomizedResponse
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.randomizers.randomizer import Tally
    from hubbub.queries.randomizers.randomizer import Vector as Weights


class SendingDrawn(Sending):
    """A report is the symbol that `step` drew, as four bytes."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """How many symbols there are."""

    @property
    def report_bytes(self) -> int:
        """Length of a report."""
        return SYMBOL_BYTES

    def randomize(self, symbol: int, random: Random) -> bytes:  # noqa: ARG002 - it was drawn by `step`
        """Return the symbol, which is random already."""
        return symbol.to_bytes(SYMBOL_BYTES, "big")

    # At the services

    def dummies(self, count: int, random: Random) -> bytes:
        """Return uniform symbols: they add noise to every node, but hide no person's reports over the rounds."""
        return self._symbols.dummies(count, random)

    def check_no_noise(self, noise: ChainNoise | None) -> None:
        """Return only if the shuffler adds no noise; raise ValueError otherwise."""
        if noise is not None:
            self.noise_variance(1, noise)

    def noise_variance(self, period: int, noise: ChainNoise) -> float:  # noqa: ARG002 - the strategies with noise need them
        """Refuse: noise is not proven beside reports that are linked over rounds."""
        raise ValueError(
            f"reports of {self.strategy.kind} have no estimates beside noise of the shuffler; leave the noise out, or "
            "use the strategy direct or tree"
        )

    def likelihoods(self, reports: bytes, symbol: int) -> Weights:
        """Return 1 for the symbol, which is random already, and 0 for every other, shape (reports,)."""
        import numpy as np

        return np.where(np.frombuffer(reports, dtype=">u4") == symbol, 1.0, 0.0)

    def tally(self, reports: bytes) -> Tally:
        """Count each symbol; another number is invalid."""
        return self._symbols.tally(reports)

    def check(self, tally: Tally) -> None:
        """Return only if the tally can be this randomizer's; raise ValueError otherwise."""
        self._symbols.check(tally)

    def debias(self, tally: Tally, dummies: int) -> tuple[Weights, Weights]:
        """Return the symbols' counts, linear in those of the reports."""
        import numpy as np

        counts = np.asarray(tally.counts - dummies * self.dummy_mean, dtype=np.float64)
        return counts, np.zeros(len(counts))

    @property
    def _symbols(self) -> KRandomizedResponse:
        # Symbols are encoded and counted as those of kRR; γ does not matter for that.
        return KRandomizedResponse(self.symbols, 1)

    @property
    def support_gap(self) -> float:
        """1: a report is its symbol."""
        return 1.0

    @property
    def support_other(self) -> float:
        """0: a report is no other symbol."""
        return 0.0

    @property
    def dummy_mean(self) -> float:
        """A dummy is each symbol with the same probability."""
        return 1 / self.symbols

    def variances(self, weights: Weights) -> Weights:
        """Return zeros: the symbol is sent unchanged."""
        return 0 * weights

    def dummy_variance(self, weights: Weights) -> float:
        """Return the variance of a weight over the symbols."""
        return float(weights.var())
