"""Which mechanisms can be written down and read back: the one form that task, ledger and certificate share.

To add a mechanism, give its class `kind`, `members`, `content` and `read`, and add it to `KINDS`.
"""

from collections.abc import Mapping
from typing import Any

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact_values import Fits
from hubbub.accountant.mechanisms.finite import Finite
from hubbub.accountant.mechanisms.generic import Generic
from hubbub.accountant.mechanisms.hashed import Hashed
from hubbub.accountant.mechanisms.krr import KRR
from hubbub.accountant.mechanisms.laplace import Laplace
from hubbub.accountant.mechanisms.rappor import RAPPOR
from hubbub.accountant.mechanisms.sequence import Sequence
from hubbub.accountant.mechanisms.tree_nodes import TreeNodes

LocalMechanism = KRR | Generic | Sequence | TreeNodes | Laplace | RAPPOR | Hashed | Finite
"""What has a local ε, and so composes over rounds and has Rényi divergences."""

_ALL: tuple[type[LocalMechanism], ...] = (KRR, RAPPOR, Generic, Laplace, Hashed, Finite, Sequence, TreeNodes)

KINDS: Mapping[str, type[LocalMechanism]] = {each.kind: each for each in _ALL}
"""Each mechanism under the name that its content gives in the member `mechanism`.

Gaussian noise is left out: it has no local ε, so no task may ask for it and no ledger can charge it.
"""


def mechanism_kind(kind: object) -> type[LocalMechanism]:
    """Return the class of mechanism called `kind`.

    Raises:
        AccountingError: for an unknown name. It is never taken for another mechanism: a bound of the wrong one would
            certify too little.
    """
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise AccountingError(f"mechanism is {shown(kind)}, must be one of {', '.join(KINDS)}; or use a newer hubbub")
    return known


def mechanism_members(kind: object) -> Mapping[str, Fits]:
    """Return the members of such a mechanism's content besides `mechanism`, each with the shape it must have."""
    return mechanism_kind(kind).members


def read_mechanism(content: Mapping[str, Any]) -> LocalMechanism:
    """Return the mechanism whose `content()` is exactly `content`.

    Raises:
        AccountingError: for an unknown mechanism, and for members that are missing, unknown, of another form or range.
    """
    if not isinstance(content, Mapping):
        raise AccountingError(f"a mechanism is {shown(content)}, must be a mapping; write it as content() does")
    mechanism = mechanism_kind(content.get("mechanism")).read(content)
    # One mechanism has one form: 0x2p-1 for 0x1p+0 would be signed and chained as something else.
    if mechanism.content() != dict(content):
        raise AccountingError(
            f"a mechanism is {shown(dict(content))}, its one form is {shown(mechanism.content())}; write it so"
        )
    return mechanism
