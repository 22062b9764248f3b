"""The keys, the successions and the task id that a verifier knows out of band, and the folder where keys are kept.

Proofs of a transparency log come with them: they are in the same folder, and no less public.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hubbub.protos.errors import SignatureError, UsageError
from hubbub.protos.identity.documents import from_hex
from hubbub.protos.identity.keys import HASH_BYTES, Role, load_public
from hubbub.protos.identity.successions import Succession, load_succession
from hubbub.protos.task.trusted_keys import hop_keys_in
from hubbub.verification.log_proofs import LogProofs

SUCCESSIONS = "succession-*.json"
"""The files of successions in a folder of keys, named as `hubbub keys add identity` does."""


@dataclass(frozen=True)
class Pins:
    """The identities (32 bytes each) that must have signed a certificate, as far as they are known out of band."""

    operator: bytes | None = None
    shuffler: bytes | None = None
    analyzer: bytes | None = None
    hops: tuple[bytes, ...] | None = None
    """The identities of the hops, in their order; None if they are not pinned."""
    successions: tuple[Succession, ...] = ()
    """Successions that lead from a pinned identity to those before and after it, beside those in certificates."""
    task_id: bytes | None = None
    """The id (32 bytes) of the task that the certificate must be of; None if any task is accepted."""
    log_proofs: LogProofs = field(default_factory=LogProofs)
    """Proofs that certificates and tasks are in the transparency logs that the tasks demand."""

    def of(self, role: Role) -> bytes | None:
        """Return the identity of a role; None if it is not pinned."""
        return {Role.OPERATOR: self.operator, Role.SHUFFLER: self.shuffler, Role.ANALYZER: self.analyzer}[role]


def task_id(digits: str | None) -> bytes | None:
    """Return the id of a task (32 bytes) from its hex digits; None if there are none.

    Raises:
        UsageError: if they are not 64 hex digits.
    """
    if digits is None:
        return None
    try:
        return from_hex(digits, HASH_BYTES, "--task")
    except SignatureError as error:
        raise UsageError(f"{error}; `hubbub sign` and `hubbub verify` print a task's id") from error


def pins_of(keys: str | Path | Pins | None) -> Pins:
    """Return the keys that an analyst gives: a folder of them, or these keys; None pins nothing.

    Raises:
        UsageError, HubbubError: as `keys_in` does, or if it is something else.
    """
    if keys is None or isinstance(keys, Pins):
        return keys or Pins()
    if not isinstance(keys, str | Path):
        raise UsageError(f"keys is a folder of public keys, not {type(keys).__name__}; name one, or leave it out")
    return keys_in(keys)


def keys_in(folder: str | Path) -> Pins:
    """Return the public keys in a folder: operator.pub.pem, shuffler.pub.pem, analyzer.pub.pem and hop-2.pub.pem on.

    `hubbub init` makes such a folder for a reader, `trust/`. A key that is not there is not pinned. A key also pins
    those before and after it, through the successions in certificates, and those beside it: `succession-*.json`.
    Proofs of a transparency log, `*.tlog-proof`, are taken from the folder too, at each check.

    Raises:
        UsageError: if none of the keys is there.
        HubbubError: if one is no public key, a hop's key is there without those of all hops before it, or a succession
            is not signed by its three.
    """
    path = Path(folder)
    files = {name: path / f"{name}.pub.pem" for name in ("operator", "shuffler", "analyzer")}
    found = {name: load_public(file) for name, file in files.items() if file.exists()}
    hops = tuple(map(load_public, hop_keys_in(path)))
    if not found:
        raise UsageError(f"{_no_keys(path, files.values())}, or leave out keys, and no signer is pinned")
    # A chain without hops is pinned too where all other keys are: further shufflers would be strangers.
    chain = hops if hops or len(found) == len(files) else None
    successions = tuple(map(load_succession, sorted(path.glob(SUCCESSIONS))))
    return Pins(**found, hops=chain, successions=successions, log_proofs=LogProofs((path,)))


def _no_keys(path: Path, files: Iterable[Path]) -> str:
    """Return what is wrong with a folder that has none of these keys, and which to name."""
    names = ", ".join(file.name for file in files)
    if path.is_file():
        return f"{path} is a file; name the folder of {names}"
    if not path.is_dir():
        return f"there is no folder {path}; name one with {names}"
    inside = path / "trust"
    remedy = f"name {inside}" if inside.is_dir() else "name the folder `trust` that `hubbub init` made"
    return f"{path} has none of the keys {names}; {remedy}"
