"""Mechanisms as values: what a client does to an answer, exactly, as rational numbers.

A mechanism is only described here; bounds, pairs and calibration consume it. Clients import this module,
so it uses the standard library alone. To add a mechanism, add a frozen dataclass with `epsilon_local`,
join it to `Mechanism`, and give it to the bounds whose conditions it meets.
"""

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from math import inf, nextafter

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.numbers import real

GAMMA_DENOMINATOR = 2**32
"""A task writes its blanket probability as w / 2**32: a client compares a 32-bit draw with w."""

CATEGORIES_LIMIT = 2**31
"""Most categories of kRR; far beyond any histogram, it keeps intermediate numbers finite."""

EPSILON_LOCAL_LIMIT = 40.0
"""Largest local epsilon accepted; at 40 a report is the plain answer for every practical purpose."""

EPSILON_LOCAL_LEAST = 1e-20
"""Smallest positive local epsilon: below it the 80 digits of e^epsilon would lose their relative precision."""

_PRECISE = Context(prec=80, Emin=-9999, Emax=9999)
_PAD = Decimal(10) ** -60
"""Room above the last digit of a correctly rounded 80-digit result."""

_GROWN = _PRECISE.add(Decimal(1), _PAD)


def exact_decimal(value: Fraction) -> Decimal:
    """`value` to 80 significant digits, rounded to nearest."""
    return _PRECISE.divide(Decimal(value.numerator), Decimal(value.denominator))


def exp_decimal(exponent: float) -> Decimal:
    """E to the power `exponent` (taken as the exact binary number it is), to 80 significant digits."""
    return _PRECISE.exp(Decimal(exponent))


def checked_epsilon_local(epsilon_local: float) -> float:
    """`epsilon_local` as a float, 0 or in [1e-20, 40], or an error that says what is wrong."""
    value = real(epsilon_local)
    if value != 0 and not EPSILON_LOCAL_LEAST <= value <= EPSILON_LOCAL_LIMIT:
        raise AccountingError(
            f"epsilon_local is {shown(epsilon_local)}, must be from {EPSILON_LOCAL_LEAST:g} to "
            f"{EPSILON_LOCAL_LIMIT:g}, or 0; choose one in between"
        )
    return value


def _float_above(value: Decimal) -> float:
    result = float(value)
    return result if Decimal(result) >= value else nextafter(result, inf)


def check_categories(categories: int) -> None:
    """Return only if `categories` is a whole number from 2 to 2**31."""
    if isinstance(categories, bool) or not isinstance(categories, int):
        raise AccountingError(f"categories is {shown(categories)}, must be a whole number of at least 2")
    if not 2 <= categories <= CATEGORIES_LIMIT:
        raise AccountingError(
            f"categories is {shown(categories)}, must be from 2 to {CATEGORIES_LIMIT}; join or split some"
        )


@dataclass(frozen=True)
class KRR:
    """k-ary randomized response: uniform on all categories with probability `gamma`, else the truth.

    `gamma` is exact (balle-2019, Alg. 1): 0 < gamma <= 1. Raises AccountingError for anything else.
    """

    categories: int
    gamma: Fraction

    def __post_init__(self) -> None:
        check_categories(self.categories)
        if not isinstance(self.gamma, Fraction):
            raise AccountingError(f"gamma is {shown(self.gamma)}, must be an exact Fraction such as Fraction(w, 2**32)")
        if not 0 < self.gamma <= 1:
            raise AccountingError(f"gamma is {shown(self.gamma)}, must be above 0 and at most 1")
        if self.gamma < Fraction(1, 2**80):
            raise AccountingError(f"gamma is {shown(self.gamma)}, must be at least 2**-80; raise it for any privacy")
        if 0 < self.likelihood_ratio - 1 < Fraction(1, 10**20):
            raise AccountingError(f"gamma is {shown(self.gamma)}, too close to 1 to tell apart; make it 1")

    @classmethod
    def from_numerator(cls, categories: int, numerator: int) -> "KRR":
        """The mechanism with gamma = `numerator` / 2**32, the form that a task fixes."""
        if isinstance(numerator, bool) or not isinstance(numerator, int) or not 0 < numerator <= GAMMA_DENOMINATOR:
            raise AccountingError(f"gamma numerator is {shown(numerator)}, must be a whole number from 1 to 2**32")
        return cls(categories, Fraction(numerator, GAMMA_DENOMINATOR))

    @classmethod
    def from_local_epsilon(cls, categories: int, epsilon_local: float) -> "KRR":
        """The mechanism of local privacy `epsilon_local`, as the real number it is.

        Its gamma is never above k / (e^epsilon_local + k - 1) and within 1e-50 of it relatively: less
        blanket is less privacy, so bounds computed for it hold for the mechanism that was meant. Its
        `epsilon_local` is the number given: that of the mechanism that was meant.
        """
        check_categories(categories)
        local = checked_epsilon_local(epsilon_local)
        if local == 0:
            return cls(categories, Fraction(1))
        grown = _PRECISE.multiply(exp_decimal(local), _GROWN)
        mechanism = cls(categories, Fraction(categories) / (Fraction(grown) + categories - 1))
        mechanism.__dict__["epsilon_local"] = local
        return mechanism

    @cached_property
    def likelihood_ratio(self) -> Fraction:
        """Largest ratio of two inputs' probabilities for one output: e^epsilon_local, exactly."""
        return 1 + self.categories * (1 - self.gamma) / self.gamma

    @cached_property
    def epsilon_local(self) -> float:
        """ln(1 + k (1 - gamma) / gamma), rounded up: never below the truth; 0.0 exactly when gamma is 1."""
        if self.gamma == 1:
            return 0.0
        logarithm = _PRECISE.ln(exact_decimal(self.likelihood_ratio))
        return _float_above(_PRECISE.add(_PRECISE.multiply(logarithm, _GROWN), Decimal(10) ** -75))

    @property
    def other(self) -> Fraction:
        """Probability of each one of the k - 1 wrong outputs: gamma / k."""
        return self.gamma / self.categories

    @property
    def truthful(self) -> Fraction:
        """Probability of the right output: 1 - gamma + gamma / k."""
        return 1 - self.gamma + self.other

    def law(self, x: int) -> tuple[Fraction, ...]:
        """Exact output law for the input `x` in range(categories); entry y is the probability of y."""
        if isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < self.categories:
            raise AccountingError(f"input is {shown(x)}, must be from 0 to {self.categories - 1}")
        return tuple(self.truthful if y == x else self.other for y in range(self.categories))


@dataclass(frozen=True)
class Generic:
    """Any `epsilon_local`-LDP randomizer: one common to the batch, unless `mixed`.

    `mixed` means that the *places* of the shuffled batch may have different randomizers, chosen adaptively: answers
    are shuffled first, then the i-th place applies its own (feldman-2022, Thm 3.1). It does not mean that clients
    bring randomizers of their own: such a client hides only among those that share its randomizer, and only they
    count as reports (erlingsson-2019, Cor. 9).
    """

    epsilon_local: float
    mixed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_local", checked_epsilon_local(self.epsilon_local))

    @property
    def likelihood_ratio(self) -> Fraction:
        """e^epsilon_local, rounded up beyond 50 digits."""
        if self.epsilon_local == 0:
            return Fraction(1)
        return Fraction(_PRECISE.multiply(exp_decimal(self.epsilon_local), _GROWN))


Mechanism = KRR | Generic
