"""Reads and writes mechanisms in the one form that task, ledger and certificate share.

To add a mechanism, give its class `kind`, `members`, `content` and `read`, and add it to `KINDS`.
"""

from collections.abc import Mapping
from typing import Any

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact_values import Fits
from hubbub.accountant.mechanisms.finite import Finite
from hubbub.accountant.mechanisms.generic import Common, Generic
from hubbub.accountant.mechanisms.hashed import Hashed
from hubbub.accountant.mechanisms.krr import KRR
from hubbub.accountant.mechanisms.laplace import Laplace
from hubbub.accountant.mechanisms.rappor import RAPPOR
from hubbub.accountant.mechanisms.sequence import Sequence
from hubbub.accountant.mechanisms.tree_nodes import TreeNodes
from hubbub.accountant.mechanisms.with_noise import WithNoise

LocalMechanism = KRR | Generic | Common | Sequence | TreeNodes | Laplace | RAPPOR | Hashed | Finite | WithNoise
"""A mechanism with a local ε, which therefore composes over rounds and has Rényi divergences."""

_ALL: tuple[type[LocalMechanism], ...] = (
    KRR,
    RAPPOR,
    Generic,
    Common,
    Laplace,
    Hashed,
    Finite,
    Sequence,
    TreeNodes,
    WithNoise,
)

KINDS: Mapping[str, type[LocalMechanism]] = {each.kind: each for each in _ALL}
"""Each mechanism by its name in the member `mechanism` of its content.

Gaussian noise is left out: it has no local ε, so no task may use it and no ledger can charge it.
"""


def mechanism_kind(kind: object) -> type[LocalMechanism]:
    """Return the class of mechanism called `kind`.

    Raises:
        AccountingError: for an unknown name. It is never read as another mechanism, whose bound may certify too small
            an ε.
    """
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise AccountingError(f"mechanism is {shown(kind)}; give one of {', '.join(KINDS)}, or use a newer hubbub")
    return known


def mechanism_members(kind: object) -> Mapping[str, Fits]:
    """Return the members of such a mechanism's content except `mechanism`, each with its shape."""
    return mechanism_kind(kind).members


def read_mechanism(content: Mapping[str, Any]) -> LocalMechanism:
    """Return the mechanism whose `content()` is exactly `content`.

    Raises:
        AccountingError: for an unknown mechanism, and for members that are missing, unknown, of another form or range.
    """
    if not isinstance(content, Mapping):
        raise AccountingError(f"a mechanism is {shown(content)}; give a mapping, as content() does")
    mechanism = mechanism_kind(content.get("mechanism")).read(content)
    # One mechanism has one form: 0x2p-1 equals 0x1p+0, but would have another signature and digest.
    if mechanism.content() != dict(content):
        raise AccountingError(
            f"a mechanism is {shown(dict(content))}, but its one form is {shown(mechanism.content())}; write it so"
        )
    return mechanism
