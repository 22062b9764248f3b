"""Loads a service's own identity, and the private keys of its predecessors and successors next to it.

Commands read succession files as well, without the log of a service, so this is a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession

_LOG = structlog.get_logger(__name__)


def own_identity(path: Path, role: Role, successions: Sequence[Succession]) -> Identity:
    """Return a party's identity, together with its predecessors and successors from files in the same folder.

    Their names extend the name of the file: `identity-1a2b3c4d.pem` next to `identity.pem`.

    Raises:
        SignatureError: if the file has no private key.
    """
    identity = Identity.load(path)
    ours = {key for each in successions if each.role is role for key in (each.old, each.new)} - {identity.public}
    beside = [_loaded(each) for each in sorted(path.parent.glob(f"{path.stem}-*.pem")) if ours]
    return identity.beside([each for each in beside if each is not None and each.public in ours])


def _loaded(path: Path) -> Identity | None:
    """Return the identity in a file; None if it contains something else, such as a public key, or cannot be read."""
    try:
        return Identity.load(path)
    except SignatureError as error:
        if isinstance(error.__cause__, OSError):
            _LOG.warning(
                "a key file cannot be read",
                file=str(path),
                error=error.__cause__.strerror,
                hint="give it to the service's account, and restart the service",
            )
        return None
