"""Asks about one round at many numbers of reports: a curve over n.

A number of reports gives one answer. An array, a list or a range of numbers gives a list of answers, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast, overload

import numpy as np

from hubbub.accountant import bounds
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.mechanisms import AnyMechanism

T = TypeVar("T")


@overload
def epsilon_bracket(
    mechanism: AnyMechanism, reports: int, delta: float, *, bound: str = "best", dummies: int = 0
) -> EpsilonBracket: ...


@overload
def epsilon_bracket(
    mechanism: AnyMechanism, reports: Iterable[int], delta: float, *, bound: str = "best", dummies: int = 0
) -> list[EpsilonBracket]: ...


def epsilon_bracket(
    mechanism: AnyMechanism, reports: int | Iterable[int], delta: float, *, bound: str = "best", dummies: int = 0
) -> EpsilonBracket | list[EpsilonBracket]:
    """Return `bounds.epsilon_bracket` at a number of reports, or a list of them at several.

    Raises:
        AccountingError: for values out of range; OutsideConditions if `bound` does not apply.
    """

    def at(count: int) -> EpsilonBracket:
        return bounds.epsilon_bracket(mechanism, count, delta, bound=bound, dummies=dummies)

    return over_reports(at, reports)


@overload
def delta_bracket(
    mechanism: AnyMechanism, reports: int, epsilon: float, *, bound: str = "best", dummies: int = 0
) -> DeltaBracket: ...


@overload
def delta_bracket(
    mechanism: AnyMechanism, reports: Iterable[int], epsilon: float, *, bound: str = "best", dummies: int = 0
) -> list[DeltaBracket]: ...


def delta_bracket(
    mechanism: AnyMechanism, reports: int | Iterable[int], epsilon: float, *, bound: str = "best", dummies: int = 0
) -> DeltaBracket | list[DeltaBracket]:
    """Return `bounds.delta_bracket` at a number of reports, or a list of them at several.

    Raises:
        AccountingError: for values out of range; OutsideConditions if `bound` does not apply.
    """

    def at(count: int) -> DeltaBracket:
        return bounds.delta_bracket(mechanism, count, epsilon, bound=bound, dummies=dummies)

    return over_reports(at, reports)


def over_reports(answer: Callable[[int], T], reports: int | Iterable[int]) -> T | list[T]:
    """Return the answer at a number of reports, or a list of the answers at several."""
    # numpy counts the dimensions of whatever it is given: a number, a text and an array without dimensions have none.
    if isinstance(reports, Iterator) or np.ndim(cast("Any", reports)):
        return [answer(each) for each in cast("Iterable[int]", reports)]
    return answer(cast("int", reports))
