"""Chooses, for a number of people, what is hidden of a report: the bound of `whole_law` for laws that share no M.

`whole_law` takes any measure M below the law of every value the others may have. Hidden reports hide others no better
than reports that are not hidden, so M should be small. But nobody at all is hidden with the chance (1 − β)ⁿ, which is
added to δ. So β is just so large that this does not count: a share K/n, K some nats more than −ln δ.

**Any randomizer common to all.** Only ε₀ is known, E = e^ε₀. For the victim's answers x, x' take M = β(μ + μ')/2, of
mass β for any randomizer, and below every R_z if β ≤ 1/E, as μ, μ' ≤ E·R_z.

1. Let a column of the randomizer be v(z) = R_z(y), m its minimum, and draw s from [0, 1] beside y, with the density
   m·(1 + (E − 1)·[v(z)/m − 1 ≥ (E − 1)s]). Its mean over s is v(z). So (y, s) is the output of an ε₀-LDP randomizer,
   and y forgets s. The batch of y is a post-processing of that of (y, s). So all entries of a column are w or Ew.
2. Hence the triple (μ, μ', R_z) is in each column a weight times (a, b, c), entries 1 or E. Relative to R_z − M, V is
   1 − e^ε plus

       U = ((a − c) − e^ε(b − c))/(c − β(a + b)/2),

   and what counts of another person is how much weight each of the kinds (a, b, c) has. Weights satisfy
   Σwa = Σwb = Σwc = 1: Σw(a − c) = Σw(b − c) = 0, where the pairs (a − c, b − c)/(E − 1) are (1, 0), (0, 1), (0, −1),
   (−1, 0), (−1, −1), (1, 1) and (0, 0). Positive combinations of these that vanish are sums of the minimal ones: of
   opposite pairs, and of (1, 0), (0, 1), (−1, −1) or its negative. So weights are a mixture of six randomizers: one
   that says nothing, binary response whose other people have x', or x, or else have the other one of its two laws than
   both x and x', response on three values, and its mirror image.
3. E*[(ΣV)₊] is linear in each person's law, so nothing is above the mixtures' largest: each person has one of these
   six. (Not all persons have the same.) That which says nothing is not needed: V is then its mean, and grows in the
   convex order if it is another one of the six.
4. The others are left: the absolute values of `whole_law` bound any mixture of them by the largest.

Places of the shuffled batch may have different randomizers, if these were fixed beforehand. Place j then has its own
M_j, all of the mass β. Say that places S are seen, and the people π are in them. The view's density has the factor
(n − |S|)!/n! for them, and a mean over who of the rest is the victim, 1/(n − |S|). So the sum is a mean over the orders
of the others, and for each order what is above. If the randomizer of a place depends on what earlier places sent, the
product of transforms is none: this is not proven, and `stronger-clones` is.

**A finite law.** M is a share of the blanket. It takes what is hidden from outputs of which nothing is to be learned,
if there are any: outputs whose chance is the same for all inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import erfc, exp, log, pi, sqrt
from typing import Protocol

from hubbub.accountant.divergence.blankets import Point
from hubbub.accountant.divergence.log_bracket import LogBracket
from hubbub.accountant.divergence.sums import IidSum
from hubbub.accountant.divergence.whole_law import WholeLaw
from hubbub.accountant.mechanisms import Finite

ROOM = 7.0
"""K is so many nats more than −ln δ: (1 − β)ⁿ is a thousandth of δ."""

HIDES = 40.0
"""From so many times 1/β people on, nobody is hidden with a chance that counts: e^−40."""

_FINER = 8
"""K is a power of 2^(1/8), so that few laws are made."""

_MOST_NATS = 720.0
"""K is at most that: a smaller δ is 0."""

_COUNTS = -4.0
"""If ln of the chance that nobody is hidden is more than that above ln δ, more is hidden."""

Row = tuple[Fraction, ...]


class HiddenPart(Protocol):
    """A bound whose M is fixed."""

    @property
    def hidden(self) -> Fraction:
        """β, the mass of M."""

    def variance(self) -> float:
        """Return the second moment of V at ε = 0, the largest of the values."""

    def sum_at_zero(self, people: int) -> IidSum:
        """Return the sum of that value, for a first guess."""

    def log_charge(self, people: int) -> float:
        """Return ln of the chance that nobody is hidden, rounded up."""

    def log_delta(self, people: int, epsilon: float) -> LogBracket:
        """Return ln of a number never below δ(`epsilon`)."""


@dataclass(frozen=True, eq=False)
class WholeLaws:
    """Bounds for any two answers of the victim, by the chance β to be hidden.

    Attributes:
        most: the largest β.
        laws: returns, for a β up to `most`, one law for every two answers that may be the worst.
    """

    most: Fraction
    laws: Callable[[Fraction], tuple[HiddenPart, ...]]

    def variance(self) -> float:
        """Return the largest second moment of V at ε = 0, if hardly anybody is hidden."""
        return max(law.variance() for law in _laws(self, self.most / 1024))

    def sum_at_zero(self, people: int) -> IidSum:
        """Return the sum of the largest variance at ε = 0, for a first guess."""
        return max(_laws(self, self.most / 1024), key=lambda law: law.variance()).sum_at_zero(people)

    def at(self, people: int, nats: float) -> tuple[HiddenPart, ...]:
        """Return the laws for δ of about e^−nats."""
        wanted = min(max(nats, 1.0) + ROOM, _MOST_NATS)
        grown = 2.0 ** (-(-log(wanted, 2) * _FINER // 1) / _FINER)
        return _laws(self, min(self.most, Fraction(grown) / people))

    def near(self, people: int, delta: float) -> Callable[[float], LogBracket]:
        """Return ln δ as a function of ε, with what is hidden for `delta`."""
        return partial(largest, self.at(people, -log(delta)), people)

    def log_delta(self, people: int, epsilon: float) -> LogBracket:
        """Return ln of a number never below δ(`epsilon`): both ends are of that number."""
        laws = self.at(people, _nats(self.variance() / people, epsilon))
        found = largest(laws, people, epsilon)
        charge = max(law.log_charge(people) for law in laws)
        if charge - found.upper > _COUNTS and laws[0].hidden < self.most:
            more = largest(self.at(people, 1.5 * ROOM - charge), people, epsilon)
            found = min(found, more, key=lambda each: each.upper)
        return found


def largest(laws: Sequence[HiddenPart], people: int, epsilon: float) -> LogBracket:
    """Return the largest δ of several laws."""
    found = [law.log_delta(people, epsilon) for law in laws]
    return LogBracket(max(each.lower for each in found), max(each.upper for each in found))


def _nats(variance: float, epsilon: float) -> float:
    """Return −ln δ of a Gaussian loss of that variance: any number is valid."""
    deviation = sqrt(variance)
    if deviation == 0:
        return _MOST_NATS
    z = epsilon / deviation
    if z > 35:
        return _MOST_NATS
    found = deviation * (exp(-z * z / 2) / sqrt(2 * pi) - z * erfc(z / sqrt(2)) / 2)
    return -log(found) if found > 0 else _MOST_NATS


@lru_cache(maxsize=256)
def _laws(family: WholeLaws, hidden: Fraction) -> tuple[HiddenPart, ...]:
    return family.laws(hidden)


def law_of(first: Row, second: Row, hidden: Row, others: Sequence[Row]) -> WholeLaw:
    """Return the bound for the victim's laws `first` and `second`, M = `hidden`, and rows that others may have."""
    values: dict[tuple[Point, ...], None] = {}
    for held in others:
        seen: dict[tuple[Fraction, Fraction], Fraction] = {}
        for one, two, part, mass in zip(first, second, hidden, held, strict=True):
            left = mass - part
            if left > 0:
                at = ((one - mass) / left, (two - mass) / left)
                seen[at] = seen.get(at, Fraction(0)) + left
        values[tuple(Point(*at, mass) for at, mass in sorted(seen.items()))] = None
    return WholeLaw(sum(hidden, Fraction(0)), tuple(values))


# Of each column, (a, b, c) by whether it is E, and the columns' common weight is 1 over their sum.
_SIX = (
    ("100", "011"),
    ("010", "101"),
    ("001", "110"),
    ("100", "010", "001"),
    ("011", "101", "110"),
)


@lru_cache(maxsize=64)
def any_whole_law(ratio: Fraction) -> WholeLaws:
    """Return those of any randomizer of the local ε ln `ratio` that all people share."""

    def laws(hidden: Fraction) -> tuple[WholeLaw, ...]:
        values = []
        for kinds in _SIX:
            columns = [tuple(ratio if high == "1" else Fraction(1) for high in kind) for kind in kinds]
            whole = sum(column[2] for column in columns)
            points = []
            for a, b, c in columns:
                left = c - hidden * (a + b) / 2
                points.append(Point((a - c) / left, (b - c) / left, left / whole))
            values.append(tuple(points))
        return (WholeLaw(hidden, tuple(values)),)

    return WholeLaws(1 / (2 * ratio), laws)


MOST_LAWS = 48
"""Most values of the others, over all pairs of answers that are not alike, for which a finite law is evaluated."""

MOST_INPUTS, MOST_ENTRIES = 12, 2000
"""Most inputs of such a law, and most of its probabilities: all of it is computed in fractions."""


@lru_cache(maxsize=64)
def finite_whole_laws(mechanism: Finite) -> WholeLaws | None:
    """Return those of a finite law; None if it has too many inputs, or does not list all of them."""
    # With a blanket of its own, a few inputs stand for many, in pairs: three of them at once need not.
    # And if all rows are equal there is nothing to bound.
    if mechanism.blanket is not None or mechanism.likelihood_ratio == 1 or not _is_small(mechanism):
        return None
    others = [*mechanism.law, *([] if mechanism.dummy is None else [mechanism.dummy])]
    lowest = tuple(min(column) for column in zip(*others, strict=True))
    plain = tuple(max(column) == min(column) for column in zip(*others, strict=True))
    silent = sum((mass for mass, same in zip(lowest, plain, strict=True) if same), Fraction(0))
    # Half of what is not silent at most, so that R_z − M is nowhere much less than R_z.
    rest = (sum(lowest, Fraction(0)) - silent) / 2

    def laws(hidden: Fraction) -> tuple[WholeLaw, ...]:
        share = max(hidden - silent, Fraction(0)) / (2 * rest) if rest else Fraction(0)
        part = tuple(mass * (1 if same else share) for mass, same in zip(lowest, plain, strict=True))
        found: dict[frozenset[tuple[Point, ...]], WholeLaw] = {}
        for x, other in mechanism.neighboring:
            law = law_of(mechanism.law[x], mechanism.law[other], part, others)
            found.setdefault(frozenset(law.values), law)
        return tuple(found.values())

    family = WholeLaws(silent + rest, laws)
    return family if sum(len(law.values) for law in laws(family.most)) <= MOST_LAWS else None


def _is_small(mechanism: Finite) -> bool:
    inputs, outputs = len(mechanism.law), len(mechanism.law[0])
    return inputs <= MOST_INPUTS and inputs * outputs <= MOST_ENTRIES
