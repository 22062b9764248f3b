"""Lists the public names of `hubbub.accountant`; `docs/howto/use-the-accountant.md` shows each at work.

A name in this list keeps its meaning from one release to the next. Other modules may change with the services that use
them.
"""

from hubbub.accountant.arithmetic_errors import BeyondArithmetic
from hubbub.accountant.bounds import BOUNDS
from hubbub.accountant.bounds.catalog import CATALOG, assess
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.composition import compose, compose_delta, compose_upper
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.library.devices import group_epsilon
from hubbub.accountant.library.dp_accounting import to_dp_accounting
from hubbub.accountant.library.over_reports import delta_bracket, epsilon_bracket
from hubbub.accountant.library.subsampling import subsampled_delta, subsampled_epsilon
from hubbub.accountant.mechanisms import (
    KRR,
    RAPPOR,
    Common,
    Finite,
    Gaussian,
    Generic,
    Laplace,
    NoiseLaw,
    WithNoise,
    read_mechanism,
)
from hubbub.accountant.pairs import Part
from hubbub.accountant.pairs.renyi import rdp_lower, rdp_upper
from hubbub.accountant.spending.entry import LedgerEntry
from hubbub.accountant.spending.ledger import BudgetExceeded, Ledger

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
