"""Turns errors of arithmetic into an AccountingError that names the remedy.

The accountant should answer every input in range, so `BeyondArithmetic` is a fault of this library, not of the caller.
It has its own class so that a test can refuse it and still accept any other AccountingError. Only errors of arithmetic
are turned into one: a wrong type or a missing name is a mistake in a program, and its exception passes unchanged.
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
    """An intermediate number is too large, too small or undefined as a double; nothing is certified."""


def answering(ask: Callable[P, R]) -> Callable[P, R]:
    """Return `ask` with errors of arithmetic raised as BeyondArithmetic, also if an array gets a NaN or infinity."""

    @functools.wraps(ask)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            # By default NumPy only warns of an overflow, and returns a number that may be wrong.
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
        "nothing is certified; use a larger delta, a less extreme local epsilon, or fewer reports and rounds, and "
        "report this as a fault"
    )
