"""The errors of the accountant; each message has the value, its limit and a remedy."""

from fractions import Fraction


class AccountingError(ValueError):
    """The accountant cannot answer the question as asked; the message names the remedy."""


class OutsideConditions(AccountingError):
    """A bound was requested outside the conditions of its theorem."""


class CertificateError(AccountingError):
    """A number or a count in a certificate is false."""


def shown(value: object) -> str:
    """Return `value` as error messages show it: at most 60 characters; a fraction as p/q."""
    try:
        return f"{value!s:.60}" if isinstance(value, Fraction) else f"{value!r:.60}"
    except (ValueError, RecursionError):
        return "a value too long to show"
