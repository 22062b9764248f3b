"""The exact law of a shuffled batch, in fractions: what oracles compare the accountant with."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import product

Law = tuple[Fraction, ...]
"""The probability of each output."""

View = dict[tuple[int, ...], Fraction]
"""The probability of each number of every output."""


@lru_cache(maxsize=4096)
def batch_view(laws: tuple[Law, ...]) -> View:
    """The exact law of how often each output is in a shuffled batch of reports with these laws."""
    view: View = {(0,) * len(laws[0]): Fraction(1)}
    for law in laws:
        view = add_report(view, law)
    return view


def add_report(view: View, law: Iterable[Fraction]) -> View:
    found: View = {}
    for (counts, mass), (output, chance) in product(view.items(), enumerate(law)):
        now = (*counts[:output], counts[output] + 1, *counts[output + 1 :])
        found[now] = found.get(now, Fraction(0)) + mass * chance
    return found
