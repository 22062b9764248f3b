"""Defines the law by which each shuffler draws how many dummies of each symbol it adds to a batch.

A law is a table of whole numbers over 2^128. It follows from three whole numbers, by whole-number arithmetic alone, so
that every party computes the same table. No floating-point number decides privacy.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR, is_count

TABLE_BITS = 128
"""A table's numbers add up to 2^128."""

REACH_LIMIT = 100_000
"""The largest reach: its table takes a tenth of a second to make."""

PARAMETER_LIMIT = 2**32
"""The largest variance of a Gaussian law."""

FAMILIES: Mapping[str, str] = {"geometric": "ratio", "gaussian": "variance"}
"""The families of laws, each with the name of its parameter."""

_DIGITS = 320
"""Bits behind the point while a table is made: its numbers are exact to far more than 128 bits."""


@dataclass(frozen=True)
class NoiseLaw:
    """How many dummies of one symbol are added: z is in 0 … 2·`reach`, and symmetric around `reach`.

    With d = |z − reach|, a `geometric` law has P[z] ∝ q^d, q = `parameter` / 2³² its ratio. A `gaussian` law has P[z] ∝
    e^(−d²/(2σ²)), σ² = `parameter` / 2³² its variance before the ends are cut.

    Raises:
        AccountingError: for an unknown family or a number out of range, and for ends without any mass.
    """

    family: str
    parameter: int
    reach: int

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise AccountingError(f"the noise's family is {shown(self.family)}; give one of {', '.join(FAMILIES)}")
        most = GAMMA_DENOMINATOR - 1 if self.family == "geometric" else PARAMETER_LIMIT * GAMMA_DENOMINATOR
        _check_whole(f"the noise's {FAMILIES[self.family]}, as a numerator over 2**32,", self.parameter, most)
        _check_whole("the noise's reach", self.reach, REACH_LIMIT)
        if not self.weights[0]:
            raise AccountingError(
                f"a {self.family} law of {FAMILIES[self.family]} {self.parameter / GAMMA_DENOMINATOR:g} has no mass at "
                f"its ends {self.reach} away; lower the reach, or raise the {FAMILIES[self.family]}"
            )

    @classmethod
    def of(cls, family: str, parameter: Fraction, reach: int) -> "NoiseLaw":
        """Return the law whose parameter is the nearest multiple of 1/2³² that is not above `parameter`."""
        return cls(family, int(parameter * GAMMA_DENOMINATOR), reach)

    @property
    def weights(self) -> tuple[int, ...]:
        """P[z] · 2^128 for z = 0 … 2·reach: whole numbers that add up to 2^128."""
        return _table(self.family, self.parameter, self.reach)

    @property
    def largest(self) -> int:
        """The largest z: twice the reach. The smallest is 0."""
        return 2 * self.reach

    @cached_property
    def variance(self) -> Fraction:
        """Exact variance of z; its mean is the reach."""
        return Fraction(sum(weight * (z - self.reach) ** 2 for z, weight in enumerate(self.weights)), 1 << TABLE_BITS)

    def value_at(self, number: int) -> int:
        """Return the z of `number`, uniform in range(2^128): a draw of the law by inversion, exactly."""
        if type(number) is not int or not 0 <= number < 1 << TABLE_BITS:
            raise AccountingError(f"number is {shown(number)}; give a whole number of {TABLE_BITS} random bits")
        return bisect_right(_cumulated(self.family, self.parameter, self.reach), number)

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        return {
            "family": self.family,
            FAMILIES[self.family]: [self.parameter, GAMMA_DENOMINATOR],
            "reach": self.reach,
        }

    @classmethod
    def read(cls, content: object) -> "NoiseLaw":
        """Read the output of `content`; raises AccountingError for anything else."""
        family = content.get("family") if isinstance(content, Mapping) else None
        if not isinstance(content, Mapping) or not isinstance(family, str) or family not in FAMILIES:
            raise AccountingError(f"a noise is {shown(content)}; give an object with a family: {', '.join(FAMILIES)}")
        named = FAMILIES[family]
        written = content.get(named)
        parameter = written[0] if type(written) is list and len(written) == 2 else None
        known = set(content) == {"family", named, "reach"} and is_count(parameter) and is_count(content["reach"])
        if not known or written != [parameter, GAMMA_DENOMINATOR] or type(written[1]) is not int:
            raise AccountingError(
                f"a {family} noise is {shown(dict(content))}; give family, {named} as [w, {GAMMA_DENOMINATOR}] and "
                "reach, and nothing else"
            )
        return cls(family, written[0], content["reach"])


@dataclass(frozen=True)
class ChainNoise:
    """The noise in a batch that several shufflers permuted: each of them added a draw of one law to every symbol.

    So a symbol has the sum of `shufflers` independent draws of `law`. Every ε is that of one draw, as one honest
    shuffler is enough. Estimates have the error of the sum.

    Raises:
        AccountingError: if there is no shuffler.
    """

    law: NoiseLaw
    shufflers: int = 1

    def __post_init__(self) -> None:
        if type(self.shufflers) is not int or self.shufflers < 1:
            raise AccountingError(f"the number of shufflers is {shown(self.shufflers)}; give a whole number from 1")

    @property
    def mean(self) -> int:
        """The exact mean of the sum."""
        return self.shufflers * self.law.reach

    @property
    def variance(self) -> Fraction:
        """The exact variance of the sum."""
        return self.shufflers * self.law.variance

    @property
    def largest(self) -> int:
        """The largest sum; the smallest is 0."""
        return self.shufflers * self.law.largest


def is_noise(value: object) -> bool:
    """Whether `value` is the content of a law."""
    try:
        NoiseLaw.read(value)
    except AccountingError:
        return False
    return True


def _check_whole(name: str, value: object, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise AccountingError(f"{name} is {shown(value)}; give a whole number from 1 to {most}")


@lru_cache(maxsize=64)
def _table(family: str, parameter: int, reach: int) -> tuple[int, ...]:
    """Return the table: by distance from the middle the shares are rounded down, and the middle gets the rest."""
    shares = _SHARES[family](parameter, reach)
    whole = shares[0] + 2 * sum(shares[1:])
    side = [(share << TABLE_BITS) // whole for share in shares[1:]]
    return (*reversed(side), (1 << TABLE_BITS) - 2 * sum(side), *side)


@lru_cache(maxsize=64)
def _cumulated(family: str, parameter: int, reach: int) -> tuple[int, ...]:
    return tuple(accumulate(_table(family, parameter, reach)))


def _geometric(parameter: int, reach: int) -> list[int]:
    """Return q^d for d = 0 … reach, in units of 2^−_DIGITS, each rounded down."""
    shares = [1 << _DIGITS]
    for _ in range(reach):
        shares.append(shares[-1] * parameter // GAMMA_DENOMINATOR)
    return shares


def _gaussian(parameter: int, reach: int) -> list[int]:
    """Return e^(−d²/(2σ²)) for d = 0 … reach, in the same units; each is the one before times e^(−(2d − 1)/(2σ²))."""
    fall, faster = (_decay(each * GAMMA_DENOMINATOR, 2 * parameter) for each in (1, 2))
    shares = [1 << _DIGITS]
    for _ in range(reach):
        shares.append(shares[-1] * fall >> _DIGITS)
        fall = fall * faster >> _DIGITS
    return shares


def _decay(numerator: int, denominator: int) -> int:
    """Return e^(−numerator / denominator) in units of 2^−_DIGITS, by its series: only whole numbers are used."""
    # Halved until it is below 1, so that the terms fall at once; the square is taken as often afterwards.
    halvings = 0
    while numerator > denominator:
        denominator, halvings = 2 * denominator, halvings + 1
    total, term, place = 0, 1 << _DIGITS, 0
    while term:
        total += term if place % 2 == 0 else -term
        place += 1
        term = term * numerator // (denominator * place)
    for _ in range(halvings):
        total = total * total >> _DIGITS
    return total


_SHARES: Mapping[str, Callable[[int, int], list[int]]] = {"geometric": _geometric, "gaussian": _gaussian}
"""How the shares of each of `FAMILIES` fall."""
