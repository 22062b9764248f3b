"""Defines unary encoding with every bit randomized independently."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import (
    EPSILON_LOCAL_LEAST,
    GROWN,
    PRECISE,
    checked_epsilon_local,
    checked_probability,
    exact_decimal,
    grown_exp,
    log_above,
)
from hubbub.accountant.mechanisms.exact_values import (
    GAMMA_DENOMINATOR,
    Fits,
    check_content,
    is_count,
    is_ratio,
    short_repr,
    written_probability,
)
from hubbub.accountant.mechanisms.krr import check_categories

ENUMERATED = 16
"""Most categories for which `law` lists all 2^d reports."""

_EXACT_BITS = 20_000
"""A power with at most this many bits is kept as the exact fraction."""


@dataclass(frozen=True)
class RAPPOR:
    """Unary encoding of one of `categories` values, with every bit randomized independently.

    The bit of the true value is sent as 1 with probability `truthful`, every other bit with probability `other`.
    E = truthful(1 − other)/(other(1 − truthful)) is e^epsilon_local. The smallest probability of a report y is
    m(y) = (1 − truthful)/(1 − other)·P[bits of chance `other`] if some bit is 0, attained by every value whose bit is 0
    in y, and truthful·other^(d−1) if all are 1; so gamma = Σ m(y) = (1−truthful)/(1−other)·(1 − other^d)
    + other^(d−1)·truthful. Relative to m, a value's probability is E if its bit is 1 and some bit is 0, else 1.

    Raises AccountingError unless both probabilities are exact fractions, 0 < other ≤ truthful < 1.
    """

    kind: ClassVar[str] = "unary"
    counts_dummies: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Fits]] = {"categories": is_count, "truthful": is_ratio, "other": is_ratio}

    categories: int
    truthful: Fraction
    other: Fraction

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_categories(self.categories)
        checked_probability("truthful", self.truthful)
        checked_probability("other", self.other)
        if self.other > self.truthful:
            raise AccountingError(
                f"other is {shown(self.other)}; give at most truthful, {shown(self.truthful)}, by exchanging 0 and 1"
            )
        if 0 < self.likelihood_ratio - 1 < Fraction(EPSILON_LOCAL_LEAST):
            raise AccountingError("truthful and other are too close to be distinguished; make them equal")

    @classmethod
    def from_numerators(cls, categories: int, truthful: int, other: int) -> "RAPPOR":
        """Return the mechanism with truthful = `truthful` / 2**32 and other = `other` / 2**32, as a task fixes it."""
        for name, value in (("truthful", truthful), ("other", other)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < GAMMA_DENOMINATOR:
                raise AccountingError(
                    f"{name} numerator is {shown(value)}; give a whole number from 1 to 2**32 - 1, because a bit that "
                    "is always or never 1 hides nothing"
                )
        return cls(categories, Fraction(truthful, GAMMA_DENOMINATOR), Fraction(other, GAMMA_DENOMINATOR))

    @classmethod
    def from_local_epsilon(cls, categories: int, epsilon_local: float, truthful: Fraction | None = None) -> "RAPPOR":
        """Return the mechanism of local privacy `epsilon_local`: symmetric (other = 1 − truthful), or with `truthful`.

        Its probabilities err to the side of less privacy, by a relative 1e-50 at most, so its bounds are valid for the
        mechanism with exactly this local ε. Its `epsilon_local` is the given number. With truthful = 1/2 it is
        "optimized" unary encoding.
        """
        check_categories(categories)
        local = checked_epsilon_local(epsilon_local)
        if truthful is None:
            half = grown_exp(local / 2)
            mechanism = cls(categories, half / (half + 1), 1 / (half + 1))
        else:
            checked_probability("truthful", truthful)
            mechanism = cls(categories, truthful, truthful / (truthful + grown_exp(local) * (1 - truthful)))
        # The cached property looks here first, so it returns the given number, not the log of the rounded ratio.
        mechanism.__dict__["epsilon_local"] = local
        return mechanism

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values; raises AccountingError if a probability is not a multiple of 1/2**32."""
        return {
            "mechanism": self.kind,
            "categories": self.categories,
            "truthful": written_probability("truthful", self.truthful),
            "other": written_probability("other", self.other),
        }

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "RAPPOR":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls.from_numerators(content["categories"], content["truthful"][0], content["other"][0])

    @cached_property
    def likelihood_ratio(self) -> Fraction:
        """Largest ratio of two values' probabilities for one report: e^epsilon_local, exactly."""
        return self.truthful * (1 - self.other) / (self.other * (1 - self.truthful))

    @cached_property
    def epsilon_local(self) -> float:
        """The log of `likelihood_ratio`, rounded up: never below the truth; 0.0 if both probabilities are equal."""
        return log_above(self.likelihood_ratio)

    @cached_property
    def all_ones(self) -> Fraction:
        """other^(categories − 1): exact if that has few bits, else rounded down beyond 50 digits.

        Rounded down, it still gives a law below every report's, so it still bounds the divergence, a little less
        tightly: part of the report of all ones then counts at probability truthful·x/E instead of truthful·x.
        """
        bits = self.other.denominator.bit_length() * (self.categories - 1)
        if bits <= _EXACT_BITS:
            return self.other ** (self.categories - 1)
        power = PRECISE.power(exact_decimal(self.other), self.categories - 1)
        return Fraction(power) / Fraction(GROWN)

    @property
    def gamma(self) -> Fraction:
        """Total variation similarity: probability that a report is drawn from the blanket; never above the truth."""
        thinned = (1 - self.truthful) / (1 - self.other)
        return thinned * (1 - self.other * self.all_ones) + self.all_ones * self.truthful

    @property
    def kinds(self) -> tuple[tuple[Fraction, Fraction, Fraction], ...]:
        """For two values x, x': (μ_x/m, μ_x'/m, m) of the four kinds of report, m the blanket's mass.

        Of the bits of x and x', only the first is set, only the second, both (and some bit is 0), or neither; all ones
        count as the last kind, since they have the same probability for all values.
        """
        ratio, one, other = self.likelihood_ratio, Fraction(1), self.other
        thinned = (1 - self.truthful) / (1 - other)
        alone = thinned * other * (1 - other)
        both = thinned * other * (other - self.all_ones)
        neither = thinned * (1 - other) ** 2 + self.truthful * self.all_ones
        return (ratio, one, alone), (one, ratio, alone), (ratio, ratio, both), (one, one, neither)

    def probability(self, x: int, bits: tuple[int, ...]) -> Fraction:
        """Return the probability of the report `bits` (0 or 1 for every category) for the value `x`."""
        if isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < self.categories:
            raise AccountingError(f"input is {shown(x)}; give a whole number from 0 to {self.categories - 1}")
        chances = [self.truthful if place == x else self.other for place in range(self.categories)]
        return prod(
            (chance if bit else 1 - chance for chance, bit in zip(chances, bits, strict=True)), start=Fraction(1)
        )

    def law(self, x: int) -> tuple[Fraction, ...]:
        """Return the exact output law for the value `x`, for d ≤ 16.

        Entry Σ bit_j·2^(d−1−j) is the probability of the bits.
        """
        if self.categories > ENUMERATED:
            raise AccountingError(f"categories is {self.categories}; give at most {ENUMERATED} to list all reports")
        return tuple(self.probability(x, bits) for bits in product((0, 1), repeat=self.categories))
