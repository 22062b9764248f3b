"""Finds the proofs that a certificate and its task are in the transparency log that the task demands, and checks them.

A proof does not say which document it is of: a document is its own if the proof leads from it to the checkpoint's root.
So proofs are found by what they prove, whatever their files are called.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from hubbub.protos.errors import SignatureError
from hubbub.protos.merkle import InclusionProof, leaf_hash
from hubbub.protos.transparency_log.policy import Logged, LogPolicy, NotLogged
from hubbub.protos.transparency_log.proofs import LONGEST_PROOF, LoggedProof
from hubbub.protos.transparency_log.signed_notes import LogError

PROOFS = "*.tlog-proof"
"""The files of proofs in a folder."""

_READ = 4096
"""Files of proofs that are not read again while they stay the same: those of five years of daily rounds."""


@dataclass(frozen=True)
class LoggedRound:
    """Where a round's certificate and its task are in the log that the task demands."""

    policy: LogPolicy
    certificate: Logged
    task: Logged

    @property
    def words(self) -> str:
        """Which log has them, and who vouches for it, for people."""
        return (
            f"in log {self.policy.log.name}, as its task demands with {self.policy.threshold} of "
            f"{len(self.policy.witnesses)} witnesses: the certificate is {self.certificate.words}; the task is "
            f"{self.task.words}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return it as `hubbub verify --json` shows it."""
        return {
            "log": self.policy.log.name,
            "threshold": self.policy.threshold,
            "certificate": self.certificate.as_json(),
            "task": self.task.as_json(),
        }


@dataclass(frozen=True)
class LogProofs:
    """Proofs that a verifier has: in files, in the folders that have such files, or `given` as they are."""

    paths: tuple[Path, ...] = ()
    given: tuple[LoggedProof, ...] = ()

    @classmethod
    def named(cls, paths: Iterable[Path]) -> LogProofs:
        """Return the proofs in these files and folders. A pipe is read at once, as it has its content once.

        Raises:
            LogError: if a pipe has no proof.
        """
        paths = tuple(paths)
        pipes = tuple(path for path in paths if path.is_fifo())
        return cls(tuple(path for path in paths if path not in pipes), tuple(map(_read_new, pipes)))

    def beside(self, paths: Iterable[str | Path]) -> LogProofs:
        """Return these proofs, and those in the folders of files, or in the folders that are named."""
        folders = [path if path.is_dir() else path.parent for path in map(Path, paths)]
        return replace(self, paths=tuple(dict.fromkeys([*self.paths, *folders])))

    def check_round(self, policy: LogPolicy, certificate: bytes, task: bytes) -> LoggedRound:
        """Check that a certificate and its signed task are in the log.

        Raises:
            NotLogged: naming the first of them that is not shown to be.
        """
        of_certificate = self._check(policy, "it", "CERTIFICATE.json", certificate)
        return LoggedRound(policy, of_certificate, self._check(policy, "its task", "TASK.json", task))

    def _check(self, policy: LogPolicy, what: str, file: str, document: bytes) -> Logged:
        unread: list[str] = []
        known = [*self.given, *self._in_files(unread)]
        leaf, wrong = leaf_hash(document), None
        for proof in known:
            if _is_of(proof, leaf):
                try:
                    return policy.check(document, proof)
                except LogError as error:
                    wrong = wrong or error
        because = wrong or "; ".join([f"none of {len(known)} proofs found is of that file", *unread])
        makes = file.rpartition(".")[0] + PROOFS.lstrip("*")
        raise NotLogged(
            f"{what} is not shown to be in log {policy.words}, as the task demands: {because}. Make its proof with "
            f"`hubbub log prove LOG {file} --out {makes}` and put it beside the certificate, or into the folder of keys"
        )

    def _in_files(self, unread: list[str]) -> Iterator[LoggedProof]:
        """Yield the proofs in files; what cannot be read is told, as another file may have the one that is needed."""
        for path in self.paths:
            for file in sorted(path.glob(PROOFS)) if path.is_dir() else [path]:
                try:
                    state = file.stat()
                    if not stat.S_ISREG(state.st_mode):
                        # A named pipe, which anybody can put into a folder, might never end.
                        raise LogError("it is no regular file; remove it")
                    yield _read(file, state.st_mtime_ns, state.st_size)
                except (OSError, LogError) as error:
                    unread.append(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}")


@lru_cache(maxsize=_READ)
def _read(file: Path, _changed: int, _size: int) -> LoggedProof:
    return _read_new(file)


def _read_new(file: Path) -> LoggedProof:
    with file.open("rb") as opened:
        return LoggedProof.decode(opened.read(LONGEST_PROOF + 1))


def _is_of(proof: LoggedProof, leaf: bytes) -> bool:
    try:
        root = InclusionProof(proof.index, proof.signed.size, proof.hashes).root(leaf)
    except SignatureError:
        return False
    return root == proof.signed.checkpoint.root
