"""Describes exactly how a client randomizes an answer.

This package only describes mechanisms; bounds, pairs and calibration use the descriptions. Clients import it, so it
uses the standard library alone. To add a mechanism, add a module with a frozen dataclass and give it to the bounds
whose conditions it meets.
"""

from hubbub.accountant.mechanisms.exact import (
    EPSILON_LOCAL_LEAST,
    EPSILON_LOCAL_LIMIT,
    checked_epsilon_local,
    exact_decimal,
    exp_decimal,
)
from hubbub.accountant.mechanisms.exact_values import GAMMA_DENOMINATOR
from hubbub.accountant.mechanisms.finite import Finite
from hubbub.accountant.mechanisms.gaussian import Gaussian
from hubbub.accountant.mechanisms.generic import Common, Generic
from hubbub.accountant.mechanisms.hashed import Hashed
from hubbub.accountant.mechanisms.krr import CATEGORIES_LIMIT, KRR, check_categories
from hubbub.accountant.mechanisms.laplace import Laplace
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.mechanisms.rappor import RAPPOR
from hubbub.accountant.mechanisms.registry import LocalMechanism, mechanism_kind, mechanism_members, read_mechanism
from hubbub.accountant.mechanisms.rounds import costliest, hiding_reports, left_out, one_round, paid_rounds
from hubbub.accountant.mechanisms.sequence import Sequence
from hubbub.accountant.mechanisms.tree_nodes import TreeNodes
from hubbub.accountant.mechanisms.with_noise import WithNoise

__all__ = [
    "CATEGORIES_LIMIT",
    "EPSILON_LOCAL_LEAST",
    "EPSILON_LOCAL_LIMIT",
    "GAMMA_DENOMINATOR",
    "KRR",
    "RAPPOR",
    "AnyMechanism",
    "Common",
    "Finite",
    "Gaussian",
    "Generic",
    "Hashed",
    "Laplace",
    "LocalMechanism",
    "Mechanism",
    "NoiseLaw",
    "Sequence",
    "TreeNodes",
    "WithNoise",
    "check_categories",
    "checked_epsilon_local",
    "costliest",
    "exact_decimal",
    "exp_decimal",
    "hiding_reports",
    "left_out",
    "mechanism_kind",
    "mechanism_members",
    "one_round",
    "paid_rounds",
    "read_mechanism",
]

Mechanism = KRR | Generic
"""The mechanisms that a task can use and a certificate can cover."""

AnyMechanism = KRR | Generic | Common | Sequence | TreeNodes | Laplace | RAPPOR | Hashed | Finite | Gaussian | WithNoise
"""The mechanisms that the accountant can bound."""
