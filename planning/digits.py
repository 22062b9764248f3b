"""Plans the sum of a number by its binary digits: the randomizer and the noise of each, and the error of the sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, sqrt

from hubbub.accountant.bounds import epsilon_upper
from hubbub.accountant.calibration.digits import (
    DigitsTarget,
    least_noise_of_bits,
    shares_of_local,
    weights_of,
)
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part
from hubbub.planning.by_error import task_error
from hubbub.protos.task.draft import MAXIMUM_EPSILON_LOCAL
from hubbub.queries.design import Design
from hubbub.queries.query import Query
from hubbub.queries.questions.bit import bits_of
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.krr import KRandomizedResponse

DOWN = 1 - 1e-12
"""A cap is reduced a little, so that the rounded sum of its shares is not above it."""


@dataclass(frozen=True)
class PlannedSum:
    """A sum that is asked by digits, with the expected error of all its queries together at the minimum of reports.

    The numbers are those of a `PlannedQuery`: `expected_error` is the worst-case standard error of the sum, in its
    unit, and `widest` its whole range. `epsilon_upper` is the ε of all digits composed, at the question's share of δ.
    """

    question: Number
    queries: tuple[Query, ...]
    epsilon_local: float
    epsilon_upper: float
    expected_error: float
    widest: float

    @property
    def name(self) -> str:
        """The name by which the number is asked."""
        return self.question.name

    @property
    def planned_for(self) -> str:
        """The name of the statistic of the expected error."""
        return self.question.planned_for


@dataclass(frozen=True)
class PlannedDigit:
    """The query of one digit, its ε alone at the sum's δ, and the expected error of its number of ones."""

    query: Query
    epsilon_local: float
    epsilon_upper: float
    expected_error: float


def plan_sum(
    question: Number, target: DigitsTarget, cap: float, reports: int, shufflers: int = 1
) -> tuple[PlannedSum, tuple[PlannedDigit, ...]]:
    """Return the randomizers and laws of a number's digits with about the least error of the sum, and each digit's.

    Each of the `shufflers` of the chain draws the noise of each digit.

    Raises:
        TaskError: if no noise meets the target, or no randomizer the cap on ε_local.
    """
    bits = bits_of(question)
    try:
        randomizers = [_randomizer(local) for local in shares_of_local(len(bits), cap * DOWN)]
        laws = least_noise_of_bits(tuple(each.mechanism for each in randomizers), target)
        queries = tuple(Query(*each, shufflers) for each in zip(bits, randomizers, laws, strict=True))
        together = compose_upper([Part(query.mechanism, 1) for query in queries], target.delta)
        digits = tuple(_digit(query, target.delta, reports) for query in queries)
    except AccountingError as error:
        raise task_error(error, f"{question.name}: its {len(bits)} digits cannot be planned: {error}") from error
    local = sum(each.epsilon_local for each in digits)
    expected = _error(question, [each.expected_error for each in digits], reports)
    return PlannedSum(question, queries, local, together, expected, reports * question.width), digits


@dataclass(frozen=True)
class ErrorsByCap:
    """The expected error of a sum by digits under any cap on ε_local; a plan for a cap has that error at most.

    The noise is drawn up once, for reports that are nearly plain. It is enough beside more private ones, as these are
    a mixture of plain ones. A plan for one cap has a little less.
    """

    question: Number
    laws: tuple[NoiseLaw, ...]
    reports: int
    shufflers: int

    @classmethod
    def of(cls, question: Number, target: DigitsTarget, reports: int, shufflers: int) -> ErrorsByCap:
        """Draw up the noise.

        Raises:
            TaskError: if none meets the target.
        """
        plain = _randomizer(float(MAXIMUM_EPSILON_LOCAL)).mechanism
        try:
            laws = least_noise_of_bits((plain,) * len(bits_of(question)), target)
        except AccountingError as error:
            raise task_error(error, f"{question.name}: its digits cannot be planned: {error}") from error
        return cls(question, laws, reports, shufflers)

    @property
    def dummies(self) -> int:
        """How many dummies all shufflers add to the batches of all digits together."""
        return self.shufflers * sum(law.largest for law in self.laws)

    @property
    def is_mostly_rounding(self) -> bool:
        """Whether more than half of the variance is rounding, which no cap makes smaller, with nearly plain reports."""
        rounding = self.question.width * sqrt(_rounding(len(self.laws), self.reports))
        return 2 * rounding**2 > self.at(float(MAXIMUM_EPSILON_LOCAL)) ** 2

    def at(self, cap: float) -> float:
        """Return the expected error under a cap on the local ε of all digits together."""
        shares = shares_of_local(len(self.laws), cap * DOWN)
        triples = zip(bits_of(self.question), shares, self.laws, strict=True)
        queries = [Query(bit, _randomizer(each), law, self.shufflers) for bit, each, law in triples]
        return _error(self.question, [_ones_error(query, self.reports) for query in queries], self.reports)


def _randomizer(local: float) -> KRandomizedResponse:
    """Return the least private randomizer of a digit whose local ε is at most `local`."""
    gamma = min(max(1, ceil(2 * GAMMA_DENOMINATOR / (exp(local) + 1))), GAMMA_DENOMINATOR - 1)
    found = KRandomizedResponse(2, gamma)
    return found if found.mechanism.epsilon_local <= local else KRandomizedResponse(2, gamma + 1)


def _digit(query: Query, delta: float, reports: int) -> PlannedDigit:
    mechanism = query.mechanism
    return PlannedDigit(query, mechanism.epsilon_local, epsilon_upper(mechanism, 1, delta), _ones_error(query, reports))


def _ones_error(query: Query, reports: int) -> float:
    """Return the standard error of a digit's number of ones."""
    return sqrt(Design(query.question).mse(query.symbols, query.randomizer, reports, 0, query.chain_noise))


def _error(question: Number, errors: Sequence[float], reports: int) -> float:
    """Return the standard error of the sum from those of the digits' ones, at the largest variance of rounding."""
    variance = sum((weight * error) ** 2 for weight, error in zip(weights_of(len(errors)), errors, strict=True))
    return question.width * sqrt(variance + _rounding(len(errors), reports))


def _rounding(digits: int, reports: int) -> float:
    """Return the largest variance of rounding every number to so many digits, in squared widths of the range."""
    steps: int = 2**digits - 1
    return reports / (4 * steps * steps)


def enough_local(least: float, pays: Callable[[float], bool]) -> int | None:
    """Return the least whole cap above `least` that `pays`, or None if not even the largest one that is allowed does.

    It takes for granted that a larger cap pays if a smaller one does.
    """
    low, high = int(least), MAXIMUM_EPSILON_LOCAL
    if high <= low or not pays(float(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(float(middle)) else (middle, high)
    return high
