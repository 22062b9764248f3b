"""The protocol of a local randomizer: how a symbol becomes a report, the report's exact law, and debiasing.

To add a randomizer, write a module with a frozen dataclass that has these members, and add its line to `registry`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast, runtime_checkable

from hubbub.accountant.mechanisms import LocalMechanism, WithNoise
from hubbub.accountant.mechanisms.noise_law import ChainNoise, NoiseLaw
from hubbub.accountant.mechanisms.with_noise import Imitated
from hubbub.queries.fields import Fields
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    # A device does not load numpy; only counting and planning do.
    import numpy as np
    import numpy.typing as npt

    Vector = npt.NDArray[np.float64]
    """Numbers by symbol, shape (symbols,)."""

    Counts = npt.NDArray[np.int64]
    """Whole numbers by symbol, shape (symbols,)."""


@dataclass(frozen=True, eq=False)
class Tally:
    """A batch's counts: one for each symbol, the number of valid reports, and the number of invalid ones.

    A report may count for several symbols, or for none, so `valid` is not the sum of the counts. If a randomizer has
    too many symbols to count, its tally is a subclass that keeps the reports themselves in `counts`. Only that
    randomizer can interpret them.
    """

    counts: Counts
    valid: int
    invalid: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.counts + other.counts, self.valid + other.valid, self.invalid + other.invalid)

    @property
    def canonical(self) -> Counts:
        """The counts in the one order in which they are hashed and published, for any order of counting."""
        return self.counts

    def written(self) -> bytes:
        """Return the canonical counts as bytes: eight bytes each, little-endian."""
        return self.canonical.astype("<i8").tobytes()

    @classmethod
    def read(cls, written: bytes, valid: int) -> Tally:
        """Return the tally of `valid` reports that `written` wrote.

        Raises:
            ValueError: if the bytes are something else.
        """
        import numpy as np

        return cls(np.frombuffer(written, dtype="<i8").astype(np.int64), valid)


def tally_of(randomizer: Randomizer, counts: Counts, valid: int) -> Tally:
    """Return a tally of stored counts, in the class that `randomizer` uses."""
    return type(randomizer.tally(b""))(counts, valid)


def read_tally(randomizer: Randomizer, written: bytes, valid: int) -> Tally:
    """Return the tally of `valid` reports that `Tally.written` wrote, in the class that `randomizer` uses.

    Raises:
        ValueError: if the bytes are something else.
    """
    return type(randomizer.tally(b"")).read(written, valid)


class RandomizerFamily(Hashable, Protocol):
    """Randomizers of one kind and number of symbols, by noise level from 1 (least private) to 2³² - 1; hashable."""

    def at(self, noise_level: int) -> Randomizer:
        """Return the randomizer at that noise level; that of a larger one is more private, its variances no smaller."""


class Randomizer(Protocol):
    """A local randomizer of symbols in range(symbols).

    Its numbers are linear: N_j counted for symbol j among n reports and D dummies has the mean
    keep·c_j + base·n + dummy_mean·D, where c_j people encoded j. So ĉ_j = (N_j − base·n − dummy_mean·D)/keep is
    unbiased. Means and variances are over the reports, and over hash functions if the randomizer has them.
    """

    kind: ClassVar[str]
    """Its name in drafts and tasks; ledgers and certificates name the mechanism."""

    in_words: ClassVar[str]
    """What a device does with its answer, in words for the people who are asked; the field's name in brackets."""

    most_symbols: ClassVar[int]
    """Most symbols that it takes."""

    needs_known_domain: ClassVar[bool]
    """Whether the answers must be listed, because a report is made from an answer's index."""

    one_symbol_per_report: ClassVar[bool]
    """Whether each valid report adds 1 to the sum of a tally's counts, so that the sum is their number."""

    @property
    def symbols(self) -> int:
        """How many symbols there are."""

    @property
    def mechanism(self) -> LocalMechanism:
        """The exact law of a report, for the accountant."""

    def content(self) -> dict[str, Any]:
        """Return the content that `read` reads, as JSON values: `mechanism` (the kind), and exact numbers as [w, 2³²].

        If the mechanism has its own form, as kRR and unary encoding have, this is that form; its number of categories
        is the question's. A law can be long, so the content has the numbers that determine it, not the law.
        """

    @property
    def report_bytes(self) -> int:
        """Length of a report: the same for every symbol and device of the query."""

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Read the randomizer of a frozen task's query.

        Raises:
            FieldError: if a value is not allowed; it is named.
        """

    @classmethod
    def families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return the families worth planning with.

        Raises:
            TaskError: if there are more symbols than it takes.
        """

    @classmethod
    def shown_families(cls, symbols: int) -> Sequence[RandomizerFamily]:
        """Return further families that a comparison shows next to the best one."""

    # On the device

    def randomize(self, symbol: int, random: Random) -> bytes:
        """Return a report for a symbol, drawn from exactly the law of `mechanism`."""

    # At the shuffler

    def dummies(self, count: int, random: Random) -> bytes:
        """Return `count` reports of uniform symbols, joined without separators; no person's answer is in them."""

    # At the analyzer

    def likelihoods(self, reports: bytes, symbol: int) -> Vector:
        """Return the probability of each of the joined reports if `symbol` was encoded, shape (reports,).

        It is up to a factor for each report that is the same for all symbols. An attacker compares symbols by it.
        """

    def tally(self, reports: bytes) -> Tally:
        """Count reports that are joined without separators; a report that no symbol can produce is invalid."""

    def check(self, tally: Tally) -> None:
        """Return only if a tally, read back from its counts, can be this randomizer's.

        Raises:
            ValueError: otherwise.
        """

    def debias(self, tally: Tally, dummies: int) -> tuple[Vector, Vector]:
        """Return ĉ_j by symbol, and by how much each one's variance differs from `variances`, shape (symbols,) both.

        The difference is not 0 if reports of one symbol are dependent given the symbol, as by colliding hashes.

        Raises:
            ValueError: if there are too many symbols to count them all.
        """

    @property
    def support_gap(self) -> float:
        """How much more probably a report counts for its own symbol than for another (p − q); 0 is no information."""

    @property
    def support_other(self) -> float:
        """The probability that a report counts for a given symbol other than the encoded one."""

    @property
    def dummy_mean(self) -> float:
        """The probability that a dummy counts for a given symbol."""

    def variances(self, weights: Vector) -> Vector:
        """Return the variance of one report's part of Σ_j w_j ĉ_j, for each symbol that it may encode."""

    def dummy_variance(self, weights: Vector) -> float:
        """Return the variance of one dummy's part of Σ_j w_j ĉ_j."""


@runtime_checkable
class Imitable(Protocol):
    """A randomizer whose reports a shuffler can imitate, because each report is one of a few symbols.

    These are the symbols of reports, which the shuffler adds noise to. Those of answers may be others: a report of
    hashed response is a cell of a row. A uniform dummy is each symbol of reports with the same probability.
    """

    @property
    def report_symbols(self) -> int:
        """How many symbols a report can be."""

    def reports_of(self, counts: Sequence[int]) -> bytes:
        """Return `counts[j]` reports of each symbol j, in order and joined without separators.

        Raises:
            ValueError: if there is not one count for each symbol, or a count is negative.
        """

    def debias(self, tally: Tally, dummies: int, noise: ChainNoise | None = None) -> tuple[Vector, Vector]:
        """Return what a randomizer's `debias` returns; with `noise`, each shuffler drew its dummies from that law.

        ĉ_j is unbiased in either case, because each symbol of reports has the same expected number of the dummies.
        """


def beside_noise(randomizer: Randomizer, noise: NoiseLaw) -> WithNoise:
    """Return the law of the randomizer's reports beside noise of the shuffler.

    Raises:
        AccountingError: if the shuffler cannot imitate them symbol by symbol. It is a ValueError.
    """
    return WithNoise(cast(Imitated, randomizer.mechanism), noise)


def check_sum(randomizer: Randomizer, noise: ChainNoise, dummies: int) -> None:
    """Return only if the shufflers can have drawn `dummies` reports in all from `noise`.

    Raises:
        ValueError: otherwise, or if they cannot imitate the randomizer's reports.
    """
    least, most = (noise.shufflers * end for end in beside_noise(randomizer, noise.law).dummies_range)
    if not least <= dummies <= most:
        limit = f"{least}" if least == most else f"{least} to {most}"
        raise ValueError(f"{dummies} dummies are no sum of this noise; give {limit}")


def equal_dummies(randomizer: Randomizer, dummies: int, noise: ChainNoise | None = None) -> float:
    """Return how many uniform dummies have the variance of those in a batch: without noise, as many as there are.

    Let Σ_j W_j N_j be a statistic of the counts N_j of reports of each symbol j in R. A uniform dummy adds to it the
    variance Σ_j (W_j − W̄)²/|R|. With noise, z_j dummies of symbol j are added. Their total S is known, and S/|R| is
    subtracted from each count, so what is left is Σ_j (W_j − W̄)·z_j. Over all draws its variance is
    Var z · Σ_j (W_j − W̄)², which is that of |R|·Var z uniform dummies, exactly, however many were added. If S is fixed,
    symbol r has the rest, and it is Var z · Σ_j (W_j − W_r)². With two symbols that is the variance of 4·Var z
    dummies, with the three of a tree's node at most that of 9·Var z: of |R|²·Var z in both cases.

    Given S, the z_j are exchangeable with a fixed sum, and the variance is V(S)·Σ_j (W_j − W̄)²·|R|/(|R| − 1), where
    V(S) = Var(z_j | S) has the mean (1 − 1/|R|)·Var z. The mean is used, so that an error is what it was planned to be,
    and is right on average over the draws.

    With several shufflers, z_j is the sum of one independent draw of each. All steps hold for these sums: they are
    independent and of one law, and Var z is as many times larger (`ChainNoise`).

    Raises:
        AccountingError: for noise beside a randomizer that the shuffler cannot imitate. It is a ValueError.
    """
    if noise is None:
        return dummies
    law = beside_noise(randomizer, noise.law)
    return float(law.symbols ** (2 if law.fixed_total else 1) * noise.variance)


def task_content(randomizer: Randomizer) -> dict[str, Any]:
    """Return a randomizer's content as in a task's query, without the categories, which the question determines."""
    return {key: value for key, value in randomizer.content().items() if key != "categories"}
