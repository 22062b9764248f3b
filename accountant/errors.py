"""Errors of the accountant: each carries the value, its limit and a remedy."""


class AccountingError(ValueError):
    """A question the accountant cannot answer as asked; the message says what to change."""


class OutsideConditions(AccountingError):
    """A bound was asked for outside the conditions of its theorem."""


class CertificateError(AccountingError):
    """A number or a count in a certificate that does not hold."""


def shown(value: object) -> str:
    """`value` as an error shows it: its first 60 characters, whatever it is."""
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):
        return "a value too long to show"
