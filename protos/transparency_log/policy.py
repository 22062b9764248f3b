"""Reads what a task demands of a transparency log, and checks that a document is in that log.

A task names the log's key, the keys of witnesses, and how many of them must have signed. The proof of a task cannot be
in the task itself: it is made after everybody has signed. So it is beside the task.

More than half of the witnesses must have signed. Then any two checkpoints that are taken have witnesses in common, and
an honest witness signs one view only. So two devices are shown two views only if all witnesses in common lie, and no
device has to compare checkpoints.

A proof is checked by itself, and stays right for good: it says that a document is in the log, not that the log has
nothing newer. So nothing of a log is remembered between two checks: a proof with a smaller tree than one seen before is
that of an older document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hubbub.protos.transparency_log.checkpoint import TrustedLog
from hubbub.protos.transparency_log.proofs import LoggedProof
from hubbub.protos.transparency_log.signed_notes import MOST_SIGNATURES, LogError, NoteKey, NoteRole
from hubbub.queries.errors import FieldError, shown
from hubbub.queries.fields import check_count, check_keys

MOST_WITNESSES = MOST_SIGNATURES - 1
"""Witnesses of a task at most: a checkpoint has room for the log's signature and theirs."""

REQUIRED_KEYS, OPTIONAL_KEYS = frozenset({"key", "witnesses"}), frozenset({"threshold"})
"""The keys of a draft's table `[log]`."""


class NotLogged(LogError):
    """A task demands a log, and no proof shows that the task, or a certificate of it, is there."""


@dataclass(frozen=True)
class Logged:
    """Where a document is in a log: its entry, and the checkpoint's size; `witnessed` has when each witness signed."""

    log: str
    index: int
    size: int
    witnessed: Mapping[str, int]

    @property
    def words(self) -> str:
        """Where it is, for people."""
        return f"entry {self.index} of {self.size}, signed by {', '.join(self.witnessed)}"

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"index": self.index, "size": self.size, "witnesses": dict(self.witnessed)}


@dataclass(frozen=True)
class LogPolicy:
    """A task's table `[log]`: the log's key, the keys of witnesses, and how many of them must have signed.

    Raises:
        FieldError: if a key or a witness's name is there twice, or the threshold is not more than half of the
            witnesses, and at most all.
    """

    log: NoteKey
    witnesses: tuple[NoteKey, ...]
    threshold: int

    def __post_init__(self) -> None:
        # Without a witness a log may show each device another tree, and its operator signs the task anyway.
        if not 1 <= len(self.witnesses) <= MOST_WITNESSES:
            problem = (
                f"has {len(self.witnesses)} keys; give those of 1 to {MOST_WITNESSES} witnesses, each another party"
            )
            raise FieldError("log", "witnesses", problem)
        names, publics = {each.name for each in self.witnesses}, {each.public for each in self.witnesses}
        if len(names) < len(self.witnesses) or len(publics | {self.log.public}) <= len(self.witnesses):
            problem = "has a name or a key twice, or the log's own key; give one key of each witness"
            raise FieldError("log", "witnesses", problem)
        # With half of them, two views might each have signatures of witnesses that saw this one alone.
        check_count("log", "threshold", self.threshold, len(self.witnesses) // 2 + 1, len(self.witnesses))

    @classmethod
    def read(cls, content: Any) -> LogPolicy:
        """Read the table of a draft, or the member of a frozen task.

        Raises:
            FieldError: naming the key, the value and what to do.
        """
        if not isinstance(content, Mapping):
            raise FieldError("file", "log", "must be a table; begin it with [log]")
        check_keys("log", dict(content), REQUIRED_KEYS, OPTIONAL_KEYS)
        texts = content["witnesses"]
        if not isinstance(texts, list):
            raise FieldError("log", "witnesses", f"is {shown(texts)}; give a list of the keys of witnesses")
        witnesses = tuple(_key("witnesses", text, NoteRole.WITNESS) for text in texts)
        # All of them, unless the draft says otherwise; a frozen task always says it.
        return cls(_key("key", content["key"], NoteRole.LOG), witnesses, content.get("threshold", len(witnesses)))

    def content(self) -> dict[str, Any]:
        """Return the member of a task's JSON."""
        witnesses = [each.encode() for each in self.witnesses]
        return {"key": self.log.encode(), "threshold": self.threshold, "witnesses": witnesses}

    @cached_property
    def trusted(self) -> TrustedLog:
        """The keys, as a proof is checked by them."""
        return TrustedLog(self.log, self.witnesses, self.threshold)

    @property
    def words(self) -> str:
        """What is demanded, for people."""
        many = len(self.witnesses)
        who = f"its witness {self.witnesses[0].name}" if many == 1 else f"{self.threshold} of its {many} witnesses"
        return f"{self.log.name}, signed by {who}"

    def check(self, document: bytes, proof: LoggedProof) -> Logged:
        """Check that a document is in the log, and that enough witnesses have signed.

        Raises:
            LogError: if it is not, or the proof is of another log, or too few witnesses signed.
        """
        times = proof.check(document, self.trusted)
        return Logged(self.log.name, proof.index, proof.signed.size, times)

    def check_task(self, name: str, document: bytes, proof: bytes | None) -> Logged:
        """Check that the signed task with that name is in the log: these very bytes, with both signatures.

        Raises:
            NotLogged: if no proof is given, or it does not show that.
        """
        if proof is None:
            raise NotLogged(
                f"task {name} demands that it is in log {self.words}, and there is no proof of it; ask the operator "
                "for the proof, which `hubbub log prove` makes, and give it as log_proof, or a command's --log-proof"
            )
        try:
            return self.check(document, LoggedProof.decode(proof))
        except LogError as error:
            raise NotLogged(f"task {name} is not shown to be in log {self.log.name}, as it demands: {error}") from error


def _key(member: str, text: Any, role: NoteRole) -> NoteKey:
    if not isinstance(text, str):
        raise FieldError("log", member, f"has {shown(text)}; give a key as text, as `hubbub log` printed it")
    try:
        found = NoteKey.decode(text, role)
    except LogError as error:
        raise FieldError("log", member, f"has a wrong key: {error}") from error
    if found.encode() != text:
        raise FieldError("log", member, f"has {shown(text)}; give the key without white space around it")
    return found
