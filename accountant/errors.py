"""Errors of the accountant: each carries the value, its limit and a remedy."""


class AccountingError(ValueError):
    """A question the accountant cannot answer as asked; the message says what to change."""


class OutsideConditions(AccountingError):
    """A bound was asked for outside the conditions of its theorem."""
