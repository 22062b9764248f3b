"""The strategies by signs: each device draws a level of the dyadic tree once, and sends a sign for each node of it.

A report is the device's level, drawn uniformly and sent in the clear, and a sign: a fair coin if no node of the level
ends. The mean sign of a node with the change z ∈ {−1, 0, 1} is z/scale·levels (erlingsson-2019, section 3).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from hubbub.accountant.mechanisms import Sequence as OneReport
from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled, Vector, level_people
from hubbub.queries.errors import FieldError, shown
from hubbub.queries.fields import Fields
from hubbub.queries.longitudinal import sampling
from hubbub.queries.longitudinal.over_rounds import Batch, Encoded, Memory
from hubbub.queries.longitudinal.randomized_step import SendingDrawn
from hubbub.queries.longitudinal.strategy import STEADY_MISSING
from hubbub.queries.longitudinal.stream import Stream
from hubbub.queries.randomizers.sampling import Random, uniform

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms.noise_law import ChainNoise
    from hubbub.queries.estimation.estimates import Row

S = TypeVar("S", Sampled, Vector)


@dataclass(frozen=True)
class SendingSigns(SendingDrawn, Generic[S]):
    """The base of `sampled` and `vector`; `steady` honest people of each level are assumed to answer every round."""

    kind: ClassVar[str] = OneReport.kind
    most_symbols: ClassVar[int] = 64
    needs_known_domain: ClassVar[bool] = True
    one_symbol_per_report: ClassVar[bool] = True
    counts_on_steady: ClassVar[bool] = True

    strategy: S
    steady: int

    @property
    def horizon(self) -> Horizon:
        """The periods and changes."""
        return self.strategy.horizon

    @property
    def symbols(self) -> int:
        """Two symbols for each level h: 2h for a minus, 2h + 1 for a plus."""
        return 2 * self.horizon.levels

    @cached_property
    def mechanism(self) -> OneReport:
        """The law of all reports of a device over the rounds."""
        # With few periods, no two streams differ as much as two signs can, so ε is the smaller one.
        whole = self.strategy.epsilon_local()
        return OneReport(whole, min(self.strategy.epsilon_sign, whole), self.steady)

    # Reading and writing

    @classmethod
    def read_task(cls, fields: Fields, horizon: Horizon) -> Self:
        """Read the strategy and `steady` from a frozen task."""
        return cls(cls._read_strategy(fields, horizon), _whole(fields, "steady", fields["steady"]))

    @classmethod
    @abstractmethod
    def _read_strategy(cls, fields: Fields, horizon: Horizon) -> S:
        """Read the strategy from a frozen task."""

    def content(self) -> dict[str, Any]:
        """Return its parameters. The odds, over 2³², are a text, because JSON readers round whole numbers above 2⁵³."""
        return {"steady": self.steady, "odds": str(self.strategy.weight)}

    def check_steady_people(self, table: str, honest: int, share: float | None, delta: float) -> None:
        """Return only if there are so many steady people; see `OverRounds.check_steady_people`."""
        if share is None:
            raise FieldError(table, "steady_share", f"is missing, and the strategy {STEADY_MISSING}")
        most = steady_people(self.horizon.levels, honest, share, delta)
        if self.steady > most:
            problem = f"is {self.steady}; of {honest} honest people at the minimum at most {most} are sure to hide one"
            raise FieldError(table, "steady", f"{problem} over all rounds: plan the task again")

    # On the device

    def step(self, memory: Memory | None, before: Stream, after: Stream, random: Random) -> Encoded:
        """Return the level and the sign of the round."""
        kept = dict(self._begun(random) if memory is None else memory)
        level, period = kept["level"], after.period
        # If the period's node began since the last answer, its start has the last known state.
        if before.period <= (period - 1) >> level << level:
            kept |= {"base": before.state, "pending": 0}
        kept |= after.content()
        self._note(kept, before, after)
        ends = period % (1 << level) == 0
        sign = self._sign(kept, after, random) if ends else sampling.fair_sign(random)
        return Encoded(2 * level + (sign > 0), kept)

    def erased(self, random: Random) -> int:
        """Return a uniform level and a fair coin."""
        return uniform(self.symbols, random)

    def _begun(self, random: Random) -> dict[str, int]:
        """Draw the level, and the random values that hide the changes, once for all rounds."""
        return {"base": 0, "level": sampling.level(self.horizon, random), "pending": 0}

    def _note(self, kept: dict[str, int], before: Stream, after: Stream) -> None:
        """Record a change, if the state at the node's end does not show which one it was."""

    @abstractmethod
    def _sign(self, kept: dict[str, int], after: Stream, random: Random) -> int:
        """Return the sign to send at a node's end, +1 or −1."""

    # Estimates

    def rows(self, number: int, batches: Mapping[int, Batch], noise: ChainNoise | None = None) -> tuple[Row, ...]:
        """Return the count after the round, the smoothed series up to it, and how many answered the round."""
        from hubbub.queries.longitudinal.series import rows_of

        self.check_no_noise(noise)
        return rows_of(self.strategy, number, batches)


@dataclass(frozen=True)
class SendingOneChange(SendingSigns[Sampled]):
    """erlingsson-2019, Alg. 1, with errata 3 and 11: one of a stream's changes is kept, and its node sends its sign."""

    in_words: ClassVar[str] = (
        "a device sends the direction of at most one change of its answer, by chance the wrong one, and a fair coin in "
        "other rounds (sampling of one change)"
    )

    @classmethod
    def _read_strategy(cls, fields: Fields, horizon: Horizon) -> Sampled:
        return Sampled(horizon, _odds(fields))

    def _begun(self, random: Random) -> dict[str, int]:
        return super()._begun(random) | {"kept": sampling.kept_change(self.strategy, random)}

    def _note(self, kept: dict[str, int], before: Stream, after: Stream) -> None:
        if after.changes == kept["kept"] != before.changes:
            kept["pending"] = after.state - before.state

    def _sign(self, kept: dict[str, int], after: Stream, random: Random) -> int:  # noqa: ARG002 - the vector's needs it
        change, kept["pending"] = kept["pending"], 0
        return sampling.change_sign(self.strategy, change, random) if change else sampling.fair_sign(random)


@dataclass(frozen=True)
class SendingVector(SendingSigns[Vector]):
    """All changes are kept: the i-th node with a change, of sign s, sends s·v_i, with the vector v drawn once."""

    in_words: ClassVar[str] = (
        "a device sends the direction of each change of its answer, by chance some wrong ones, and a fair coin in "
        "other rounds (randomized vector of signs)"
    )

    @classmethod
    def _read_strategy(cls, fields: Fields, horizon: Horizon) -> Vector:
        return Vector(horizon, _odds(fields), _whole(fields, "minuses", fields["minuses"], 0))

    def content(self) -> dict[str, Any]:
        """Return its parameters."""
        return super().content() | {"minuses": self.strategy.minuses}

    def _begun(self, random: Random) -> dict[str, int]:
        vector = sampling.sign_vector(self.strategy, random)
        minuses = sum(1 << place for place, sign in enumerate(vector) if sign < 0)
        return super()._begun(random) | {"minuses": minuses, "used": 0}

    def _sign(self, kept: dict[str, int], after: Stream, random: Random) -> int:
        change, kept["base"] = after.state - kept["base"], after.state
        if not change:
            return sampling.fair_sign(random)
        place, kept["used"] = kept["used"], kept["used"] + 1
        return -change if kept["minuses"] >> place & 1 else change


def steady_people(levels: int, honest: int, share: float, delta: float) -> int:
    """Return how many people of one level answer every round, given their share of the `honest` ones at the minimum.

    If a person misses a round, an observer who knows everybody else's level learns theirs. So only people of that level
    hide them.
    """
    return level_people(levels, max(1, floor(Fraction(str(share)) * honest)), delta)


def _odds(fields: Fields) -> int:
    text = fields["odds"]
    # The length is bounded before it is parsed: a number of a million digits would take minutes.
    if not isinstance(text, str) or not text.isdecimal() or len(text) > 40:
        raise FieldError(fields.table, "odds", f"is {shown(text)}; it must be a whole number, as a text")
    return int(text)


def _whole(fields: Fields, key: str, value: object, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise FieldError(fields.table, key, f"is {shown(value)}; it must be a whole number from {least}")
    return value
