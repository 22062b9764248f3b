"""Bounds the divergence of one shuffled batch: every bound by its name, and the best of the proven ones.

A bound is an object: `BOUNDS["blanket"].delta(...)`.
"""

from hubbub.accountant.bounds.best_bounds import delta_bracket, delta_lower, delta_upper, epsilon_bracket, epsilon_upper
from hubbub.accountant.bounds.bound import Bound
from hubbub.accountant.bounds.exact import EXACT as BOUNDS
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket

__all__ = [
    "BOUNDS",
    "Bound",
    "DeltaBracket",
    "EpsilonBracket",
    "delta_bracket",
    "delta_lower",
    "delta_upper",
    "epsilon_bracket",
    "epsilon_upper",
]
