"""The errors of the accountant; each message has the value, its limit and a remedy."""

import json
from collections.abc import Iterable
from fractions import Fraction


class AccountingError(ValueError):
    """The accountant cannot answer the question as asked; the message names the remedy."""


class OutsideConditions(AccountingError):
    """A bound was requested outside the conditions of its theorem."""


class UnmetTarget(AccountingError):
    """No choice meets the target, but another number may: a search goes on after it, and ends at every other error."""


class TakesNoNoise(AccountingError):
    """The randomizer takes no noise of the shuffler, whatever the numbers are."""


_MOST_LISTED = 30


class CertificateError(AccountingError):
    """A number or a count in a certificate is false."""


def needs_extra(what: str, missing: str, *extras: str) -> str:
    """Return the message of everything that needs extras of the package: what needs them, what is missing, the command.

    It is here because no other folder is imported by all that need one.
    """
    named = ",".join(extras)
    return (
        f"{what} needs {missing} (not installed): pip install 'hubbub[{named}]', in a checkout pip install '.[{named}]'"
    )


def listed(words: Iterable[object]) -> str:
    """Return names or numbers as error messages list them: with commas, the first 30 of many."""
    every = [str(word) for word in words]
    more = [f"and {len(every) - _MOST_LISTED} more"] if len(every) > _MOST_LISTED else []
    return ", ".join([*every[:_MOST_LISTED], *more]) or "none"


def shown(value: object) -> str:
    """Return `value` as error messages show it: at most 60 characters; a fraction as p/q, a list as in JSON.

    The first digits of a long fraction would look like a large number, so it is rounded.
    """
    try:
        if isinstance(value, list | tuple | dict):
            return f"{json.dumps(value, ensure_ascii=False, default=str):.60}"
        if isinstance(value, Fraction):
            return str(value) if len(str(value)) <= 60 else f"about {float(value):.6g}"
        return f"{value!r:.60}"
    except (ValueError, OverflowError, RecursionError):
        return "a value too long to show"
