"""Looks up the proven results for a mechanism.

To add a mechanism, write a module with its `MechanismPairs` and add a line to `PAIRS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from hubbub.accountant.errors import AccountingError, OutsideConditions, shown
from hubbub.accountant.mechanisms import (
    KRR,
    RAPPOR,
    AnyMechanism,
    Common,
    Finite,
    Gaussian,
    Generic,
    Hashed,
    Laplace,
    LocalMechanism,
    Sequence,
    TreeNodes,
    WithNoise,
)
from hubbub.accountant.pairs.base import LocalPairs, MechanismPairs
from hubbub.accountant.pairs.common import CommonPairs
from hubbub.accountant.pairs.finite import FinitePairs
from hubbub.accountant.pairs.gaussian import GaussianPairs
from hubbub.accountant.pairs.generic import GenericPairs
from hubbub.accountant.pairs.hashed import HashedPairs
from hubbub.accountant.pairs.krr import KrrPairs
from hubbub.accountant.pairs.laplace import LaplacePairs
from hubbub.accountant.pairs.rappor import RapporPairs
from hubbub.accountant.pairs.sequence import SequencePairs
from hubbub.accountant.pairs.tree_nodes import TreeNodesPairs
from hubbub.accountant.pairs.two_rr import TwoRRPairs
from hubbub.accountant.pairs.with_noise import NoisePairs


def _krr(mechanism: KRR) -> KrrPairs:
    return TwoRRPairs(mechanism) if mechanism.categories == 2 else KrrPairs(mechanism)


PAIRS: Mapping[type, Callable[[Any], MechanismPairs[Any]]] = {
    KRR: _krr,
    Generic: GenericPairs,
    Common: CommonPairs,
    Sequence: SequencePairs,
    TreeNodes: TreeNodesPairs,
    RAPPOR: RapporPairs,
    Hashed: HashedPairs,
    Laplace: LaplacePairs,
    Finite: FinitePairs,
    Gaussian: GaussianPairs,
    WithNoise: NoisePairs,
}
"""The proven results, by the type of the mechanism."""


@overload
def pairs_of(mechanism: LocalMechanism) -> LocalPairs[LocalMechanism]: ...
@overload
def pairs_of(mechanism: AnyMechanism) -> MechanismPairs[AnyMechanism]: ...
def pairs_of(mechanism: AnyMechanism) -> MechanismPairs[AnyMechanism]:
    """Return the proven results for `mechanism`.

    Raises:
        AccountingError: for a mechanism without an entry. It is looked up by its exact type: a subclass may treat an
            answer differently, so results for its parent need not apply.
    """
    known = PAIRS.get(type(mechanism))
    if known is None:
        raise AccountingError(
            f"mechanism is {shown(mechanism)}, of which nothing is known; choose one of "
            f"{', '.join(each.__name__ for each in PAIRS)}"
        )
    return known(mechanism)


def local_pairs(mechanism: AnyMechanism) -> LocalPairs[LocalMechanism]:
    """Return the proven results for a mechanism with a local ε; raises OutsideConditions for one without."""
    found = pairs_of(mechanism)
    if not isinstance(found, LocalPairs):
        raise OutsideConditions(f"{found.described()} has no local epsilon to compose; ask for one round at a time")
    return found
