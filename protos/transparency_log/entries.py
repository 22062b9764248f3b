"""Reads what a log may contain: signed tasks, successions of identities and certificates, each whole and signed.

The leaf of an entry is the document's bytes as they are: whoever has the document can compute it. No two kinds have the
same bytes, as each names its format. Signatures are checked by the keys that the document itself names. So a log has
nothing that nobody signed, but who trusts which key is for each reader to decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import check_signed_file, instead_of_json, parse_canonical
from hubbub.protos.identity.formats import CERTIFICATE, SUCCESSION, TASK, Kind
from hubbub.protos.identity.successions import Succession
from hubbub.protos.merkle import leaf_hash
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import followed, signers
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import LONGEST_LOGGED

_WHICH = "a log takes signed tasks, successions and certificates"


@dataclass(frozen=True)
class LogEntry:
    """A document that a log may contain: its kind, and the task and the round that it is about, if any."""

    kind: Kind
    leaf: bytes
    name: str
    task_id: bytes | None = None
    round: int | None = None

    @property
    def words(self) -> str:
        """What it is, for people."""
        return self.name if self.task_id is None else f"{self.name} ({self.task_id.hex()[:16]})"

    @classmethod
    def read(cls, document: bytes) -> LogEntry:
        """Read a document, and check the signatures that it must have.

        Raises:
            LogError: if a log takes no such document, or if it is not signed by all whom it names.
        """
        try:
            return cls._read(document)
        except LogError:
            raise
        except HubbubError as error:
            raise LogError(f"it cannot be logged: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LogError(f"it cannot be logged: a member is missing or has another form: {error!s:.200}") from error

    @classmethod
    def _read(cls, document: bytes) -> LogEntry:
        if len(document) > LONGEST_LOGGED:
            raise LogError(f"it has {len(document)} bytes, but an entry has at most {LONGEST_LOGGED}; {_WHICH}")
        if found := instead_of_json(document):
            raise LogError(f"it is {found}; {_WHICH}")
        try:
            value = parse_canonical(document)
        except HubbubError as error:
            raise LogError(f"it cannot be logged: {error}; {_WHICH}") from error
        if isinstance(value, dict) and set(value) == {"signatures", "task"}:
            return cls._of_task(document)
        body = value.get("body") if isinstance(value, dict) else None
        named = body.get("format") if isinstance(body, dict) else None
        # Of any version: one that is not read here is refused by its name.
        if isinstance(named, str) and named.startswith("hubbub-succession/"):
            return cls._of_succession(document)
        if isinstance(named, str) and named.startswith("hubbub-certificate/"):
            return cls._of_certificate(document, value)
        raise LogError(f"it is neither a task nor a succession nor a certificate; {_WHICH}")

    @classmethod
    def _of_task(cls, document: bytes) -> LogEntry:
        signed = SignedTask.decode(document)
        task = signed.task
        signed.check(task.identities.operator, task.identities.shuffler)
        return cls(TASK, leaf_hash(document), f"task {task.name}", task.id)

    @classmethod
    def _of_succession(cls, document: bytes) -> LogEntry:
        found = Succession.decode(document)
        found.check()
        return cls(SUCCESSION, leaf_hash(document), found.name)

    @classmethod
    def _of_certificate(cls, document: bytes, value: Any) -> LogEntry:
        body = value["body"]
        CERTIFICATE.check_named(body)
        signed, number = SignedTask.from_json(body["task"]), body["round"]
        task = followed(signed.task, [Succession.from_json(each) for each in body["successions"]])
        if type(number) is not int or not 0 <= number < task.schedule.rounds:
            raise LogError(f"it cannot be logged: task {task.name} has no round {number!s:.40}")
        signed.check(task.identities.operator, task.identities.shuffler)
        check_signed_file(document, value, CERTIFICATE, signers(task, number).analyzer)
        name = f"certificate of round {number} of task {task.name}"
        return cls(CERTIFICATE, leaf_hash(document), name, task.id, number)
