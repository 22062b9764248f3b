"""Levels: each device draws a level of the dyadic tree once, and says at the end of each node what changed in it.

A report is the device's level and a sign. Where no node of the level ends, where nothing changed, and where a strategy
hides a change, the sign is a fair coin. The mean sign of a node in which z ∈ {−1, 0, 1} changed is gain·z, so L + 1
levels times the signs of a node, over gain, is unbiased for what changed in it (erlingsson-2019, section 3, with the
scale L + 1 that its Alg. 2 needs).

What is sent over all rounds is one report of a local ε (`Sequence`): relative to a uniform level and fair coins, which
depend on nothing, its density lies in [c, cE] with E = e^ε, for every stream and every set of rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any, ClassVar, Self

from hubbub.accountant.mechanisms import Sequence as OneReport
from hubbub.accountant.mechanisms import log_above
from hubbub.queries.draws import Random, uniform
from hubbub.queries.errors import FieldError, TaskError, shown
from hubbub.queries.fields import DENOMINATOR, Fields
from hubbub.queries.krr import SYMBOL_BYTES
from hubbub.queries.longitudinal.memory import Encoded, Memory, Stream
from hubbub.queries.longitudinal.nodes import ends, levels_of, start_of

if TYPE_CHECKING:
    from hubbub.queries.longitudinal.series import Batch
    from hubbub.queries.randomizer import Family, Tally, Vector
    from hubbub.queries.rows import Row

MAXIMUM_CHANGES = 64
"""Most changes of a stream that is sent by levels: the signs are one draw of at most 2⁹⁶ equally likely numbers."""

_WIDE = 16
"""Bytes of a draw of all signs; 2¹²⁸ is far above their number, so hardly any draw is rejected."""


@dataclass(frozen=True)
class Levels:
    """What `vector` and `sampled` share. `rare` is 2³²/E: how likely hidden signs are, relative to favoured ones.

    `steady` is how many honest people are taken to take part in every round.
    """

    kind: ClassVar[str] = OneReport.kind
    name: ClassVar[str]
    most_symbols: ClassVar[int] = 64

    periods: int
    changes: int
    rare: int
    steady: int

    @property
    def levels(self) -> int:
        """L + 1."""
        return levels_of(self.periods)

    @property
    def symbols(self) -> int:
        """Two for each level: 2h for a minus, 2h + 1 for a plus."""
        return 2 * self.levels

    @cached_property
    def mechanism(self) -> OneReport:
        """The law of everything that a device sends."""
        return OneReport(log_above(Fraction(DENOMINATOR, self.rare)), steady=self.steady)

    @property
    def report_bytes(self) -> int:
        """Length of a report."""
        return SYMBOL_BYTES

    @property
    def gain(self) -> float:
        """The mean sign of a node in which the state rose."""
        raise NotImplementedError

    # Reading and writing

    @classmethod
    def planned(cls, fields: Fields, periods: int, changes: int) -> Self:
        """Read it from a frozen task."""
        steady = fields["steady"]
        if type(steady) is not int or steady < 1:
            raise FieldError(fields.table, "steady", f"is {shown(steady)}; it must be a whole number from 1")
        rare = fields.ratio("rare", "at 0 there is no privacy, at 1 no answer")
        return cls(periods, changes, rare, steady, **cls.extra(fields, changes))

    @classmethod
    def extra(cls, fields: Fields, changes: int) -> dict[str, int]:  # noqa: ARG003 - the vector has one
        """Return the parameters that it has beyond these."""
        return {}

    def content(self) -> dict[str, Any]:
        """Return its parameters."""
        return {"rare": [self.rare, DENOMINATOR], "steady": self.steady}

    @classmethod
    def read(cls, fields: Fields, symbols: int) -> Self:
        """Refuse: only a question over time is asked so.

        Raises:
            FieldError: always.
        """
        raise FieldError(fields.table, "mechanism", f"is {cls.kind!r}, of {symbols} symbols; it is for kind longitudinal")

    @classmethod
    def families(cls, symbols: int) -> Sequence[Family]:
        """Refuse, as `read` does.

        Raises:
            TaskError: always.
        """
        raise TaskError(f"{cls.name} is a strategy of a longitudinal question, not a randomizer of {symbols} symbols")

    # On the device

    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:
        """Return the level and the sign of the round."""
        kept = dict(memory) if memory is not None else self._begun(random)
        level, start = kept["level"], start_of(kept["level"], after.period)
        if before.period <= start:
            # The node began since: what the state was at its start is what was last known before it.
            kept.update(base=before.state, pending=0)
        kept.update(after.content())
        self._note(kept, before, after)
        if ends(level, after.period):
            return Encoded(2 * level + self._sign(kept, after, random), kept)
        return Encoded(2 * level + uniform(2, random), kept)

    def erased(self, random: Random) -> int:
        """Return a uniform level and a fair coin."""
        return uniform(self.symbols, random)

    def _begun(self, random: Random) -> dict[str, int]:
        return {"level": uniform(self.levels, random), "base": 0, "pending": 0, **self._drawn(random)}

    def _drawn(self, random: Random) -> dict[str, int]:
        """Draw what hides the changes, once for all rounds."""
        raise NotImplementedError

    def _note(self, kept: dict[str, int], before: Stream, after: Stream) -> None:
        """Take note of what changed with this answer, where that is needed at the node's end."""

    def _sign(self, kept: dict[str, int], after: Stream, random: Random) -> int:
        """Return 1 for a plus and 0 for a minus, at the end of a node."""
        raise NotImplementedError

    def randomize(self, symbol: int, random: Random) -> bytes:  # noqa: ARG002 - it was drawn by `step`
        """Return the symbol, which is random already."""
        return symbol.to_bytes(SYMBOL_BYTES, "big")

    # At the services

    def dummies(self, count: int, random: Random) -> bytes:
        """Return uniform symbols: they add noise to every node, and hide nobody's sequence over the rounds."""
        from hubbub.queries.counting import uniform_symbols

        return uniform_symbols(count, self.symbols, random).astype(">u4").tobytes()

    def tally(self, reports: bytes) -> Tally:
        """Count each level and sign; another number is invalid."""
        from hubbub.queries.krr import KRandomizedResponse

        return KRandomizedResponse(self.symbols, self.rare).tally(reports)

    @property
    def keep(self) -> float:
        """A report is the symbol."""
        return 1.0

    @property
    def base(self) -> float:
        """A report is no other symbol."""
        return 0.0

    @property
    def dummy_mean(self) -> float:
        """A dummy is each symbol equally often."""
        return 1 / self.symbols

    def variances(self, weights: Vector) -> Vector:
        """Return zeros: the symbol is sent as it is."""
        return 0 * weights

    def dummy_variance(self, weights: Vector) -> float:
        """Return the variance of a weight over the symbols."""
        return float(weights.var())

    # Estimates

    def rows(self, number: int, batches: Mapping[int, Batch]) -> tuple[Row, ...]:
        """Return the count after the round, the smoothed series up to it, and how many answered the round."""
        from hubbub.queries.longitudinal.series import rows_of

        return rows_of(self, number, batches)

    def variance(self, period: int, reports: int) -> float:
        """Return n·c·(L + 1)/gain², c the nodes of [1, period]: one of level h is known with chance 1/(L + 1)."""
        return reports * period.bit_count() * self.node_variance

    @property
    def node_variance(self) -> float:
        """The second moment of what one person's report adds to a node's estimate, whatever is sent: (L + 1)/gain²."""
        return self.levels / self.gain**2


@dataclass(frozen=True)
class Sampled(Levels):
    """erlingsson-2019, Alg. 1: of a stream's changes one is kept, drawn at random, and its node sends its sign.

    The sign is kept with odds E to 1, not √E as printed: where nothing is kept the coin is fair, so this is ln E-LDP.
    """

    name: ClassVar[str] = "sampled"

    @property
    def gain(self) -> float:
        """(E − 1)/(E + 1), of one change in `changes`."""
        return (DENOMINATOR - self.rare) / (DENOMINATOR + self.rare) / self.changes

    def _drawn(self, random: Random) -> dict[str, int]:
        return {"kept": 1 + uniform(self.changes, random)}

    def _note(self, kept: dict[str, int], before: Stream, after: Stream) -> None:
        if after.changes != before.changes and after.changes == kept["kept"]:
            kept["pending"] = after.state - before.state

    def _sign(self, kept: dict[str, int], after: Stream, random: Random) -> int:  # noqa: ARG002 - the vector's needs it
        pending, kept["pending"] = kept["pending"], 0
        if not pending:
            return uniform(2, random)
        true = uniform(DENOMINATOR + self.rare, random, _WIDE) < DENOMINATOR
        return int((pending > 0) == true)


@dataclass(frozen=True)
class SignVector(Levels):
    """All changes are kept: signs v ∈ {±1}^k are drawn once, and the i-th changed node, of sign s, sends s·v_i.

    v is E times as likely where at most `flips` of its entries are −1. The density of what is sent, relative to fair
    coins, is a marginal of one in [c, cE], so all of it together is exactly ln E-LDP.
    """

    name: ClassVar[str] = "vector"

    flips: int = 0

    @property
    def gain(self) -> float:
        """E v_i = (1 − e) Σ_{i≤r} C(k, i)(1 − 2i/k) over (1 − e) Σ_{i≤r} C(k, i) + e·2^k, with e = 1/E."""
        few = [comb(self.changes, i) for i in range(self.flips + 1)]
        other, changes = Fraction(self.rare, DENOMINATOR), self.changes
        tilted = sum((count * Fraction(changes - 2 * i, changes) for i, count in enumerate(few)), Fraction(0))
        return float((1 - other) * tilted / ((1 - other) * sum(few) + other * 2**changes))

    @classmethod
    def extra(cls, fields: Fields, changes: int) -> dict[str, int]:
        """Return how many entries may be −1 in favoured signs."""
        flips = fields["flips"]
        if type(flips) is not int or not 0 <= 2 * flips < changes:
            raise FieldError(fields.table, "flips", f"is {shown(flips)}; it must be below half of the {changes} changes")
        return {"flips": flips}

    def content(self) -> dict[str, Any]:
        """Return its parameters."""
        return super().content() | {"flips": self.flips}

    def _drawn(self, random: Random) -> dict[str, int]:
        weights = [DENOMINATOR if i <= self.flips else self.rare for i in range(self.changes + 1)]
        place = uniform(sum(comb(self.changes, i) * each for i, each in enumerate(weights)), random, _WIDE)
        minus = 0
        while place >= comb(self.changes, minus) * weights[minus]:
            place -= comb(self.changes, minus) * weights[minus]
            minus += 1
        # Which entries are −1 is uniform given how many: drawn without repetition.
        places, signs = list(range(self.changes)), 0
        for _ in range(minus):
            signs |= 1 << places.pop(uniform(len(places), random))
        return {"signs": signs, "used": 0}

    def _sign(self, kept: dict[str, int], after: Stream, random: Random) -> int:
        changed, kept["base"] = after.state - kept["base"], after.state
        if not changed:
            return uniform(2, random)
        flipped = kept["signs"] >> kept["used"] & 1
        kept["used"] += 1
        return int((changed > 0) != bool(flipped))
