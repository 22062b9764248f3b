"""Defines k-ary randomized response, the mechanism of certified histograms and sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import EPSILON_LOCAL_LEAST, checked_epsilon_local, grown_exp, log_above
from hubbub.accountant.mechanisms.exact_values import (
    GAMMA_DENOMINATOR,
    Fits,
    check_content,
    is_count,
    is_ratio,
    short_repr,
    written_probability,
)

CATEGORIES_LIMIT = 2**31
"""Most categories of kRR: far more than any histogram has; the limit keeps intermediate numbers finite."""


def check_categories(categories: int) -> None:
    """Return only if `categories` is a whole number from 2 to 2**31."""
    if isinstance(categories, bool) or not isinstance(categories, int):
        raise AccountingError(f"categories is {shown(categories)}; give a whole number of at least 2, as an int")
    if not 2 <= categories <= CATEGORIES_LIMIT:
        raise AccountingError(
            f"categories is {shown(categories)}; give from 2 to {CATEGORIES_LIMIT}, by joining or splitting some"
        )


@dataclass(frozen=True)
class KRR:
    """k-ary randomized response: uniform on all categories with probability `gamma`, else the truth.

    `gamma` is exact (balle-2019, Alg. 1): 0 < gamma <= 1. Raises AccountingError for anything else.
    """

    kind: ClassVar[str] = "krr"
    counts_dummies: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Fits]] = {"categories": is_count, "gamma": is_ratio}

    categories: int
    gamma: Fraction

    __repr__ = short_repr

    def __post_init__(self) -> None:
        check_categories(self.categories)
        if not isinstance(self.gamma, Fraction):
            raise AccountingError(f"gamma is {shown(self.gamma)}; give an exact Fraction such as Fraction(1, 4)")
        if not 0 < self.gamma <= 1:
            raise AccountingError(f"gamma is {shown(self.gamma)}; give a fraction above 0 and at most 1")
        if self.gamma < Fraction(1, 2**80):
            raise AccountingError(
                f"gamma is {shown(self.gamma)}; give at least 2**-80, because below it nothing is private"
            )
        if 0 < self.likelihood_ratio - 1 < Fraction(EPSILON_LOCAL_LEAST):
            raise AccountingError(
                f"gamma is {shown(self.gamma)}, which is too close to 1 to be distinguished; make it 1"
            )

    @classmethod
    def from_numerator(cls, categories: int, numerator: int) -> "KRR":
        """Return the mechanism with gamma = `numerator` / 2**32, the form that a task fixes."""
        if isinstance(numerator, bool) or not isinstance(numerator, int) or not 0 < numerator <= GAMMA_DENOMINATOR:
            raise AccountingError(f"gamma numerator is {shown(numerator)}; give a whole number from 1 to 2**32")
        return cls(categories, Fraction(numerator, GAMMA_DENOMINATOR))

    @classmethod
    def from_local_epsilon(cls, categories: int, epsilon_local: float) -> "KRR":
        """Return the mechanism of local privacy `epsilon_local`, taken as an exact real number.

        Its gamma is never above k / (e^epsilon_local + k - 1), and within a relative 1e-50 of it. Less blanket is less
        privacy, so its bounds are valid for the mechanism with exactly this local ε. Its `epsilon_local` is the given
        number.
        """
        check_categories(categories)
        local = checked_epsilon_local(epsilon_local)
        if local == 0:
            return cls(categories, Fraction(1))
        mechanism = cls(categories, Fraction(categories) / (grown_exp(local) + categories - 1))
        # The cached property looks here first, so it returns the given number, not the log of the rounded ratio.
        mechanism.__dict__["epsilon_local"] = local
        return mechanism

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values; raises AccountingError if gamma is not a multiple of 1/2**32."""
        gamma = written_probability("gamma", self.gamma)
        return {"mechanism": self.kind, "categories": self.categories, "gamma": gamma}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "KRR":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls.from_numerator(content["categories"], content["gamma"][0])

    @cached_property
    def likelihood_ratio(self) -> Fraction:
        """Largest ratio of two inputs' probabilities for one output: e^epsilon_local, exactly."""
        return 1 + self.categories * (1 - self.gamma) / self.gamma

    @cached_property
    def epsilon_local(self) -> float:
        """ln(1 + k (1 - gamma) / gamma), rounded up: never below the truth; 0.0 exactly when gamma is 1."""
        return log_above(self.likelihood_ratio)

    @property
    def other(self) -> Fraction:
        """Probability of each one of the k - 1 wrong outputs: gamma / k."""
        return self.gamma / self.categories

    @property
    def truthful(self) -> Fraction:
        """Probability of the right output: 1 - gamma + gamma / k."""
        return 1 - self.gamma + self.other

    def law(self, x: int) -> tuple[Fraction, ...]:
        """Return the exact output law for the input `x` in range(categories); entry y is the probability of y."""
        if isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < self.categories:
            raise AccountingError(f"input is {shown(x)}; give a whole number from 0 to {self.categories - 1}")
        return tuple(self.truthful if y == x else self.other for y in range(self.categories))
