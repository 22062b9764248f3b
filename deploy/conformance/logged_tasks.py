"""Makes a transparency log for a trial: the proof of its task, and tasks whose proofs a client must refuse.

The log is a real one, in files, and every signature is by the key that its line names unless that is the mistake. Each
refused proof is beside a task of its own, which a ticket of its own goes with. So whatever a client sends for it can be
told from what it sends for the good one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hubbub.deploy.transparency_log.append import add_documents, make_log
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint
from hubbub.protos.transparency_log.policy import LogPolicy
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.protos.transparency_log.proving import prove_logged
from hubbub.protos.transparency_log.signed_notes import NoteKey, NoteRole, NoteSignature, sign_note
from hubbub.protos.transparency_log.tiles import files_in

NAME = "conformance.example/log"
"""The log's name, which is the address of none."""

WITNESSES, THRESHOLD = 3, 2
"""Witnesses of a task whose draft does not say how many there are, and how many of them must have signed."""


@dataclass(frozen=True)
class RefusedTask:
    """A task that a client must not take part in: the `check` that it is for, and the `fault` of its proof, in words.

    `ticket` is the one that goes with it, None if the task is open.
    """

    check: str
    fault: str
    signed: SignedTask
    log_proof: bytes | None
    ticket: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class LoggedTasks:
    """The task that a client answers, the proof that it is in the log, and the tasks that it must refuse."""

    good: SignedTask
    log_proof: bytes | None
    refused: tuple[RefusedTask, ...]


@dataclass(frozen=True)
class LogKeys:
    """The keys of a log and of its witnesses, and how many of these must have signed."""

    log: Identity
    witnesses: tuple[Identity, ...]
    threshold: int

    @classmethod
    def like(cls, demanded: LogPolicy | None) -> LogKeys:
        """Make new keys, for as many witnesses as a draft demands: those of its own log nobody has here."""
        many, threshold = (len(demanded.witnesses), demanded.threshold) if demanded else (WITNESSES, THRESHOLD)
        return cls(Identity.generate(), tuple(Identity.generate() for _ in range(many)), threshold)

    @property
    def log_key(self) -> NoteKey:
        """The log's key."""
        return NoteKey(NAME, NoteRole.LOG, self.log.public)

    @property
    def witness_keys(self) -> tuple[NoteKey, ...]:
        """The keys of its witnesses."""
        return tuple(
            NoteKey(f"witness-{place}.example", NoteRole.WITNESS, each.public)
            for place, each in enumerate(self.witnesses)
        )

    @property
    def policy(self) -> LogPolicy:
        """What the task demands."""
        return LogPolicy(self.log_key, self.witness_keys, self.threshold)

    def witnessed(self, signed: SignedCheckpoint, many: int, now: int) -> SignedCheckpoint:
        """Add the signatures of the first witnesses."""
        for key, each in list(zip(self.witness_keys, self.witnesses, strict=True))[:many]:
            signed = signed.witnessed(key, each, now)
        return signed


@dataclass(frozen=True)
class _Made:
    """What a refused proof is made from: the proof with the log's signature alone, and when witnesses sign it."""

    keys: LogKeys
    bare: LoggedProof
    now: int

    def by(self, many: int) -> LoggedProof:
        """The proof with the signatures of so many witnesses."""
        return replace(self.bare, signed=self.keys.witnessed(self.bare.signed, many, self.now))

    @property
    def good(self) -> LoggedProof:
        return self.by(self.keys.threshold)

    def with_signature(self, proof: LoggedProof, signature: NoteSignature) -> bytes:
        return replace(proof, signed=proof.signed.with_signature(signature)).encode()


def _in_another_form(of: _Made) -> bytes:
    return of.good.encode().replace(b"index ", b"index 0", 1)


def _of_another_root(of: _Made) -> bytes:
    good = of.good
    return replace(good, hashes=good.hashes[:-1] + bytes([good.hashes[-1] ^ 1])).encode()


def _by_too_few(of: _Made) -> bytes:
    return of.by(of.keys.threshold - 1).encode()


def _by_one_twice(of: _Made) -> bytes:
    few = of.by(max(1, of.keys.threshold - 1))
    again = sign_note(few.signed.checkpoint.text, of.keys.witness_keys[0], of.keys.witnesses[0], of.now + 1)
    return few.encode() + again.line().encode()


def _by_another_log(of: _Made) -> bytes:
    foreign = sign_note(of.bare.signed.checkpoint.text, of.keys.log_key, Identity.generate())
    return of.with_signature(of.good, foreign)


def _by_another_witness(of: _Made) -> bytes:
    last = of.keys.witness_keys[of.keys.threshold - 1]
    foreign = sign_note(of.bare.signed.checkpoint.text, last, Identity.generate(), of.now)
    return of.with_signature(of.by(of.keys.threshold - 1), foreign)


_BYTES = "log_bytes"
_REFUSED: Mapping[str, tuple[str, Callable[[_Made], bytes | None]]] = {
    "log_missing": ("it has no proof", lambda _of: None),
    "log_form": ("the entry's number in its proof has a zero before it", _in_another_form),
    _BYTES: (
        "its proof is of other bytes: of the task before the shuffler had signed it",
        lambda of: of.good.encode(),
    ),
    "log_root": ("the hashes of its proof do not lead to the checkpoint's root", _of_another_root),
    "log_few": ("fewer of its witnesses than `threshold` have signed the checkpoint", _by_too_few),
    "log_twice": ("a witness has signed the checkpoint twice in the place of another one", _by_one_twice),
    "log_key": ("another key than the log's has signed the checkpoint under the log's name and id", _by_another_log),
    "log_witness": ("another key has signed the checkpoint under a witness's name and id", _by_another_witness),
}
"""The fault of each proof that is refused, by its check, and what makes it."""

LOG_CHECKS = tuple(_REFUSED)
"""The checks of a client that is tried with tasks that demand a log."""


def logged_tasks(folder: Path, task: Task, keys: LogKeys, signers: tuple[Identity, Identity], now: int) -> LoggedTasks:
    """Put a task, which demands the log of these keys, and others like it into a new log in a folder.

    `signers` are the operator and the shuffler. `now` (seconds since 1970) is when witnesses sign.

    Raises:
        NotWritten: if the folder cannot be written.
    """
    operator, shuffler = signers
    # A name has at most 63 characters.
    tasks = {check: replace(task, name=f"{task.name[:40]}-{check}") for check in LOG_CHECKS}
    signed = {check: SignedTask(each).signed_by(operator).signed_by(shuffler) for check, each in tasks.items()}
    good = SignedTask(task).signed_by(operator).signed_by(shuffler)
    logged = {check: each.encode() for check, each in signed.items()}
    logged[_BYTES] = SignedTask(tasks[_BYTES]).signed_by(operator).encode()
    make_log(folder, NAME, keys.log)
    add_documents(folder, keys.log, [*logged.values(), good.encode()])

    def made(document: bytes) -> _Made:
        return _Made(keys, prove_logged(files_in(folder), document), now)

    refused = [
        RefusedTask(check, fault, signed[check], proof(made(logged[check])))
        for check, (fault, proof) in _REFUSED.items()
    ]
    return LoggedTasks(good, made(good.encode()).good.encode(), tuple(refused))
