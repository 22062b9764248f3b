"""Randomizers, capacity, and what floods would do.

Three names are for analysts, beside those of `hubbub.accountant`: `choose` finds the randomizer of least error,
`count_error` is the error of a given one, and `KRR` is k-ary randomized response.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hubbub.accountant.mechanisms import KRR
    from hubbub.planning.comparison import choose, count_error

__all__ = ["KRR", "choose", "count_error"]


def __getattr__(name: str) -> object:
    """Return a public name, and load its module if needed (PEP 562): most of planning needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hubbub.planning import comparison

    return getattr(comparison, name)
