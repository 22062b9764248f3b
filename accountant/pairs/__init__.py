"""Defines pairs of laws that bound all that a person's report reveals in one round: one module for each mechanism.

Only `pairs_of` maps a mechanism to the results that are proven for it. `Part` is a query over its rounds, and the grids
are its losses, ready to be composed.
"""

from hubbub.accountant.pairs.amplification import amplification
from hubbub.accountant.pairs.amplification_variable import Amplification
from hubbub.accountant.pairs.base import LocalPairs, MechanismPairs
from hubbub.accountant.pairs.composition_part import (
    ROUNDS_LIMIT,
    GaussianRound,
    Part,
    charged_delta,
    charged_share,
    kept_delta,
    one_round,
)
from hubbub.accountant.pairs.grids import (
    attack_grid,
    dominated_grid,
    dominating_grid,
    is_attack_on_itself,
    played_grids,
)
from hubbub.accountant.pairs.registry import local_pairs, pairs_of
from hubbub.accountant.pairs.with_noise import without_noise

__all__ = [
    "ROUNDS_LIMIT",
    "Amplification",
    "GaussianRound",
    "LocalPairs",
    "MechanismPairs",
    "Part",
    "amplification",
    "attack_grid",
    "charged_delta",
    "charged_share",
    "dominated_grid",
    "dominating_grid",
    "is_attack_on_itself",
    "kept_delta",
    "local_pairs",
    "one_round",
    "pairs_of",
    "played_grids",
    "without_noise",
]
