"""How a symbol becomes a report, the exact law of that report, and how its bias is undone.

To add one: a module with a frozen dataclass that has these members, and its line in `registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.queries.fields import Fields
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    # A device loads no numpy: only those who count and plan do.
    import numpy as np
    import numpy.typing as npt

    Vector = npt.NDArray[np.float64]
    """Numbers by symbol, shape (symbols,)."""

    Counts = npt.NDArray[np.int64]
    """Whole numbers by symbol, shape (symbols,)."""


@dataclass(frozen=True, eq=False)
class Tally:
    """A batch's counts: one for each symbol, the number of valid reports, and the number of invalid ones.

    A report may count for several symbols, or for none, so `valid` is not the sum of the counts. A randomizer of more
    symbols than can be counted keeps what was reported instead, as a subclass of this: its counts are for it to read.
    """

    counts: Counts
    valid: int
    invalid: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.counts + other.counts, self.valid + other.valid, self.invalid + other.invalid)

    @property
    def canonical(self) -> Counts:
        """The counts in the one order in which they are hashed and published, whichever they were counted in."""
        return self.counts

    def written(self) -> bytes:
        """Return the canonical counts as they travel: eight bytes each, little-endian."""
        return self.canonical.astype("<i8").tobytes()

    @classmethod
    def read(cls, written: bytes, valid: int) -> Tally:
        """Return the tally of so many valid reports that `written` wrote.

        Raises:
            ValueError: where the bytes are something else.
        """
        import numpy as np

        return cls(np.frombuffer(written, dtype="<i8").astype(np.int64), valid)


def tally_of(randomizer: Randomizer, counts: Counts, valid: int) -> Tally:
    """Return a tally as `randomizer` makes it, of counts that were stored: a plain one, or one that keeps reports."""
    return type(randomizer.tally(b""))(counts, valid)


def read_tally(randomizer: Randomizer, written: bytes, valid: int) -> Tally:
    """Return the tally, as `randomizer` makes it, of so many valid reports that `Tally.written` wrote.

    Raises:
        ValueError: where the bytes are something else.
    """
    return type(randomizer.tally(b"")).read(written, valid)


class RandomizerFamily(Protocol):
    """Randomizers of one kind and one number of symbols, from the least private to the most: w from 1 to 2³² - 1."""

    def at(self, noise_level: int) -> Randomizer:
        """Return the randomizer at that level of noise: the larger, the more private."""


class Randomizer(Protocol):
    """A local randomizer of symbols in range(symbols).

    Its numbers are linear: N_j counted for symbol j among n reports and D dummies has the mean
    keep·c_j + base·n + dummy_mean·D, where c_j people encoded j. So ĉ_j = (N_j − base·n − dummy_mean·D)/keep is
    unbiased. Means and variances are over the reports, and over hash functions where it has some.
    """

    kind: ClassVar[str]
    """The word for it in drafts and tasks; ledgers and certificates name the mechanism."""

    most_symbols: ClassVar[int]
    """Most symbols that it takes."""

    needs_known_domain: ClassVar[bool]
    """Whether the answers must be listed: a report is made from an answer's place among all."""

    one_symbol_per_report: ClassVar[bool]
    """Whether each valid report adds 1 to the sum of a tally's counts, so that the sum is their number."""

    @property
    def symbols(self) -> int:
        """How many symbols there are."""

    @property
    def mechanism(self) -> LocalMechanism:
        """The exact law of a report, for the accountant."""

    def content(self) -> dict[str, Any]:
        """Return what `read` reads, as JSON values: `mechanism`, which is the kind, and exact numbers as [w, 2³²].

        Where the mechanism has a form of its own, as kRR and unary encoding have, that is it; its number of categories
        is the question's. A law can be long, so who states one writes the numbers that it follows from.
        """

    @property
    def report_bytes(self) -> int:
        """Length of a report: the same for every symbol and device of the query."""

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Read the randomizer of a frozen task's query.

        Raises:
            FieldError: naming the value that is not allowed.
        """

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return the families worth planning with.

        Raises:
            TaskError: where there are more symbols than it takes.
        """

    @classmethod
    def shown_families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return families that a comparison shows beside the best one, for somebody who wants to see what they cost."""

    # On the device

    def randomize(self, symbol: int, random: Random) -> bytes:
        """Return a report for a symbol, drawn from exactly the law of `mechanism`."""

    # At the shuffler

    def dummies(self, count: int, random: Random) -> bytes:
        """Return `count` reports, joined without separators, that carry nobody's answer: those of uniform symbols."""

    # At the analyzer

    def likelihoods(self, reports: bytes, symbol: int) -> Vector:
        """Return the probability of each of the joined reports where `symbol` was encoded, shape (reports,).

        Up to a factor for each report that is the same for all symbols: what an attacker compares symbols with.
        """

    def tally(self, reports: bytes) -> Tally:
        """Count reports that are joined without separators; a report that no symbol can give is invalid."""

    def check(self, tally: Tally) -> None:
        """Return only if a tally, read back from its counts, can be this randomizer's.

        Raises:
            ValueError: otherwise.
        """

    def debias(self, tally: Tally, dummies: int) -> tuple[Vector, Vector]:
        """Return ĉ_j by symbol, and by how much each one's variance differs from what `variances` say; (symbols,) both.

        It differs where reports of one symbol have more in common than the symbol: where hash functions collide.

        Raises:
            ValueError: where there are too many symbols for all to be counted.
        """

    @property
    def support_gap(self) -> float:
        """How much more probably a report counts for the symbol that was encoded than for another; 0 says nothing."""

    @property
    def support_other(self) -> float:
        """The probability that a report counts for a given symbol other than the encoded one."""

    @property
    def dummy_mean(self) -> float:
        """The probability that a dummy counts for a given symbol."""

    def variances(self, weights: Vector) -> Vector:
        """Return the variance of one report's part of Σ_j w_j ĉ_j, for each symbol it may be the report of."""

    def dummy_variance(self, weights: Vector) -> float:
        """Return the variance of one dummy's part of Σ_j w_j ĉ_j."""


def task_content(randomizer: Randomizer) -> dict[str, Any]:
    """Return a randomizer's content as a task's query holds it; the number of categories follows from the question."""
    return {key: value for key, value in randomizer.content().items() if key != "categories"}
