"""The successions that a service is given, and the private keys of its own identities that they name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hubbub.protos.errors import HubbubError, SignatureError
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.service.runtime.task_files import files_in


def load_successions(paths: Iterable[Path]) -> list[Succession]:
    """Return the successions in those files and folders (`*.json`), each signed by its three.

    Raises:
        SuccessionError: if a file holds none, or one that is not signed by all; naming the file.
        HubbubError: if one cannot be read.
    """
    found = []
    for path in files_in(paths):
        try:
            succession = Succession.decode(path.read_bytes())
            succession.check()
        except OSError as error:
            raise HubbubError(f"cannot read {path}: {error.strerror}; give a succession that can be read") from error
        except HubbubError as error:
            raise SuccessionError(f"{path}: {error}") from error
        found.append(succession)
    return found


def own_identity(path: Path, role: Role, successions: Sequence[Succession]) -> Identity:
    """Return a party's identity with those that follow it and those before it, from the files beside it.

    They are called as the file is, with more behind its name: `identity-1a2b3c4d.pem` beside `identity.pem`.

    Raises:
        SignatureError: if the file holds no private key.
    """
    identity = Identity.load(path)
    ours = {key for each in successions if each.role is role for key in (each.old, each.new)} - {identity.public}
    beside = [_loaded(each) for each in sorted(path.parent.glob(f"{path.stem}-*.pem")) if ours]
    return identity.beside([each for each in beside if each is not None and each.public in ours])


def _loaded(path: Path) -> Identity | None:
    """Return the identity in a file; None where it holds something else, such as a public key."""
    try:
        return Identity.load(path)
    except SignatureError:
        return None
