"""What arithmetic raises on the way leaves as an error that says what to change.

Every input in range is meant to be answered, so a `BeyondArithmetic` is a fault of this library, not of who asked. It
is a class of its own so that tests can refuse it where any other AccountingError is a fair answer. Only what arithmetic
raises becomes one: a wrong type or a missing name is a mistake in a program, and is seen as it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np

from hubbub.accountant.errors import AccountingError, shown

P = ParamSpec("P")
R = TypeVar("R")


class BeyondArithmetic(AccountingError):
    """A number on the way to the answer is too large, too small or undefined as a double; nothing is certified."""


def answering(ask: Callable[P, R]) -> Callable[P, R]:
    """Return `ask` with arithmetic's errors, NaN and infinite numbers of arrays too, raised as BeyondArithmetic."""

    @functools.wraps(ask)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            # Left alone, an array's overflow is a warning on stderr and a number that may be wrong.
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                return ask(*args, **kwargs)
        except AccountingError:
            raise
        # Empty arrays give an IndexError or a ValueError, as logarithms of 0 do.
        except (ArithmeticError, IndexError, ValueError) as error:
            raise BeyondArithmetic(_said(ask, error, *args, **kwargs)) from error

    return asked


def _said(ask: Callable[P, R], error: Exception, *args: P.args, **kwargs: P.kwargs) -> str:
    given = inspect.signature(ask).bind(*args, **kwargs).arguments
    words = ", ".join(f"{name} = {shown(value)}" for name, value in given.items() if name != "self")
    return (
        f"{ask.__qualname__} of {words} leaves the range of double precision ({type(error).__name__}: {error}), so "
        "nothing is certified; take a larger delta, a local epsilon that is less extreme, or fewer reports and rounds, "
        "and report this as a fault"
    )
