"""Bounds, composition, calibration, certificates.

The names of `hubbub.accountant.api` can be imported from here (docs/howto/use-the-accountant.md). They are loaded
when the first of them is asked for: a device imports `hubbub.accountant.mechanisms`, hence this package, and must not
load numerical libraries for it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.accountant.api import *

__all__ = [
    "BOUNDS",
    "CATALOGUE",
    "KRR",
    "RAPPOR",
    "AccountingError",
    "BeyondArithmetic",
    "BudgetExceeded",
    "DeltaBracket",
    "EpsilonBracket",
    "Finite",
    "Gaussian",
    "Generic",
    "Laplace",
    "Ledger",
    "LedgerEntry",
    "OutsideConditions",
    "Part",
    "assess",
    "compose",
    "compose_delta",
    "compose_upper",
    "delta_bracket",
    "epsilon_bracket",
    "group_epsilon",
    "rdp_lower",
    "rdp_upper",
    "read_mechanism",
    "subsampled_delta",
    "subsampled_epsilon",
    "to_dp_accounting",
]


def __getattr__(name: str) -> object:
    """Return a public name, loading what it needs (PEP 562)."""
    # Python also asks here for every submodule that is about to be imported, so the names must be known beforehand.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hubbub.accountant import api

    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the public names too, for completion."""
    return sorted({*globals(), *__all__})
