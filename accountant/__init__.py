"""Computes and checks every ε and δ: bounds, composition, calibration and certificates.

The names of `hubbub.accountant.api` can be imported from here (docs/howto/use-the-accountant.md). They are loaded on
first use: a device imports `hubbub.accountant.mechanisms`, and so this package, but must not load numerical libraries.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.accountant.api import *

__all__ = [
    "BOUNDS",
    "CATALOG",
    "KRR",
    "RAPPOR",
    "AccountingError",
    "BeyondArithmetic",
    "BudgetExceeded",
    "Common",
    "DeltaBracket",
    "EpsilonBracket",
    "Finite",
    "Gaussian",
    "Generic",
    "Laplace",
    "Ledger",
    "LedgerEntry",
    "NoiseLaw",
    "OutsideConditions",
    "Part",
    "WithNoise",
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
    """Return a public name, and load its module if needed (PEP 562).

    Raises:
        ModuleNotFoundError: if a library of the extra `accountant` is not installed.
    """
    # Python also calls this for every submodule that it is about to import, so unknown names must not load the API.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hubbub.accountant import api
    except ModuleNotFoundError as error:
        from hubbub.accountant.errors import needs_extra

        wanted = needs_extra("hubbub.accountant", str(error.name), "accountant")
        raise ModuleNotFoundError(wanted, name=error.name) from error
    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the public names too, for completion."""
    return sorted({*globals(), *__all__})
