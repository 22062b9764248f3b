"""Errors of the accountant: each carries the value, its limit and a remedy."""

from fractions import Fraction


class AccountingError(ValueError):
    """A question the accountant cannot answer as asked; the message says what to change."""


class OutsideConditions(AccountingError):
    """A bound was asked for outside the conditions of its theorem."""


class CertificateError(AccountingError):
    """A number or a count in a certificate that does not hold."""


def shown(value: object) -> str:
    """`value` as an error shows it: its first 60 characters, whatever it is; a fraction as people write it."""
    try:
        return f"{value!s:.60}" if isinstance(value, Fraction) else f"{value!r:.60}"
    except (ValueError, RecursionError):
        return "a value too long to show"
