"""Defines a randomizer by a matrix of exact probabilities: a row for each input, a column for each output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import lcm
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import EPSILON_LOCAL_LEAST, log_above
from hubbub.accountant.mechanisms.exact_values import (
    Fits,
    check_content,
    is_fraction_text,
    list_of,
    or_none,
    pair_of_counts,
    read_fraction,
    short_repr,
)

INPUTS_LIMIT = 128
"""Most inputs: bounds examine every pair of neighbors."""

OUTPUTS_LIMIT = 4096
"""Most outputs."""

ENTRIES_LIMIT = 16_384
"""Most probabilities of one law: a certificate contains each of them as a text."""

BITS_LIMIT = 256
"""Most bits of a probability's denominator, so of its numerator too."""

COMMON_BITS_LIMIT = 16_384
"""Most bits of the common denominator of all probabilities: sums have that denominator, so its size sets their time."""

RATIO_LIMIT = 2**80
"""Largest ratio of two inputs' probabilities of one output: far beyond any useful privacy."""

Row = tuple[Fraction, ...]


@dataclass(frozen=True)
class Finite:
    """A randomizer that for the input x gives the output y with probability `law[x][y]`; every client runs it.

    A law with many inputs can be given by a few of them. Then `blanket` is a law below that of *every* input, listed
    or not (an unnormalized one: its total is the probability of the blanket). Any two inputs must look like two of the
    listed ones after a renaming of outputs that keeps the blanket. Likewise one output may represent many: outputs
    whose probabilities under the listed inputs and the blanket are proportional are one output, their sum.

    Attributes:
        law: a row for each input; every row sums to exactly 1.
        blanket: a law below every input's. If left out, it is the smallest probability in each column, which is the
            largest such law, and all inputs are listed. If given, others may not be listed.
        neighbors: pairs of inputs (rows); nobody may learn which of the two a person has. None: all pairs.
        dummy: the law of a dummy report, nowhere below the blanket, so that a dummy hides people as another person
            would: a row of the law, or any mixture of rows. None: dummies are not known, and are refused.

    Raises AccountingError for anything else, and if an output distinguishes two inputs with certainty: then there is no
    local ε.
    """

    kind: ClassVar[str] = "finite"
    members: ClassVar[Mapping[str, Fits]] = {
        "law": list_of(list_of(is_fraction_text)),
        "blanket": or_none(list_of(is_fraction_text)),
        "neighbors": or_none(list_of(pair_of_counts)),
        "dummy": or_none(list_of(is_fraction_text)),
    }

    law: tuple[Row, ...]
    blanket: Row | None = None
    neighbors: tuple[tuple[int, int], ...] | None = None
    dummy: Row | None = None

    __repr__ = short_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "law", _checked_law(self.law))
        object.__setattr__(self, "neighbors", _checked_neighbors(self.neighbors, len(self.law)))
        object.__setattr__(self, "blanket", self._checked_blanket())
        self._check_ratios()
        object.__setattr__(self, "dummy", self._checked_dummy())

    def __hash__(self) -> int:
        # Cached: the law may have thousands of entries, and bounds are cached by mechanism.
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.law, self.blanket, self.neighbors, self.dummy))

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values: probabilities are texts like "1/2", in lowest terms."""
        return {
            "mechanism": self.kind,
            "law": [_written(row) for row in self.law],
            "blanket": None if self.blanket is None else _written(self.blanket),
            "neighbors": None if self.neighbors is None else [list(pair) for pair in self.neighbors],
            "dummy": None if self.dummy is None else _written(self.dummy),
        }

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Finite:
        """Read the output of `content`; raises AccountingError for anything else."""
        _check_sizes(content)
        check_content(cls.kind, cls.members, content)
        neighbors = content["neighbors"]
        return cls(
            tuple(_read(row) for row in content["law"]),
            None if content["blanket"] is None else _read(content["blanket"]),
            None if neighbors is None else tuple((first, second) for first, second in neighbors),
            None if content["dummy"] is None else _read(content["dummy"]),
        )

    @cached_property
    def masses(self) -> Row:
        """The blanket: in each column, a probability that is at most that of every input."""
        return _lowest(self.law) if self.blanket is None else self.blanket

    @cached_property
    def gamma(self) -> Fraction:
        """Probability that a report is drawn from the blanket."""
        return sum(self.masses, Fraction(0))

    @cached_property
    def neighboring(self) -> tuple[tuple[int, int], ...]:
        """Pairs of neighbors as (x, x'), in both orders."""
        pairs = tuple(combinations(range(len(self.law)), 2)) if self.neighbors is None else self.neighbors
        return pairs + tuple((second, first) for first, second in pairs)

    @cached_property
    def likelihood_ratio(self) -> Fraction:
        """Largest ratio of *any* two inputs' probabilities for one output, neighbors or not, exactly."""
        ratios = (max(column) / min(column) for column in zip(*self.law, strict=True) if max(column) > 0)
        return max(ratios, default=Fraction(1))

    @cached_property
    def epsilon_local(self) -> float:
        """Log of the largest ratio between neighbors, rounded up: never below the truth; 0.0 if the ratio is 1."""
        return log_above(self.neighbor_ratio)

    @cached_property
    def neighbor_ratio(self) -> Fraction:
        """Largest ratio of two neighbors' probabilities for one output: e^epsilon_local, exactly."""
        if self.neighbors is None:
            return self.likelihood_ratio
        return max(
            top / bottom
            for x, other in self.neighboring
            for top, bottom in zip(self.law[x], self.law[other], strict=True)
            if bottom > 0
        )

    @property
    def counts_dummies(self) -> bool:
        """Whether the law of a dummy is known."""
        return self.dummy is not None

    def _checked_blanket(self) -> Row | None:
        lowest = _lowest(self.law)
        if self.blanket is None:
            return None
        blanket = _checked_row("blanket", self.blanket, len(lowest))
        _check_common((*self.law, blanket))
        for place, (mass, least) in enumerate(zip(blanket, lowest, strict=True)):
            if mass > least:
                raise AccountingError(
                    f"blanket of output {place} is {shown(mass)}; give at most {shown(least)}, the smallest "
                    "probability that an input gives it"
                )
        # Kept even if the listed inputs have the same: it says that there may be others.
        return blanket

    def _check_ratios(self) -> None:
        ratio = self.likelihood_ratio
        if ratio > RATIO_LIMIT:
            raise AccountingError(
                f"probabilities of one output differ {float(ratio):.3g}-fold between inputs, but at most 2**80-fold is "
                "allowed; raise the smaller one"
            )
        if 0 < self.neighbor_ratio - 1 < Fraction(EPSILON_LOCAL_LEAST):
            raise AccountingError("the laws of two inputs are too close to be distinguished; make them equal")
        # The largest blanket always satisfies this; below it a bound from the local ε alone is better.
        tops = (max(column) for column in zip(*self.law, strict=True))
        for place, (top, mass) in enumerate(zip(tops, self.masses, strict=True)):
            if mass * ratio < top:
                raise AccountingError(
                    f"blanket of output {place} is {shown(mass)}, but no input of a randomizer of this local epsilon "
                    f"can be below {shown(top / ratio)}; raise it to that, or list the inputs that are lower"
                )

    def _checked_dummy(self) -> Row | None:
        if self.dummy is None:
            return None
        dummy = _checked_row("dummy", self.dummy, len(self.masses))
        _check_common((*self.law, self.masses, dummy))
        _check_total("dummy", dummy)
        for place, (mass, least) in enumerate(zip(dummy, self.masses, strict=True)):
            if mass < least:
                raise AccountingError(
                    f"dummy gives output {place} with probability {shown(mass)}, so it hides less than a person, whose "
                    f"blanket gives it {shown(least)}; make dummies reports of some input"
                )
        return dummy


def _check_sizes(content: Mapping[str, Any]) -> None:
    """Refuse lists that are too long before reading their entries: millions of fractions take half a minute."""
    law = content.get("law")
    lists = [("law", INPUTS_LIMIT, law), ("neighbors", INPUTS_LIMIT**2, content.get("neighbors"))]
    rows = law if isinstance(law, list) and len(law) <= INPUTS_LIMIT else []
    for name, row in [
        ("blanket", content.get("blanket")),
        ("dummy", content.get("dummy")),
        *(("law", r) for r in rows),
    ]:
        lists.append((name, OUTPUTS_LIMIT, row))
    for name, most, value in lists:
        if isinstance(value, list) and len(value) > most:
            raise AccountingError(f"{name} has a list of {len(value)}; give at most {most} in one (see `Finite`)")


def _lowest(law: Sequence[Row]) -> Row:
    return tuple(min(column) for column in zip(*law, strict=True))


def _checked_law(law: object) -> tuple[Row, ...]:
    if not isinstance(law, Sequence) or isinstance(law, str) or not 2 <= len(law) <= INPUTS_LIMIT:
        raise AccountingError(
            f"law is {shown(law)}; give from 2 to {INPUTS_LIMIT} rows, one for each input. Merge inputs, or list some "
            "of them with a blanket"
        )
    first = law[0]
    outputs = len(first) if isinstance(first, Sequence) else 0
    if not 1 <= outputs <= OUTPUTS_LIMIT or outputs * len(law) > ENTRIES_LIMIT:
        raise AccountingError(
            f"law has {len(law)} rows of {outputs} outputs; give from 1 to {OUTPUTS_LIMIT} outputs and at most "
            f"{ENTRIES_LIMIT} probabilities. Merge outputs whose columns are proportional"
        )
    rows = tuple(_checked_row(_place(place), row, outputs) for place, row in enumerate(law))
    _check_common(rows)
    for place, row in enumerate(rows):
        _check_total(_place(place), row)
    for place, column in enumerate(zip(*rows, strict=True)):
        if min(column) == 0 < max(column):
            raise AccountingError(
                f"output {place} is possible for input {column.index(max(column))} and impossible for input "
                f"{column.index(0)}, so it distinguishes them with certainty and there is no local epsilon; give every "
                "input some probability of it"
            )
    return rows


def _place(row: int) -> str:
    """Return the name of a row in errors; inputs and outputs are counted from 0, so rows are too."""
    return f"row {row} of the law (counted from 0)"


def _checked_row(name: str, row: object, outputs: int) -> Row:
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != outputs:
        raise AccountingError(f"{name} is {shown(row)}; give {outputs} probabilities, one for each output")
    for value in row:
        # A float is not the intended number: 0.1 is not a tenth.
        if type(value) is not Fraction:
            raise AccountingError(f"{name} has {shown(value)}; give exact fractions such as Fraction(1, 4)")
        if not 0 <= value <= 1 or value.denominator.bit_length() > BITS_LIMIT:
            raise AccountingError(
                f"{name} has {shown(value)}; give probabilities from 0 to 1 with denominators of at most {BITS_LIMIT} "
                "bits, such as a law that a client can draw from"
            )
    return tuple(row)


def _check_common(rows: Sequence[Row]) -> None:
    """Refuse rows whose sums would be fractions of a million bits, before any of them is computed."""
    common = 1
    for denominator in {value.denominator for row in rows for value in row}:
        common = lcm(common, denominator)
        if common.bit_length() > COMMON_BITS_LIMIT:
            raise AccountingError(
                f"probabilities of the law have a common denominator of {common.bit_length()} bits or more, but at "
                f"most {COMMON_BITS_LIMIT} are allowed; write all of them over one denominator, such as 2**64"
            )


def _check_total(name: str, row: Row) -> None:
    total = sum(row, Fraction(0))
    if total != 1:
        raise AccountingError(
            f"{name} sums to {shown(total)}, but must sum to exactly 1; write fractions, not decimals"
        )


def _checked_neighbors(pairs: object, inputs: int) -> tuple[tuple[int, int], ...] | None:
    if pairs is None:
        return None
    if not isinstance(pairs, Sequence) or not pairs or not all(map(_pair_below(inputs), pairs)):
        raise AccountingError(
            f"neighbors is {shown(pairs)}; list pairs of two different inputs from 0 to {inputs - 1}, at least "
            "one; leave it out if all inputs are neighbors"
        )
    # One set of neighbors has one form, so one law has one signed form.
    found = tuple(sorted({(min(pair), max(pair)) for pair in pairs}))
    return None if len(found) == inputs * (inputs - 1) // 2 else found


def _pair_below(inputs: int) -> Callable[[object], bool]:
    def fits(pair: object) -> bool:
        return pair_of_counts(list(pair) if isinstance(pair, tuple) else pair) and _different(pair, inputs)

    return fits


def _different(pair: Any, inputs: int) -> bool:
    first, second = pair
    return bool(first != second and max(pair) < inputs)


def _written(row: Row) -> list[str]:
    return [str(value) for value in row]


def _read(row: Sequence[str]) -> Row:
    return tuple(map(read_fraction, row))
