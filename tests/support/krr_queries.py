"""KRR over a question in one call, and calibration by numbers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.accountant.calibration.design import Calibration
from hubbub.accountant.mechanisms import KRR
from hubbub.planning.comparison import question_for
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.queries.design import Design
from hubbub.queries.fields import DENOMINATOR
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import symbols_of
from hubbub.queries.randomizers.krr import SYMBOL_BYTES, KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer
from hubbub.queries.randomizers.unary import UnaryEncoding

INNER_BYTES = SYMBOL_BYTES + DEFAULT.overhead_bytes
"""Length of an inner envelope of a kRR query."""


def krr_query(question: Histogram | Number, gamma: int, levels: int | None = None) -> Query:
    """A question answered through kRR with blanket probability gamma / 2**32; `levels` for a number."""
    if isinstance(question, Number):
        question = replace(question, levels=levels)
    return Query(question, KRandomizedResponse(symbols_of(question), gamma))


def unary_query(question: Histogram | Number, truthful: int, other: int, levels: int | None = None) -> Query:
    """A question answered through unary encoding with those bit probabilities over 2**32."""
    if isinstance(question, Number):
        question = replace(question, levels=levels)
    question = replace(question, randomizer="unary")
    return Query(question, UnaryEncoding(symbols_of(question), truthful, other))


def symbol(report: bytes) -> int:
    """The symbol of a kRR report."""
    return int.from_bytes(report, "big")


def report(symbol: int) -> bytes:
    """The kRR report of a symbol."""
    return symbol.to_bytes(SYMBOL_BYTES, "big")


def histogram_design(categories: int, optional: bool = False) -> Design:
    return Design(question_for("histogram", categories, optional, "krr"))


def sum_design(optional: bool = False) -> Design:
    return Design(question_for("sum", None, optional, "krr"))


def calibrate_histogram(
    categories: int, epsilon: float, delta: float, reports: int, *, optional: bool = False, **more: Any
) -> Calibration[Randomizer]:
    """The least noisy kRR of one histogram."""
    return calibrate([histogram_design(categories, optional)], epsilon, delta, reports, **more)[0]


def calibrate_sum(
    epsilon: float, delta: float, reports: int, *, optional: bool = False, **more: Any
) -> Calibration[Randomizer]:
    """The least noisy kRR and levels of one sum."""
    return calibrate([sum_design(optional)], epsilon, delta, reports, **more)[0]


def _krr(mechanism: KRR) -> KRandomizedResponse:
    numerator = mechanism.gamma * DENOMINATOR
    # Errors are floats: a gamma that is no multiple of 2**-32 is as good as the nearest one that is.
    return KRandomizedResponse(mechanism.categories, round(numerator))


def histogram_mse(mechanism: KRR, reports: int, dummies: int = 0) -> float:
    """The worst-case variance of one count."""
    return histogram_design(mechanism.categories).mse(mechanism.categories, _krr(mechanism), reports, dummies)


def sum_mse(mechanism: KRR, levels: int, reports: int, *, optional: bool = False, dummies: int = 0) -> float:
    """The worst-case variance of a sum over [0, 1] in so many levels."""
    return sum_design(optional).mse(levels + 1, _krr(mechanism), reports, dummies)
