"""Reads and checks answers and units, for all questions about a number."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from hubbub.queries.errors import AnswerError, FieldError, shown
from hubbub.queries.fields import MAXIMUM_LABEL_LENGTH, is_printable

if TYPE_CHECKING:
    from hubbub.queries.questions.question import Value


def parsed(name: str, text: str) -> float:
    """Return the number that a person typed as the answer to the query `name`.

    Raises:
        AnswerError: if it is not a number; the message never repeats it.
    """
    try:
        # Programs for text and tables write a minus sign of its own.
        return float(text.replace("\u2212", "-"))
    except ValueError:
        # Python's own message would repeat it.
        raise AnswerError(f"the answer to {name} cannot be read; it must be a number, such as 3.5") from None


def finite(name: str, answer: object) -> int | float:
    """Return an answer that is a finite number, a whole one exactly.

    Raises:
        AnswerError: if it is not; the message never repeats it.
    """
    # The usual type first: whether a value is of an abstract one takes as long to find out as a draw.
    if type(answer) is float:
        number = answer
    elif isinstance(answer, bool) or not isinstance(answer, Real | Decimal):
        raise AnswerError(f"the answer to {name} is a {type(answer).__name__}; it must be a number")
    elif isinstance(answer, Integral):
        return int(answer)
    else:
        number = _as_float(answer)
    if not math.isfinite(number):
        raise AnswerError(f"the answer to {name} is not finite; give a finite number, or None if the query is optional")
    return number


def _as_float(answer: Real | Decimal) -> float:
    """Return a number as a float; a finite one that is beyond all floats as the largest or least of them.

    Every range ends far below, so it is clipped all the same.
    """
    try:
        number = float(answer)
    except OverflowError:  # of a Fraction
        number = math.inf
    except ValueError:  # of a NaN that signals
        return math.nan
    # Compared as it is: the absolute value of a Decimal would be rounded, and may then be none that Decimal allows.
    if not math.isinf(number) or answer == number:
        return number
    return math.copysign(sys.float_info.max, -1 if answer < 0 else 1)


def numbers_of(answers: Iterable[Value]) -> list[float]:
    """Return the answers that are numbers, without those that are missing."""
    return [float(answer) for answer in answers if isinstance(answer, int | float)]


def check_unit(table: str, unit: Any) -> None:
    """Return only if `unit` is a short printable text.

    Raises:
        FieldError: otherwise.
    """
    if not isinstance(unit, str) or len(unit) > MAXIMUM_LABEL_LENGTH or not is_printable(unit):
        raise FieldError(table, "unit", f"is {shown(unit)}; it must be a short text, such as 'minutes'")
