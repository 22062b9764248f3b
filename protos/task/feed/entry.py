"""Defines an entry of a feed: it publishes a task, or ends one after a round, and names the entry before it.

An entry names its task by the id. The signed task is beside it: one party adds its signature to the task without
changing the signed bytes of the entry. So is the proof of a task that must be in a transparency log. An entry that
publishes may state the budget of the task's purpose (`budgets`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hubbub.protos.errors import FormatError, SignatureError, TaskError
from hubbub.protos.identity.documents import (
    SIGNATURE_BYTES,
    canonical,
    fingerprint,
    from_hex,
    instead_of_json,
    key_from_hex,
    parse_named,
    sign,
)
from hubbub.protos.identity.formats import FEED_ENTRY
from hubbub.protos.identity.keys import HASH_BYTES, Identity, Role
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.feed.budgets import PurposeBudget
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.task.two_signed import TwoSigned

LONGEST_ENTRY = 2 * 1024 * 1024
"""Bytes of an entry at most: a quarter of the largest message, and far more than a task of many categories has."""


MOST_ENTRIES = 1000
"""Entries up to the last one that may publish: a new device reads and checks all of them."""


MOST_NUMBER = 2 * MOST_ENTRIES
"""The number of the last entry. Beyond `MOST_ENTRIES` entries only end tasks: otherwise a full feed could end none."""


NOTHING_BEFORE = bytes(HASH_BYTES)
"""What the first entry names as the hash of the entry before it."""


_BODY = {"action", "format", "number", "operator", "previous", "shuffler", "task"}


class FeedError(SignatureError):
    """A feed is not in order, or an entry is not signed by both; the message names the entry, and the reason."""


@dataclass(frozen=True)
class FeedPosition:
    """How far a feed was taken: the number of its last entry (0 for none), and that entry's hash (32 bytes)."""

    number: int = 0
    hash: bytes = NOTHING_BEFORE


@dataclass(frozen=True)
class FeedParties:
    """The identities (32 bytes each) whose feed is trusted, known out of band.

    With `successions`, an identity counts as the same as its successors and predecessors. `own` is the role of the
    caller itself, if it is one of the two.
    """

    operator: bytes
    shuffler: bytes
    successions: Sequence[Succession] = ()
    own: Role | None = None


@dataclass(frozen=True)
class FeedEntry:
    """Entry `number`, counted from 1. It publishes `signed`; if `after` is a number, it ends the task after that round.

    `budget` is that of a published task's purpose, None if it has none. `log_proof` shows that a published task is in
    the transparency log that it demands, None if it demands none. `after` is -1 if the task ends before its first
    round. `operator` and `shuffler` (32 bytes each) are the identities that sign; a signature is None until that party
    has signed.
    """

    number: int
    previous: bytes
    operator: bytes
    shuffler: bytes
    task_id: bytes
    after: int | None = None
    signed: SignedTask | None = field(default=None, compare=False)
    operator_signature: bytes | None = field(default=None, compare=False)
    shuffler_signature: bytes | None = field(default=None, compare=False)
    budget: PurposeBudget | None = None
    log_proof: bytes | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Its name in errors."""
        return f"entry {self.number} of the feed"

    def in_words(self, task: str) -> str:
        """Return what it says of the task with that name."""
        if self.after is None:
            return f"publishes task {task}{f' for purpose {self.budget.purpose}' if self.budget else ''}"
        return f"ends task {task} {f'after round {self.after}' if self.after >= 0 else 'before its first round'}"

    @cached_property
    def body(self) -> dict[str, Any]:
        """The signed content."""
        content: dict[str, Any] = {
            "action": "publish" if self.after is None else "end",
            "format": FEED_ENTRY.format,
            "number": self.number,
            "operator": self.operator.hex(),
            "previous": self.previous.hex(),
            "shuffler": self.shuffler.hex(),
            "task": self.task_id.hex(),
        }
        if self.budget is not None:
            content["budget"] = self.budget.content()
        return content if self.after is None else {**content, "after": self.after}

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 (32 bytes) of the canonical content, which the next entry names."""
        return hashlib.sha256(canonical(self.body)).digest()

    @property
    def position(self) -> FeedPosition:
        """How far the feed was taken with this entry."""
        return FeedPosition(self.number, self.hash)

    @property
    def missing(self) -> list[str]:
        """The roles of those who have not signed the entry and its task yet."""
        pairs = (("operator", self.operator_signature), ("shuffler", self.shuffler_signature))
        lacking = [role for role, signature in pairs if signature is None]
        if self.signed is not None:
            of_task = {"operator": self.signed.operator_signature, "shuffler": self.signed.shuffler_signature}
            lacking += [role for role, signature in of_task.items() if signature is None and role not in lacking]
        return sorted(lacking)

    def signed_by(self, identity: Identity) -> FeedEntry:
        """Add the signature of the operator or the shuffler; a published task that it names gets one, too.

        Raises:
            FeedError: if the identity is neither.
        """
        if identity.public not in (self.operator, self.shuffler):
            raise FeedError(
                f"{fingerprint(identity.public)} is neither the operator nor the shuffler of {self.name}; only those "
                "two sign it"
            )
        made = sign(FEED_ENTRY.format, canonical(self.body), identity.key)
        task = self.signed
        if task is not None and identity.public in (task.task.identities.operator, task.task.identities.shuffler):
            task = task.signed_by(identity)
        if identity.public == self.operator:
            return replace(self, signed=task, operator_signature=made)
        return replace(self, signed=task, shuffler_signature=made)

    def check(self, parties: FeedParties) -> Task | None:
        """Check that both trusted parties signed the entry and the task that it publishes; return that task.

        Raises:
            FeedError: naming the party with the wrong identity or signature, or a task that is not in its log.
        """
        known = {Role.OPERATOR: parties.operator, Role.SHUFFLER: parties.shuffler}
        two = TwoSigned(FEED_ENTRY, canonical(self.body), self.operator_signature, self.shuffler_signature)
        try:
            two.check(self.operator, self.shuffler, known, parties.successions, parties.own)
            if self.signed is None:
                return None
            task = self.signed.check(parties.operator, parties.shuffler, parties.successions, parties.own)
            self.check_logged()
            return task
        except SignatureError as error:
            raise FeedError(f"{self.name}: {error}") from error

    def check_logged(self) -> None:
        """Check that the published task is in the transparency log that it demands, if it demands one.

        Raises:
            NotLogged: if the entry has no proof of that.
        """
        if self.signed is not None and self.signed.task.log is not None:
            self.signed.task.log.check_task(self.signed.task.name, self.signed.encode(), self.log_proof)

    def as_json(self) -> dict[str, Any]:
        """Return the entry with its signatures, and the task that it publishes with its proof, as JSON."""
        signatures = {"operator": self.operator_signature, "shuffler": self.shuffler_signature}
        document: dict[str, Any] = {
            "body": self.body,
            "signatures": {role: each.hex() for role, each in signatures.items() if each is not None},
        }
        if self.log_proof is not None:
            document["log_proof"] = self.log_proof.decode()
        return document if self.signed is None else {**document, "task": self.signed.as_json()}

    def encode(self) -> bytes:
        """Return its canonical bytes, which are the content of its file."""
        return canonical(self.as_json())

    @classmethod
    def decode(cls, document: bytes) -> FeedEntry:
        """Read what `encode` wrote; order and signatures are still to be checked.

        Raises:
            FeedError: if it is none, not in canonical form, cut short or too large.
        """
        if len(document) > LONGEST_ENTRY:
            raise FeedError(f"not a feed entry: it has {len(document)} bytes, more than {LONGEST_ENTRY}")
        if (instead := instead_of_json(document)) is not None:
            raise FeedError(f"not a feed entry: {instead}; put the file there as `hubbub tasks` wrote it")
        try:
            value = parse_named(document, FEED_ENTRY, "body")
            FEED_ENTRY.check_named(value["body"])
            found = cls._read(value)
        except FormatError as error:
            raise FeedError(str(error)) from error
        except (KeyError, TypeError, ValueError, AttributeError, SignatureError, TaskError) as error:
            raise FeedError(f"not a feed entry of {FEED_ENTRY.format}: {error!s:.200}") from error
        # The bytes are compared, not the values: Python takes True for 1.
        if found.encode() != document:
            raise FeedError(f"not a feed entry of {FEED_ENTRY.format}: it has members that are not read here")
        return found

    @classmethod
    def _read(cls, value: Any) -> FeedEntry:
        body, signatures = value["body"], value["signatures"]
        ends = body["action"] == "end"
        if set(body) != _BODY | ({"after"} if ends else {"budget"} & set(body)) or body["action"] not in (
            "publish",
            "end",
        ):
            raise ValueError("its body does not have the members of its action, publish or end")
        number, after = body["number"], body.get("after")
        if type(number) is not int or not 1 <= number <= MOST_NUMBER:
            raise ValueError(f"number is a whole number from 1 to {MOST_NUMBER}")
        if ends and (type(after) is not int or after < -1):
            raise ValueError("after is a whole number from -1")
        if not set(signatures) <= {"operator", "shuffler"} or ("task" in value) is ends:
            raise ValueError("it has signatures of operator and shuffler, and a task if it publishes one")
        made = {role: from_hex(each, SIGNATURE_BYTES, f"the {role}'s signature") for role, each in signatures.items()}
        signed = None if ends else SignedTask.from_json(value["task"])
        if ("log_proof" in value) > (signed is not None and signed.task.log is not None):
            raise ValueError("log_proof is beside a task that demands a log, and only there")
        task_id = from_hex(body["task"], HASH_BYTES, "task")
        if signed is not None and signed.task.id != task_id:
            raise ValueError("the task beside it is another one than it names")
        return cls(
            number,
            from_hex(body["previous"], HASH_BYTES, "previous"),
            key_from_hex(body["operator"], "operator"),
            key_from_hex(body["shuffler"], "shuffler"),
            task_id,
            after,
            signed,
            made.get("operator"),
            made.get("shuffler"),
            PurposeBudget.read(body["budget"]) if "budget" in body else None,
            value["log_proof"].encode() if "log_proof" in value else None,
        )
