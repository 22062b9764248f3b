"""Checks the arguments that an application passes; each error names the given value and what to give."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, NoReturn, TypeVar

from hubbub.protos.errors import UsageError

T = TypeVar("T")


class NotCopied:
    """What has a state file or a connection of its own: it is neither copied nor pickled, for a process neither."""

    def __getstate__(self) -> NoReturn:
        """Refuse.

        Raises:
            UsageError: always; it says what to do instead.
        """
        name = type(self).__name__
        raise UsageError(
            f"a {name} is neither copied nor pickled, as it has a state file or a connection of its own; make a {name} "
            "in each process, from its arguments or by from_settings"
        )


def checked_type(value: Any, wanted: type[T], name: str, give: str) -> T:
    """Return a value that is of the type `wanted`.

    Raises:
        UsageError: if it is not; `give` names what to give.
    """
    if not isinstance(value, wanted):
        raise UsageError(f"{name} is {_shown(value)}; give {give}")
    return value


def checked_function(value: Any, name: str, returns: str) -> Any:
    """Return a value that can be called.

    Raises:
        UsageError: if it cannot; `returns` names what it must return.
    """
    if not callable(value):
        raise UsageError(f"{name} is {_shown(value)}; give a function that returns {returns}")
    return value


def checked_seconds(value: Any, name: str) -> float:
    """Return a number of seconds, 0 or more; infinity is allowed.

    Raises:
        UsageError: if it is not such a number.
    """
    if not is_number(value) or not value >= 0:
        raise UsageError(f"{name} is {value!r:.80}; give a number of seconds, 0 or more")
    return as_float(value)


def as_float(value: Real | float) -> float:
    """Return a number as a float; one beyond all floats, of a whole number or a fraction, is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def checked_count(value: Any, name: str) -> int:
    """Return a whole number, 1 or more.

    Raises:
        UsageError: if it is not such a number.
    """
    if checked_whole(value, name) < 1:
        raise UsageError(f"{name} is {value!r:.80}; give a whole number, 1 or more")
    return int(value)


def checked_whole(value: Any, name: str) -> int:
    """Return a whole number, for a caller that checks its limits.

    Raises:
        UsageError: if it is of another type.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise UsageError(f"{name} is {value!r:.80}; give a whole number, 1 or more")
    return int(value)


def checked_many(value: Any, name: str, give: str) -> None:
    """Return only if a value can be iterated.

    Raises:
        UsageError: if it cannot; `give` names what to give.
    """
    if not isinstance(value, Iterable):
        raise UsageError(f"{name} is {_shown(value)}; give {give}")


def checked_choice(value: Any, name: str) -> bool:
    """Return True or False.

    Raises:
        UsageError: if it is something else: a text such as "false" would count as True.
    """
    return checked_type(value, bool, name, "True or False")


def is_number(value: Any) -> bool:
    """Return whether a value is a number, of numpy or of fractions too; a bool does not count."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else f"of type {type(value).__name__}"
