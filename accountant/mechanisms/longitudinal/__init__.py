"""Describes exactly what each strategy sends of a boolean that changes over time (erlingsson-2019, §3, and better).

A device's boolean starts at 0 and changes at most k times in d periods. Every strategy is a frozen value. It gives its
law, its local ε after any period, and the variance of its estimate of f_t, the number of devices whose boolean is 1.
Devices import this package, so it uses the standard library alone. To add a strategy, add a module with such a class
and a line to `STRATEGIES`; `hubbub.accountant.longitudinal` computes its cost.
"""

from hubbub.accountant.mechanisms.longitudinal.direct import Direct
from hubbub.accountant.mechanisms.longitudinal.horizon import CHANGES_LIMIT, PERIODS_LIMIT, Horizon
from hubbub.accountant.mechanisms.longitudinal.levels import level_people
from hubbub.accountant.mechanisms.longitudinal.sampled import Sampled
from hubbub.accountant.mechanisms.longitudinal.strategy import STRATEGIES, AnyStrategy, Strategy
from hubbub.accountant.mechanisms.longitudinal.tree import Node, Tree
from hubbub.accountant.mechanisms.longitudinal.vector import Vector

__all__ = [
    "CHANGES_LIMIT",
    "PERIODS_LIMIT",
    "STRATEGIES",
    "AnyStrategy",
    "Direct",
    "Horizon",
    "Node",
    "Sampled",
    "Strategy",
    "Tree",
    "Vector",
    "level_people",
]
