"""Loads the successions in a service's files, and the private keys of its own identities that they name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.service.runtime.task_files import files_in

_LOG = structlog.get_logger(__name__)


def load_successions(paths: Iterable[Path]) -> list[Succession]:
    """Return the successions in these files and folders (`*.json`), each signed by its three signers.

    Raises:
        SuccessionError: if a file has no succession, or one that is not signed by all three; naming the file.
        HubbubError: if a file cannot be read.
    """
    found = []
    for path in files_in(paths):
        try:
            succession = Succession.decode(path.read_bytes())
            succession.check()
        except OSError as error:
            raise HubbubError(f"cannot read {path}: {error.strerror}; name a readable succession file") from error
        except HubbubError as error:
            raise SuccessionError(f"{path}: {error}") from error
        found.append(succession)
    return found


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
