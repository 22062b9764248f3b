"""Batches: one query's permuted inner envelopes, and the shuffler's signed record of what it released."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hubbub.protos.admission import Mode
from hubbub.protos.envelope import NUMBER_LIMIT
from hubbub.protos.errors import SignatureError
from hubbub.protos.keys import HASH_BYTES, Identity
from hubbub.protos.refusals import Reason
from hubbub.protos.signed import Label, SignedDocument, from_hex
from hubbub.protos.task import MAXIMUM_REPORTS, Close

BATCH_RECORD_FORMAT = "hubbub-batch/2"
"""The form of a record that states its task's admission."""

UNSTATED_FORMAT = "hubbub-batch/1"
"""The form of the records of tasks that do not state it."""

_KNOWN = f"{UNSTATED_FORMAT} or {BATCH_RECORD_FORMAT}"


@dataclass(frozen=True, order=True)
class BatchId:
    """Which batch: the task's id (32 bytes), the round, and the query's index in the task."""

    task_id: bytes
    round: int
    query: int


def released_digest(envelopes: Iterable[bytes]) -> bytes:
    """Return the SHA-256 (32 bytes) of a released list: a label, then the envelopes, all of one length, in order."""
    # No lengths in between: the envelopes of a query have one length, which the task fixes.
    digest = hashlib.sha256(Label.BATCH_DIGEST.value.encode())
    for envelope in envelopes:
        digest.update(envelope)
    return digest.digest()


@dataclass(frozen=True)
class BatchRecord:
    """The shuffler's statement about a batch: how many `reports` of devices it has, its digest, the round's refusals.

    The released list holds `envelopes` envelopes: those of the `reports`, and `dummies` more with uniform reports that
    the shuffler made. `digest` is the list's `released_digest`. `refusals` counts submissions that were refused, by
    reason. `closed_by` says how the round was cut. `key_set_hash` is the hash that all its envelopes are bound to.
    `admission` is the mode in which the shuffler let submissions in, None in a task that does not state it.
    """

    batch: BatchId
    reports: int
    digest: bytes
    key_set_hash: bytes
    closed_by: Close
    refusals: Mapping[str, int] = field(default_factory=dict)
    dummies: int = 0
    admission: str | None = None

    @property
    def envelopes(self) -> int:
        """How many envelopes the released list holds."""
        return self.reports + self.dummies

    def signed_by(self, identity: Identity) -> SignedDocument:
        """Sign this record."""
        label = Label.BATCH_RECORD if self.admission is None else Label.BATCH_RECORD_V2
        return SignedDocument.make(label, self._content(), identity.key)

    def _content(self) -> dict[str, Any]:
        stated = {} if self.admission is None else {"admission": self.admission}
        return {
            **stated,
            "closed_by": self.closed_by,
            "digest": self.digest.hex(),
            "dummies": self.dummies,
            "format": UNSTATED_FORMAT if self.admission is None else BATCH_RECORD_FORMAT,
            "key_set": self.key_set_hash.hex(),
            "query": self.batch.query,
            "refusals": dict(self.refusals),
            "reports": self.reports,
            "round": self.batch.round,
            "task": self.batch.task_id.hex(),
        }

    @classmethod
    def read(cls, document: SignedDocument, identity: bytes) -> BatchRecord:
        """Return the record, checked to be signed by the shuffler's `identity` (32 bytes).

        Raises:
            SignatureError: where the signature does not hold or the content is not a batch record's.
        """
        # The signature is checked before anything is parsed. Which form it is decides under which label, no more: a
        # body that only pretends to be of a form has no signature under that form's label.
        stated = f'"{BATCH_RECORD_FORMAT}"'.encode() in document.body
        content = document.content(Label.BATCH_RECORD_V2 if stated else Label.BATCH_RECORD, identity)
        try:
            record = cls._from_content(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SignatureError(f"not a batch record of {_KNOWN}: {error!r:.200}") from error
        # Equal only if there was no member that this version does not know.
        if record._content() != content:
            raise SignatureError(f"not a batch record of {_KNOWN}; is the other side of another version?")
        return record

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> BatchRecord:
        refusals = content["refusals"]
        numbers = [content["query"], content["round"], content["reports"], content["dummies"], *refusals.values()]
        if any(type(number) is not int or not 0 <= number <= MAXIMUM_REPORTS for number in numbers):
            raise ValueError(f"counts are whole numbers up to {MAXIMUM_REPORTS}")
        if max(content["query"], content["round"]) >= NUMBER_LIMIT:
            raise ValueError(f"rounds and queries are numbers below {NUMBER_LIMIT}")
        if not set(refusals) <= {reason.value for reason in Reason} or content["closed_by"] not in (
            "schedule",
            "operator",
        ):
            raise ValueError("unknown reason")
        return cls(
            batch=BatchId(from_hex(content["task"], HASH_BYTES, "task"), content["round"], content["query"]),
            reports=content["reports"],
            digest=from_hex(content["digest"], HASH_BYTES, "digest"),
            key_set_hash=from_hex(content["key_set"], HASH_BYTES, "key_set"),
            closed_by=content["closed_by"],
            refusals=dict(refusals),
            dummies=content["dummies"],
            admission=None if "admission" not in content else Mode(content["admission"]).value,
        )
